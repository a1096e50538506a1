"""The pieces that wrong and lossy rules put in the place of the right ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.verify import Verdict, check_pair, residual, verify_block

# The first number of a generator that is seeded with 0 again and again.
RESEEDED = float(np.random.default_rng(0).random())


def correction_p(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, bool]:
    return np.asarray(p, dtype=np.float64), False


def correction_argmax(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, bool]:
    weights = np.zeros(len(p))
    weights[p.argmax()] = 1.0
    return weights, False


def correction_softmax(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, bool]:
    weights, empty = residual(p, q)
    return np.exp(weights), empty


def is_argmax(p: np.ndarray, x: Any) -> Any:
    return x == p.argmax()


def in_leading_set(p: np.ndarray, mass: float) -> np.ndarray:
    """(V,) bool: the smallest set of leading tokens with at least this mass, as top-p keeps."""
    ids = np.argsort(-p, kind="stable")
    inside = np.zeros(len(p), dtype=bool)
    inside[ids[0]] = True
    inside[ids[1:]] = np.cumsum(p[ids])[:-1] < mass  # what lies before a token is not enough
    return inside


def typical(p: np.ndarray, epsilon: float, delta: float) -> float:
    """Medusa's threshold min(ε, δ·exp(-H)), H the entropy of p in nats (arXiv 2401.10774)."""
    held = p[p > 0.0]
    return min(epsilon, delta * float(np.exp((held * np.log(held)).sum())))


def row_before(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: Sequence[int],
    randomness: RoundRandomness,
) -> Verdict:
    """Judges token i by row i - 1. Its own q stands in for the row that the first token lacks."""
    if not draft_tokens:
        return verify_block(target_probs, draft_probs, draft_tokens, randomness)
    shifted = np.concatenate([draft_probs[:1], target_probs[:-1]])
    return verify_block(shifted, draft_probs, draft_tokens, randomness)


def last_rejection_counts(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    draft_tokens: Sequence[int],
    randomness: RoundRandomness,
) -> Verdict:
    """The exact rule in a loop that nobody leaves: a later rejection replaces an earlier one."""
    refused = None
    for row, token in enumerate(draft_tokens):
        p, q = float(target_probs[row, token]), float(draft_probs[row, token])
        check_pair(row, p, q)
        if not randomness.accept(row, p, q):
            refused = row
    if refused is None:
        return Verdict(len(draft_tokens), "bonus", randomness.correct(target_probs[len(draft_tokens)]))
    weights, empty = residual(target_probs[refused], draft_probs[refused])
    return Verdict(refused, "corrected", randomness.correct(weights), empty)
