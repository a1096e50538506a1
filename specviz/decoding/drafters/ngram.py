"""Prompt lookup: propose what followed the last time the text ended like this.

The longest matching suffix wins, and among equal ones the most recent. The tokens are chosen, not
drawn, so q is one-hot and a token is accepted with probability p(x). As in transformers' prompt lookup
and vLLM's n-gram drafter, no model is involved.
"""

from collections.abc import Sequence
from typing import Any

from specviz.decoding.controls import permits
from specviz.decoding.drafters.base import Proposal, empty_proposal, one_hot
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs

SMALLEST, LARGEST = 1, 4


class NgramDrafter:
    """Matches suffixes of `largest` down to `smallest` tokens."""

    kind = "ngram"
    info = None
    wants_features = False
    keeps_drafts = True
    cache = None
    context_length = None

    def __init__(
        self,
        pair: Pair,
        sampling: SamplingConfig,
        score: Scorer = effective_probs,
        *,
        smallest: int = SMALLEST,
        largest: int = LARGEST,
    ) -> None:
        if not 1 <= smallest <= largest:
            raise ValueError(f"n-gram sizes must satisfy 1 ≤ smallest ≤ largest, not {smallest}, {largest}")
        if (smallest, largest) != (SMALLEST, LARGEST):
            self.kind = f"{self.kind}:{smallest}-{largest}"
        self.vocab_size = pair.vocab_size
        # Copying an end-of-text or a chat marker out of the prompt would end or derail the text.
        self.never = pair.special_ids | pair.eos_ids
        self.sampling = sampling
        self.smallest = smallest
        self.largest = largest

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        if k == 0:
            return empty_proposal(self.vocab_size)
        tokens = self._continuation(list(prefix), k)
        return Proposal(tokens, one_hot(tokens, self.vocab_size), drawn=False)

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        pass  # everything it knows is in the text

    @staticmethod
    def settings(text: str) -> dict[str, int]:
        """Of "2-5" in "ngram:2-5": sizes of the suffixes, in tokens."""
        smallest, _, largest = text.partition("-")
        return {"smallest": int(smallest), "largest": int(largest)}

    def _continuation(self, text: list[int], k: int) -> list[int]:
        """What followed the most recent earlier copy of the longest possible suffix, up to k tokens."""
        for size in range(min(self.largest, len(text) - 1), self.smallest - 1, -1):
            suffix = text[-size:]
            for start in range(len(text) - size - 1, -1, -1):
                if text[start : start + size] == suffix:
                    found = self._usable(text, text[start + size : start + size + k])
                    if found:
                        return found
        return []

    def _usable(self, text: list[int], tokens: list[int]) -> list[int]:
        """The tokens before the first that must not be copied, or that the draft's controls remove."""
        for i, token in enumerate(tokens):
            if token in self.never or not permits(self.sampling, [*text, *tokens[:i]], token):
                return tokens[:i]
        return tokens
