"""Parallel drafting: all K positions in one pass of the draft (PARD, An et al. 2025, arXiv 2504.18583).

Behind the text stand K - 1 gaps: a token that means "not known yet". The row of the last real token gives q
of the first draft token, the row of gap i that of token i + 1. No row has seen a drafted token, so q_i is a
marginal: what token i may be whatever stands before it. That costs acceptance, and a repetition of the last
real token is what a draft says that was not trained for gaps. It costs no exactness: token i was really drawn
from q_i, and the rule judges it like any other. (A penalty on repetition does look at the drafted tokens.)
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from specviz.decoding import cache as caches
from specviz.decoding.controls import NothingLeft
from specviz.decoding.drafters.base import Block, DraftUnavailable, Proposal, empty_proposal
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs


class ParallelDrafter:
    """Drafts with the pair's draft model, in one pass a block.

    Attributes:
        gap: the token that is fed for what is not known.
        trained: True if the draft says which token that is: it was trained for gaps then.
    """

    kind = "parallel"
    wants_features = False
    keeps_drafts = False

    def __init__(self, pair: Pair, sampling: SamplingConfig, score: Scorer = effective_probs) -> None:
        if pair.draft is None:
            raise DraftUnavailable(
                f"the pair {pair.info.name} has no draft model to draft in parallel with; load one, or use "
                "another drafter"
            )
        self.model = pair.draft
        self.info = pair.info.draft
        self.vocab_size = pair.vocab_size
        self.sampling = sampling
        self.score = score
        self.context_length = self.model.context_length
        self.cache = self.model.new_cache()
        named = getattr(self.model, "gap", None)
        self.trained = named is not None
        self.gap: int = min(pair.special_ids | pair.eos_ids, default=0) if named is None else named
        self.known = 0  # cached positions that hold the text, and no gap

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        if k == 0:
            return empty_proposal(self.vocab_size)
        block = Block(prefix, self.sampling, self.model.available, randomness, self.score)
        fed = [*prefix[caches.length(self.cache) :], *[self.gap] * (k - 1)]
        logits = self.model.forward(fed, self.cache, rows=k).logits
        self.known = len(prefix)
        with suppress(NothingLeft):
            for row in range(k):
                block.draw(logits[row : row + 1])
        return block.proposal() if block.tokens else empty_proposal(self.vocab_size)

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        # Gaps are no text, and one token is always left to feed: a block starts behind the last one.
        self.known = min(self.known, len(committed) - 1)
        caches.keep(self.cache, self.known)
