"""Look up first, draft where there is nothing to copy: suffix decoding in front of the pair's own draft.

A long match costs nothing and drafts a long block; without one the draft model (or EAGLE, where that is the
pair's draft) does its work. Which of the two proposes hangs on the committed text alone, so each round's q is
that of the one that proposed, and the rule is exact as ever.
"""

from collections.abc import Callable, Sequence
from typing import Any

from specviz.decoding.drafters.base import Drafter, Proposal
from specviz.decoding.drafters.suffix import SuffixDrafter
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs

SHORTEST = 2  # tokens of a match that is copied; a single token matches by chance


class CombinedDrafter:
    """Suffix decoding, and another drafter for the rounds in which it finds too little.

    Args:
        make: makes the other drafter, by its kind.
        second: its kind.

    Attributes:
        inner: the other drafter, which has the cache.
    """

    kind = "combined"

    def __init__(
        self,
        pair: Pair,
        sampling: SamplingConfig,
        score: Scorer = effective_probs,
        *,
        make: Callable[..., Drafter],
        second: str = "model",
    ) -> None:
        if second != "model":
            self.kind = f"{self.kind}:{second}"
        self.lookup = SuffixDrafter(pair, sampling, score)
        self.inner = make(second, pair, sampling, score)
        self.info = self.inner.info
        self.cache = self.inner.cache
        self.context_length = self.inner.context_length
        self.keeps_drafts = self.inner.keeps_drafts
        self.wants_features = self.inner.wants_features

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        copied = self.lookup.propose(prefix, k, randomness)
        if len(copied.tokens) >= min(SHORTEST, max(k, 1)):
            return copied
        return self.inner.propose(prefix, k, randomness)

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        self.inner.observe(committed, target_features)

    @staticmethod
    def settings(text: str) -> dict[str, Any]:
        """Of "eagle" in "combined:eagle": the kind of the other drafter."""
        if not text or text.startswith(CombinedDrafter.kind):
            raise ValueError
        return {"second": text}
