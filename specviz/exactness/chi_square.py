"""Pearson's chi-square test on merged bins, and how many draws it needs to see a difference."""

from dataclasses import dataclass
from math import ceil, log

import numpy as np

# Below this expected count a bin's statistic is no longer nearly chi-square distributed.
EXPECTED = 5.0
# A check raises the alarm below this p-value: an honest engine does so about once in a thousand looks
# (up to twice as often, as small expected counts give the statistic a heavier tail than chi-square).
ALARM = 0.001
# Looked at again and again, up to twenty times, it should still be about once in a thousand.
ALARM_IN_SERIES = ALARM / 20
MOST_DRAWS = 10**12


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """Counts compared with a law.

    Attributes:
        statistic: Σ (observed − expected)² / expected over the bins.
        degrees: bins − 1; 0 if everything falls into one bin, and then there is nothing to test.
        p_value: probability of a statistic at least this large under the law.
        bins: after merging.
        impossible: observations to which the law gives probability 0. One is enough for p_value 0.
    """

    statistic: float
    degrees: int
    p_value: float
    bins: int
    impossible: int

    @property
    def ok(self) -> bool:
        return self.p_value >= ALARM

    @property
    def p_words(self) -> str:
        """The p-value for a sentence; below 1e-12 its digits mean nothing."""
        return f"{self.p_value:.2g}" if self.p_value >= 1e-12 else "below 1e-12"


def merge(law: np.ndarray, n: float) -> np.ndarray:
    """(V,) bin of every outcome. Those with an expected count of 5 or more keep a bin of their own, the
    others share the last one; if even that is short, the lightest of the former joins it.

    The bins depend on the law and on n, never on what was observed.
    """
    own = np.flatnonzero(law * n >= EXPECTED)
    own = own[np.argsort(-law[own], kind="stable")]
    rest = law.sum() - law[own].sum()
    if len(own) and rest * n < EXPECTED:
        own = own[:-1]
    bins = np.full(len(law), len(own))
    bins[own] = np.arange(len(own))
    return bins


def goodness_of_fit(counts: np.ndarray, law: np.ndarray) -> ChiSquare:
    """Test counts (V,) against a law (V,) that sums to 1."""
    from scipy.stats import chi2

    n = int(counts.sum())
    impossible = int(counts[law <= 0.0].sum())
    bins = merge(law, n)
    observed = np.bincount(bins, counts)
    expected = np.bincount(bins, law) * n
    degrees = len(expected) - 1
    if degrees == 0:
        return ChiSquare(0.0, 0, 0.0 if impossible else 1.0, 1, impossible)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    p_value = 0.0 if impossible else float(chi2.sf(statistic, degrees))
    return ChiSquare(statistic, degrees, p_value, len(expected), impossible)


def same_law(counts: np.ndarray, others: np.ndarray) -> ChiSquare:
    """Test whether two sets of counts (V,), of outcomes in the same order, come from one law.

    Outcomes whose counts together expect fewer than 5 in either set are merged.
    """
    from scipy.stats import chi2

    n, m = counts.sum(), others.sum()
    pooled = (counts + others) / (n + m)
    bins = merge(pooled, min(n, m))
    a, b = np.bincount(bins, counts), np.bincount(bins, others)
    expected = np.bincount(bins, pooled)
    degrees = len(expected) - 1
    if degrees == 0:
        return ChiSquare(0.0, 0, 1.0, 1, 0)
    statistic = float((((a - expected * n) ** 2 / n + (b - expected * m) ** 2 / m) / expected).sum())
    return ChiSquare(statistic, degrees, float(chi2.sf(statistic, degrees)), len(expected), 0)


def draws_needed(law: np.ndarray, other: np.ndarray, power: float = 0.9) -> int | None:
    """Fewest draws after which the test raises the alarm with probability `power`, if they come from
    `other` (V,) instead of `law` (V,). None if it never would.

    The statistic is then noncentral chi-square, with noncentrality n·Σ (other − law)² / law over the
    bins. Draws that the law excludes give the alarm at once.
    """
    forbidden = float(other[law <= 0.0].sum())
    by_support = None
    if forbidden > 0.0:
        by_support = 1 if forbidden >= 1.0 else ceil(log(1.0 - power) / np.log1p(-forbidden))
    low, high = 0, 16
    while _power(law, other, high) < power:
        low, high = high, high * 2
        if high > MOST_DRAWS:
            return by_support
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if _power(law, other, middle) >= power else (middle, high)
    return high if by_support is None else min(high, by_support)


def _power(law: np.ndarray, other: np.ndarray, n: int) -> float:
    from scipy.stats import chi2, ncx2

    bins = merge(law, n)
    a, b = np.bincount(bins, law), np.bincount(bins, other)
    degrees = len(a) - 1
    if degrees == 0:
        return 0.0
    noncentrality = n * float(((a - b) ** 2 / a).sum())
    if noncentrality == 0.0:
        return ALARM
    return float(ncx2.sf(chi2.isf(ALARM, degrees), degrees, noncentrality))
