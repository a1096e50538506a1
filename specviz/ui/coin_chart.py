"""The accept probability of a draft token, the coin that decided, and the sentence that says so."""

import plotly.graph_objects as go

from specviz.analysis.inspect import Inspection
from specviz.analysis.prose import apart, number
from specviz.decoding.randomness import accepts
from specviz.ui.charts import ACCEPTED, INK, bare_axis, figure, frame


def gauge(inspection: Inspection, u: float | None) -> go.Figure:
    """The accept probability as a bar from 0 to 1, and where the coin `u` fell."""
    keep = inspection.row.accept_probability or 0.0
    kept, rejected = ("kept", "rejected") if 0.0 < keep < 1.0 else ("always kept", "always rejected")
    traces, labels = [], []
    for text, base, width, colour, ink in (
        (kept, 0.0, keep, ACCEPTED, INK),
        (rejected, keep, 1.0 - keep, "rgba(213,94,0,0.28)", None),
    ):
        traces.append(
            {
                "type": "bar",
                "x": [width],
                "y": [0],
                "base": [base],
                "orientation": "h",
                "width": 0.5,
                "marker": {"color": colour, "line": {"width": 0}},
                "hovertext": [f"{text}: {number(width)} of all coins"],
                "hoverinfo": "text",
            }
        )
        if width > 0.2:
            labels.append(_label(text, base + width / 2, 0, font={"size": 12.5, "color": ink}))
    if u is not None:
        traces.append(_mark(u))
        side = "left" if u < 0.05 else "right" if u > 0.95 else "center"
        labels.append(_label(f"u = {number(u)}", u, 0.5, yshift=9, xanchor=side))
    layout = {
        **frame(88),
        "margin": {"l": 0, "r": 0, "t": 0, "b": 20},
        "annotations": labels,
        "xaxis": {
            **bare_axis(),
            "range": [-0.005, 1.005],
            "tickvals": sorted({0.0, keep, 1.0}),
            "ticktext": ["0", *([number(keep)] if 0.0 < keep < 1.0 else []), "1"],
            "showticklabels": True,
            "ticklabeloverflow": "allow",
        },
        "yaxis": {**bare_axis(), "range": [-0.5, 0.75]},
    }
    return figure(traces, layout)


def _label(text: str, x: float, y: float, **how: object) -> dict:
    return {"text": text, "x": x, "y": y, "showarrow": False, **how}


def _mark(u: float) -> dict:
    """A line across the bar at u."""
    return {
        "type": "scatter",
        "x": [u, u],
        "y": [-0.42, 0.42],
        "mode": "lines+markers",
        "line": {"width": 3, "color": "#808896"},
        "marker": {"symbol": ["triangle-up", "triangle-down"], "size": 10},
        "hovertext": [f"u = {number(u)}"] * 2,
        "hoverinfo": "text",
    }


def describe_gauge(inspection: Inspection, u: float | None) -> str:
    """What `gauge` shows, with its numbers."""
    row = inspection.row
    if u is None or row.p is None or row.q is None:
        return f"The token is kept with probability {number(row.accept_probability)}."
    fell, edge = apart(u, row.p / row.q)
    verdict = "kept" if accepts(u, row.p, row.q) else "rejected"
    return f"The token is kept if the coin falls below {edge}. u = {fell}: {verdict}."
