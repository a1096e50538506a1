"""A token's random number and the cells of the caches as rows of boxes, and the sentences that say it."""

from collections.abc import Sequence

from specviz.reading.cache_cells import CacheStrip, Cell, figures
from specviz.reading.inspect import Inspection
from specviz.reading.prose import apart, number
from specviz.tokens import Show
from specviz.ui.components.blocks.bands import Band, Bands

CELLS: dict[Cell, str] = {
    "before": "cached before",
    "new": "new, kept",
    "cut": "computed, then removed",
    "unfed": "committed, not fed to the model yet",
}
GAP = 0.3  # between what a cache held and what it has yet to be fed


def gauge(inspection: Inspection, u: float) -> Bands:
    """The accept probability as a bar from 0 to 1, and where the random number `u` fell."""
    return Bands((gauge_band(inspection, u),), span=1.0, alt=describe_gauge(inspection, u))


def gauge_band(inspection: Inspection, u: float) -> Band:
    keep = inspection.row.threshold or 0.0
    sides = [("kept", 0.0, keep), ("refused", keep, 1.0 - keep)]
    if not 0.0 < keep < 1.0:
        sides = [("kept", 0.0, 1.0) if keep else ("refused", 0.0, 1.0)]
    words = {"kept": "kept", "refused": "rejected"}
    if inspection.by_blocks:
        words = {"kept": "passes", "refused": "does not pass"}
    always = "" if len(sides) == 2 else "always "
    return Band(
        boxes=tuple(
            (
                side,
                start,
                width,
                always + words[side] if width > 0.12 else "",
                f"{words[side]} by {number(width)} of all u",
            )
            for side, start, width in sides
        ),
        marks=((u, f"u = {number(u)}"),),
        # The ends go without saying where the threshold needs the room.
        ticks=tuple((x, number(x)) for x in sorted({0.0, keep, 1.0}) if x == keep or abs(x - keep) > 0.08),
    )


def describe_gauge(inspection: Inspection, u: float) -> str:
    """What `gauge` shows, with its numbers."""
    row = inspection.row
    if row.p is None or row.q is None:
        return ""
    keeps = inspection.keeps(u)
    if inspection.by_blocks:
        fell, edge = apart(u, row.prefix_passes or 0.0)
        what = "passes" if keeps else "does not pass"
        return f"The beginning of the block up to here passes if u falls below {edge}. u = {fell}: it {what}."
    fell, edge = apart(u, row.p / row.q)
    return f"The token is kept if u falls below {edge}. u = {fell}: {'kept' if keeps else 'rejected'}."


def caches(strips: Sequence[CacheStrip], show: Show) -> Bands:
    """One strip of cells for each model, aligned by position."""
    present = {kind for strip in strips for kind, _ in strip.cells}
    return Bands(
        tuple(cache_band(strip, show) for strip in strips),
        span=max(len(strip.cells) for strip in strips) + GAP,
        alt=describe_caches(strips),
        legend=tuple((kind, name) for kind, name in CELLS.items() if kind in present),
    )


def cache_band(strip: CacheStrip, show: Show) -> Band:
    more = f" · {strip.hidden:,} earlier, then" if strip.hidden else ""
    return Band(
        title=f"{strip.role}{more}",
        boxes=tuple(
            (kind, i + GAP * (kind == "unfed"), 1.0, show(token), f"{show(token)}: {CELLS[kind]}")
            for i, (kind, token) in enumerate(strip.cells)
        ),
    )


def describe_caches(strips: Sequence[CacheStrip]) -> str:
    """What `caches` shows, in numbers."""
    return " ".join(f"Cache of the {strip.role} {strip.model}: {figures(strip)}." for strip in strips)
