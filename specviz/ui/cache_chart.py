"""The caches of a round as strips of cells, and the sentence that says what they show."""

from collections.abc import Sequence

import plotly.graph_objects as go

from specviz.analysis.caches import CacheStrip, Cell, figures
from specviz.ui.charts import (
    CORRECTED,
    INK,
    REJECTED,
    Show,
    bare_axis,
    escaped,
    figure,
    frame,
    label,
    legend,
)

# Opaque and light, so that dark text on them can be read on any page.
CELLS: dict[Cell, tuple[str, dict]] = {
    "before": ("cached before", {"color": "#b7bdc8"}),
    "new": ("new, kept", {"color": "#5cc3a4"}),
    "cut": (
        "cut again",
        {
            "color": "#fbe9df",
            "line": {"color": REJECTED, "width": 1.2},
            "pattern": {
                "shape": "/",
                "fgcolor": REJECTED,
                "fgopacity": 0.5,
                "size": 6,
                "solidity": 0.12,
                "fillmode": "overlay",
            },
        },
    ),
    "unfed": ("committed, not fed yet", {"color": "#fff6e0", "line": {"color": CORRECTED, "width": 1.5}}),
}
GAP = 0.4  # between what a cache held and what it has yet to be fed


def caches(strips: Sequence[CacheStrip], show: Show) -> go.Figure:
    """One strip of cells for each model, aligned by position."""
    traces = []
    for kind, (name, marker) in CELLS.items():
        cells = [
            (i + GAP * (kind == "unfed"), row, token)
            for row, strip in enumerate(strips)
            for i, (cell, token) in enumerate(strip.cells)
            if cell == kind
        ]
        traces.append(
            {
                "type": "bar",
                "base": [x + 0.04 for x, _, _ in cells],
                "x": [0.92] * len(cells),
                "y": [row for _, row, _ in cells],
                "orientation": "h",
                "width": 0.5,
                "marker": marker,
                "name": name,
                "text": [label(show(token), 8) for _, _, token in cells],
                "textposition": "inside",
                "textangle": 0,
                "insidetextanchor": "middle",
                "textfont": {"color": INK},
                "hovertext": [f"{escaped(show(token))}: {name}" for _, _, token in cells],
                "hoverinfo": "text",
                "showlegend": True,
            }
        )
    titles = [
        {
            "x": 0,
            "y": row - 0.28,
            "text": strip.role + (f" · {strip.hidden:,} more, then" if strip.hidden else ""),
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "bottom",
            "font": {"size": 12},
        }
        for row, strip in enumerate(strips)
    ]
    layout = {
        **frame(58 + 52 * len(strips)),
        "showlegend": True,
        "legend": legend(0.0, "top"),
        "uniformtext": {"minsize": 8, "mode": "hide"},
        "annotations": titles,
        "xaxis": {**bare_axis(), "range": [-0.1, max(len(strip.cells) for strip in strips) + GAP + 0.1]},
        "yaxis": {**bare_axis(), "range": [len(strips) - 0.6, -0.75]},
    }
    return figure(traces, layout)


def describe_caches(strips: Sequence[CacheStrip]) -> str:
    """What `caches` shows, in numbers."""
    return " ".join(f"Cache of the {strip.role} {strip.model}: {figures(strip)}." for strip in strips)
