"""Figures of a recorded run that the lessons show: reduced distributions, times, the places to look at."""

from dataclasses import dataclass
from statistics import median

import numpy as np

from specviz.decoding.faults import EXACT, Hand, get_fault, output
from specviz.decoding.position import Position
from specviz.decoding.trace import Round, Trace
from specviz.lessons import laws
from specviz.reading.reduced import LUMPS, reduced


@dataclass(frozen=True, slots=True)
class RuleLaw:
    """What a rule does at one row: the law of its output, how often it accepts, its distance from p."""

    law: np.ndarray
    acceptance: float
    tv: float


# Rules whose law follows from group sums, by the name that the lesson gives them.
RULES = (
    "min(1, p/q), residual",
    "draw from p, keep if equal",
    "correction from p",
    "argmax draft, soft q",
    "argmax draft, one-hot q",
    "accept everything",
    "lenience",
)


def rule_law(row: Position, rule: str, lenience: float = 0.5) -> RuleLaw:
    """What one of `RULES` makes of a recorded row.

    Raises:
        ValueError: for another name.
    """
    c = reduced(row)
    favourite = laws.one_hot_of_largest(np.where([i is None for i in c.ids], 0.0, c.q))
    hands = {"argmax draft, soft q": (c.q, favourite), "argmax draft, one-hot q": (favourite, favourite)}
    faults = {
        "draw from p, keep if equal": "accept-on-match",
        "correction from p": "correction-from-p",
        "accept everything": "always-accept",
        "lenience": f"lenience={lenience}",
    }
    if rule not in RULES:
        raise ValueError(f"no rule {rule!r}")
    judged = get_fault(faults[rule]).rule if rule in faults else EXACT
    out = output(judged, Hand(c.p, *hands.get(rule, (c.q, c.q))))
    # Lumps hold many tokens: their p·q is not the product of the sums, but at most that.
    kept = out.kept[:-LUMPS] if rule == "draw from p, keep if equal" else out.kept
    return RuleLaw(out.law, float(kept.sum()), laws.tv(out.law, c.p))


FILTERS = ("both filtered", "q before the filter", "p before the filter")


def filtered_law(row: Position, k: int, given: str) -> tuple[str, np.ndarray, np.ndarray, float]:
    """The law of the output with top-k on both models, and the verifier given one of `FILTERS`.

    A table holds the 8 leading tokens of each model, so top-k up to 8 is exact. For a target scored before
    the filter, p is the table's part of it, scaled to 1.

    Returns:
        A remark, the law asked for, the law that comes out (both over the table's tokens), and the share of
        accepted draft tokens.
    """
    p, q = np.array(row.table.p), np.array(row.table.q)
    wanted, drawn = laws.top_k(p, k), laws.top_k(q, k)
    if given == "q before the filter":
        honest = laws.acceptance(wanted, drawn)
        law, accepted = laws.output_law(wanted, q, drawn=drawn), laws.acceptance(wanted, q, drawn)
        return f"With the honest q it would be {honest:.2f}.", wanted, law, accepted
    if given == "p before the filter":
        whole = p / p.sum()
        law, accepted = laws.output_law(whole, drawn), laws.acceptance(whole, drawn)
        return "Tokens that the filter removes are emitted.", wanted, law, accepted
    return "", wanted, laws.output_law(wanted, drawn), laws.acceptance(wanted, drawn)


@dataclass(frozen=True, slots=True)
class Times:
    """Measured times of a recorded run, in seconds; None where the run holds no such pass.

    Attributes:
        passes: by rows in the target's pass: (number of passes, median).
        draft_step: median of a round's drafting over its K.
        single: the target's pass over one row.
        full: the target's pass over K + 1 rows.
    """

    passes: dict[int, tuple[int, float]]
    draft_step: float | None
    single: float | None
    full: float | None

    @property
    def c(self) -> float | None:
        return None if not self.single or self.draft_step is None else self.draft_step / self.single

    @property
    def v(self) -> float | None:
        return None if not self.single or self.full is None else self.full / self.single


def times(trace: Trace) -> Times:
    """Times of all rounds but the first, whose pass also reads the prompt."""
    by_rows: dict[int, list[float]] = {}
    for round in trace.rounds[1:]:
        by_rows.setdefault(round.k + 1, []).append(round.verify_seconds)
    steps = [round.draft_seconds / round.k for round in trace.rounds[1:] if round.k]
    passes = {rows: (len(t), median(t)) for rows, t in sorted(by_rows.items())}
    return Times(
        passes,
        median(steps) if steps else None,
        passes[1][1] if 1 in passes else None,
        passes[trace.k + 1][1] if trace.k + 1 in passes else None,
    )


def judged(trace: Trace, *, rejected: bool = False) -> list[tuple[int, int]]:
    """(round, position) of every judged draft token, or of the rejected ones alone."""
    states = ("rejected",) if rejected else ("accepted", "rejected")
    return [
        (round.number, i + 1)
        for round in trace.rounds
        for i, row in enumerate(round.positions[: round.k])
        if row.state in states
    ]


def contested(trace: Trace) -> tuple[int, int]:
    """The judged place at which drawing the correction from p would go most astray."""

    def astray(place: tuple[int, int]) -> float:
        return rule_law(trace.rounds[place[0] - 1].positions[place[1] - 1], "correction from p").tv

    return max(judged(trace), key=astray)


def telling_round(trace: Trace) -> Round:
    """A round with accepted, rejected and discarded tokens, the first one of the trace if there is none.

    Of several, that whose rejected token was most of all a matter of the coin: p/q nearest to a half.
    """

    def one_sided(round: Round) -> float:
        row = round.positions[round.accepted]
        return abs((row.p or 0.0) / (row.q or 1.0) - 0.5)

    mixed = [r for r in trace.rounds if 0 < r.accepted < r.k - 1]
    return min(mixed, key=one_sided, default=trace.rounds[0])


def bonus_round(trace: Trace) -> Round | None:
    """The first round that ended with a bonus after drafts."""
    return next((r for r in trace.rounds if r.outcome == "bonus" and r.k), None)


def logit_gap(row: Position) -> float | None:
    """Difference of the target's two largest logits at a row; None if the trace has no logits."""
    logits = sorted((x for x in row.table.target_logits if x is not None), reverse=True)
    return logits[0] - logits[1] if len(logits) > 1 else None
