"""What every drafter offers the engine: `propose` and `observe`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specviz.decoding.cache import Cache
from specviz.decoding.features import Features
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.sampling import Effective, NonFiniteLogits, SamplingConfig, Scorer
from specviz.decoding.trace import ModelInfo


class DraftUnavailable(ValueError):
    """The pair does not have what this kind of drafter needs."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft block of K tokens. K may be smaller than asked for, and 0.

    In a run on a device tokens and rows are tensors there; see `specviz.decoding.device`.

    Attributes:
        tokens: the drawn tokens.
        probs: (K, V) float64, row i the distribution that token i was really drawn from, after the
            draft's own controls; one-hot for a deterministic drafter.
        logits: (K, V) raw logits, or None for a drafter without any.
        removed: (K, V) uint8 codes as in `sampling.REMOVED`, or None.
        logsumexp: (K,) log normalisers, or None.
        log_probs: K rows (V,) as in `sampling.Effective`, or None.
        drawn: False if the tokens were chosen without a random draw.
    """

    tokens: list[int]
    probs: np.ndarray
    logits: np.ndarray | None = None
    removed: np.ndarray | None = None
    logsumexp: np.ndarray | None = None
    log_probs: Sequence[np.ndarray] | None = None
    drawn: bool = True


class Drafter(Protocol):
    """Proposes tokens; is told what was committed.

    A drafter may stop a block early only by looking at a distribution before it draws from it, or after
    keeping the token it drew: dropping a drawn token because its own q was low biases the output.

    Attributes:
        kind: its name in traces and on the command line, with settings that are not the default ones.
        info: the model that drafts; None for a drafter without one.
        cache: the drafter's own cache, None if it has none.
        context_length: most committed tokens it can work from; None if unlimited.
        keeps_drafts: True if what the cache holds of drafted tokens is right once they are accepted.
        wants_features: which of the target's hidden states `observe` needs, False for none.
    """

    kind: str
    info: ModelInfo | None
    cache: Cache | None
    context_length: int | None
    keeps_drafts: bool
    wants_features: Features

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


class Block:
    """A draft block in the making: each row's q from logits, and a token drawn from it.

    Args:
        prefix: the committed tokens.
        sampling: the draft's controls.
        available: ids that the draft can propose, None for all.
        randomness: of this round.
        score: from logits to q.
    """

    def __init__(
        self,
        prefix: Sequence[int],
        sampling: SamplingConfig,
        available: np.ndarray | None,
        randomness: RoundRandomness,
        score: Scorer,
    ) -> None:
        self.prefix = prefix
        self.sampling = sampling
        self.available = available
        self.randomness = randomness
        self.score = score
        self.tokens: list[int] = []
        self.logits: list[np.ndarray] = []
        self.rows: list[Effective] = []

    def draw(self, logits: np.ndarray) -> int:
        """Draw the next token from logits (1, V).

        Raises:
            NonFiniteLogits: naming the row within the block.
            NothingLeft: if the draft's controls leave it no token. The block ends before this row, which is
                known before anything is drawn: that biases nothing.
        """
        row = len(self.tokens)
        try:
            prefix = [*self.prefix, *self.tokens]
            effective = self.score(logits, [prefix], self.sampling, self.available)
        except NonFiniteLogits as error:
            raise NonFiniteLogits(row, error.value) from None
        token = self.randomness.draft(row, effective.probs[0])
        self.tokens.append(token)
        self.logits.append(logits)
        self.rows.append(effective)
        return token

    def proposal(self) -> Proposal:
        """The block of at least one token."""
        removed = [row.removed for row in self.rows if row.removed is not None]
        log_probs = [row.log_probs[0] for row in self.rows if row.log_probs is not None]
        return Proposal(
            tokens=self.tokens,
            probs=_joined([row.probs for row in self.rows]),
            logits=_joined(self.logits),
            removed=_joined(removed) if removed else None,
            logsumexp=_joined([row.logsumexp for row in self.rows]),
            log_probs=log_probs or None,
            drawn=not self.sampling.greedy,
        )


def _joined(rows: Sequence[Any]) -> Any:
    """Arrays, or tensors of a run on a device, one behind the other."""
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows)
    import torch

    with torch.inference_mode():
        return torch.cat(list(rows))


def empty_proposal(vocab_size: int) -> Proposal:
    return Proposal([], np.zeros((0, vocab_size)))


def one_hot(tokens: Sequence[int], vocab_size: int) -> np.ndarray:
    """(K, V) float64 rows with a single 1: q of a deterministic drafter."""
    rows = np.zeros((len(tokens), vocab_size))
    rows[np.arange(len(tokens)), list(tokens)] = 1.0
    return rows
