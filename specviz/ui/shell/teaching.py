"""For teachers: links to one exercise, covered answers, and a large view for the projector."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

import plotly.graph_objects as go
import streamlit as st

from specviz.ui.shell import palette
from specviz.ui.state import keys

# Streamlit measures in rem, and so do our components: a larger root makes everything larger, except Plotly's
# charts; see `chart`. Words are in full contrast, but not on buttons and badges, which have colours of their
# own. What a class does not look at is left out, and columns that would be narrow stand one under the other.
PROJECTOR = """
html { font-size: 23px; }
.stApp :is(p, li, label, td, th) { color: INK; }
.stApp :is(button, [role=radio], [data-testid=stAlert]) :is(p, li, label) { color: inherit; }
.stApp [data-testid="stCaptionContainer"] { opacity: 1; }
.st-key-doors, .st-key-aside { display: none; }
@media (max-width: 1300px) {
  .stApp .stMainBlockContainer .stHorizontalBlock:has(> .stColumn) { flex-wrap: wrap; }
  .stApp .stMainBlockContainer .stColumn { min-width: min(100%, 22rem); flex: 1 1 22rem; }
  .st-key-stage > * > .stHorizontalBlock > .stColumn { min-width: 100% !important; }
}
"""
LARGER = 1.4
LARGEST = 999_999


def answers_hidden() -> bool:
    """True if a teacher's link keeps the answers covered (`answers=hidden`)."""
    return st.query_params.get("answers") == "hidden"


def number(name: str, default: int = 0) -> int:
    """A whole number of the address, between 0 and 999,999."""
    text = st.query_params.get(name, "")
    return min(int(text), LARGEST) if text.isascii() and text.isdigit() and len(text) < 10 else default


def projector() -> None:
    """A switch that makes everything large and high in contrast; on every page, and part of the address."""
    state = st.session_state
    page = f"/{state.get(keys.PAGE, '')}"
    if state.get(keys.LARGE, page) not in ("", page) and keys.PROJECTOR not in st.query_params:
        state[keys.PROJECTOR] = True  # it was on where one comes from, and the navigation emptied the address
    with st.container(key=keys.TOOLS):
        on = st.toggle(
            "Projector",
            key=keys.PROJECTOR,
            bind="query-params",
            help="Large, high in contrast, and only what a class looks at.",
        )
    state[keys.LARGE] = page if on else ""
    if on:
        ink = "#fff" if st.context.theme.type == "dark" else "#000"
        st.html(f"<style>{PROJECTOR.replace('INK', ink)}</style>")


def chart(figure: go.Figure, key: str, words: str, chosen: Callable[[Any], None] | None = None) -> None:
    """Show a figure, larger in the projector view.

    Args:
        figure: whose marks can be clicked if there is a `chosen`.
        key: of the chart.
        words: say what it shows.
        chosen: called before the rerun with the `customdata` of the mark that was clicked.
    """
    if st.session_state.get(keys.PROJECTOR):
        figure = go.Figure(_larger(figure.to_plotly_json()))
    if chosen is None:
        st.plotly_chart(figure, key=key, config=palette.CONFIG, alt=words)
        return

    def clicked() -> None:
        points = st.session_state[key]["selection"]["points"]
        if points:
            chosen(points[0].get("customdata"))

    st.plotly_chart(
        figure, key=key, config=palette.CONFIG, alt=words, on_select=clicked, selection_mode="points"
    )


def _larger(value: Any, name: str = "") -> Any:
    """The parts of a figure with larger fonts, heights and margins."""
    if isinstance(value, dict):
        return {key: _larger(entry, f"{name}.{key}") for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_larger(entry, name) for entry in value]
    scaled = name.endswith("font.size") or name == ".layout.height" or ".margin." in name
    return value * LARGER if scaled and value is not None else value


def link_maker(page: str, **parameters: str | int) -> None:
    """A link that opens `page` as it is now."""
    with st.popover("For teachers", icon=":material/co_present:"):
        st.markdown("A link to this very exercise, to share with a class. Everybody gets the same numbers.")
        hide = st.toggle("Cover the answers", key=keys.TEACHER_HIDE)
        large = st.toggle("Projector view", key=keys.TEACHER_LARGE)
        chosen: dict[str, str | int] = {k: v for k, v in parameters.items() if v != ""}
        if hide:
            chosen["answers"] = "hidden"
        if large:
            chosen["projector"] = "true"
        st.code(address(st.context.url or "", page, chosen), language=None, wrap_lines=True)
        if hide:
            st.caption(
                "Answers are covered by the address alone: who changes it can see them. Fit for a class, not "
                "for an exam."
            )


def address(here: str, page: str, parameters: dict[str, str | int]) -> str:
    """The address of a page of this app, seen from the address of another one."""
    parts = urlsplit(here)
    folder = parts.path.rsplit("/", 1)[0]
    return f"{parts.scheme}://{parts.netloc}{folder}/{page}?{urlencode(parameters)}"
