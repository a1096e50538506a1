"""A clock that counts up in the browser, without asking the server every second."""

from pathlib import Path

import streamlit as st

from specviz.ui.components.script import script

_MOUNT = st.components.v2.component("specviz.clock", js=script(Path(__file__).parent / "clock.js"))


def clock(seconds: float, expected: float, key: str) -> None:
    """Show the time that has passed, `seconds` by now, and the time that an answer should take."""
    _MOUNT(key=key, data={"seconds": round(seconds, 1), "expected": expected})
