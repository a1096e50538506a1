"""What all Plotly figures share: colours, frame, legend, axes. Figures come from values only.

p and q have one colour each, used for nothing else. Backgrounds are transparent and text takes the
theme's colour, so that a figure works in light and dark. Plotly reads a small HTML in labels, and TeX
between dollar signs: token text is escaped before it gets there.
"""

import plotly.graph_objects as go

TARGET, DRAFT, CORRECTED = "#0072B2", "#CC79A7", "#B87A00"
ACCEPTED, REJECTED, BONUS = "#009E73", "#D55E00", "#2a7fb8"
NEUTRAL = "rgba(128,136,150,0.55)"
FAINT = "rgba(128,136,150,0.3)"

DIMMED, INK = "#8a93a0", "#1c2430"

STATE_COLOURS = {
    "accepted": ACCEPTED,
    "rejected": REJECTED,
    "discarded": DIMMED,
    "corrected": CORRECTED,
    "bonus": BONUS,
}
CONFIG = {"displaylogo": False, "modeBarButtons": [["toImage"]]}


def escaped(text: str) -> str:
    """Text that Plotly shows as it is."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        text = text.replace(character, entity)
    return text


def figure(traces: list[dict], layout: dict) -> go.Figure:
    """A figure from plain values, which costs a third of adding its parts one by one."""
    # Without a template of its own each figure gets a copy of Plotly's, ten times its size.
    return go.Figure({"data": traces, "layout": {**layout, "template": {"layout": {}}}})


def frame(height: int) -> dict:
    """Layout that all figures share."""
    return {
        "height": height,
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "bargap": 0,
        "barmode": "overlay",
    }


def legend(y: float, yanchor: str) -> dict:
    """A horizontal legend that only names things: a click on it hides nothing."""
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": y,
        "yanchor": yanchor,
        "itemclick": False,
        "itemdoubleclick": False,
        "font": {"size": 13},
    }


def bare_axis() -> dict:
    """An axis without lines, grid and labels."""
    return {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": "", "fixedrange": True}
