"""The rule of speculative sampling (Leviathan et al. 2023, algorithm 1; Chen et al. 2023).

One pure function. Everything else in SpecViz exists to feed it, to show it, or to test it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.trace import Outcome


class VerifyError(ValueError):
    """A distribution that cannot be judged. `model` is "draft" or "target", `row` counts from 0."""

    def __init__(self, model: str, row: int, problem: str) -> None:
        super().__init__(f"{model} model, position {row + 1}: {problem}")
        self.model = model
        self.row = row


@dataclass(frozen=True, slots=True)
class Prefix:
    """A beginning of a block, for a rule that judges whole beginnings; see `specviz.decoding.block`.

    Attributes:
        weight: r, the probability that it is kept, alone or with more, given its tokens.
        passes: h, what its uniform is compared with.
    """

    weight: float
    passes: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a block.

    Attributes:
        accepted: number of draft tokens kept, 0 … K.
        outcome: "corrected" after a rejection, "bonus" if all K were kept.
        token: the corrected or bonus token.
        residual_empty: True if rounding left no residual mass, so that the token came from p.
        prefixes: (K,) of a rule that judges whole beginnings of the block; () of one that does not.
    """

    accepted: int
    outcome: Outcome
    token: int
    residual_empty: bool = False
    prefixes: tuple[Prefix, ...] = ()


Verifier = Callable[[np.ndarray, np.ndarray, Sequence[int], RoundRandomness], Verdict]


def verify_block(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: Sequence[int],
    randomness: RoundRandomness,
) -> Verdict:
    """Judge a block of draft tokens so that what is committed follows the target's distribution.

    Args:
        target_probs: (K + 1, V) rows of p; row i is conditional on the draft tokens before i.
        draft_probs: (K, V) rows of q, the distributions that the tokens were really drawn from.
        draft_tokens: (K,) the drawn tokens.
        randomness: the draws of this round.

    Raises:
        VerifyError: if a drawn token has q = 0, or a probability is not finite.
    """
    for row, token in enumerate(draft_tokens):
        p, q = float(target_probs[row, token]), float(draft_probs[row, token])
        check_pair(row, p, q)
        if not randomness.accept(row, p, q):
            correction, empty = residual(target_probs[row], draft_probs[row])
            return Verdict(row, "corrected", randomness.correct(correction), empty)
    return Verdict(len(draft_tokens), "bonus", randomness.correct(target_probs[len(draft_tokens)]))


def verifier_name(verifier: Callable) -> str:
    """The name that a round records for the rule that judged it."""
    return "exact" if verifier is verify_block else verifier.__name__


def residual(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, bool]:
    """The weights max(0, p - q) (V,) in float64, not normalised, and whether rounding emptied them.

    Empty means that p and q agree to the last bit wherever p is larger; p itself is returned then.
    """
    weights = np.subtract(np.maximum(p, q), q, dtype=np.float64)
    if weights.any():
        return weights, False
    return np.asarray(p, dtype=np.float64), True


def check_pair(row: int, p: float, q: float) -> None:
    if not isfinite(p):
        raise VerifyError("target", row, f"the draft token's probability is {p}")
    if not isfinite(q):
        raise VerifyError("draft", row, f"the draft token's probability is {q}")
    if q <= 0.0:
        raise VerifyError("draft", row, f"drew a token to which it gives probability {q}")
