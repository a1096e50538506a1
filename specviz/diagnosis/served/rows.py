"""What leading log-probabilities say of a target's distribution, and between what they leave β and p(x).

A server gives the k likeliest tokens of a position with their log-probabilities at temperature 1, and perhaps
the text's own token. Of the others only two things are known: what they have together, and that none has more
than the k-th. With S = Σ min(p, q) over the known ones,

    S ≤ β ≤ S + min(what the others have under p, Σ min(most that one can have, q) over the others).

At another temperature the normaliser too lies between two values, those of the others spread evenly and of
few that have as much as they may: Σ pᵉ, e = 1/T, is convex in them for e > 1, concave for e < 1. Top-k, top-p
and min-p are applied where the leading tokens decide them, and widen the interval where they do not.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from specviz.decoding.sampling import SamplingConfig

TINY = 1e-30  # mass that stands for none
SPARE = 1e-3  # what a server's rounding may add to a sum of probabilities
ROUNDING = 1e-12  # of ours


@dataclass(frozen=True, slots=True)
class Row:
    """One position as a server gives it.

    Attributes:
        ids, logprobs: (m,) tokens that it names, the likeliest first, at temperature 1 without controls.
        leading: how many of these are the likeliest of all; the text's token may follow behind them.
        others: tokens that it does not name.
    """

    ids: np.ndarray
    logprobs: np.ndarray
    leading: int
    others: int

    @classmethod
    def of(cls, named: Iterable[tuple[int, float]], asked: int, available: np.ndarray) -> "Row":
        """A row of what a server named, in any order.

        Args:
            asked: how many likeliest tokens it was asked for.
            available: (V,) bool: ids that stand for a token. Others are left out: padding.

        Raises:
            ValueError: for numbers that are no log-probabilities of one distribution.
        """
        found: dict[int, float] = {}
        for token, logprob in named:
            if not logprob <= SPARE:  # NaN too
                raise ValueError(f"the server gives token {token} the log-probability {logprob}")
            if 0 <= token < len(available) and available[token]:
                found[token] = min(0.0, max(float(logprob), np.log(TINY)))
        if not found:
            raise ValueError("the server names no token of this vocabulary at a position")
        ids = np.fromiter(found, dtype=np.int64)
        logprobs = np.fromiter(found.values(), dtype=np.float64)
        order = np.lexsort((ids, -logprobs))
        together = float(np.exp(logprobs).sum())
        if together > 1.0 + SPARE:
            raise ValueError(f"the probabilities that the server gives add up to {together:.3f}")
        # Where fewer came than were asked for, the last may be the text's token.
        leading = asked if len(ids) >= asked else max(1, len(ids) - 1)
        return cls(ids[order], logprobs[order], leading, int(available.sum()) - len(ids))

    @property
    def rest(self) -> float:
        """What the others have together, at temperature 1."""
        return max(0.0, 1.0 - float(np.exp(self.logprobs).sum())) if self.others else 0.0

    @property
    def most(self) -> float:
        """The most that one of the others can have."""
        return min(self.rest, float(np.exp(self.logprobs[self.leading - 1])))

    def scores(self, width: int) -> np.ndarray:
        """(V,) log-probabilities, those of the others spread evenly: one of the distributions it can be."""
        even = max(self.rest, TINY) / max(1, self.others)
        scores = np.full(width, np.log(even))
        scores[self.ids] = self.logprobs
        return scores


@dataclass(frozen=True, slots=True)
class Kept:
    """Weights after all controls, relative to the likeliest token's.

    Attributes:
        weights: (m,) of the tokens that the row names; 0 for those that a control takes.
        sure: (m,) bool: those that no control takes for certain. The others with a weight may be taken.
        low, high: between what the tokens that the row does not name are together.
        most: the most that one of them can have.
    """

    weights: np.ndarray
    sure: np.ndarray
    low: float
    high: float
    most: float

    @property
    def least_total(self) -> float:
        return float(self.weights[self.sure].sum()) + self.low

    @property
    def most_total(self) -> float:
        return float(self.weights.sum()) + self.high


def kept(row: Row, sampling: SamplingConfig) -> Kept:
    """What the controls leave, as far as the leading tokens say."""
    if sampling.greedy:
        first = np.arange(len(row.ids)) == 0  # the likeliest, the lowest id of equal ones
        return Kept(first.astype(float), first, 0.0, 0.0, 0.0)
    exponent = 1.0 / sampling.temperature
    weights = np.exp((row.logprobs - row.logprobs[0]) * exponent)
    most, (low, high) = _others(row, exponent)
    found = Kept(weights, np.ones(len(weights), dtype=bool), low, high, most)
    if sampling.top_k:
        found = _first(found, row, sampling.top_k)
    if sampling.top_p < 1.0:
        found = _nucleus(found, row, sampling.top_p)
    if sampling.min_p:
        likely = found.weights >= sampling.min_p
        others = 0.0 if found.most < sampling.min_p else found.high
        found = Kept(np.where(likely, found.weights, 0.0), found.sure & likely, 0.0, others, found.most)
    return found


def _others(row: Row, exponent: float) -> tuple[float, tuple[float, float]]:
    """The most weight that one of the others can have, and between what they are together."""
    if not row.others or not row.rest:
        return 0.0, (0.0, 0.0)
    first = float(np.exp(row.logprobs[0])) ** exponent
    even = row.others * (row.rest / row.others) ** exponent / first
    few = row.rest * row.most ** (exponent - 1.0) / first
    return row.most**exponent / first, (min(even, few), max(even, few))


def _first(before: Kept, row: Row, k: int) -> Kept:
    """Top-k, ties at its border included."""
    places = np.arange(len(before.weights))
    if row.others and k > row.leading:
        # Some of the others are among the k, and the text's own token behind the leading ones may be.
        return Kept(before.weights, places < row.leading, 0.0, before.high, before.most)
    border = before.weights[min(k, len(before.weights)) - 1]
    stays = before.weights >= border
    others = 0.0 if before.most < border else before.high
    return Kept(np.where(stays, before.weights, 0.0), stays, 0.0, others, before.most)


def _nucleus(before: Kept, row: Row, top_p: float) -> Kept:
    """Top-p: a token stays if the likelier ones have less than this share of all that is left.

    Of equal ones the first go first, as in `effective_probs`; with tokens that are not named it is open
    which.
    """
    weights = before.weights
    order = np.lexsort((-row.ids, -weights))
    at_most, at_least = np.empty_like(weights), np.empty_like(weights)
    at_most[order] = np.cumsum(weights[order]) - weights[order]
    certain = np.where(before.sure, weights, 0.0)
    at_least[order] = np.cumsum(certain[order]) - certain[order]
    sure = before.sure & (at_most < top_p * before.least_total - ROUNDING)
    possible = (weights > 0.0) & (at_least < top_p * before.most_total + ROUNDING)
    if row.others:
        sure &= np.arange(len(weights)) < row.leading
        cut = weights[(weights > 0.0) & ~sure].max(initial=before.most if before.high else 0.0)
        sure &= weights > cut
    heavier = float(weights[sure & (weights > before.most)].sum())
    others = before.high if heavier < top_p * before.most_total + ROUNDING else 0.0
    return Kept(np.where(possible, weights, 0.0), sure, 0.0, others, before.most)


def overlap(row: Row, q: np.ndarray, sampling: SamplingConfig) -> tuple[float, float]:
    """Between what β = Σ min(p, q) lies; both ends are equal where p is known.

    Args:
        q: (V,) the draft's distribution.
        sampling: the target's controls.
    """
    left, named = kept(row, sampling), q[row.ids]
    sure = left.weights[left.sure] / left.most_total
    low = float(np.minimum(sure, named[left.sure]).sum())
    least = max(left.least_total, 1.0)  # the likeliest always stays
    known = float(np.minimum(left.weights / least, named).sum())
    others = q.copy()
    others[row.ids] = 0.0
    offered = float(np.minimum(left.most / least, others).sum())
    return low, min(1.0, max(low, known + min(left.high / least, offered)))


def chance(row: Row, token: int, sampling: SamplingConfig) -> tuple[float, float]:
    """Between what p(token) lies."""
    left = kept(row, sampling)
    least = max(left.least_total, 1.0)
    place = np.flatnonzero(row.ids == token)
    if not len(place):
        return 0.0, min(1.0, min(left.most, left.high) / least)
    weight, sure = float(left.weights[place[0]]), bool(left.sure[place[0]])
    return (weight / left.most_total if sure else 0.0), min(1.0, weight / least)
