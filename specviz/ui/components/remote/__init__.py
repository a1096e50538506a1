"""The keys of a lecture: arrows, and what the buttons of a presenter's remote control send."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from specviz.ui.components.script import script
from specviz.ui.state import keys

_MOUNT = st.components.v2.component("specviz.remote", js=script(Path(__file__).parent / "remote.js"))
WAYS = ("next", "back", "first", "last", "leave")


def remote(go: Callable[[str], None]) -> None:
    """Listen to the keyboard; `go` is called before the rerun with one of `WAYS`."""

    def pressed() -> None:
        way = st.session_state[keys.LECTURE_REMOTE].get("pressed")
        if way in WAYS:
            go(way)

    _MOUNT(key=keys.LECTURE_REMOTE, on_pressed_change=pressed)
