"""Figures of the Debug page, from values only."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from specviz.diagnosis.curves import Curve
from specviz.diagnosis.whatif import Outcome
from specviz.ui.shell.palette import ACCEPTED, DIMMED, FAINT, REJECTED, escaped, figure, frame, legend

BETA_LINE = "#8a78d6"  # lighter than in cells, for lines on a dark page too


def acceptance(curve: Curve) -> go.Figure:
    """Unconditional rates as bars, conditional ones as points with intervals, and α^i."""
    places = list(range(1, len(curve.unconditional) + 1))
    bars, points = curve.unconditional, curve.conditional
    known = [(i, r) for i, r in zip(places, points, strict=True) if r.count]
    traces: list[dict] = [
        {
            "type": "bar",
            "x": places,
            "y": [r.value for r in bars],
            "name": "of all rounds",
            "marker": {"color": ACCEPTED, "opacity": 0.35},
            "width": 0.6,
            "customdata": [[i] for i in places],
            "hovertemplate": "position %{x}: %{y:.3f} of all rounds<extra></extra>",
        },
        {  # in the colour of the page's text, which reads on bars that are pale and on those that are none
            "type": "scatter",
            "mode": "text",
            "x": places,
            "y": [0.0 for _ in places],
            "text": [f"{r.value:.2f}" for r in bars],
            "textposition": "top center",
            "hoverinfo": "skip",
            "showlegend": False,
        },
        {
            "type": "scatter",
            "mode": "markers",
            "x": [i for i, _ in known],
            "y": [r.value for _, r in known],
            "name": "of those that got there",
            "marker": {"color": ACCEPTED, "size": 9},
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [r.high - r.value for _, r in known],
                "arrayminus": [r.value - r.low for _, r in known],
                "color": ACCEPTED,
            },
            "customdata": [[i, r.count] for i, r in known],
            "hovertemplate": "position %{x}: %{y:.3f} of %{customdata[1]:,} rounds<extra></extra>",
        },
    ]
    if curve.alpha is not None:
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": places,
                "y": [curve.independent(i) for i in places],
                "name": "α to the power of the position",
                "line": {"color": DIMMED, "dash": "dash", "width": 2},
                "hovertemplate": "independent: %{y:.3f}<extra></extra>",
            }
        )
    axis = {"title": {"text": "position in the block"}, "tickvals": places, "fixedrange": True}
    rates = {"range": [0, 1.02], "tickvals": [0, 0.5, 1], "gridcolor": FAINT, "fixedrange": True}
    layout = {
        **frame(300),
        "xaxis": axis,
        "yaxis": rates,
        "showlegend": True,
        "legend": legend(1.02, "bottom"),
    }
    return figure(traces, {**layout, "margin": {"l": 28, "r": 4, "t": 30, "b": 42}})


def describe_acceptance(curve: Curve) -> str:
    values = "; ".join(
        f"position {i}: {a.value:.2f} of all rounds, {c.value:.2f} of the {c.count:,} that got there"
        for i, (a, c) in enumerate(zip(curve.unconditional, curve.conditional, strict=True), 1)
    )
    return f"Acceptance rates. {values}."


def outcomes(titles: Sequence[str], found: Sequence[Outcome], now: Outcome) -> go.Figure:
    """Mean acceptance lengths with intervals, a line a change, and where it stands now."""
    rows = list(range(len(found)))[::-1]
    colours = [ACCEPTED if o.gain > 0 else REJECTED if o.gain < 0 else DIMMED for o in found]
    symbols = ["triangle-left" if o.label == "bound" else "circle" for o in found]
    traces: list[dict] = [
        {
            "type": "scatter",
            "mode": "markers+text",
            "x": [o.mean for o in found],
            "y": rows,
            "marker": {"color": colours, "size": 10, "symbol": symbols},
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [o.high - o.mean for o in found],
                "arrayminus": [o.mean - o.low for o in found],
                "color": DIMMED,
                "thickness": 1.5,
            },
            "text": [f"{'≤ ' if o.label == 'bound' else ''}{o.mean:.2f}" for o in found],
            "textposition": "top center",
            "hovertext": [escaped(title) for title in titles],
            "hovertemplate": "%{hovertext}: %{x:.2f}<extra></extra>",
        }
    ]
    line = {"type": "line", "x0": now.mean, "x1": now.mean, "y0": -0.6, "y1": len(rows) - 0.4}
    layout = {
        **frame(70 + 46 * len(rows)),
        "xaxis": {"title": {"text": "mean acceptance length"}, "gridcolor": FAINT, "fixedrange": True},
        "yaxis": {
            "tickvals": rows,
            "ticktext": [escaped(_folded(title)) for title in titles],
            "range": [-0.6, len(rows) - 0.2],
            "fixedrange": True,
            "automargin": True,
        },
        "shapes": [{**line, "line": {"color": DIMMED, "dash": "dot", "width": 2}}],
        "margin": {"l": 0, "r": 12, "t": 6, "b": 42},
    }
    return figure(traces, layout)


def _folded(title: str) -> str:
    return title if len(title) <= 44 else f"{title[:42]}…"


def grid(name: str, found: Mapping[float, Outcome], present: float) -> go.Figure:
    """Mean acceptance length and predicted speed-up for every value of one setting, with intervals."""
    at, outcomes = list(found), list(found.values())
    lengths = [(o.mean, o.low, o.high) for o in outcomes]
    traces = [_with_intervals(at, lengths, "mean acceptance length", {"color": ACCEPTED}, "%{y:.2f} tokens")]
    speeds = [
        (o.speed, o.speed_low, o.speed_high)
        for o in outcomes
        if o.speed is not None and o.speed_low is not None and o.speed_high is not None
    ]
    if len(speeds) == len(at):
        dashed = {"color": BETA_LINE, "dash": "dash"}
        traces.append(_with_intervals(at, speeds, "predicted speed-up (estimated)", dashed, "%{y:.2f}×"))
    marks = {"type": "line", "x0": present, "x1": present, "y0": 0, "y1": 1, "yref": "paper"}
    layout = {
        **frame(260),
        "xaxis": {"title": {"text": name}, "tickvals": at, "fixedrange": True},
        "yaxis": {"gridcolor": FAINT, "fixedrange": True, "rangemode": "tozero"},
        "shapes": [{**marks, "line": {"color": DIMMED, "dash": "dot"}}],
        "showlegend": True,
        "legend": legend(1.02, "bottom"),
        "margin": {"l": 28, "r": 4, "t": 30, "b": 42},
    }
    return figure(traces, layout)


def _with_intervals(
    at: Sequence[float], values: Sequence[tuple[float, float, float]], name: str, line: dict, shown: str
) -> dict:
    """A line through (value, low, high)."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": at,
        "y": [value for value, _, _ in values],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [high - value for value, _, high in values],
            "arrayminus": [value - low for value, low, _ in values],
            "thickness": 1,
            "width": 3,
        },
        "name": name,
        "line": line,
        "hovertemplate": f"%{{x}}: {shown}<extra></extra>",
    }


def line(points: Sequence[Sequence[float]], threshold: float) -> go.Figure:
    """The evidence line of an audit, logarithmic, with its threshold. A mark carries its number of tokens."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "marker": {"color": BETA_LINE, "size": 3},
            "customdata": [[x] for x, _ in points],
            "x": [x for x, _ in points],
            "y": [float(np.exp(min(50.0, y))) for _, y in points],
            "line": {"color": BETA_LINE, "width": 2},
            "hovertemplate": "after %{x} tokens: %{y:.3g}<extra></extra>",
        }
    ]
    edge = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": threshold, "y1": threshold}
    layout = {
        **frame(160),
        "xaxis": {"title": {"text": "emitted tokens"}, "fixedrange": True},
        "yaxis": {"type": "log", "dtick": 1, "gridcolor": FAINT, "fixedrange": True},
        "shapes": [{**edge, "line": {"color": REJECTED, "dash": "dash"}}],
        "margin": {"l": 40, "r": 4, "t": 6, "b": 42},
    }
    return figure(traces, layout)
