"""Bars of the exactness checks, and the sentence that says what each figure shows.

Everywhere the blue line is p. What the draft keeps is green, what is corrected amber, a fault orange.
"""

from collections.abc import Callable, Sequence

import plotly.graph_objects as go

from specviz.exactness.arithmetic import Arithmetic
from specviz.reading.prose import count, number
from specviz.tokens import Show
from specviz.ui.shell.palette import (
    ACCEPTED,
    CORRECTED,
    FAINT,
    REJECTED,
    TARGET,
    bare_axis,
    escaped,
    figure,
    frame,
    legend,
)

BAND = "rgba(86,170,225,0.4)"
LETTERS = 9  # characters under a bar
NARROW = 6  # the same in half the width
LONGEST = 20  # characters of a continuation beside its bar


def stack(sums: Arithmetic, show: Show, others: int, height: int = 210, letters: int = LETTERS) -> go.Figure:
    """Kept and corrected mass on top of each other, and p as a line.

    Args:
        sums: the sums of a rule at a position.
        show: the text of a column.
        others: how many tokens the last bar stands for.
        height: in pixels.
        letters: characters of a token under its bar.
    """
    shares = sums.shares
    top = _top([max(s.total, s.p) for s in shares])
    hover = [
        f"{_name(s.token, show, others)}<br>kept {number(s.kept, 4)}<br>corrected {number(s.corrected, 4)}"
        f"<br>together {number(s.total, 4)}<br>p = {number(s.p, 4)}"
        for s in shares
    ]
    kept = _bars([s.kept for s in shares], hover, "kept from the draft", ACCEPTED)
    corrected = _bars([s.corrected for s in shares], hover, "corrected", CORRECTED)
    corrected["base"] = [s.kept for s in shares]
    cut = [max(s.total, s.p) for s in shares]
    return figure(
        [kept, corrected, _line([s.p for s in shares])],
        _layout([_tick(s.token, show, others, letters) for s in shares], top, height, _cuts(cut, top)),
    )


def shares(
    bars: Sequence,
    show: Show,
    others: int,
    *,
    faulty: bool = False,
    law: bool = False,
    top: float | None = None,
    height: int = 230,
) -> go.Figure:
    """Shares of the draws as bars, p as a line, and the band in which 95% of honest runs fall.

    Args:
        bars: what was drawn, with `token`, `p`, `share`, `low`, `high`; the last stands for all others.
        show: the text of a column.
        others: how many tokens the last bar stands for.
        faulty: they come from a rule that does not follow p.
        law: mark the exact law of that rule (`law` of each bar) as well.
        top: end of the scale; from the bars if None.
    """
    top = _top([max(b.share, b.p, b.high) for b in bars]) if top is None else top
    hover = [
        f"{_name(b.token, show, others)}<br>share of draws {number(b.share, 4)}<br>p = {number(b.p, 4)}"
        f"<br>exact decoding, 95%: {number(b.low, 4)} to {number(b.high, 4)}"
        + (f"<br>this rule gives on average {number(b.law, 4)}" if law else "")
        for b in bars
    ]
    drawn = _bars([b.share for b in bars], hover, "share of draws", REJECTED if faulty else ACCEPTED)
    band = {
        "type": "bar",
        "x": list(range(len(bars))),
        "base": [b.low for b in bars],
        "y": [b.high - b.low for b in bars],
        "width": 0.9,
        "name": "95% of exact runs",
        "marker": {"color": BAND, "line": {"width": 0}},
        "hoverinfo": "skip",
        "showlegend": True,
    }
    return figure(
        [drawn, band, _line([b.p for b in bars])],
        _layout(
            [_tick(b.token, show, others, NARROW) for b in bars],
            top,
            height,
            _cuts([max(b.share, b.p) for b in bars], top),
        ),
    )


def scale(*checks: Sequence) -> float:
    """One end of the scale for several sets of bars, so that they can be compared."""
    return max(_top([max(b.share, b.p, b.high) for b in bars]) for bars in checks)


def describe_stack(sums: Arithmetic, show: Show) -> str:
    """What `stack` shows, with its numbers."""
    first = sums.shares[0]
    name = show(first.token) if first.token is not None else "all tokens together"
    return (
        f"Bars of kept and corrected mass against p. For {name} {number(first.kept, 3)} is kept and "
        f"{number(first.corrected, 3)} corrected, {number(first.total, 3)} together; "
        f"p is {number(first.p, 3)}."
    )


def describe_shares(bars: Sequence, show: Show) -> str:
    """What `shares` shows, with its numbers."""
    outside = [b for b in bars if not b.low <= b.share <= b.high]
    text = f"{len(bars) - len(outside)} of {count(len(bars), 'bar')} lie in the band of exact runs."
    if outside:
        far = max(outside, key=lambda b: abs(b.share - b.p))
        name = "all others together" if far.token is None else show(far.token)
        text += f" Farthest off: {name} with {number(far.share, 3)} of the draws, p = {number(far.p, 3)}."
    return text


def _bars(heights: list[float], hover: list[str], name: str, colour: str) -> dict:
    return {
        "type": "bar",
        "x": list(range(len(heights))),
        "y": heights,
        "width": 0.66,
        "name": name,
        "marker": {"color": colour, "opacity": 0.8, "line": {"width": 0}},
        "hovertext": hover,
        "hoverinfo": "text",
        "showlegend": True,
    }


def _line(p: list[float]) -> dict:
    """p as a short line across each bar."""
    x, y = [], []
    for i, height in enumerate(p):
        x += [i - 0.45, i + 0.45, None]
        y += [height, height, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": "p",
        "line": {"color": TARGET, "width": 3},
        "hoverinfo": "skip",
        "showlegend": True,
    }


def _layout(ticks: list[str], top: float, height: int, annotations: list[dict]) -> dict:
    return {
        **frame(height),
        "showlegend": True,
        "margin": {"l": 0, "r": 0, "t": 28, "b": 4},
        "legend": legend(1.0, "bottom"),
        "annotations": annotations,
        "xaxis": {
            **bare_axis(),
            "showticklabels": True,
            "tickvals": list(range(len(ticks))),
            "ticktext": ticks,
            "tickangle": 0,
            "range": [-0.6, len(ticks) - 0.4],
            "tickfont": {"size": 11.5},
        },
        "yaxis": {
            **bare_axis(),
            "showticklabels": True,
            "showgrid": True,
            "gridcolor": FAINT,
            "automargin": True,
            "nticks": 4,
            "range": [0.0, top],
        },
    }


def _top(heights: list[float]) -> float:
    """The end of a scale for bars of which the last stands for all other tokens."""
    single = max(heights[:-1], default=0.0)
    if single and heights[-1] > 1.5 * single:
        return 1.3 * single
    return 1.08 * max(heights, default=0.0) or 1.0


def _cuts(heights: list[float], top: float) -> list[dict]:
    """What a bar that leaves the scale really amounts to."""
    return [
        {
            "x": i,
            "y": top,
            "text": f"<b>⇡ {number(height)}</b>",
            "showarrow": False,
            "yanchor": "top",
            "font": {"size": 11, "color": "#ffffff"},
        }
        for i, height in enumerate(heights)
        if height > top
    ]


def _tick(token: int | None, show: Show, others: int, letters: int) -> str:
    return f"others<br>({others:,})" if token is None else _short(show(token), letters)


def _short(text: str, letters: int) -> str:
    """A label of bounded length."""
    return escaped(text if len(text) <= letters else text[: letters - 1] + "…")


def _name(token: int | None, show: Show, others: int) -> str:
    return f"{others:,} other tokens together" if token is None else f"<b>{escaped(show(token))}</b>"


def sequences(bars: Sequence, show: Callable[[tuple[int, ...]], str], faulty: bool) -> go.Figure:
    """Shares of whole continuations as lying bars, with their exact probability and the band of exact runs.

    Args:
        bars: with `tokens` (None for all others), `law`, `share`, `low`, `high`.
        show: the text of a continuation.
        faulty: they do not follow the law.
    """
    named = [b for b in bars if b.tokens is not None]
    names = [_short(show(b.tokens), LONGEST) for b in named]
    top = 1.08 * max(max(b.share, b.law, b.high) for b in named) if named else 1.0
    hover = [
        f"<b>{escaped(show(b.tokens))}</b><br>share {number(b.share, 4)}<br>by the target {number(b.law, 4)}"
        f"<br>exact decoding, 95%: {number(b.low, 4)} to {number(b.high, 4)}"
        for b in named
    ]
    drawn = _lying(
        [b.share for b in named], None, 0.66, "share of continuations", REJECTED if faulty else ACCEPTED, 0.8
    )
    drawn |= {"hovertext": hover, "hoverinfo": "text"}
    band = _lying(
        [b.high - b.low for b in named], [b.low for b in named], 0.9, "95% of exact runs", BAND, 1.0
    )
    x, y = [], []
    for i, bar in enumerate(named):
        x += [bar.law, bar.law, None]
        y += [i - 0.45, i + 0.45, None]
    law = {**_line([]), "x": x, "y": y, "name": "by the target alone"}
    layout = {
        **frame(60 + 26 * len(named)),
        "showlegend": True,
        "margin": {"l": 0, "r": 0, "t": 46, "b": 18},
        "legend": legend(1.0, "bottom"),
        "xaxis": {**bare_axis(), "showticklabels": True, "nticks": 5, "range": [0.0, top]},
        "yaxis": {
            **bare_axis(),
            "showticklabels": True,
            "automargin": True,
            "tickvals": list(range(len(named))),
            "ticktext": names,
            "range": [len(named) - 0.4, -0.6],
        },
    }
    return figure([drawn, band, law], layout)


def describe_sequences(bars: Sequence, show: Callable[[tuple[int, ...]], str]) -> str:
    """What `sequences` shows, with its numbers."""
    named = [b for b in bars if b.tokens is not None]
    if not named:
        return "No single continuation is likely enough to be drawn."
    first = named[0]
    inside = sum(b.low <= b.share <= b.high for b in named)
    return (
        f"The {len(named)} likeliest continuations; {inside} lie in the band of exact runs. The first, "
        f"{show(first.tokens)}, has {number(first.share, 3)} of them; "
        f"the target gives it {number(first.law, 3)}."
    )


def _lying(
    lengths: list[float], base: list[float] | None, width: float, name: str, colour: str, opacity: float
) -> dict:
    bar = {
        "type": "bar",
        "orientation": "h",
        "x": lengths,
        "y": list(range(len(lengths))),
        "width": width,
        "name": name,
        "marker": {"color": colour, "opacity": opacity, "line": {"width": 0}},
        "hoverinfo": "skip",
        "showlegend": True,
    }
    return bar if base is None else {**bar, "base": base}
