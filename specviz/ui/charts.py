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
from specviz.analysis.prose import GLYPHS, Notation, count, letters, number

Show = Callable[[int], str]

TARGET, DRAFT, RESIDUAL, CORRECTED = "#0072B2", "#CC79A7", "#5aa0cf", "#B87A00"
ACCEPTED, REJECTED, BONUS = "#009E73", "#D55E00", "#2a7fb8"
NEUTRAL = "rgba(128,136,150,0.55)"
FAINT = "rgba(128,136,150,0.3)"
SHADE = "rgba(28,36,48,0.42)"

DIMMED, INK = "#8a93a0", "#1c2430"

STATE_COLOURS = {
    "accepted": ACCEPTED,
    "rejected": REJECTED,
    "discarded": DIMMED,
    "corrected": CORRECTED,
    "bonus": BONUS,
}
LABEL = 8  # characters of a token that fit under a pair of bars
BARS = 8
CONFIG = {"displaylogo": False, "modeBarButtons": [["toImage"]]}


def escaped(text: str) -> str:
    """Text that Plotly shows as it is."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        text = text.replace(character, entity)
    return text


def label(text: str) -> str:
    """An axis label of bounded length."""
    return escaped(text if len(text) <= LABEL else text[: LABEL - 1] + "…")


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
    ticks = _ticks(inspection, columns, show, notation)
    hover = [_hover(column, show, notation) for column in columns]
    bars = _pairs(inspection, columns, hover, notation)
    scale, labels = (_logarithmic(columns), []) if log else _linear(columns)
    layout = _layout(ticks, inspection.row.token is not None, scale)
    if inspection.row.token is not None:
        bar, axis, below = _residual(inspection, columns, hover, notation)
        bars.append(bar)
        labels += below
        layout["yaxis2"] = axis
    return figure(bars, {**layout, "annotations": labels})


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


def _pairs(
    inspection: Inspection, columns: Sequence[Candidate | Others], hover: list[str], notation: Notation
) -> list[dict]:
    p, q = letters(notation)
    if inspection.row.token is None:
        bars = [(f"target {p}", TARGET, [c.p for c in columns], -0.3, 0.6)]
    else:
        overlap = f"overlap β = 1 − TV = {number(inspection.row.beta)}"
        bars = [
            (f"target {p}", TARGET, [c.p for c in columns], -0.42, 0.41),
            (f"draft {q}", DRAFT, [c.q or 0.0 for c in columns], 0.01, 0.41),
            (overlap, SHADE, [c.overlap for c in columns], -0.42, 0.84),
        ]
    return [
        {
            "type": "bar",
            "x": _places(columns),
            "y": heights,
            "offset": offset,
            "width": width,
            "name": name,
            # The outline lets the shade be seen on a dark page.
            "marker": {
                "color": colour,
                "line": {"width": [int(colour == SHADE and h > 0.0) for h in heights], "color": NEUTRAL},
            },
            "hovertext": hover,
            "hoverinfo": "text",
            "showlegend": True,
        }
        for name, colour, heights, offset, width in bars
    ]


def _residual(
    inspection: Inspection, columns: Sequence[Candidate | Others], hover: list[str], notation: Notation
) -> tuple[dict, dict, list[dict]]:
    """The residual's bars, their axis, and what is written beside them."""
    p, q = letters(notation)
    heights = [c.residual or 0.0 for c in columns]
    top = 1.2 * _top(heights)
    corrected = [isinstance(c, Candidate) and c.token == inspection.added for c in columns]
    bar = {
        "type": "bar",
        "x": _places(columns),
        "y": heights,
        "yaxis": "y2",
        "width": 0.6,
        "marker": {"color": [CORRECTED if c else RESIDUAL for c in corrected], "line": {"width": 0}},
        "text": [number(h) if 0.0 < h <= top else "" for h in heights],
        "textposition": "outside",
        "constraintext": "none",
        "cliponaxis": False,
        "hovertext": hover,
        "hoverinfo": "text",
        "showlegend": False,
    }
    axis = {
        **bare_axis(),
        "domain": [0.0, 0.18],
        "range": [0.0, top],
        "zeroline": True,
        "zerolinecolor": FAINT,
    }
    title = f"residual max(0, {p} − {q}), scaled up to 1"
    if not inspection.row.residual_mass:
        title = f"no residual: {p} and {q} are equal"
    labels = [
        {
            "x": 0,
            "xref": "paper",
            "y": 0.25,
            "yref": "paper",
            "text": title,
            "showarrow": False,
            "xanchor": "left",
            "font": {"size": 13},
        }
    ]
    if heights[-1] > top:
        labels.append(_cut(len(heights) - 1, top, heights[-1], INK, "y2"))
    return bar, axis, labels


def _layout(ticks: list[str], two: bool, scale: dict) -> dict:
    return {
        **frame(425 if two else 250),
        "showlegend": True,
        "margin": {"l": 44, "r": 0, "t": 30, "b": 4},
        "legend": legend(1.0, "bottom"),
        "xaxis": {
            **bare_axis(),
            "showticklabels": True,
            "tickvals": _places(ticks),
            "ticktext": ticks,
            "tickangle": 0,
            "anchor": "y",
            "range": [-0.55, len(ticks) - 0.45],
            "tickfont": {"size": 11.5},
        },
        "yaxis": {
            **bare_axis(),
            "domain": [0.47, 1.0] if two else [0.0, 1.0],
            "showticklabels": True,
            "showgrid": True,
            "gridcolor": FAINT,
            "nticks": 5,
            **scale,
        },
    }


def _linear(columns: Sequence[Candidate | Others]) -> tuple[dict, list[dict]]:
    """The scale of p and q. If all others together dwarf the tokens, their bars are cut and labelled."""
    top = _top([max(c.p, c.q or 0.0) for c in columns])
    others = columns[-1]
    sides = ((others.p, -0.21, "#ffffff"), (others.q, 0.21, "#ffffff" if others.overlap > top else INK))
    labels = [
        _cut(len(columns) - 1 + (0.0 if others.q is None else side), top, value, colour, "y")
        for value, side, colour in sides
        if value is not None and value > top
    ]
    return {"range": [0.0, top]}, labels


def _top(heights: list[float]) -> float:
    """The end of a scale for bars of which the last stands for all other tokens."""
    tokens = max(heights[:-1], default=0.0)
    if tokens and heights[-1] > 1.5 * tokens:
        return 1.4 * tokens
    return 1.1 * max(heights, default=0.0) or 1.0


def _cut(x: float, top: float, value: float, colour: str, axis: str) -> dict:
    """What a bar that leaves the scale really amounts to."""
    return {
        "x": x,
        "y": top,
        "yref": axis,
        "text": f"<b>⇡</b><br>{number(value)}",
        "showarrow": False,
        "yanchor": "top",
        "font": {"size": 11, "color": colour},
    }


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


def _ticks(
    inspection: Inspection, columns: Sequence[Candidate | Others], show: Show, notation: Notation
) -> list[str]:
    """Under each token what became of it, or which control took it."""
    marks: dict[int | None, str] = {inspection.row.token: inspection.row.state}
    if inspection.added is not None:
        marks[inspection.added] = inspection.round.outcome
    ticks, marked_before = [], False
    for column in columns:
        if isinstance(column, Others):
            ticks.append(f"others<br>({column.count:,})")
        elif column.token in marks:
            # Two marks side by side would run into each other: the second goes a line lower.
            gap = "<br>\u200b<br>" if marked_before else "<br>"
            ticks.append(f"<b>{label(show(column.token))}</b>{gap}{_marked(marks[column.token])}")
            marked_before = not marked_before
            continue
        else:
            ticks.append(_unmarked(column, label(show(column.token)), notation))
        marked_before = False
    return ticks


def _unmarked(column: Candidate, name: str, notation: Notation) -> str:
    for letter, reason in zip(letters(notation), (column.target_removed, column.draft_removed), strict=True):
        if reason:
            short = {"greedy": "", "vocabulary": f"no {letter}"}.get(reason, reason)
            return f'<span style="color:{DIMMED}">{name}<br>{short}</span>'
    return name


def _marked(state: str) -> str:
    return f'<span style="color:{STATE_COLOURS[state]}">{GLYPHS[state]} {state}</span>'


def _hover(column: Candidate | Others, show: Show, notation: Notation) -> str:
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
