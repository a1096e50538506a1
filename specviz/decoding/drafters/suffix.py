"""Suffix decoding (Oliaro et al. 2024, arXiv 2411.04975): copy what most often followed the longest match.

The end of the text is looked up in all of it, prompt and answer so far, and in earlier answers. Of the places
with the longest match the most frequent continuation is proposed, token by token, as long as it stays likely
by those counts, and at most as many tokens as matched: a long match drafts a long block, no match none. The
tokens are chosen, not drawn, so q is one-hot. The limits are those of vLLM's "suffix" method. There the
places are kept in a suffix tree, which makes the look-up fast; here the text is scanned.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from specviz.decoding.controls import permits
from specviz.decoding.drafters.base import Proposal, empty_proposal, one_hot
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs

LONGEST = 24  # tokens of a match that are compared
LIKELY = 0.1  # a block ends where its share of the counted continuations falls below this
NOTHING = -1  # between texts: no token, so that no match reaches across


class SuffixDrafter:
    """Looks the end of the text up in the text and in earlier answers.

    Args:
        earlier: token ids of earlier answers. They are part of what determines a run; earlier turns of a chat
            are in its prompt already.
        longest: tokens of the longest match that is told from a longer one.
    """

    kind = "suffix"
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
        earlier: Sequence[Sequence[int]] = (),
        longest: int = LONGEST,
    ) -> None:
        if longest < 1:
            raise ValueError(f"a match has 1 token or more, not {longest}")
        if longest != LONGEST:
            self.kind = f"{self.kind}:{longest}"
        self.vocab_size = pair.vocab_size
        # As in prompt lookup: a copied end-of-text or chat marker would end or derail the text.
        self.never = pair.special_ids | pair.eos_ids
        self.sampling = sampling
        self.longest = longest
        self.earlier = [token for text in earlier for token in (*text, NOTHING)]

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        if k == 0:
            return empty_proposal(self.vocab_size)
        known = np.array([*self.earlier, *prefix])
        matched, places = self._match(known, min(self.longest, len(prefix)))
        tokens = self._continuation(known, places, min(k, matched))
        # What the draft's controls remove is where the block ends.
        fine = (permits(self.sampling, [*prefix, *tokens[:i]], token) for i, token in enumerate(tokens))
        tokens = tokens[: sum(takewhile(bool, fine))]
        return Proposal(tokens, one_hot(tokens, self.vocab_size), drawn=False)

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        pass  # everything it knows is in the text

    @staticmethod
    def settings(text: str) -> dict[str, int]:
        """Of "8" in "suffix:8": tokens of the longest match."""
        return {"longest": int(text)}

    @staticmethod
    def _match(known: np.ndarray, longest: int) -> tuple[int, np.ndarray]:
        """Tokens of the longest earlier match of the end of `known`, and the index behind each such match."""
        places, matched = np.arange(1, len(known)), 0
        while matched < longest:
            reaching = places[places > matched]
            longer = reaching[known[reaching - matched - 1] == known[-matched - 1]]
            if not len(longer):
                break
            places, matched = longer, matched + 1
        return matched, places if matched else places[:0]

    def _continuation(self, known: np.ndarray, places: np.ndarray, most: int) -> list[int]:
        """The most frequent way on from these places, at most `most` tokens; the latest among equals."""
        tokens: list[int] = []
        share = 1.0
        while len(tokens) < most:
            inside = places[places + len(tokens) < len(known)]
            following = known[inside + len(tokens)]
            if not len(following):
                break
            values, counts = np.unique(following, return_counts=True)
            often = values[counts == counts.max()]
            token = next(int(value) for value in following[::-1] if value in often)
            share *= counts.max() / len(places)
            if token == NOTHING or token in self.never or share < LIKELY:
                break
            tokens.append(token)
            places = inside[following == token]
        return tokens
