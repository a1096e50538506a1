"""Figures of recorded rows and rounds for the lessons on drafters, training, trees and blocks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from specviz.decoding.position import Position
from specviz.decoding.trace import Round, Trace
from specviz.lessons import laws, worked
from specviz.reading.reduced import reduced


def overlap_by_depth(traces: Iterable[Trace]) -> list[tuple[float, int]]:
    """By draft position: mean of β over all drafted rows, and their number."""
    found: dict[int, list[float]] = {}
    for trace in traces:
        for round in trace.rounds:
            for i, row in enumerate(round.positions[: round.k]):
                if row.beta is not None:
                    found.setdefault(i, []).append(row.beta)
    return [(float(np.mean(found[i])), len(found[i])) for i in sorted(found)]


def pushes(row: Position) -> list[tuple[int, float, float]]:
    """By token of the table: how gradient descent on KL(p‖q) and on TV(p, q) pushes the draft's logit.

    Returns:
        (token, p − q, q·(𝟙[q < p] − M)) with M the mass of q on tokens where it is below p; all exact, since
        the trace holds that mass of the tokens outside the table too.
    """
    p, q = np.array(row.table.p), np.array(row.table.q)
    below = float(q[q < p].sum()) + row.rest.q_over
    total = q * ((q < p) - below)
    return list(zip(map(int, row.table.ids), map(float, p - q), map(float, total), strict=True))


def children(row: Position, most: int = 8) -> list[tuple[int, float, float]]:
    """(m, Σ p over the m tokens that the draft likes best, chance with m draws from q) for m = 1 … `most`.

    The first is exact. The second is so for one draw and an upper bound for more: from the second on, the
    tokens outside the table enter with the overlap of their sums, which is at least their overlap.
    """
    order = np.argsort(-np.array(row.table.q), kind="stable")[:most]
    p = np.array(row.table.p)[order]
    c = reduced(row)
    drawn = np.cumsum(laws.in_turn(c.p, c.q, len(order)))
    chosen = np.cumsum(p)
    return [(m, float(chosen[m - 1]), float(min(drawn[m - 1], 1.0))) for m in range(1, len(order) + 1)]


@dataclass(frozen=True, slots=True)
class BlockRule:
    """A drafted block under the token rule and under block verification.

    Attributes:
        ratios: p/q of each draft token.
        carried: r of block verification at each.
        token: expected accepted tokens under the token rule, given these drafts.
        block: the same under block verification; a lower bound, since tokens outside a row's table enter
            with their sums.
    """

    ratios: tuple[float, ...]
    carried: tuple[float, ...]
    token: float
    block: float


def block_rule(round: Round) -> BlockRule:
    rows = round.positions[: round.k]
    ratios = [(row.p or 0.0) / (row.q or 1.0) for row in rows]
    token, alive, r = 0.0, 1.0, 1.0
    carried: list[float] = []
    for ratio in ratios:
        alive *= min(1.0, ratio)
        token += alive
        r = min(1.0, r * ratio)
        carried.append(r)
    pass_chance = [_passes(row, r) for row, r in zip(rows[1:], carried, strict=False)] + carried[-1:]
    return BlockRule(tuple(ratios), tuple(carried), token, expected_last(pass_chance))


def expected_last(chances: Sequence[float]) -> float:
    """Expected number of the last success, 0 if there is none; trial i succeeds with `chances[i - 1]`."""
    total, none_later = 0.0, 1.0
    for i in range(len(chances), 0, -1):
        total += i * chances[i - 1] * none_later
        none_later *= 1.0 - chances[i - 1]
    return total


def _passes(following: Position, r: float) -> float:
    """h of block verification after a token with the carried product r, from the row that follows."""
    c = reduced(following)
    left = float(np.maximum(0.0, r * c.p - c.q).sum())
    return left / (left + 1.0 - r) if left + 1.0 - r > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When the tokens of a run came, in seconds from its start.

    Attributes:
        times: for each emitted token.
        first: time to the first one, the prompt's reading included.
        between: mean time between tokens after the first burst.
        longest: longest wait between two bursts.
        plain: the target's measured pass over one row, None if the run holds none.
    """

    times: tuple[float, ...]
    first: float
    between: float | None
    longest: float | None
    plain: float | None


def arrivals(trace: Trace) -> Arrivals:
    clock, times, ends = 0.0, [], []
    for round in trace.rounds:
        clock += round.seconds
        ends.append(clock)
        times += [clock] * len(round.committed)
    later = sum(len(r.committed) for r in trace.rounds[1:])
    waits = [b - a for a, b in pairwise(ends)]
    return Arrivals(
        tuple(times),
        ends[0] if ends else 0.0,
        (ends[-1] - ends[0]) / later if later else None,
        max(waits, default=None),
        worked.times(trace).single,
    )
