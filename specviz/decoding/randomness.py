"""Three independent random streams, addressed by round and row.

Drafting, accepting and correcting each have a stream of their own. A uniform is a pure function of
(seed, stream, round, row): Philox is a counter-based generator, so nothing is consumed, a step that
was interrupted repeats with the same draws, and a different K leaves the other uniforms unchanged.

The engine asks for *decisions* (draw a token, accept or not), not for uniforms. Tests replace these
objects by a branching one that takes every decision both ways and adds up the probabilities.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

DRAFT, ACCEPT, CORRECT = range(3)
FEW = 64


class RoundRandomness(Protocol):
    """The draws of one round. `draft_us`, `accept_us` and `correct_u` are what the trace records."""

    def draft(self, row: int, weights: np.ndarray) -> int:
        """Draw the token of draft row `row` from weights (V,), nonnegative, not all zero."""

    def accept(self, row: int, p: float, q: float) -> bool:
        """True with probability min(1, p/q)."""

    def correct(self, weights: np.ndarray) -> int:
        """Draw the corrected or bonus token from weights (V,), nonnegative, not all zero."""

    def draft_u(self, row: int) -> float | None: ...

    def accept_u(self, row: int) -> float | None: ...

    def correct_u(self) -> float | None: ...


class Randomness(Protocol):
    def round(self, number: int) -> RoundRandomness:
        """The draws of round `number` (1 for the first)."""


class SeededRandomness:
    """The streams of a run, determined by `seed` (0 <= seed < 2**64)."""

    def __init__(self, seed: int) -> None:
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must lie in 0 … 2**64 - 1, not {seed}")
        self.seed = seed

    def round(self, number: int) -> "SeededRound":
        return SeededRound(self.seed, number)


class SeededRound:
    """The uniforms of one round, each in [0, 1), made when first asked for."""

    def __init__(self, seed: int, number: int) -> None:
        self._seed = seed
        self._number = number
        self._uniforms: dict[int, np.ndarray] = {}

    def _uniform(self, stream: int, row: int) -> float:
        known = self._uniforms.get(stream)
        if known is None or row >= len(known):
            # The round is the counter's third word: 2**128 draws lie between two rounds.
            key = np.array([self._seed, stream], dtype=np.uint64)  # a list would round a large seed
            bits = np.random.Philox(key=key, counter=[0, 0, self._number, 0])
            known = np.random.Generator(bits).random(max(16, row + 1))
            self._uniforms[stream] = known
        return float(known[row])

    def draft(self, row: int, weights: np.ndarray) -> int:
        return inverse_cdf(weights, self.draft_u(row))

    def accept(self, row: int, p: float, q: float) -> bool:
        return accepts(self.accept_u(row), p, q)

    def correct(self, weights: np.ndarray) -> int:
        return inverse_cdf(weights, self.correct_u())

    def draft_u(self, row: int) -> float:
        return self._uniform(DRAFT, row)

    def accept_u(self, row: int) -> float:
        return self._uniform(ACCEPT, row)

    def correct_u(self) -> float:
        return self._uniform(CORRECT, 0)


class ChosenDrafts:
    """Stands in for a round's draws where a drafter's tokens are chosen and nothing is judged.

    Args:
        choose: the token of a draft row, from the row (from 0) and the weights (V,).
    """

    def __init__(self, choose: Callable[[int, np.ndarray], int]) -> None:
        self._choose = choose

    def draft(self, row: int, weights: np.ndarray) -> int:
        return self._choose(row, weights)

    def accept(self, row: int, p: float, q: float) -> bool:
        raise AssertionError("a drafter accepts nothing")

    def correct(self, weights: np.ndarray) -> int:
        raise AssertionError("a drafter corrects nothing")

    def draft_u(self, row: int) -> None:
        return None

    accept_u = draft_u

    def correct_u(self) -> None:
        return None


def accepts(u: float, p: float, q: float) -> bool:
    """The accept test: u < p/q without the division. Strict, so p = 0 rejects even at u = 0."""
    return u * q < p


def inverse_cdf(weights: np.ndarray, u: float) -> int:
    """The token at u on the cumulative weights, walked from the heaviest token to the lightest.

    Falling order (ties by lower id) is as exact as any other, and lets a trace that keeps only the
    leading tokens tell which one a uniform selects.

    Args:
        weights: (V,) nonnegative float64, not all zero, not necessarily normalised.
        u: in [0, 1).

    Returns:
        A token whose weight is positive.

    Raises:
        ValueError: if the weights have no mass or are not finite.
    """
    total = weights.sum()
    if not 0.0 < total < np.inf:
        raise ValueError(f"cannot draw from weights that sum to {total}")
    goal = u * total
    ids = heaviest(weights, FEW)
    cumulative = np.cumsum(weights[ids])
    if goal < cumulative[-1]:  # most draws fall on few tokens
        return int(ids[np.searchsorted(cumulative, goal, side="right")])
    return _far_down(weights, goal, total / len(weights))


def _far_down(weights: np.ndarray, goal: float, mean: float) -> int:
    """The token at `goal` on the cumulative weights, of the few far above the mean where that is enough.

    Sorting the values alone is many times faster than sorting the ids with them, and one value leads to its
    token: of equal ones the lower id stands first.
    """
    for floor in (8.0 * mean, mean, 0.0):
        rising = np.sort(weights[weights > floor])
        sums = np.cumsum(rising[::-1])
        if len(sums) and goal < sums[-1]:
            break
    # Rounding may leave the last sum at or below the goal: then it is the last token.
    place = min(int(np.searchsorted(sums, goal, side="right")), len(rising) - 1)
    value = rising[len(rising) - 1 - place]
    heavier = len(rising) - int(np.searchsorted(rising, value, side="right"))
    return int(np.flatnonzero(weights == value)[place - heavier])


def heaviest(weights: np.ndarray, count: int) -> np.ndarray:
    """Ids of the at most `count` largest positive weights, in falling order, ties by lower id."""
    blocks = 8 * count
    floor = 0.0
    if blocks < len(weights):
        # At least `count` weights reach the count-th largest of the blocks' maxima, so none of the
        # leading ones lies below it. (numpy's partition is slow on rows that are mostly zeros.)
        maxima = np.maximum.reduceat(weights, np.arange(0, len(weights), -(-len(weights) // blocks)))
        floor = np.sort(maxima)[-count]
    ids = np.flatnonzero(weights >= floor if floor > 0.0 else weights > 0.0)
    return ids[np.argsort(-weights[ids], kind="stable")][:count]
