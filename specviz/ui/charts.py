"""Plotly figures of one place, and the sentence that says what each shows. Figures come from values only.

p and q have one colour each, used for nothing else. Backgrounds are transparent and text takes the
theme's colour, so that a figure works in light and dark. Plotly reads a small HTML in labels, and TeX
between dollar signs: token text is escaped before it gets there.
"""

from collections.abc import Callable, Sequence
from math import floor, log10

import plotly.graph_objects as go

from specviz.analysis.explain import REASONS
from specviz.analysis.inspect import Candidate, Inspection, Others, telling
from specviz.analysis.prose import Notation, count, letters, number

Show = Callable[[int], str]

TARGET, DRAFT, RESIDUAL, CORRECTED = "#0072B2", "#CC79A7", "#5aa0cf", "#B87A00"
ACCEPTED, REJECTED, BONUS = "#009E73", "#D55E00", "#2a7fb8"
NEUTRAL = "rgba(128,136,150,0.55)"
FAINT = "rgba(128,136,150,0.3)"
SHADE = "rgba(28,36,48,0.42)"

DIMMED, INK = "#8a93a0", "#1c2430"

GLYPHS = {"accepted": "✓", "rejected": "✗", "discarded": "┄", "corrected": "↻", "bonus": "+"}
STATE_COLOURS = {
    "accepted": ACCEPTED,
    "rejected": REJECTED,
    "discarded": DIMMED,
    "corrected": CORRECTED,
    "bonus": BONUS,
}
LABEL = 8  # characters of a token that fit under a pair of bars
BARS = 8
CONFIG = {"displaylogo": False, "modeBarButtons": [["toImage"]], "responsive": True}


def escaped(text: str) -> str:
    """Text that Plotly shows as it is."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        text = text.replace(character, entity)
    return text


def label(text: str, limit: int = LABEL) -> str:
    """An axis label of bounded length."""
    return escaped(text if len(text) <= limit else text[: limit - 1] + "…")


def distributions(
    inspection: Inspection, show: Show, notation: Notation = "leviathan", log: bool = False
) -> go.Figure:
    """p and q as paired bars with their overlap, and the residual aligned under them.

    Args:
        inspection: the place.
        show: the text of a token.
        notation: which letters stand for target and draft.
        log: a logarithmic scale for p and q.
    """
    shown, others = telling(inspection, BARS)
    columns: list[Candidate | Others] = [*shown, others] if others.count else [*shown]
    drafted = inspection.row.token is not None
    figure = go.Figure()
    _add_pairs(figure, inspection, columns, show, notation)
    _lay_out(figure, [_tick(inspection, c, show, notation) for c in columns], drafted)
    figure.update_yaxes(_logarithmic(columns) if log else _linear(figure, columns))
    if drafted:
        _add_residual(figure, inspection, columns, show, notation)
    return figure


def describe_distributions(inspection: Inspection, show: Show, notation: Notation = "leviathan") -> str:
    """What `distributions` shows, with its numbers."""
    p, q = letters(notation)
    row = inspection.row
    top = max(inspection.candidates, key=lambda c: c.p)
    text = f"Bars of the target's {p}: its favourite is {show(top.token)} with {number(top.p)}."
    if row.beta is None or row.token is None:
        return text
    favourite = max(inspection.candidates, key=lambda c: c.q or 0.0)
    text += (
        f" Beside them the draft's {q}: its favourite is {show(favourite.token)} with {number(favourite.q)}. "
        f"They overlap by β = {number(row.beta)}; the total variation distance is {number(row.tv)}."
    )
    heaviest = max(inspection.candidates, key=lambda c: c.residual or 0.0)
    if heaviest.residual:
        text += (
            f" Under them the residual, {number(row.residual_mass)} in all: its largest share is "
            f"{show(heaviest.token)} with {number(heaviest.residual)}."
        )
    return text


def gauge(inspection: Inspection, u: float | None) -> go.Figure:
    """The accept probability as a bar from 0 to 1, and where the coin `u` fell."""
    keep = inspection.row.accept_probability or 0.0
    figure = go.Figure()
    kept, rejected = ("kept", "rejected") if 0.0 < keep < 1.0 else ("always kept", "always rejected")
    for text, base, width, colour, ink in (
        (kept, 0.0, keep, ACCEPTED, INK),
        (rejected, keep, 1.0 - keep, "rgba(213,94,0,0.28)", None),
    ):
        figure.add_bar(
            x=[width],
            y=[0],
            base=[base],
            orientation="h",
            marker={"color": colour, "line": {"width": 0}},
            hovertext=[f"{text}: {number(width)} of all coins"],
            hoverinfo="text",
            width=0.5,
        )
        if width > 0.2:
            figure.add_annotation(
                x=base + width / 2, y=0, text=text, showarrow=False, font={"size": 12.5, "color": ink}
            )
    if u is not None:
        figure.add_scatter(
            x=[u, u],
            y=[-0.42, 0.42],
            mode="lines+markers",
            line={"width": 3, "color": NEUTRAL.replace("0.55", "1")},
            marker={"symbol": ["triangle-up", "triangle-down"], "size": 10},
            hovertext=[f"u = {number(u)}"] * 2,
            hoverinfo="text",
        )
        side = "left" if u < 0.05 else "right" if u > 0.95 else "center"
        figure.add_annotation(x=u, y=0.5, yshift=9, text=f"u = {number(u)}", showarrow=False, xanchor=side)
    figure.update_layout(
        **{**frame(88), "margin": {"l": 0, "r": 0, "t": 0, "b": 20}},
        barmode="overlay",
        xaxis={
            **bare_axis(),
            "range": [-0.005, 1.005],
            "tickvals": sorted({0.0, keep, 1.0}),
            "ticktext": ["0", *([number(keep)] if 0.0 < keep < 1.0 else []), "1"],
            "showticklabels": True,
            "ticklabeloverflow": "allow",
        },
        yaxis={**bare_axis(), "range": [-0.5, 0.75]},
    )
    return figure


def describe_gauge(inspection: Inspection, u: float | None) -> str:
    """What `gauge` shows, with its numbers."""
    keep = inspection.row.accept_probability or 0.0
    if u is None:
        return f"The token is kept with probability {number(keep)}."
    verdict = "kept" if u < keep else "rejected"
    return f"The token is kept if the coin falls below {number(keep)}. u = {number(u)}: {verdict}."


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
    }


def bare_axis() -> dict:
    """An axis without lines, grid and labels."""
    return {
        "showgrid": False,
        "zeroline": False,
        "showticklabels": False,
        "ticks": "",
        "fixedrange": True,
        "title": None,
    }


def _add_pairs(
    figure: go.Figure,
    inspection: Inspection,
    columns: Sequence[Candidate | Others],
    show: Show,
    notation: Notation,
) -> None:
    p, q = letters(notation)
    drafted = inspection.row.token is not None
    hover = [_hover(inspection, column, show, notation) for column in columns]
    bars = [
        (f"target {p}", TARGET, [c.p for c in columns], -0.42 if drafted else -0.3, 0.41 if drafted else 0.6)
    ]
    if drafted:
        overlap = f"overlap β = 1 − TV = {number(inspection.row.beta)}"
        bars.append((f"draft {q}", DRAFT, [c.q or 0.0 for c in columns], 0.01, 0.41))
        bars.append((overlap, SHADE, [c.overlap for c in columns], -0.42, 0.84))
    for name, colour, heights, offset, width in bars:
        figure.add_bar(
            x=_places(columns),
            y=heights,
            offset=offset,
            width=width,
            name=name,
            # The outline lets the shade be seen on a dark page.
            marker={
                "color": colour,
                "line": {"width": [int(colour == SHADE and h > 0) for h in heights], "color": NEUTRAL},
            },
            hovertext=hover,
            hoverinfo="text",
            showlegend=True,
        )


def _add_residual(
    figure: go.Figure,
    inspection: Inspection,
    columns: Sequence[Candidate | Others],
    show: Show,
    notation: Notation,
) -> None:
    p, q = letters(notation)
    heights = [c.residual or 0.0 for c in columns]
    top = 1.2 * _top(heights)
    corrected = [isinstance(c, Candidate) and c.token == inspection.added for c in columns]
    figure.add_bar(
        x=_places(columns),
        y=heights,
        yaxis="y2",
        width=0.6,
        marker={"color": [CORRECTED if c else RESIDUAL for c in corrected], "line": {"width": 0}},
        text=[number(h) if 0.0 < h <= top else "" for h in heights],
        textposition="outside",
        constraintext="none",
        cliponaxis=False,
        hovertext=[_hover(inspection, column, show, notation) for column in columns],
        hoverinfo="text",
        showlegend=False,
    )
    if heights[-1] > top:
        _label_cut(figure, len(heights) - 1, top, heights[-1], INK, "y2")
    title = f"residual max(0, {p} − {q}), scaled up to 1"
    if not inspection.row.residual_mass:
        title = f"no residual: {p} and {q} are equal"
    figure.add_annotation(
        x=0,
        xref="paper",
        y=0.28,
        yref="paper",
        text=title,
        showarrow=False,
        xanchor="left",
        font={"size": 13},
    )
    figure.update_layout(
        yaxis2={
            **bare_axis(),
            "domain": [0.0, 0.19],
            "range": [0.0, top],
            "zeroline": True,
            "zerolinecolor": FAINT,
        }
    )


def _lay_out(figure: go.Figure, ticks: list[str], two: bool) -> None:
    figure.update_layout(
        **{**frame(410 if two else 250), "showlegend": True, "margin": {"l": 0, "r": 0, "t": 30, "b": 4}},
        barmode="overlay",
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.0,
            "yanchor": "bottom",
            "itemclick": False,
            "itemdoubleclick": False,
            "font": {"size": 13},
        },
        xaxis={
            **bare_axis(),
            "showticklabels": True,
            "tickvals": _places(ticks),
            "ticktext": ticks,
            "tickangle": 0,
            "anchor": "y",
            "range": [-0.55, len(ticks) - 0.45],
            "tickfont": {"size": 11.5},
        },
        yaxis={
            **bare_axis(),
            "domain": [0.44, 1.0] if two else [0.0, 1.0],
            "showticklabels": True,
            "showgrid": True,
            "gridcolor": FAINT,
            "automargin": True,
            "nticks": 5,
        },
    )


def _linear(figure: go.Figure, columns: Sequence[Candidate | Others]) -> dict:
    """The scale of p and q. If all others together dwarf the tokens, their bars are cut and labelled."""
    top = _top([max(c.p, c.q or 0.0) for c in columns])
    others = columns[-1]
    sides = ((others.p, -0.21, "#ffffff"), (others.q, 0.21, "#ffffff" if others.overlap > top else INK))
    for value, side, colour in sides:
        if value is not None and value > top:
            x = len(columns) - 1 + (0.0 if others.q is None else side)
            _label_cut(figure, x, top, value, colour, "y")
    return {"range": [0.0, top]}


def _top(heights: list[float]) -> float:
    """The end of a scale for bars of which the last stands for all other tokens."""
    tokens = max(heights[:-1], default=0.0)
    if tokens and heights[-1] > 1.5 * tokens:
        return 1.4 * tokens
    return 1.1 * max(heights, default=0.0) or 1.0


def _label_cut(figure: go.Figure, x: float, top: float, value: float, colour: str, axis: str) -> None:
    """What a bar that leaves the scale really amounts to."""
    figure.add_annotation(
        x=x,
        y=top,
        yref=axis,
        text=f"<b>⇡</b><br>{number(value)}",
        showarrow=False,
        yanchor="top",
        font={"size": 11, "color": colour},
    )


def _logarithmic(columns: Sequence[Candidate | Others]) -> dict:
    positive = [v for c in columns for v in (c.p, c.q) if v]
    lowest = max(-9, floor(log10(min(positive, default=0.1))))
    powers = range(0, lowest - 1, -1 if lowest > -5 else -2)
    return {
        "type": "log",
        "range": [lowest - 0.05, 0.05],
        "tickvals": [10.0**n for n in powers],
        "ticktext": [f"{10.0**n:g}" if n > -4 else number(10.0**n, 1) for n in powers],
    }


def _places(columns: Sequence) -> list[int]:
    return list(range(len(columns)))


def _tick(inspection: Inspection, column: Candidate | Others, show: Show, notation: Notation) -> str:
    """Two lines: the token, and what became of it or which control took it."""
    if isinstance(column, Others):
        return f"others<br>({column.count:,})"
    name = label(show(column.token))
    row = inspection.row
    if column.token == inspection.added:
        state = inspection.round.outcome
        return f"<b>{name}</b><br>{_marked(state)}"
    if column.token == row.token:
        return f"<b>{name}</b><br>{_marked(row.state)}"
    for letter, reason in zip(letters(notation), (column.target_removed, column.draft_removed), strict=True):
        if reason:
            short = {"greedy": "", "vocabulary": f"no {letter}"}.get(reason, reason)
            return f'<span style="color:{DIMMED}">{name}<br>{short}</span>'
    return name


def _marked(state: str) -> str:
    return f'<span style="color:{STATE_COLOURS[state]}">{GLYPHS[state]} {state}</span>'


def _hover(inspection: Inspection, column: Candidate | Others, show: Show, notation: Notation) -> str:
    p, q = letters(notation)
    if isinstance(column, Others):
        lines = [f"{count(column.count, 'other token')} together"]
    else:
        lines = [f"<b>{escaped(show(column.token))}</b>"]
    lines.append(f"{p} = {number(column.p, 4)}")
    if column.q is not None:
        lines += [f"{q} = {number(column.q, 4)}", f"overlap {number(column.overlap, 4)}"]
    if column.residual is not None:
        lines.append(f"residual {number(column.residual, 4)}")
    if isinstance(column, Candidate):
        for letter, reason in ((p, column.target_removed), (q, column.draft_removed)):
            if reason:
                lines.append(f"{letter} = 0: {REASONS[reason]}")
    return "<br>".join(lines)
