"""Figures of the lessons, and the sentence that says what each shows."""

from collections.abc import Callable, Sequence
from math import log10

import plotly.graph_objects as go

from specviz.decoding.trace import Round
from specviz.reading.prose import GLYPHS, number
from specviz.speed import formulas as cost
from specviz.ui.shell.palette import (
    DIMMED,
    FAINT,
    NEUTRAL,
    STATE_COLOURS,
    bare_axis,
    escaped,
    frame,
    legend,
)

OUTPUT = "#7a5fa8"  # what comes out; neither p's colour nor q's
STEP_NAMES = ("Propose", "Score", "Judge", "Add one", "Commit")


def strip(round: Round, show: Callable[[int], str], step: int) -> go.Figure:
    """A round as a row of cells, as far as it has come after `step` (1 … 5)."""
    figure = go.Figure()
    for i, row in enumerate(round.positions[: round.k]):
        state = "proposed" if step < 3 else row.state
        lines = [f"<b>{_short(show(row.token), 12)}</b>" if row.token is not None else ""]
        lines.append(f"q = {number(row.q)}")
        if step >= 2:
            lines.append(f"p = {number(row.p)}")
        if step >= 3 and state in ("accepted", "rejected") and row.u is not None:
            lines.append(f"u = {number(row.u)}")
        _cell(figure, i, state, lines, gone=step >= 5 and state != "accepted")
    if step >= 2:
        text = "row ready" if step < 4 else f"<b>{_short(show(round.token), 12)}</b>"
        _cell(figure, round.k, "scored" if step < 4 else round.outcome, [text])
    figure.update_layout(
        **frame(122),
        xaxis={**bare_axis(), "range": [-0.5, round.k + 0.5]},
        yaxis={**bare_axis(), "range": [0, 1]},
    )
    return figure


def _cell(figure: go.Figure, x: int, state: str, lines: list[str], gone: bool = False) -> None:
    colour = STATE_COLOURS.get(state, DIMMED)
    dash = "dot" if state in ("discarded", "proposed", "scored") else "solid"
    figure.add_shape(
        type="rect",
        x0=x - 0.47,
        x1=x + 0.47,
        y0=0.02,
        y1=0.98,
        line={"color": colour, "width": 2, "dash": dash},
        fillcolor=colour,
        opacity=0.04 if gone or dash == "dot" else 0.13,
        layer="below",
    )
    figure.add_shape(
        type="rect",
        x0=x - 0.47,
        x1=x + 0.47,
        y0=0.02,
        y1=0.98,
        line={"color": colour, "width": 2, "dash": dash},
    )
    head = f"{GLYPHS[state]} {state}" if state in GLYPHS else state
    figure.add_annotation(
        x=x,
        y=0.5,
        text="<br>".join([head, *lines]),
        showarrow=False,
        font={"size": 12.5},
        opacity=0.45 if gone else 1.0,
    )


def compare(
    names: Sequence[str], series: Sequence[tuple[str, str, Sequence[float]]], height: int = 260
) -> go.Figure:
    """Bars beside each other for each name; `series` holds (title, colour, values)."""
    figure = go.Figure()
    for title, colour, values in series:
        figure.add_bar(
            x=list(range(len(names))),
            y=list(values),
            name=title,
            marker={"color": colour},
            text=[number(v) if v > 0.004 else "" for v in values],
            textposition="outside",
            textfont={"size": 11},
            cliponaxis=False,
            hovertext=[f"{escaped(n)}: {title} {number(v, 3)}" for n, v in zip(names, values, strict=True)],
            hoverinfo="text",
        )
    highest = max((max(v, default=0.0) for _, _, v in series), default=1.0) or 1.0
    figure.update_layout(
        **{**frame(height), "showlegend": True, "margin": {"l": 0, "r": 0, "t": 34, "b": 4}}
        | {"bargap": 0.28, "barmode": "group"},
        legend=legend(1.0, "bottom"),
        xaxis={
            **bare_axis(),
            "showticklabels": True,
            "tickvals": list(range(len(names))),
            "ticktext": [_short(n, 10) for n in names],
            "tickangle": 0,
            "tickfont": {"size": 11.5},
        },
        yaxis={**bare_axis(), "range": [0, 1.18 * highest], "zeroline": True, "zerolinecolor": FAINT},
    )
    return figure


def curve(
    xs: Sequence[float],
    lines: Sequence[tuple[str, str, Sequence[float], str]],
    *,
    x_title: str,
    y_title: str,
    marks: Sequence[tuple[float, float, str]] = (),
    level: float | None = None,
    log: bool = False,
) -> go.Figure:
    """Lines over `xs`; `lines` holds (title, colour, values, dash), `marks` points with a text."""
    figure = go.Figure()
    for title, colour, values, dash in lines:
        figure.add_scatter(
            x=list(xs),
            y=list(values),
            name=title,
            mode="lines+markers" if len(xs) <= 20 else "lines",
            line={"color": colour, "width": 2.5, "dash": dash},
            hovertemplate="%{x}: %{y:.3g}<extra>" + title + "</extra>",
        )
    for x, y, text in marks:
        figure.add_scatter(
            x=[x],
            y=[y],
            mode="markers",
            showlegend=False,
            marker={"size": 13, "color": OUTPUT},
            hoverinfo="skip",
        )
        figure.add_annotation(
            x=log10(x) if log else x, y=y, text=text, yshift=18, showarrow=False, font={"size": 12.5}
        )
    if level is not None:
        figure.add_hline(y=level, line={"color": NEUTRAL, "dash": "dash", "width": 1.5})
    axis = {**bare_axis(), "showticklabels": True, "showgrid": True, "gridcolor": FAINT, "automargin": True}
    figure.update_layout(
        **{**frame(290), "showlegend": True, "margin": {"l": 0, "r": 10, "t": 34, "b": 40}},
        legend=legend(1.0, "bottom"),
        xaxis={**axis, "title": {"text": x_title}, **({"type": "log"} if log else {})},
        yaxis={**axis, "title": {"text": y_title}, "rangemode": "tozero"},
    )
    if log:
        figure.update_xaxes(tickvals=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048])
    return figure


def rates(measured: Sequence[float], alpha: float) -> go.Figure:
    """Measured per-position acceptance beside α^i."""
    names = [f"position {i}" for i in range(1, len(measured) + 1)]
    model = [alpha**i for i in range(1, len(measured) + 1)]
    return compare(names, [("measured rate", "#009E73", measured), ("αⁱ, if independent", NEUTRAL, model)])


def speedups(alpha: float, c: float, slope: float, chosen: int) -> go.Figure:
    """Speed-up by K, for a pass that costs 1 + slope·K."""
    ks = list(range(17))
    values = [cost.speedup(alpha, k, c, 1 + slope * k) for k in ks]
    free = [cost.speedup(alpha, k, c) for k in ks]
    lines = [("speed-up", OUTPUT, values, "solid")]
    if slope:
        lines.append(("if the pass cost one step", NEUTRAL, free, "dot"))
    mark = (chosen, values[chosen], f"K = {chosen}: {values[chosen]:.2f}")
    return curve(ks, lines, x_title="K", y_title="times plain decoding", marks=[mark], level=1.0)


def _short(text: str, limit: int) -> str:
    return escaped(text if len(text) <= limit else text[: limit - 1] + "…")
