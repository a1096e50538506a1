"""A small language model as drafter: autoregressive, with a cache of its own."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.controls import NothingLeft
from specviz.decoding.drafters.base import Block, DraftUnavailable, Proposal, empty_proposal
from specviz.decoding.protocols import LanguageModel, Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.ranges import MAX_K
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs
from specviz.decoding.tree import ROOT, Tree, places


class LanguageModelDrafter:
    """Drafts with any language model, token by token."""

    wants_features = False
    keeps_drafts = True

    def __init__(
        self,
        model: LanguageModel,
        vocab_size: int,
        sampling: SamplingConfig,
        score: Scorer = effective_probs,
    ) -> None:
        self.model = model
        self.vocab_size = vocab_size
        self.sampling = sampling
        self.score = score
        self.context_length = model.context_length
        self.cache = model.new_cache()

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        if k == 0:
            return empty_proposal(self.vocab_size)
        block = Block(prefix, self.sampling, self.model.available, randomness, self.score)
        # After a full acceptance the last draft token was never fed, so two tokens are fed here; else one.
        fed = list(prefix[caches.length(self.cache) :])
        with suppress(NothingLeft):
            for _ in range(k):
                fed = [block.draw(self.model.forward(fed, self.cache, rows=1).logits)]
        return block.proposal() if block.tokens else empty_proposal(self.vocab_size)

    @property
    def available(self) -> np.ndarray | None:
        return self.model.available

    def deepest(self, prefix: Sequence[int]) -> int:
        """Levels of a tree that it can draft."""
        return MAX_K

    def branch(self, prefix: Sequence[int], tree: Tree, level: Sequence[int]) -> np.ndarray:
        """Logits (n, V) behind the nodes of a tree's last level, in one pass."""
        cached = caches.length(self.cache)
        if level[0] == ROOT:
            return self.model.forward(list(prefix[cached:]), self.cache, rows=1).logits
        where = places(tree, level, len(prefix), cached)
        model: Any = self.model  # one that branches, or the run was refused
        fed = [tree.tokens[node] for node in level]
        return model.forward_branching(fed, self.cache, where, len(fed)).logits

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        # The last committed token is new to the draft: it is fed when the next block begins.
        caches.keep(self.cache, len(committed) - 1)


class ModelDrafter(LanguageModelDrafter):
    """Drafts with the pair's draft model."""

    kind = "model"

    def __init__(self, pair: Pair, sampling: SamplingConfig, score: Scorer = effective_probs) -> None:
        if pair.draft is None:
            raise DraftUnavailable(
                f"the pair {pair.info.name} has no draft model; load one, or use another drafter"
            )
        super().__init__(pair.draft, pair.vocab_size, sampling, score)
        self.info = pair.info.draft
