"""How far honest draws stray from their law: the total variation distance that chance alone gives."""

from dataclasses import dataclass

import numpy as np

HEAVY = 256
TRIALS = 1000


@dataclass(frozen=True, slots=True)
class Noise:
    """Total variation distance between a law and the shares of n honest draws from it.

    The mean is exact. The range comes from 1,000 simulated multinomials over the 256 heaviest tokens and
    the rest; the tokens of the rest, of which there may be many thousand, enter with their means,
    variances and their covariance with its count.

    Attributes:
        mean: expected distance.
        low, high: where 95% of honest runs of this length fall.
    """

    mean: float
    low: float
    high: float


def honest_noise(law: np.ndarray, n: int, seed: int = 0) -> Noise:
    """The noise of n draws from a law (V,) that sums to 1."""
    order = np.argsort(-law, kind="stable")
    heavy, light = law[order[:HEAVY]], law[order[HEAVY:]]
    light = light[light > 0.0]
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, [*heavy, max(0.0, 1.0 - heavy.sum())], TRIALS)
    sums = np.abs(counts[:, :-1] - n * heavy).sum(axis=1)
    mean = mean_absolute_deviation(heavy, n).sum()
    if len(light):
        deviation = mean_absolute_deviation(light, n)
        mean += deviation.sum()
        # Given how many draws fell behind the heavy tokens, the others' deviations are nearly normal.
        variance = n * light * (1.0 - light)
        together = _covariance_with_count(light, n, variance).sum() / variance.sum()
        left = (variance - deviation**2).sum() - together**2 * variance.sum()
        sums += deviation.sum() + together * (counts[:, -1] - n * light.sum())
        sums += rng.normal(0.0, np.sqrt(max(0.0, left)), TRIALS)
    low, high = np.quantile(sums, [0.025, 0.975]) / (2 * n)
    return Noise(float(mean / (2 * n)), float(low), float(high))


def _covariance_with_count(p: np.ndarray, n: int, variance: np.ndarray) -> np.ndarray:
    """Cov(|X − np|, X) for X binomial(n, p): exact where np < 1, as X is then below np only at 0. Above,
    X is nearly symmetric and the covariance nearly 0."""
    return np.where(n * p < 1.0, variance - 2 * (n * p) ** 2 * np.exp(n * np.log1p(-p)), 0.0)


def mean_absolute_deviation(p: np.ndarray, n: int) -> np.ndarray:
    """E|X − np| for X binomial(n, p), by de Moivre's formula 2(m+1)·C(n, m+1)·p^(m+1)·(1−p)^(n−m) with
    m the whole part of np."""
    from scipy.special import gammaln, xlog1py, xlogy

    m = np.minimum(np.floor(n * p), n - 1)
    choose = gammaln(n + 1) - gammaln(m + 2) - gammaln(n - m)
    return 2 * (m + 1) * np.exp(choose + xlogy(m + 1, p) + xlog1py(n - m, -p))
