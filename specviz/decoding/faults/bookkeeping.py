"""Faults outside the rule: drafters that report a wrong q, runs that score or end wrongly, caches that
hold something else than they claim.

Each wraps or replaces one part of a correct engine and leaves the rest to it.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.cache import Cache
from specviz.decoding.drafters import Drafter, Proposal
from specviz.decoding.ending import Cut, Ends, cut
from specviz.decoding.faults.spot import emittable, unfiltered
from specviz.decoding.protocols import LanguageModel, ModelOutput, Pair
from specviz.decoding.randomness import ChosenDrafts, RoundRandomness
from specviz.decoding.sampling import Effective, SamplingConfig, effective_probs
from specviz.decoding.trace import TokenText


class WrappedDrafter:
    """A drafter that passes everything through; faults override `propose`."""

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner
        self.kind = inner.kind
        self.info = inner.info
        self.cache = inner.cache
        self.context_length = inner.context_length
        self.wants_features = inner.wants_features
        self.keeps_drafts = inner.keeps_drafts

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        return self.inner.propose(prefix, k, randomness)

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        self.inner.observe(committed, target_features)


def _favourite(row: int, weights: np.ndarray) -> int:
    return int(weights.argmax())


class ArgmaxDrafter(WrappedDrafter):
    """Takes the most likely token of every row and still reports the whole distribution as q."""

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        return replace(self.inner.propose(prefix, k, ChosenDrafts(_favourite)), drawn=False)


class MisreportingDrafter(WrappedDrafter):
    """Draws with all controls, and reports q computed with others."""

    def __init__(self, inner: Drafter, reported: SamplingConfig) -> None:
        super().__init__(inner)
        self.reported = reported

    def propose(self, prefix: Sequence[int], k: int, randomness: RoundRandomness) -> Proposal:
        proposal = self.inner.propose(prefix, k, randomness)
        if proposal.logits is None or not proposal.tokens:
            return proposal
        prefixes = [[*prefix, *proposal.tokens[:row]] for row in range(len(proposal.tokens))]
        wrong = effective_probs(proposal.logits, prefixes, self.reported, emittable(proposal.logits[0]))
        return replace(
            proposal,
            probs=wrong.probs,
            removed=wrong.removed,
            logsumexp=wrong.logsumexp,
            log_probs=None if wrong.log_probs is None else list(wrong.log_probs),
        )


def unfiltered_score(
    logits: np.ndarray,
    prefixes: Sequence[Sequence[int]],
    sampling: SamplingConfig,
    available: np.ndarray | None,
) -> Effective:
    """Scores without top-k, top-p and min-p, whatever the user asked for."""
    return effective_probs(logits, prefixes, unfiltered(sampling), available)


def stale_history(
    logits: np.ndarray,
    prefixes: Sequence[Sequence[int]],
    sampling: SamplingConfig,
    available: np.ndarray | None,
) -> Effective:
    """Penalises by the committed tokens alone: the draft tokens before a row do not count."""
    return effective_probs(logits, [prefixes[0]] * len(prefixes), sampling, available)


def cut_past_eos(tokens: Sequence[int], ends: Ends, text_of: Callable[[int], TokenText]) -> Cut:
    """Looks for the end of the text in the last token of a round only."""
    if tokens[-1] not in ends.eos_ids:
        ends = replace(ends, eos_ids=frozenset())
    return cut(tokens, ends, text_of)


class CopiesControlTokens(WrappedDrafter):
    """A prompt-lookup drafter that copies the end of a text like any other token."""

    def __init__(self, inner: Drafter) -> None:
        super().__init__(inner)
        if hasattr(inner, "never"):
            inner.never = frozenset()


class FaultyCache:
    """Says that it holds `claimed` positions; what it really holds is in `inner`.

    Args:
        inner: a correct cache.
        slack: positions that every cut leaves in place (above 0) or takes too many (below 0).
    """

    is_croppable = True

    def __init__(self, inner: Cache, slack: int) -> None:
        self.inner = inner
        self.slack = slack
        self.claimed = 0
        self.layers = [self]  # one layer, itself, that answers for all of them

    def get_seq_length(self) -> int:
        return self.claimed

    def crop(self, tokens_to_remove: int) -> None:
        self.claimed += tokens_to_remove
        caches.keep(self.inner, max(0, caches.length(self.inner) + tokens_to_remove + self.slack))


class FaultyCacheModel:
    """A model whose caches are cut wrongly, or miss a token, while its lengths look right.

    Args:
        model: a correct model.
        slack: as in `FaultyCache`.
        hole: of two tokens fed at once behind others, the first is left out. The draft is fed two after
            a full acceptance: its last draft token, which it has never seen, and the bonus.
    """

    def __init__(self, model: LanguageModel, slack: int = 0, hole: bool = False) -> None:
        self.inner = model
        self._slack = slack
        self._hole = hole

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def new_cache(self) -> FaultyCache:
        return FaultyCache(self.inner.new_cache(), self._slack)

    def forward(
        self, tokens: Sequence[int], cache: FaultyCache, rows: int, features: bool = False
    ) -> ModelOutput:
        fed = list(tokens)
        if self._hole and cache.claimed and len(fed) == 2 and rows == 1:
            fed = fed[1:]
        result = self.inner.forward(fed, cache.inner, rows, features)
        cache.claimed += len(tokens)
        return result


def faulty_target(slack: int) -> Callable[[Pair], Pair]:
    """Pairs whose target's caches are cut with this slack."""

    def change(pair: Pair) -> Pair:
        changed = copy(pair)
        changed.target = FaultyCacheModel(pair.target, slack)  # type: ignore[misc,assignment]
        return changed

    return change


def faulty_draft(slack: int = 0, hole: bool = False) -> Callable[[Pair], Pair]:
    """Pairs whose draft's caches are cut with this slack, or have holes."""

    def change(pair: Pair) -> Pair:
        changed = copy(pair)
        if pair.draft is not None:
            changed.draft = FaultyCacheModel(pair.draft, slack, hole)  # type: ignore[misc,assignment]
        return changed

    return change
