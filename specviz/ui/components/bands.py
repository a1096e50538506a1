"""Rows of boxes on a common scale: the coin of a token, the cells of a cache.

A picture that changes with every click has to be cheap. This one is a few boxes, drawn in a tenth of the
time of a chart.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import streamlit as st

_HERE = Path(__file__).parent
_MOUNT = st.components.v2.component(
    "specviz.bands",
    css=(_HERE / "bands.css").read_text(encoding="utf-8"),
    js=(_HERE / "bands.js").read_text(encoding="utf-8"),
)


@dataclass(frozen=True, slots=True)
class Band:
    """A row of boxes.

    Attributes:
        boxes: kind (a class of bands.css), start, width, text, and the hint of a hovering pointer.
        title: written above, or "".
        marks: a place and its label, drawn across the row.
        ticks: a place and its label, written below.
    """

    boxes: tuple[tuple[str, float, float, str, str], ...]
    title: str = ""
    marks: tuple[tuple[float, str], ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()


def bands(
    rows: tuple[Band, ...], *, span: float, alt: str, key: str, legend: tuple[tuple[str, str], ...] = ()
) -> None:
    """Draw `rows` on a scale from 0 to `span`.

    Args:
        rows: from top to bottom.
        span: the end of the scale.
        alt: the sentence that says what the picture shows.
        key: names the component.
        legend: kinds of box with their names.
    """
    _MOUNT(key=key, data={"rows": [asdict(row) for row in rows], "span": span, "alt": alt, "legend": legend})
