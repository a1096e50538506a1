"""Pearson's chi-square test on merged bins: what everybody knows how to read, for one look at the counts.

The verdict of a check that is looked at again and again comes from `sequential`.
"""

from dataclasses import dataclass

import numpy as np

# Below this expected count a bin's statistic is no longer nearly chi-square distributed.
EXPECTED = 5.0
# An honest look falls below this p-value about once in a thousand times (up to twice as often, as small
# expected counts give the statistic a heavier tail); of twenty looks one falls below a twentieth of it.
ALARM = 0.001
ALARM_IN_SERIES = ALARM / 20


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """Counts compared with a distribution.

    Attributes:
        statistic: Σ (observed − expected)² / expected over the bins.
        degrees: bins − 1; 0 if everything falls into one bin, and then there is nothing to test.
        p_value: probability of a statistic at least this large under the distribution.
        bins: after merging.
        impossible: observations to which it gives probability 0. One is enough for p_value 0.
    """

    statistic: float
    degrees: int
    p_value: float
    bins: int
    impossible: int

    @property
    def ok(self) -> bool:
        """At a single look."""
        return self.p_value >= ALARM

    @property
    def p_words(self) -> str:
        """The p-value for a sentence; below 1e-12 its digits mean nothing."""
        return f"{self.p_value:.2g}" if self.p_value >= 1e-12 else "below 1e-12"


def merge(law: np.ndarray, n: float) -> np.ndarray:
    """(V,) bin of every outcome. Those with an expected count of 5 or more keep a bin of their own, the
    others share the last one; if even that is short, the lightest of the former joins it.

    The bins depend on the distribution and on n, never on what was observed.
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
    """Test counts (V,) against a distribution (V,) that sums to 1."""
    from scipy.stats import chisquare

    impossible = int(counts[law <= 0.0].sum())
    bins = merge(law, counts.sum())
    observed, expected = np.bincount(bins, counts), np.bincount(bins, law)
    if len(expected) == 1:
        return ChiSquare(0.0, 0, 0.0 if impossible else 1.0, 1, impossible)
    found = chisquare(observed, expected * (observed.sum() / expected.sum()))
    p_value = 0.0 if impossible else float(found.pvalue)
    return ChiSquare(float(found.statistic), len(expected) - 1, p_value, len(expected), impossible)


def same_law(counts: np.ndarray, others: np.ndarray) -> ChiSquare:
    """Test whether two sets of counts (V,), of outcomes in the same order, come from one distribution.

    Outcomes whose counts together expect fewer than 5 in either set are merged.
    """
    from scipy.stats import chi2_contingency

    n, m = counts.sum(), others.sum()
    bins = merge((counts + others) / (n + m), min(n, m))
    table = np.stack([np.bincount(bins, counts), np.bincount(bins, others)])
    if table.shape[1] == 1:
        return ChiSquare(0.0, 0, 1.0, 1, 0)
    found = chi2_contingency(table, correction=False)
    return ChiSquare(float(found.statistic), int(found.dof), float(found.pvalue), table.shape[1], 0)
