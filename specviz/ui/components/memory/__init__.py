"""Progress that stays in this browser: which lessons are done, when a card is due again.

The browser's storage is read once a session; what changes afterwards is written back. The server keeps
nothing beyond the session.
"""

from pathlib import Path
from typing import Any

import streamlit as st

from specviz.ui.components.script import script
from specviz.ui.state import keys

_MOUNT = st.components.v2.component(
    "specviz.browser_memory",
    js=script(Path(__file__).parent / "memory.js"),
)
_KEY = keys.BROWSER_MEMORY
_OURS = keys.LEARNING_MEMORY


def mount() -> None:
    """Put the component on the page; once a page, at its end, so that it carries this run's changes."""

    def arrived() -> None:
        stored = st.session_state[_KEY].get("stored")
        if isinstance(stored, dict):
            st.session_state[_OURS] = {**stored, **_changes()}

    _MOUNT(key=_KEY, data={"changes": _changes()}, on_stored_change=arrived)


def recall(name: str) -> Any:
    """What is remembered under `name`, or None. It comes from the browser: check before use."""
    return st.session_state.get(_OURS, {}).get(name)


def remember(name: str, value: Any) -> None:
    """Keep `value`, plain JSON, under `name`."""
    _changes()[name] = value
    st.session_state.setdefault(_OURS, {})[name] = value


def _changes() -> dict[str, Any]:
    return st.session_state.setdefault(keys.of(_OURS, keys.CHANGES), {})
