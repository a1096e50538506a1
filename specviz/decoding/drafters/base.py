"""What every drafter offers the engine: `propose` and `observe`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specviz.decoding.cache import Cache
from specviz.decoding.randomness import RoundRandomness


class DraftUnavailable(ValueError):
    """The pair does not have what this kind of drafter needs."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft block of K tokens. K may be smaller than asked for, and 0.

    Attributes:
        tokens: the drawn tokens.
        probs: (K, V) float64, row i the distribution that token i was really drawn from, after the
            draft's own controls; one-hot for a deterministic drafter.
        logits: (K, V) raw logits, or None for a drafter without any.
        removed: (K, V) uint8 codes as in `sampling.REMOVED`, or None.
        logsumexp: (K,) log normalisers, or None.
        drawn: False if the tokens were chosen without a random draw.
    """

    tokens: list[int]
    probs: np.ndarray
    logits: np.ndarray | None = None
    removed: np.ndarray | None = None
    logsumexp: np.ndarray | None = None
    drawn: bool = True


class Drafter(Protocol):
    """Proposes tokens; is told what was committed.

    A drafter may stop a block early only by looking at a distribution before it draws from it, or after
    keeping the token it drew: dropping a drawn token because its own q was low biases the output.

    Attributes:
        kind: its name in traces and on the command line.
        cache: the drafter's own cache, None if it has none.
        context_length: most committed tokens it can work from; None if unlimited.
        wants_features: True if `observe` needs the target's hidden states.
    """

    kind: str
    cache: Cache | None
    context_length: int | None
    wants_features: bool

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        """Draft at most `k` tokens to follow `prefix`, the committed tokens."""

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        """Take note of the committed tokens after a round, and cut whatever is not part of them.

        Args:
            committed: all committed tokens, prompt included. Also called after a failed or stopped
                round, with the tokens as they were before it.
            target_features: hidden states of the tokens that the target was fed in this round and that
                were committed, (fed, width); None if not asked for, or after a failed round.
        """


def empty_proposal(vocab_size: int) -> Proposal:
    return Proposal([], np.zeros((0, vocab_size)))


def one_hot(tokens: Sequence[int], vocab_size: int) -> np.ndarray:
    """(K, V) float64 rows with a single 1: q of a deterministic drafter."""
    rows = np.zeros((len(tokens), vocab_size))
    rows[np.arange(len(tokens)), list(tokens)] = 1.0
    return rows
