"""Block verification got wrong, as it is in public."""

from collections.abc import Sequence

import numpy as np

from specviz.decoding.block import ended, longest, weigh
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.verify import Verdict, residual


def ordinary_residual(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: Sequence[int],
    randomness: RoundRandomness,
) -> Verdict:
    """Keeps as it should and corrects from max(0, p − q), the token rule's residual."""
    prefixes = weigh(target_probs, draft_probs, draft_tokens)
    kept = longest(prefixes, randomness)
    if kept == len(draft_tokens):
        return Verdict(kept, "bonus", randomness.correct(target_probs[kept]), prefixes=prefixes)
    weights, empty = residual(target_probs[kept], draft_probs[kept])
    return Verdict(kept, "corrected", randomness.correct(weights), empty, prefixes)


def stops_early(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: Sequence[int],
    randomness: RoundRandomness,
) -> Verdict:
    """Stops at the first beginning that does not pass, although a longer one may."""
    prefixes = weigh(target_probs, draft_probs, draft_tokens)
    kept = 0
    while kept < len(prefixes) and randomness.accept(kept, prefixes[kept].passes, 1.0):
        kept += 1
    return ended(kept, target_probs, draft_probs, prefixes, randomness)


def token_by_token(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: Sequence[int],
    randomness: RoundRandomness,
) -> Verdict:
    """Accepts token by token with p/q and corrects from the block's residual."""
    prefixes = weigh(target_probs, draft_probs, draft_tokens)
    kept = 0
    for row, token in enumerate(draft_tokens):
        if not randomness.accept(row, float(target_probs[row, token]), float(draft_probs[row, token])):
            break
        kept += 1
    return ended(kept, target_probs, draft_probs, prefixes, randomness)
