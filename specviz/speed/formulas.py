"""What speculation gains and costs, in closed form and from measured figures.

c is one draft step over one plain target step, v is one target pass over K + 1 rows over one over a single
row. α is the probability that a judged draft token is accepted, the same and independent at every position;
measured per-position rates need no such assumption. Formulas: Leviathan et al. 2023, section 3, and sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from scipy.special import lambertw


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


def best_k_real(alpha: float, c: float) -> float:
    """Where the speed-up at v = 1 is largest if K may be any real number, for 0 < alpha < 1 and c > 0.

    Setting the derivative to zero gives s·exp(−s) = exp(−1 − L·(1/c − 1)) with L = −ln α and
    s = 1 + L·(K + 1/c), which the lower branch of Lambert's function solves.
    """
    fall = -log(alpha)
    s = -float(lambertw(-exp(-1.0 - fall * (1.0 / c - 1.0)), -1).real)
    return (s - 1.0) / fall - 1.0 / c


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


@dataclass(frozen=True, slots=True)
class Machine:
    """Peak operations a second in the model's dtype, bytes read a second, bytes of memory."""

    name: str
    operations: float
    bandwidth: float
    memory: float


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pass of a dense transformer costs depends on.

    Attributes:
        weights: number of parameters.
        bytes_per_weight: of weights and cache alike.
        layers, width: of the attention that reads the cache.
        cache_width: width of keys (and of values) in the cache; smaller than `width` if heads share them.
    """

    name: str
    weights: float
    bytes_per_weight: float
    layers: int
    width: int
    cache_width: int

    @property
    def cache_bytes(self) -> float:
        """Bytes of keys and values that one token adds to the cache."""
        return 2.0 * self.layers * self.cache_width * self.bytes_per_weight


# NVIDIA's specification of the H100 SXM (dense bfloat16), and the configuration of Llama-3.1-8B.
H100 = Machine("H100 SXM", 989e12, 3.35e12, 80e9)
LLAMA_8B = Shape("Llama-3.1-8B, bfloat16", 8.03e9, 2.0, 32, 4096, 1024)


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass by the roofline. Times in seconds; `seconds` is the larger one, a floor for what is measured."""

    weight_bytes: float
    cache_bytes: float
    reading: float
    computing: float

    @property
    def seconds(self) -> float:
        return max(self.reading, self.computing)


def roofline(shape: Shape, machine: Machine, batch: int, context: int, rows: int) -> Pass:
    """One pass of `batch` requests with `context` cached tokens each and `rows` new rows each."""
    weights = shape.weights * shape.bytes_per_weight
    cache = batch * context * shape.cache_bytes
    new = batch * rows
    operations = 2.0 * shape.weights * new + 4.0 * shape.width * shape.layers * context * new
    return Pass(weights, cache, (weights + cache) / machine.bandwidth, operations / machine.operations)


def roofline_v(shape: Shape, machine: Machine, batch: int, context: int, rows: int) -> float:
    """v: the pass over `rows` rows of each request over that over one."""
    many, one = (roofline(shape, machine, batch, context, n).seconds for n in (rows, 1))
    return many / one
