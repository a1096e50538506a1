"""A picture of the lessons, in the page's own colours and fonts."""

from pathlib import Path

import streamlit as st

from specviz.lessons.pictures.canvas import Picture
from specviz.ui.components.script import script

_MOUNT = st.components.v2.component("specviz.picture", js=script(Path(__file__).parent / "picture.js"))


def picture(shown: Picture, key: str, large: bool = False) -> None:
    """Draw an SVG of ours; `large`, it takes all the room. What it shows is said in its `aria-label`."""
    _MOUNT(key=key, data={"svg": shown.svg, "large": large})
