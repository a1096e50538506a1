"""Counts against a distribution, by a test that holds however often one looks.

Whoever presses "draw more" until a p-value is small finds one in the end. So this test bets instead, as the
evidence on the run does: under the bet the draws come from some distribution a near p, nobody knows which,
drawn from a Dirichlet with mean p and concentration κ. After counts n (N in total) the money is

    E = Γ(κ)/Γ(κ + N) · Π_x Γ(κ·p(x) + n(x)) / Γ(κ·p(x)) · p(x)^−n(x),

the ratio of two probabilities of the counts: under the bet and under p. One draw multiplies it by
(κ·p(x) + n(x)) / ((κ + N)·p(x)), which is 1 on average if the draw follows p, whatever came before. So E is
a nonnegative martingale with mean 1 and passes 1,000 with probability at most 1/1,000 at *any* of the looks
taken, planned or not (Ville 1939; Robbins 1970 for mixtures). A small κ bets on large differences, a large
one on small differences; the mean over several κ is a martingale too. No approximation is involved, so there
is no smallest expected count either.

Spending the error over a series of chi-square tests would serve as well if one knew how many looks there
will be, and holds only as nearly as small counts are chi-square. What the freedom costs in draws was
measured against one chi-square test at 1/1,000: as many to three times as many.
"""

from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy.special import gammaln, logsumexp, rel_entr

LEVEL = 0.001  # an honest series of draws raises the alarm at most this often
THRESHOLD = 1.0 / LEVEL
OWN_BINS = 127  # the likeliest tokens count each for itself, all others together
CONCENTRATIONS = 4.0 * 8.0 ** np.arange(9)
SERIES = 512  # simulated series of draws behind one estimate of the power
MOST_DRAWS = 10**11
CEILING = 700.0  # log evidence is cut here: beyond it exp overflows, and nobody needs more


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the counts say against the distribution.

    Attributes:
        log_evidence: natural logarithm of E; at most 700.
        impossible: draws of outcomes to which the distribution gives probability 0. One is enough.
    """

    log_evidence: float
    impossible: int

    @property
    def value(self) -> float:
        return exp(self.log_evidence)

    @property
    def alarm(self) -> bool:
        return self.impossible > 0 or self.log_evidence >= log(THRESHOLD)

    @property
    def words(self) -> str:
        """E for a sentence; far beyond the threshold its digits mean nothing."""
        if self.value >= 1e6:
            return "above a million"
        return f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:.2g}"


def evidence(counts: np.ndarray, law: np.ndarray) -> Evidence:
    """The evidence of counts (V,) against a distribution (V,) that sums to 1."""
    impossible = int(counts[law <= 0.0].sum())
    if impossible:
        return Evidence(CEILING, impossible)
    bins = _bins(law)
    logs = _log_evidence(np.bincount(bins, counts)[None], np.bincount(bins, law))
    return Evidence(min(CEILING, float(logs[0])), 0)


def draws_needed(law: np.ndarray, other: np.ndarray, power: float = 0.9) -> int | None:
    """Draws after which a look raises the alarm with probability `power`, if they come from `other` (V,)
    instead of `law` (V,); both sum to 1. None if more than 10¹¹ would be needed.

    Simulated: 512 series of draws for each number that is tried, from fixed seeds, so that the answer is
    always the same. Its power is within a few percent of the one asked for, except where a single draw makes
    more difference than that.
    """
    bins = _bins(law)
    a, b = np.bincount(bins, law), np.bincount(bins, other * (law > 0.0))
    forbidden = float(other[law <= 0.0].sum())
    if np.abs(a - b).max() == 0.0 and forbidden == 0.0:
        return None
    # In the last place those that p excludes: one is enough.
    chances = np.array([*b, forbidden])
    chances /= chances.sum()

    def power_at(n: int) -> float:
        counts = np.random.default_rng(0).multinomial(n, chances, SERIES)
        alarms = _log_evidence(counts[:, :-1], a) >= log(THRESHOLD)
        return float((alarms | (counts[:, -1] > 0)).mean())

    # No test of this level has this power with fewer: n·KL(other ‖ p) bounds the divergence of what it says.
    least = float(rel_entr([power, 1.0 - power], [LEVEL, 1.0 - LEVEL]).sum())
    apart = float(rel_entr(chances, [*a, 0.0]).sum())
    if apart * MOST_DRAWS < least:
        return None
    low, high = 0, max(1, int(least / apart))
    while power_at(high) < power:
        low, high = high, high * 2
        if high > MOST_DRAWS:
            return None
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= power else (middle, high)
    return high


def _bins(law: np.ndarray) -> np.ndarray:
    """(V,) bin of every outcome. They depend on the distribution alone, never on what was drawn."""
    own = np.argsort(-law, kind="stable")[:OWN_BINS]
    own = own[law[own] > 0.0]
    bins = np.full(len(law), len(own))
    bins[own] = np.arange(len(own))
    return bins


def _log_evidence(counts: np.ndarray, law: np.ndarray) -> np.ndarray:
    """(S,) natural logarithm of E for S series of counts (S, B) over bins with probabilities (B,)."""
    held = law > 0.0
    law, counts = law[held] / law[held].sum(), counts[:, held]
    total = counts.sum(axis=1)
    under_p = counts @ np.log(law)
    logs = []
    for concentration in CONCENTRATIONS:
        prior = concentration * law
        under_bet = (gammaln(prior + counts) - gammaln(prior)).sum(axis=1)
        logs.append(under_bet + gammaln(concentration) - gammaln(concentration + total) - under_p)
    mean: np.ndarray = logsumexp(logs, axis=0) - log(len(CONCENTRATIONS))
    return mean
