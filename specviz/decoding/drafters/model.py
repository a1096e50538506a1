"""A small language model as drafter: autoregressive, with a cache of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.drafters.base import DraftUnavailable, Proposal, empty_proposal
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.sampling import NonFiniteLogits, SamplingConfig, effective_probs


class ModelDrafter:
    kind = "model"
    wants_features = False

    def __init__(self, pair: Pair, sampling: SamplingConfig) -> None:
        if pair.draft is None:
            raise DraftUnavailable(
                f"the pair {pair.info.name} has no draft model; load one, or use another drafter"
            )
        self.model = pair.draft
        self.sampling = sampling
        self.vocab_size = pair.vocab_size
        self.context_length = self.model.context_length
        self.cache = self.model.new_cache()

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        if k == 0:
            return empty_proposal(self.vocab_size)
        tokens: list[int] = []
        rows, logits = [], []
        # After a full acceptance the last draft token was never fed, so two tokens are fed here; else one.
        fed = list(prefix[caches.length(self.cache) :])
        for row in range(k):
            raw = self.model.forward(fed, self.cache, rows=1).logits
            try:
                effective = effective_probs(raw, [[*prefix, *tokens]], self.sampling, self.model.available)
            except NonFiniteLogits as error:
                raise NonFiniteLogits(row, error.value) from None
            token = randomness.draft(row, effective.probs[0])
            tokens.append(token)
            rows.append(effective)
            logits.append(raw)
            fed = [token]
        removed = [row.removed for row in rows if row.removed is not None]
        return Proposal(
            tokens=tokens,
            probs=np.concatenate([row.probs for row in rows]),
            logits=np.concatenate(logits),
            removed=np.concatenate(removed) if removed else None,
            logsumexp=np.concatenate([row.logsumexp for row in rows]),
            drawn=not self.sampling.greedy,
        )

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        # The last committed token is new to the draft: it is fed when the next block begins.
        caches.keep(self.cache, len(committed) - 1)
