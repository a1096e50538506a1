"""Medusa heads (Cai et al. 2024, arXiv 2401.10774): one head a future position, no model of its own.

All heads look at the same hidden state: that of the last token the target was fed. The target's own
head has already given the token after it, so head i stands for the token i positions further. It does
not see the tokens in between. That costs acceptance, not exactness: q of row i is what token i was
really drawn from, and the exact rule judges it like any other.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from specviz.decoding.controls import NothingLeft
from specviz.decoding.drafters.base import Block, DraftUnavailable, Proposal, empty_proposal
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs
from specviz.decoding.tree import Tree


class MedusaDrafter:
    """Drafts one token a head at most. The first round drafts nothing: nothing has been fed yet."""

    kind = "medusa"
    wants_features = True
    keeps_drafts = True
    cache = None
    context_length = None

    def __init__(self, pair: Pair, sampling: SamplingConfig, score: Scorer = effective_probs) -> None:
        if pair.medusa is None:
            raise DraftUnavailable(
                f"there are no Medusa heads for {pair.info.name}; train some with "
                "`python -m specviz train-drafts --kind medusa`, or use another drafter"
            )
        self.heads = pair.medusa
        self.info = self.heads.info()
        self.vocab_size = pair.vocab_size
        self.sampling = sampling
        self.score = score
        self.feature: Any = None  # of the token before the last committed one

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        k = min(k, self.heads.count)
        if k == 0 or self.feature is None:
            return empty_proposal(self.vocab_size)
        block = Block(prefix, self.sampling, self.heads.available, randomness, self.score)
        logits = self.heads.forward(self.feature)
        with suppress(NothingLeft):
            for row in range(k):
                block.draw(logits[row : row + 1])
        return block.proposal() if block.tokens else empty_proposal(self.vocab_size)

    @property
    def available(self) -> np.ndarray | None:
        return self.heads.available

    def deepest(self, prefix: Sequence[int]) -> int:
        """Levels of a tree that it can draft: one a head, none before a feature is known."""
        return 0 if self.feature is None else self.heads.count

    def branch(self, prefix: Sequence[int], tree: Tree, level: Sequence[int]) -> np.ndarray:
        """Logits (n, V) behind the nodes of a level: the same for all, no head sees the tokens before it."""
        depth = len(tree.line(level[0]))
        return np.repeat(self.heads.forward(self.feature)[depth : depth + 1], len(level), axis=0)

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        # A failed round commits nothing: the feature is still that of the last token but one.
        if target_features is not None and len(target_features):
            self.feature = target_features[-1]
