"""The way into a class, to be read from the last row: code, link, and a QR code."""

from urllib.parse import urlsplit

import segno
import streamlit as st

from specviz.lessons.pictures.canvas import Picture
from specviz.ui.components.picture import picture
from specviz.ui.state import keys

STYLE = (
    "[data-testid=stDialog] h1 { font-size: clamp(2.5rem, 6vw, 5rem) !important; letter-spacing: 0.04em; }"
)


def code_and_link(code: str, link: str) -> None:
    """Draw them large."""
    st.html(f"<style>{STYLE}</style>")
    image, words = st.columns([1, 1.3], vertical_alignment="center")
    with image:
        picture(qr(link), keys.CLASS_QR)
    with words:
        st.markdown("Scan it, or open")
        st.code(link, language=None, wrap_lines=True)
        parts = urlsplit(link)
        st.markdown(f"or the page **Class** of {parts.netloc}, and type")
        st.markdown(f"# {code[:3]} {code[3:]}")


def qr(link: str) -> Picture:
    """A link as a QR code, black on white in light and dark, with the quiet zone that readers need."""
    svg = segno.make(link, error="m", micro=False).svg_inline(
        scale=8, border=4, dark="#000", light="#fff", omitsize=True, svgclass=None, lineclass=None
    )
    alt = "The link as a QR code"
    named = svg.replace(
        "<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{alt}" '
        'style="width:100%;max-width:420px;height:auto" ', 1
    )  # fmt: skip
    return Picture(named, alt)
