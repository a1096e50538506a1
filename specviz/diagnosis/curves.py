"""Acceptance by position in a block, both definitions, and what the shape of the curve points to."""

import itertools
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from specviz.diagnosis.walk import intervals

FEW = 20  # rounds below which a rate says little
DROP = 0.2  # of the conditional rate from one position to the next: a cliff
FALL = 0.08  # from the first to the last: a slow fall
FIRST = 0.1  # the first below the second: the first is the worst
LOW = 0.7  # conditional rate below which an even curve is low
Z = 1.96


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its 95% interval.

    Attributes:
        value, low, high: 0 … 1.
        count: what it is a share of.
    """

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Acceptance by position i = 1 … K.

    Attributes:
        unconditional: rounds with at least i accepted / rounds that drafted at least i.
        conditional: the same numerator / rounds with at least i − 1 accepted that drafted at least i.
        alpha: mean β, whose powers are what independence predicts; None where only sums are known.
    """

    unconditional: tuple[Rate, ...]
    conditional: tuple[Rate, ...]
    alpha: float | None = None

    def independent(self, i: int) -> float | None:
        """α^i."""
        return None if self.alpha is None else self.alpha**i


@dataclass(frozen=True, slots=True)
class Shape:
    """What a curve looks like.

    Attributes:
        key: "even", "cliff", "fall", "first", "rise", "few".
        title: in a few words.
        sentence: with its numbers, and the causes that are known for this shape.
    """

    key: str
    title: str
    sentence: str


def from_rounds(rounds: Any, alpha: float | None) -> Curve:
    """The curve of an audit, with intervals from resampled prompts.

    Args:
        rounds: the table of that name, as a pandas frame.
    """
    longest = int(rounds["k"].max()) if len(rounds) else 0
    prompts = rounds["prompt"].unique()
    row_of = {prompt: row for row, prompt in enumerate(prompts)}
    at = rounds["prompt"].map(row_of).to_numpy()
    k, accepted = rounds["k"].to_numpy(), rounds["accepted"].to_numpy()
    places = np.arange(1, longest + 1)
    tried = k[:, None] >= places
    reached = tried & (accepted[:, None] >= places)
    eligible = tried & (accepted[:, None] >= places - 1)

    def per_prompt(flags: np.ndarray) -> np.ndarray:
        sums = np.zeros((len(prompts), longest))
        np.add.at(sums, at, flags)
        return sums

    sums = [per_prompt(flags) for flags in (reached, tried, eligible)]
    drawn = intervals(np.concatenate(sums, axis=1)) if len(prompts) else np.zeros((1, 3 * longest))
    a, b, c = np.split(drawn, 3, axis=1)
    totals = [s.sum(axis=0) for s in sums]
    return Curve(
        tuple(_resampled(totals[0][i], totals[1][i], a[:, i], b[:, i]) for i in range(longest)),
        tuple(_resampled(totals[0][i], totals[2][i], a[:, i], c[:, i]) for i in range(longest)),
        alpha,
    )


def from_counts(reached: tuple[float, ...], rounds: float, drafted: tuple[float, ...] | None = None) -> Curve:
    """The curve of an engine's sums, with binomial intervals (Wilson), which take the rounds for independent.

    Args:
        reached: rounds with at least i accepted.
        rounds: all rounds.
        drafted: rounds that drafted at least i; all of them if not known.
    """
    tried = drafted or (rounds,) * len(reached)
    before = (rounds, *reached[:-1])
    eligible = tuple(min(a, b) for a, b in zip(before, tried, strict=True))
    return Curve(
        tuple(wilson(a, b) for a, b in zip(reached, tried, strict=True)),
        tuple(wilson(a, b) for a, b in zip(reached, eligible, strict=True)),
    )


def wilson(hits: float, count: float) -> Rate:
    """A share and its 95% score interval (Wilson 1927)."""
    if count <= 0:
        return Rate(float("nan"), 0.0, 1.0, 0)
    share = hits / count
    centre = (share + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z / (1 + Z * Z / count) * sqrt(max(0.0, share * (1 - share)) / count + Z * Z / (4 * count * count))
    return Rate(share, max(0.0, centre - half), min(1.0, centre + half), round(count))


def _resampled(hits: float, count: float, a: np.ndarray, b: np.ndarray) -> Rate:
    if count <= 0:
        return Rate(float("nan"), 0.0, 1.0, 0)
    plain = wilson(hits, count)
    usable = b > 0
    if not usable.any():  # a single prompt
        return Rate(hits / count, plain.low, plain.high, round(count))
    low, high = np.percentile(a[usable] / b[usable], [2.5, 97.5])
    # Few prompts resampled give too narrow an interval: never narrower than the binomial one.
    return Rate(hits / count, min(float(low), plain.low), max(float(high), plain.high), round(count))


def shape(curve: Curve) -> Shape:
    """The shape of the conditional rates, by stated thresholds, told apart only where intervals are apart."""
    rates = [rate for rate in curve.conditional if rate.count >= FEW]
    if len(rates) < 2:
        return Shape("few", "Too little to tell", _few(curve))
    drops = [(a.value - b.value, i) for i, (a, b) in enumerate(itertools.pairwise(rates), 2)]
    drop, at = max(drops)
    first, last = rates[0], rates[-1]
    shown = " ".join(_short(rate.value) for rate in rates)
    if rates[1].value - first.value >= FIRST and first.high < rates[1].low:
        return Shape(
            "first",
            "The first token is the worst",
            f"Once the first is accepted the others follow easily ({shown}). Known causes: the draft reads "
            "another prompt or template than the target, or its first position is stale (features or cache "
            "after a bonus).",
        )
    if drop >= DROP and rates[at - 2].low > rates[at - 1].high and drop >= 0.6 * (first.value - last.value):
        return Shape(
            "cliff",
            f"Cliff at {at}",
            f"Conditional rates {shown}: position {at} falls off while the one before holds. A weak "
            "draft would "
            "be even. Known causes: a wrong position or cache entry of the draft from there on, an attention "
            "window, or heads trained for fewer positions.",
        )
    if first.value - last.value >= FALL and first.low > last.high:
        return Shape(
            "fall",
            "Slow fall",
            f"Conditional rates {shown}: each further draft is less likely to be kept. Known causes: a draft "
            "that works on its own features or predicts several tokens at once, and drifts. A lower K loses "
            "little.",
        )
    if last.value - first.value >= FALL and first.high < last.low:
        return Shape(
            "rise",
            "Rising",
            f"Conditional rates {shown}: where the first is right the next ones tend to be, too. That "
            "is usual: "
            "easy stretches of text come in runs. It favours a longer K there.",
        )
    level = sum(rate.value * rate.count for rate in rates) / sum(rate.count for rate in rates)
    if level < LOW:
        return Shape(
            "even",
            "Even and low",
            f"Conditional rates {shown}: the draft is weak everywhere, and equally so. That is what a weak "
            "draft looks like, or one with other sampling controls; a fault of caches or positions "
            "would show "
            "as a cliff.",
        )
    return Shape(
        "even",
        "Even and high",
        f"Conditional rates {shown}: no position stands out. A longer K may pay.",
    )


def _few(curve: Curve) -> str:
    counts = ", ".join(str(rate.count) for rate in curve.conditional[:4]) or "none"
    return f"A shape needs two positions with {FEW} rounds or more; there are {counts}."


def _short(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
