"""Every number that a text mentions by name. Texts say «name» and get the figure computed here."""

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from specviz.lessons import cost, laws

# The worked example of all lessons and tests: three tokens, opposed opinions.
P = np.array([0.5, 0.3, 0.2])
Q = np.array([0.2, 0.3, 0.5])

# NVIDIA's data sheet for the H100 SXM: dense bfloat16 operations and bytes a second.
H100_OPERATIONS, H100_BYTES = 989e12, 3.35e12

PLACEHOLDER = re.compile("«([a-z0-9_]+)»")


def listed(values) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"


def draws_needed(law: np.ndarray, p: np.ndarray, power: float = 0.9, level: float = 0.05) -> float:
    """Draws from `law` with which a chi-square test against p rejects with this probability."""
    freedom = len(p) - 1
    edge = chi2.ppf(1 - level, freedom)
    noncentrality = brentq(lambda nc: ncx2.sf(edge, freedom, nc) - power, 0.1, 200.0)
    return float(noncentrality / ((law - p) ** 2 / p).sum())


@lru_cache(maxsize=1)
def facts() -> dict[str, str]:
    """Names and figures, as they stand in a sentence."""
    soft = laws.output_law(P, Q, drawn=laws.one_hot_of_largest(Q))
    from_p = laws.output_law(P, Q, correction=P)
    softmaxed = laws.output_law(P, Q, correction=laws.softmax_of_residual(P, Q))
    one_hot = laws.one_hot_of_largest(Q)
    tokens = {f"tokens_{k}": f"{cost.expected_tokens(0.7, k):.2f}" for k in (1, 2, 4, 8, 16)}
    ridge = H100_OPERATIONS / H100_BYTES
    return {
        "p": listed(P),
        "q": listed(Q),
        "beta": f"{laws.overlap(P, Q):.1f}",
        "tv": f"{laws.tv(P, Q):.1f}",
        "ratio_a": f"{P[0] / Q[0]:.1f}",
        "ratio_c": f"{P[2] / Q[2]:.1f}",
        "kept": listed(Q * np.minimum(1, P / Q)),
        "refused": f"{1 - laws.overlap(P, Q):.1f}",
        "residual": listed(np.maximum(0, P - Q)),
        "from_p": listed(from_p),
        "from_p_tv": f"{laws.tv(from_p, P):.2f}",
        "softmax_tv": f"{laws.tv(softmaxed, P):.3f}",
        "argmax_soft": listed(soft),
        "argmax_soft_tv": f"{laws.tv(soft, P):.1f}",
        "argmax_soft_rate": f"{laws.acceptance(P, Q, drawn=one_hot):.1f}",
        "argmax_hot": listed(laws.output_law(P, one_hot)),
        "argmax_hot_rate": f"{laws.overlap(P, one_hot):.1f}",
        "always_tv": f"{laws.tv(Q, P):.1f}",
        "match": f"{laws.match_rate(P, Q):.2f}",
        "flat_example": "0.7",
        "limit_7": f"{1 / (1 - 0.7):.2f}",
        "ridge": f"{ridge:.0f}",
        "ridge_rows": f"{ridge / cost.intensity(1, 2):.0f}",
        "best_k_6_05": str(cost.best_k(0.6, 0.05)),
        "best_k_7_05": str(cost.best_k(0.7, 0.05)),
        "best_k_8_05": str(cost.best_k(0.8, 0.05)),
        "best_k_6_10": str(cost.best_k(0.6, 0.1)),
        "best_k_8_10": str(cost.best_k(0.8, 0.1)),
        "gain_7_4_05": f"{cost.speedup(0.7, 4, 0.05):.2f}",
        "gain_7_8_05": f"{cost.speedup(0.7, 8, 0.05):.2f}",
        "gain_3_4_25": f"{cost.speedup(0.3, 4, 0.25):.2f}",
        "gain_7_4_05_v2": f"{cost.speedup(0.7, 4, 0.05, 2.5):.2f}",
        "even_4_10": f"{cost.break_even_alpha(4, 0.1):.2f}",
        "operations_7_4": f"{cost.operations_factor(0.7, 4, 0.1):.2f}",
        "survive_4": f"{0.7**4:.2f}",
        "discarded_7_4": f"{4 - (cost.expected_tokens(0.7, 4) - 1):.2f}",
        "discarded_7_16": f"{16 - (cost.expected_tokens(0.7, 16) - 1):.1f}",
        "mix_text": f"{cost.expected_tokens(5 / 6, 4):.2f}",
        "mix_judged": f"{cost.expected_tokens(4 / 5, 4):.2f}",
        "mix_drafted": f"{cost.expected_tokens(1 / 2, 4):.2f}",
        "draws_from_p": f"{draws_needed(from_p, P):.0f}",
        "draws_small": f"{round(draws_needed(P + (from_p - P) * 0.01 / laws.tv(from_p, P), P), -3):,.0f}",
        **tokens,
    }


def fill(text: str, known: Callable[[], dict[str, str]] = facts) -> str:
    """`text` with every «name» replaced.

    Raises:
        KeyError: if a name is not known.
    """
    return PLACEHOLDER.sub(lambda match: known()[match[1]], text)
