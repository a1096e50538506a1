"""What comes out at one position under a rule, for small distributions. Float64.

The exact rule gives the target's distribution; the others say what a common slip does instead. The sums over
all outcomes are those of `specviz.decoding.faults.output`.
"""

import numpy as np

from specviz.decoding.faults import EXACT, Hand, Rule, output
from specviz.decoding.verify import residual


def overlap(p: np.ndarray, q: np.ndarray) -> float:
    """β = Σ min(p, q), the probability that a token drawn from q is accepted; 1 − TV(p, q)."""
    return float(np.minimum(p, q).sum())


def tv(p: np.ndarray, q: np.ndarray) -> float:
    """Total variation distance, half the sum of |p − q|."""
    return float(np.abs(np.subtract(p, q)).sum() / 2)


def residual_law(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """max(0, p − q), scaled to sum to 1; p itself where the two are equal."""
    weights, _ = residual(p, q)
    return weights / weights.sum()


def softmax_of_residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The slip of feeding the residual to a softmax as if it were logits."""
    weights = np.exp(np.maximum(0.0, np.subtract(p, q)))
    return weights / weights.sum()


def output_law(
    p: np.ndarray, q: np.ndarray, drawn: np.ndarray | None = None, correction: np.ndarray | None = None
) -> np.ndarray:
    """The law of the token that comes out at one position.

    Args:
        p: (V,) the target's distribution.
        q: (V,) the draft's distribution as the verifier sees it.
        drawn: (V,) the distribution that the draft token is really drawn from; None for q.
        correction: (V,) what a refused token is replaced from; None for the residual.

    Returns:
        (V,) drawn·min(1, p/q), plus the refused mass shared out by `correction`.
    """
    rule = EXACT if correction is None else Rule(correction=lambda p, q: (correction, False))
    return output(rule, _hand(p, q, drawn)).law


def acceptance(p: np.ndarray, q: np.ndarray, drawn: np.ndarray | None = None) -> float:
    """The probability that the draft token is kept."""
    return output(EXACT, _hand(p, q, drawn)).acceptance


def _hand(p: np.ndarray, q: np.ndarray, drawn: np.ndarray | None) -> Hand:
    return Hand(*(np.asarray(x, dtype=np.float64) for x in (p, q, q if drawn is None else drawn)))


def match_rate(p: np.ndarray, q: np.ndarray) -> float:
    """Σ p·q: how often an independent draw from p equals the draft token (accept on match)."""
    return float(np.dot(p, q))


def one_hot_of_largest(q: np.ndarray) -> np.ndarray:
    """All mass on the largest entry, the first of equal ones."""
    return np.eye(len(q))[int(np.argmax(q))]


def top_k(law: np.ndarray, k: int) -> np.ndarray:
    """The k largest entries, scaled to sum to 1; entries equal to the k-th are kept as well."""
    kept = np.where(law >= np.sort(law)[-k], law, 0.0)
    return kept / kept.sum()


def in_turn(p: np.ndarray, q: np.ndarray, candidates: int) -> list[float]:
    """The probability that the first, second, … of several candidates drawn from q is the one accepted.

    They are judged one after the other, each against the same q; after each refusal p is replaced by the
    normalised residual (SpecInfer, EAGLE).
    """
    found, left, p = [], 1.0, np.asarray(p, dtype=np.float64)
    for _ in range(candidates):
        beta = overlap(p, q)
        found.append(left * beta)
        left *= 1.0 - beta
        p = residual_law(p, q)
    return found


def chosen(p: np.ndarray, q: np.ndarray, candidates: int) -> float:
    """The probability that one of the leading tokens of q is accepted, if they are chosen and not drawn."""
    return float(np.asarray(p)[np.argsort(-np.asarray(q), kind="stable")[:candidates]].sum())
