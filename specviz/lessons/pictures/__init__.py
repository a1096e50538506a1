"""Pictures of the lessons, drawn in code as SVG. Every number in them is computed or measured."""

from collections.abc import Callable

from specviz.lessons.pictures import chances, structure, timing
from specviz.lessons.pictures.canvas import Picture

PICTURES: dict[str, Callable[[], Picture]] = {
    "plain-steps": timing.plain_steps,
    "time-bars": timing.time_bars,
    "losing-bars": timing.losing_bars,
    "two-regimes": timing.two_regimes,
    "measured-v": timing.measured_v,
    "bursts": timing.bursts,
    "drafting-costs": timing.drafting_costs,
    "overlap": chances.overlap,
    "residual": chances.residual,
    "survival": chances.survival,
    "near-tie": chances.near_tie,
    "curve-shapes": chances.curve_shapes,
    "losses": chances.losses,
    "rules-compared": chances.rules_compared,
    "surplus": chances.surplus,
    "effective": chances.effective,
    "rates-compared": chances.rates_compared,
    "rows-of-q": structure.rows_of_q,
    "bonus": structure.bonus,
    "caches": structure.caches,
    "what-each-sees": structure.what_each_sees,
    "tree-mask": structure.tree_mask,
    "vocabularies": structure.vocabularies,
    "two-surfaces": structure.two_surfaces,
}


def picture(name: str) -> Picture:
    """The picture of that name.

    Raises:
        KeyError: if there is none.
    """
    return PICTURES[name]()
