"""What speculation gains and costs, in closed form and from measured figures.

c is one draft step over one plain target step, v is one target pass over K + 1 rows over one over a single
row. α is the probability that a judged draft token is accepted, the same and independent at every position;
measured per-position rates need no such assumption. Formulas: Leviathan et al. 2023, section 3, and sums.
"""

from collections.abc import Sequence


def expected_tokens(alpha: float, k: int) -> float:
    """Tokens a round under independence: 1 + α + … + α^K = (1 − α^(K+1)) / (1 − α); K + 1 at α = 1."""
    return float(sum(alpha**i for i in range(k + 1)))


def speedup(alpha: float, k: int, c: float, v: float = 1.0) -> float:
    """Tokens a round over its cost in plain target steps, K·c + v."""
    return expected_tokens(alpha, k) / (k * c + v)


def speedup_from_rates(rates: Sequence[float], c: float, v: float = 1.0) -> float:
    """The same from the measured rate of each position, (1 + Σ rᵢ) / (K·c + v)."""
    return (1.0 + sum(rates)) / (len(rates) * c + v)


def best_k(alpha: float, c: float, longest: int = 64) -> int:
    """The K in 0 … `longest` with the largest speed-up at v = 1; the smallest of equal ones."""
    return max(range(longest + 1), key=lambda k: (round(speedup(alpha, k, c), 12), -k))


def break_even_alpha(k: int, c: float, v: float = 1.0) -> float | None:
    """The α at which K drafts neither gain nor lose; None if even α = 1 does not pay for them."""
    cost = k * c + v
    if cost > k + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, k) < cost else (low, middle)
    return high


def operations_factor(alpha: float, k: int, draft_share: float) -> float:
    """Arithmetic per emitted token against plain decoding: (K·ĉ + K + 1) / expected tokens.

    `draft_share` ĉ is the draft's operations per token over the target's.
    """
    return (k * draft_share + k + 1) / expected_tokens(alpha, k)


def intensity(rows: int, bytes_per_weight: float) -> float:
    """Operations per byte of weights in one pass over `rows` rows: 2·rows / bytes per weight.

    Each weight is read once and used in one multiplication and one addition for every row. Reading the
    key-value cache comes on top and is not counted.
    """
    return 2.0 * rows / bytes_per_weight
