"""p, q and residual of one place as a picture, and the sentence that says what it shows."""

from collections.abc import Sequence
from math import ceil, floor, log10

from specviz.reading.explain import REASONS
from specviz.reading.inspect import Candidate, Inspection, Others, telling
from specviz.reading.prose import GLYPHS, Notation, count, letters, number
from specviz.tokens import Show
from specviz.ui.components.blocks.bars import Bars, Column, Scale

LABEL = 8  # characters of a token that fit under a pair of bars
BARS = 8
STEPS = 5  # of a linear scale, at most


def distributions(inspection: Inspection, show: Show, notation: Notation = "leviathan") -> Bars:
    """p and q as paired bars with their overlap, and the residual aligned under them."""
    p, q = letters(notation)
    row = inspection.row
    shown, others = telling(inspection, BARS)
    columns: list[Candidate | Others] = [*shown, others] if others.count else [*shown]
    both = row.token is not None
    linear = _linear(columns)
    residuals = [c.residual or 0.0 for c in columns]
    residual_top = 1.2 * _top(residuals) if both else None
    scaled = f"r·{p}" if inspection.by_blocks else p
    title = f"residual max(0, {scaled} − {q}), scaled up to 1"
    if not inspection.residual_mass:
        title = f"no residual: {scaled} is nowhere above {q}" if row.residual_mass else title
        title = title if row.residual_mass else f"no residual: {p} and {q} are equal"
    legend = [("target", f"target {p}")]
    if both:
        legend += [("draft", f"draft {q}"), ("overlap", f"overlap β = 1 − TV = {number(row.beta)}")]
    return Bars(
        columns=tuple(_column(inspection, c, show, notation, linear.top, residual_top) for c in columns),
        scales=(linear, _logarithmic(columns)),
        residual_top=residual_top,
        residual_title=title if both else "",
        legend=tuple(legend),
        file=f"round-{inspection.round.number}-position-{inspection.position}",
        alt=describe_distributions(inspection, show, notation),
    )


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
            f" Under them the residual, {number(inspection.residual_mass)} in all: its largest share is "
            f"{show(heaviest.token)} with {number(heaviest.residual)}."
        )
    return text


def _column(
    inspection: Inspection,
    column: Candidate | Others,
    show: Show,
    notation: Notation,
    top: float,
    residual_top: float | None,
) -> Column:
    both = residual_top is not None
    name, note, kind = _words(inspection, column, show, notation)

    def over(value: float | None, end: float | None) -> str:
        return number(value) if value is not None and end is not None and value > end else ""

    residual = (column.residual or 0.0) if both else None
    residual_over = over(residual, residual_top)
    return Column(
        name=name,
        note=note,
        kind=kind,
        p=column.p,
        q=(column.q or 0.0) if both else None,
        overlap=column.overlap if both else None,
        residual=residual,
        hint=_hint(column, show, notation),
        p_over=over(column.p, top),
        q_over=over(column.q, top),
        residual_over=residual_over,
        residual_text=number(residual) if residual and not residual_over else "",
    )


def _words(
    inspection: Inspection, column: Candidate | Others, show: Show, notation: Notation
) -> tuple[str, str, str]:
    """Name, note and kind of a column: what became of the token, or which control took it."""
    if isinstance(column, Others):
        return "others", f"({column.count:,})", ""
    text = show(column.token)
    name = text if len(text) <= LABEL else text[: LABEL - 1] + "…"
    marks: dict[int | None, str] = {inspection.row.token: inspection.row.state}
    if inspection.added is not None:
        marks[inspection.added] = inspection.round.outcome
    state = marks.get(column.token)
    if state is not None:
        return name, f"{GLYPHS[state]} {state}", state
    for letter, reason in zip(letters(notation), (column.target_removed, column.draft_removed), strict=True):
        if reason:
            return name, {"greedy": "", "vocabulary": f"no {letter}"}.get(reason, reason), "removed"
    return name, "", ""


def _hint(column: Candidate | Others, show: Show, notation: Notation) -> tuple[str, ...]:
    p, q = letters(notation)
    lines = [f"{p} = {number(column.p, 4)}"]
    if column.q is not None:
        lines += [f"{q} = {number(column.q, 4)}", f"overlap {number(column.overlap, 4)}"]
    if column.residual is not None:
        lines.append(f"residual {number(column.residual, 4)}")
    if isinstance(column, Others):
        return f"{count(column.count, 'other token')} together", *lines
    for letter, reason in ((p, column.target_removed), (q, column.draft_removed)):
        if reason:
            lines.append(f"{letter} = 0: {REASONS[reason]}")
    return show(column.token), *lines


def _top(heights: Sequence[float]) -> float:
    """The end of a scale for bars of which the last stands for all other tokens: if those together dwarf
    the tokens, their bar is cut."""
    tokens = max(heights[:-1], default=0.0)
    if tokens and heights[-1] > 1.5 * tokens:
        return 1.4 * tokens
    return 1.1 * max(heights, default=0.0) or 1.0


def _linear(columns: Sequence[Candidate | Others]) -> Scale:
    top = _top([max(c.p, c.q or 0.0) for c in columns])
    power = 10.0 ** floor(log10(top / STEPS))
    step = next(factor * power for factor in (1, 2, 5, 10) if top / (factor * power) <= STEPS)
    ticks = [i * step for i in range(floor(top / step) + 1)]
    return Scale("linear", 0.0, top, tuple((tick, f"{tick:.6g}") for tick in ticks))


def _logarithmic(columns: Sequence[Candidate | Others]) -> Scale:
    positive = [v for c in columns for v in (c.p, c.q) if v]
    lowest = max(-9, floor(log10(min(positive, default=0.1)) - 0.05))
    step = ceil(-lowest / 4)
    ticks = [10.0**n for n in range(0, lowest - 1, -step)]
    labels = [f"{tick:g}" if tick > 1e-4 else number(tick, 1) for tick in ticks]
    return Scale("log", 10.0**lowest, 1.0, tuple(zip(ticks, labels, strict=True)))
