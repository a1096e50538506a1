"""For teachers: links to one exercise, covered answers, and a large view for the projector."""

from urllib.parse import urlencode, urlsplit

import streamlit as st

# Streamlit measures in rem: a larger root makes everything larger. Colours are those of the theme, at
# full contrast.
PROJECTOR = """
html { font-size: 23px; }
.stApp, .stApp p, .stApp li, .stApp label, .stApp td, .stApp th { color: INK; }
.stApp [data-testid="stCaptionContainer"] { opacity: 1; }
"""
LARGEST = 999_999


def answers_hidden() -> bool:
    """True if a teacher's link keeps the answers covered (`answers=hidden`)."""
    return st.query_params.get("answers") == "hidden"


def number(name: str, default: int = 0) -> int:
    """A whole number of the address, between 0 and 999,999."""
    text = st.query_params.get(name, "")
    return min(int(text), LARGEST) if text.isascii() and text.isdigit() and len(text) < 10 else default


def projector() -> None:
    """A switch that makes everything large and high in contrast; part of the address."""
    on = st.toggle("Projector", key="projector", bind="query-params", help="Large and high in contrast.")
    if on:
        ink = "#fff" if st.context.theme.type == "dark" else "#000"
        st.html(f"<style>{PROJECTOR.replace('INK', ink)}</style>")


def link_maker(page: str, **parameters: str | int) -> None:
    """A link that opens `page` as it is now."""
    with st.popover("For teachers", icon=":material/co_present:"):
        st.markdown("A link to this very exercise, to share with a class. Everybody gets the same numbers.")
        hide = st.toggle("Cover the answers", key="teacher-hide")
        large = st.toggle("Projector view", key="teacher-large")
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
