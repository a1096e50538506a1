"""Block verification: a second exact rule (Sun et al., ICLR 2025, arXiv 2403.10444, algorithm 2).

The token rule walks through the block and stops at the first refusal. Here every beginning of the block has
a chance of its own, and the longest one that passes is kept, so that a token that the target likes can make
up for an earlier one that it likes less. With r₀ = 1 and, for the beginning of i tokens,

    rᵢ = min(1, rᵢ₋₁ · p(xᵢ)/q(xᵢ)),   Zᵢ = Σₓ max(0, rᵢ·p(x) − q(x)) over the row behind it,
    hᵢ = Zᵢ / (Zᵢ + 1 − rᵢ), and h_K = r_K for the whole block,

τ is the largest i with uᵢ < hᵢ (0 if there is none): the *largest*, not the last before a failure. Behind
the τ kept tokens comes a draw from max(0, r_τ·p − q) of the next row, or from p behind a whole block.

Why it is exact: the beginning of i tokens is kept, alone or with more, with probability rᵢ given its tokens.
So the next token is drafted and kept with q·min(1, rᵢp/q) = min(rᵢp, q) and drawn with max(0, rᵢp − q),
together rᵢp: given that i tokens are kept, the next one follows p. That is why the test on the run, which
multiplies token by token, holds under this rule as it stands. On average it never keeps fewer tokens than
the token rule.
"""

from collections.abc import Sequence

import numpy as np

from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.verify import Prefix, Verdict, Verifier, check_pair, verify_block

BLOCK = "block"


def verify_whole_block(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: Sequence[int],
    randomness: RoundRandomness,
) -> Verdict:
    """Judge a block by block verification. Arguments, result and errors are those of `verify_block`."""
    prefixes = weigh(target_probs, draft_probs, draft_tokens)
    return ended(longest(prefixes, randomness), target_probs, draft_probs, prefixes, randomness)


verify_whole_block.__name__ = BLOCK  # what rounds record

# By name, the rules under which the output follows the target's distribution.
EXACT_RULES: dict[str, Verifier] = {"exact": verify_block, BLOCK: verify_whole_block}


def longest(prefixes: Sequence[Prefix], randomness: RoundRandomness) -> int:
    """How many tokens the longest beginning that passes has; every beginning is judged."""
    passing = [randomness.accept(row, prefix.passes, 1.0) for row, prefix in enumerate(prefixes)]
    return max((i for i, passes in enumerate(passing, 1) if passes), default=0)


def ended(
    kept: int,
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    prefixes: tuple[Prefix, ...],
    randomness: RoundRandomness,
) -> Verdict:
    """The verdict behind `kept` tokens: a draw from the scaled residual, or the bonus after a whole block."""
    if kept == len(prefixes):
        return Verdict(kept, "bonus", randomness.correct(target_probs[kept]), prefixes=prefixes)
    weights, empty = scaled_residual(target_probs[kept], draft_probs[kept], weight_of(prefixes, kept))
    return Verdict(kept, "corrected", randomness.correct(weights), empty, prefixes)


def weigh(
    target_probs: np.ndarray, draft_probs: np.ndarray, draft_tokens: Sequence[int]
) -> tuple[Prefix, ...]:
    """rᵢ and hᵢ of every beginning of the block, i = 1 … K.

    Raises:
        VerifyError: if a drawn token has q = 0, or a probability is not finite.
    """
    prefixes: list[Prefix] = []
    weight, last = 1.0, len(draft_tokens) - 1
    for row, token in enumerate(draft_tokens):
        p, q = float(target_probs[row, token]), float(draft_probs[row, token])
        check_pair(row, p, q)
        weight = min(1.0, weight * p / q)
        if row == last:
            prefixes.append(Prefix(weight, weight))
            continue
        left = float(np.maximum(weight * target_probs[row + 1] - draft_probs[row + 1], 0.0).sum())
        # Where p = q in the next row a full beginning is never the end: the next one is as full.
        prefixes.append(Prefix(weight, left / (left + 1.0 - weight) if left else 0.0))
    return tuple(prefixes)


def weight_of(prefixes: Sequence[Prefix], kept: int) -> float:
    """r of the beginning of `kept` tokens; 1 for none."""
    return prefixes[kept - 1].weight if kept else 1.0


def scaled_residual(p: np.ndarray, q: np.ndarray, weight: float) -> tuple[np.ndarray, bool]:
    """The weights max(0, r·p − q) (V,) in float64, not normalised, and whether rounding emptied them.

    If it did, p itself is returned.
    """
    weights = np.maximum(weight * np.asarray(p, dtype=np.float64) - q, 0.0)
    if weights.any():
        return weights, False
    return np.asarray(p, dtype=np.float64), True
