"""Drafts that are led along a text: each collects what it says of the tokens that stand there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.drafters.model import LanguageModelDrafter
from specviz.decoding.features import Features
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import ChosenDrafts
from specviz.decoding.sampling import SamplingConfig, effective_probs

NOW, EQUAL = "now", "equal"


@dataclass(frozen=True, slots=True)
class Source:
    """A draft that is led along the text.

    Attributes:
        name: of its columns: "draft" (as it is), "plain", "chat", "own" (with another prompt), "second".
        drafter: fresh, made for the pair.
        lead: tokens that it reads before the text instead of the target's; None for the same.
        samplings: the controls to try, by name of the column.
    """

    name: str
    drafter: Any
    samplings: dict[str, SamplingConfig]
    lead: tuple[int, ...] | None = None


@dataclass(slots=True)
class Column:
    """What one draft says under one set of controls, at n positions.

    Attributes:
        q: (D, n) q(x) of the text's token as the 1st … Dth of a block; NaN where nothing is proposed. One row
            if the place in the block does not matter.
        endless: whether a block may be longer than D.
    """

    q: np.ndarray
    endless: bool


@dataclass(slots=True)
class _Seen:
    """What a walker saw in a chunk: the law of each position as the first of a block, by controls (None where
    there is none), and the log probability of the text's tokens without controls."""

    laws: dict[str, list[np.ndarray | None]]
    logprob: np.ndarray


def is_watched(index: int, controls: str) -> bool:
    """Whether β is wanted and not q(x) alone."""
    return controls == NOW or (index == 0 and controls == EQUAL)


class Walker:
    """Collects q(x) of one source along the text."""

    wants_features: Features = False

    def __init__(self, source: Source, pair: Pair, tokens: Sequence[int], first: int, depth: int) -> None:
        self.source = source
        self.tokens = tokens
        self.first = first
        n = len(tokens) - first
        self.q = {name: np.full((depth, n), np.nan) for name in source.samplings}
        self.endless = True
        self.mask: np.ndarray | None = None
        available = self.available()
        if available is not None:
            self.mask = np.ones(pair.vocab_size, dtype=bool)
            self.mask[available] = False

    def available(self) -> np.ndarray | None:
        return None

    def limit(self) -> int | None:
        """Tokens of the text up to which the draft can draft; None for no limit."""
        return None

    def follow(self, begin: int, end: int, features: Sequence[Any]) -> _Seen:
        raise NotImplementedError

    def unable(self, p: np.ndarray) -> np.ndarray:
        """(rows,) mass of p that the draft can never propose."""
        return np.zeros(len(p)) if self.mask is None else p[:, self.mask].sum(axis=1)

    def lacks(self, begin: int, end: int) -> np.ndarray:
        chosen = np.array(self.tokens[begin:end])
        lacking = np.zeros(end - begin, dtype=bool) if self.mask is None else self.mask[chosen]
        limit = self.limit()
        return lacking if limit is None else lacking | (np.arange(begin, end) > limit)

    def columns(self) -> dict[str, Column]:
        return {f"{self.source.name}|{name}": Column(q, self.endless) for name, q in self.q.items()}


class _ModelWalker(Walker):
    """A language model: all laws come out of passes over the text."""

    def __init__(self, source: Source, pair: Pair, tokens: Sequence[int], first: int) -> None:
        self.model = source.drafter.model
        super().__init__(source, pair, tokens, first, 1)
        lead = tuple(tokens[:first]) if source.lead is None else source.lead
        self.own = [*lead, *tokens[first:]]
        self.shift = len(lead) - first
        self.cache = self.model.new_cache()

    def available(self) -> np.ndarray | None:
        return self.model.available

    def limit(self) -> int | None:
        return self.model.context_length - self.shift

    def follow(self, begin: int, end: int, features: Sequence[Any]) -> _Seen:
        limit = self.model.context_length - self.shift
        known = max(0, min(end, limit + 1) - begin)  # positions that the context still reaches
        laws: dict[str, list[np.ndarray | None]] = {name: [None] * (end - begin) for name in (NOW, EQUAL)}
        logprob = np.full(end - begin, np.nan)
        here = slice(begin - self.first, begin - self.first + known)
        for q in self.q.values():
            q[0, begin - self.first : end - self.first] = 0.0
        if not known:
            return _Seen(laws, logprob)
        a, b = begin + self.shift, begin + self.shift + known
        logits = self.model.forward(self.own[caches.length(self.cache) : b - 1], self.cache, known).logits
        prefixes = [self.own[:i] for i in range(a, b)]
        chosen = np.array(self.tokens[begin : begin + known])
        rows = np.arange(known)
        for name, sampling in self.source.samplings.items():
            law = effective_probs(logits, prefixes, sampling, self.model.available).probs
            self.q[name][0, here] = law[rows, chosen]
            if name in laws:
                laws[name][:known] = list(law)
        logprob[:known] = logprob_of(logits, chosen)
        return _Seen(laws, logprob)


class _ProposedWalker(Walker):
    """A drafter that is asked at every position what it would draft, and made to draft the text itself."""

    def __init__(self, source: Source, pair: Pair, tokens: Sequence[int], first: int, depth: int) -> None:
        self.drafter = source.drafter
        super().__init__(source, pair, tokens, first, depth)
        self.depth = depth
        self.wants_features = self.drafter.wants_features
        self.endless = hasattr(self.drafter, "model")
        self.told = 0
        # Laws made in blocks that began earlier, for the tokens ahead: (logits, probs) by depth.
        self.ahead: list[list[tuple[Any, Any] | None]] = []

    def available(self) -> np.ndarray | None:
        heads = getattr(self.drafter, "heads", None) or getattr(self.drafter, "model", None)
        return getattr(heads, "available", None)

    def limit(self) -> int | None:
        return self.drafter.context_length

    def follow(self, begin: int, end: int, features: Sequence[Any]) -> _Seen:
        laws: dict[str, list[np.ndarray | None]] = {name: [None] * (end - begin) for name in (NOW, EQUAL)}
        logprob = np.full(end - begin, np.nan)
        limit = self.drafter.context_length
        for i in range(begin, end):
            block: list[tuple[Any, Any] | None] = [None] * self.depth
            # As in a run, the first block of a drafter on the target's features has none to start from.
            if (limit is None or i <= limit) and not (self.wants_features and i == self.first):
                told = None
                if self.wants_features:
                    told, self.told = features[self.told : i - 1], i - 1
                self.drafter.observe(self.tokens[:i], told)
                room = min(
                    self.depth, len(self.tokens) - i, limit - i + 1 if limit is not None else self.depth
                )
                rest = self.tokens[i:]
                forced = ChosenDrafts(lambda row, _, rest=rest: rest[row])  # type: ignore[misc]
                made = self.drafter.propose(self.tokens[:i], room, forced)
                for row in range(len(made.tokens)):
                    logits = None if made.logits is None else made.logits[row : row + 1]
                    block[row] = (logits, made.probs[row])
            self.ahead = [*self.ahead, block][-self.depth :]
            for depth, earlier in enumerate(reversed(self.ahead)):
                law = earlier[depth]
                if law is not None:
                    found = self._note(i, depth, *law)
                    if depth == 0:
                        for name in laws.keys() & found.keys():
                            laws[name][i - begin] = found[name]
            first = block[0]
            if first is not None and first[0] is not None:
                logprob[i - begin] = logprob_of(first[0], np.array([self.tokens[i]]))[0]
        return _Seen(laws, logprob)

    def _note(
        self, i: int, depth: int, logits: np.ndarray | None, probs: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Take q of the text's token; returns the laws by controls."""
        found = {}
        for name, sampling in self.source.samplings.items():
            law = probs
            if logits is not None and name != NOW:
                finite = np.isfinite(logits[0])
                available = None if finite.all() else np.flatnonzero(finite)
                law = effective_probs(logits, [self.tokens[:i]], sampling, available).probs[0]
            self.q[name][depth, i - self.first] = law[self.tokens[i]]
            found[name] = law
        return found


def walker_of(source: Source, pair: Pair, tokens: Sequence[int], first: int) -> Walker:
    if isinstance(source.drafter, LanguageModelDrafter):
        return _ModelWalker(source, pair, tokens, first)
    heads = getattr(source.drafter, "heads", None)
    # Prompt lookup always proposes the same continuation: its later tokens follow from the first match.
    depth = heads.count if heads is not None else 4 if source.drafter.wants_features else 16
    return _ProposedWalker(source, pair, tokens, first, depth)


def entropy_of(probs: np.ndarray) -> np.ndarray:
    """Entropy of each row (R, V) in nats."""
    return -(probs * np.log(np.where(probs > 0.0, probs, 1.0))).sum(axis=1) + 0.0


def logprob_of(logits: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """log softmax of each row (R, V) at its chosen id; -inf where the model has no such id."""
    scores = logits.astype(np.float64)
    highest = scores.max(axis=1)
    total = np.log(np.exp(scores - highest[:, None]).sum(axis=1)) + highest
    return scores[np.arange(len(scores)), chosen] - total
