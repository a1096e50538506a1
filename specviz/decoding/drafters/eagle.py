"""EAGLE-style drafting (Li et al. 2024, arXiv 2401.15077): predict the target's next feature.

A feature is the target's last hidden state after its final norm; EAGLE-3 (Li et al. 2025, arXiv 2503.01840)
takes three from inside the target. One decoder layer sees, at each position, a token and the feature of the
token before, and predicts this token's feature; a head turns that into q. Within a block it runs on its own
features. After each round the target's real ones are known, so the positions made from its own are cut and
made again.

The original verifies a tree of greedy drafts; this is a chain, or a tree, of sampled ones under the exact
rule.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.controls import NothingLeft
from specviz.decoding.drafters.base import Block, DraftUnavailable, Proposal, empty_proposal
from specviz.decoding.protocols import EagleModel, Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.ranges import MAX_K
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs
from specviz.decoding.tree import ROOT, Tree, places


class EagleDrafter:
    """Drafts autoregressively on features. The first round drafts nothing: no feature is known yet."""

    kind = "eagle"
    keeps_drafts = False

    def __init__(self, pair: Pair, sampling: SamplingConfig, score: Scorer = effective_probs) -> None:
        self.model = self._model(pair)
        self.wants_features = self.model.reads
        self.info = self.model.info()
        self.vocab_size = pair.vocab_size
        self.sampling = sampling
        self.score = score
        self.context_length = self.model.context_length
        self.cache = self.model.new_cache()
        self.exact = 0  # cached positions that were made from the target's features
        self.predicted: dict[int, Any] = {}  # behind the nodes of a tree
        self.features: list[Any] = []  # the target's, of all committed tokens but the last

    @staticmethod
    def _model(pair: Pair) -> EagleModel:
        if pair.eagle is None:
            raise DraftUnavailable(
                f"there is no EAGLE draft for {pair.info.name}; train one with "
                "`python -m specviz train-drafts --kind eagle`, load a checkpoint as the draft, or use "
                "another drafter"
            )
        return pair.eagle

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        if k == 0 or not self.deepest(prefix):
            return empty_proposal(self.vocab_size)
        block = Block(prefix, self.sampling, self.model.available, randomness, self.score)
        fed, before = self._uncached(prefix)
        with suppress(NothingLeft):
            for row in range(k):
                output = self.model.forward(fed, before, self.cache)
                if row == 0:
                    self.exact = len(prefix)
                fed, before = [block.draw(output.logits)], [output.features]
        return block.proposal() if block.tokens else empty_proposal(self.vocab_size)

    def _uncached(self, prefix: Sequence[int]) -> tuple[list[int], list[Any]]:
        """The tokens that the cache lacks, and the feature before each."""
        first = caches.length(self.cache)
        places = range(first, len(prefix))
        return list(prefix[first:]), [self.features[i - 1] if i else self.model.no_feature for i in places]

    @property
    def available(self) -> np.ndarray | None:
        return self.model.available

    def deepest(self, prefix: Sequence[int]) -> int:
        """Levels of a tree that it can draft: none before it knows the features."""
        alone = len(prefix) == 1 and self.model.no_feature is None
        return 0 if alone or len(self.features) != len(prefix) - 1 else MAX_K

    def branch(self, prefix: Sequence[int], tree: Tree, level: Sequence[int]) -> np.ndarray:
        """Logits (n, V) behind the nodes of a tree's last level, each node made from what its parent's row
        predicted."""
        if level[0] == ROOT:
            output = self.model.forward(*self._uncached(prefix), self.cache)
            self.exact = len(prefix)
            self.predicted = {ROOT: output.features}
            return output.logits
        model: Any = self.model  # one that branches, or the run was refused
        fed = [tree.tokens[node] for node in level]
        before = [self.predicted[tree.parents[node]] for node in level]
        where = places(tree, level, len(prefix), caches.length(self.cache))
        output = model.forward_branching(fed, before, self.cache, where)
        self.predicted |= dict(zip(level, output.features, strict=True))
        return output.logits

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        # One position is always left to feed: a block starts with the prediction after the last token.
        self.exact = min(self.exact, len(committed) - 1)
        caches.keep(self.cache, self.exact)
        if target_features is not None:
            del self.features[len(committed) - 1 - len(target_features) :]
            self.features.extend(target_features)


class MtpDrafter(EagleDrafter):
    """Drafts with the module for multi-token prediction that a target brings along (DeepSeek-V3, arXiv
    2412.19437).

    Trained together with the target, it works as EAGLE does: token and hidden state in, next hidden state
    out. Used again on what it gave itself, one module drafts any number of tokens.
    """

    kind = "mtp"

    @staticmethod
    def _model(pair: Pair) -> EagleModel:
        if pair.mtp is None:
            raise DraftUnavailable(
                f"{pair.info.target.name} brings no module for multi-token prediction along; use another "
                "drafter"
            )
        return pair.mtp
