"""Figures of the Drafters page: a small panel for each drafter, all on one scale."""

from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from specviz.overlap import Strip, formula_tokens, walk_tokens
from specviz.speed.accepted import Accepted
from specviz.ui.shell.palette import DIMMED, FAINT, bare_axis, figure, frame, legend

BETA = "#6a51c7"
LONGEST_BLOCK = 8
GAP = 0.03
Name = Callable[[str], str]


def tokens_by_k(strips: Sequence[Strip], name: Name) -> go.Figure:
    """Expected tokens a round for K = 1 … 8: along the strip, and by the formula."""
    ks = list(range(1, LONGEST_BLOCK + 1))
    traces: list[dict] = []
    for i, strip in enumerate(strips):
        walked = [walk_tokens(strip, k) for k in ks]
        formula = [formula_tokens(strip, k) for k in ks]
        lines = (
            ("along the strip", walked, BETA, "solid", "circle"),
            ("formula", formula, DIMMED, "dot", "diamond-open"),
        )
        traces += [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": ks,
                "y": values,
                "name": title,
                "line": {"color": colour, "dash": dash, "width": 2},
                "marker": {"symbol": symbol, "size": 7},
                "hovertemplate": f"K = %{{x}}: %{{y:.2f}} tokens a round, {title}<extra></extra>",
                "showlegend": i == 0,
                **_axes(i),
            }
            for title, values, colour, dash, symbol in lines
        ]
    top = max((y for t in traces for y in t["y"] if y is not None), default=2.0)
    titles = [name(strip.kind) for strip in strips]
    return figure(traces, _panels(titles, {"range": [1.0, max(2.0, 1.05 * top)]}, ks, 250))


def describe_tokens(strips: Sequence[Strip], name: Name) -> str:
    """What `tokens_by_k` shows, with its numbers."""
    parts = []
    for strip in strips:
        values = [(k, walk_tokens(strip, k)) for k in (1, 4, 8)]
        shown = ", ".join(f"{value:.2f}" for _, value in values if value is not None)
        parts.append(f"{name(strip.kind)} {shown}")
    return "Along the strip with K = 1, 4, 8: " + "; ".join(parts) + ". One token a round is no gain at all."


def rates_by_position(rates: Mapping[str, Sequence[float]], name: Name) -> go.Figure:
    """Acceptance rate of the 1st, 2nd, … draft of a round, a panel a drafter."""
    longest = max((len(values) for values in rates.values()), default=1)
    places = list(range(1, longest + 1))
    traces = [
        {
            "type": "bar",
            "x": places[: len(values)],
            "y": list(values),
            "width": 0.7,
            "marker": {"color": BETA},
            "text": [f"{value:.0%}" for value in values] if longest <= 5 else None,
            "textposition": "outside",
            "cliponaxis": False,
            "hovertemplate": "position %{x}: %{y:.0%} of the rounds that drafted that far<extra></extra>",
            **_axes(i),
        }
        for i, values in enumerate(rates.values())
    ]
    top = 1.2 * max((value for values in rates.values() for value in values), default=0.0)
    scale = {"range": [0.0, max(0.3, top)], "tickformat": ".0%"}
    layout = _panels([name(kind) for kind in rates], scale, places, 190)
    return figure(traces, {**layout, "showlegend": False, "margin": {**layout["margin"], "t": 22}})


def kept_by_way(kept: Sequence[Accepted]) -> go.Figure:
    """Accepted draft tokens a round with their 95% intervals, a line a way."""
    rows = list(reversed(kept))
    highest = max(each.mean + (each.half or 0.0) for each in rows)
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [each.mean for each in rows],
        "y": [each.way for each in rows],
        "error_x": {"type": "data", "array": [each.half or 0.0 for each in rows], "thickness": 2, "width": 5},
        "marker": {"color": BETA, "size": 9},
        "customdata": [each.interval for each in rows],
        "hovertemplate": "%{y}: %{customdata} accepted a round<extra></extra>",
    }
    layout = {
        **frame(40 + 30 * len(rows)),
        "margin": {"l": 4, "r": 10, "t": 4, "b": 40},
        "xaxis": {
            **bare_axis(),
            "showgrid": True,
            "gridcolor": FAINT,
            "showticklabels": True,
            "nticks": 6,
            "range": [0.0, 1.05 * highest],
            "title": {"text": "accepted draft tokens a round", "font": {"size": 13}},
        },
        "yaxis": {**bare_axis(), "showticklabels": True, "automargin": True, "tickfont": {"size": 13}},
    }
    return figure([trace], layout)


def _axes(i: int) -> dict:
    return {} if i == 0 else {"xaxis": f"x{i + 1}", "yaxis": f"y{i + 1}"}


def _panels(titles: Sequence[str], y: dict, ticks: list[int], height: int) -> dict:
    """A layout of panels side by side on one scale, labelled at the left."""
    width = (1.0 + GAP) / max(1, len(titles))
    layout: dict = {
        **frame(height),
        "showlegend": True,
        "margin": {"l": 36, "r": 4, "t": 54, "b": 34},
        "legend": legend(1.14, "bottom"),
        "annotations": [],
    }
    for i, title in enumerate(titles):
        suffix = "" if i == 0 else str(i + 1)
        start = i * width
        layout[f"xaxis{suffix}"] = {
            **bare_axis(),
            "domain": [start, start + width - GAP],
            "anchor": f"y{suffix}",
            "showticklabels": True,
            "tickvals": ticks,
            "range": [ticks[0] - 0.6, ticks[-1] + 0.6],
        }
        layout[f"yaxis{suffix}"] = {
            **bare_axis(),
            "anchor": f"x{suffix}",
            "showgrid": True,
            "gridcolor": FAINT,
            "showticklabels": i == 0,
            "nticks": 5,
            **y,
        }
        layout["annotations"].append(
            {
                "x": start + (width - GAP) / 2,
                "xref": "paper",
                "xanchor": "center",
                "y": 1.0,
                "yref": "paper",
                "yanchor": "bottom",
                "text": title,
                "showarrow": False,
                "font": {"size": 13},
            }
        )
    return layout
