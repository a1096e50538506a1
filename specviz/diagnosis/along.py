"""What target and drafts say along a text that stays fixed: the numbers behind every counterfactual.

At position t the target has p, a draft has q, and the text has the token x. Given the text, a draft token at
t would have been kept with probability min(1, q(x)/p(x)):

    P(kept, x) = q(x)·min(1, p(x)/q(x)) = min(p(x), q(x)),   P(x) = p(x),   P(kept | x) = min(1, q(x)/p(x)),

independently of everything before, as the text follows p whoever drafts. So q(x) and p(x) along a text give
the exact expected rounds that any draft would have needed to write it (`walk`), with no other logits kept.

Checked against the rule by enumeration in the tests; it follows from Leviathan et al. 2023, theorem A.1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.drafters.model import LanguageModelDrafter
from specviz.decoding.features import Features, share, together
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import ChosenDrafts, inverse_cdf
from specviz.decoding.sampling import SamplingConfig, effective_probs

CHUNK = 16  # positions a pass: rows over the whole vocabulary are large


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
class Along:
    """Along the n tokens of one text. Probabilities are effective ones, logarithms natural.

    Attributes:
        p: (n,) p(x) of the text's token.
        logprob: (n,) log p(x) at temperature 1 without any control.
        p_entropy, p_top: (n,) entropy of p, its largest probability.
        beta: Σ min(p, q) as the first of a block, (n,) by "source|controls": of each source under its present
            controls, and of the first under the target's (`EQUAL`).
        q_entropy: (n,) entropy of the present q.
        q_logprob: (n,) log q(x) of the first source at temperature 1 without any control.
        outside: (n,) mass of p on tokens that the first source can never propose.
        lacking: (n,) bool: x is such a token, or the draft's context is full.
        refused: (n,) a token drawn from max(0, q − p), what a draft would have offered had it been refused
            here; −1 where q is nowhere above p. Only if asked for.
        refused_p, refused_q: (n,) its probabilities.
        columns: by name "source|controls".
    """

    p: np.ndarray
    logprob: np.ndarray
    p_entropy: np.ndarray
    p_top: np.ndarray
    beta: dict[str, np.ndarray]
    q_entropy: np.ndarray
    q_logprob: np.ndarray
    outside: np.ndarray
    lacking: np.ndarray
    refused: np.ndarray
    refused_p: np.ndarray
    refused_q: np.ndarray
    columns: dict[str, Column] = field(default_factory=dict)


NOW, EQUAL = "now", "equal"


def along(
    pair: Pair,
    tokens: Sequence[int],
    first: int,
    sampling: SamplingConfig,
    sources: Sequence[Source],
    refuse: np.random.Generator | None = None,
) -> Iterator[Along | None]:
    """Lead target and drafts along `tokens` from index `first` on: None after each pass, the result at the
    end.

    Args:
        pair: the target, and whose vocabulary it is.
        tokens: prompt and answer.
        first: tokens of the prompt, 1 or more.
        sampling: the target's controls.
        sources: the drafts; the first is the one that is audited. Each has controls named `NOW`.
        refuse: draws the tokens of `Along.refused`.
    """
    n = len(tokens) - first
    walkers = [_walker(source, pair, tokens, first) for source in sources]
    asked = together(w.wants_features for w in walkers)
    cache, features = pair.target.new_cache(), []
    names = (
        "p",
        "logprob",
        "p_entropy",
        "p_top",
        "q_entropy",
        "q_logprob",
        "outside",
        "refused_p",
        "refused_q",
    )
    found: dict[str, np.ndarray] = {name: np.full(n, np.nan) for name in names}
    refused = np.full(n, -1)
    lacking = np.zeros(n, dtype=bool)
    watched = [(s.name, name) for i, s in enumerate(sources) for name in s.samplings if _is_watched(i, name)]
    beta = {f"{source}|{name}": np.full(n, np.nan) for source, name in watched}
    for begin in range(first, len(tokens), CHUNK):
        end = min(begin + CHUNK, len(tokens))
        fed = tokens[caches.length(cache) : end - 1]
        output = pair.target.forward(fed, cache, end - begin, asked)
        if output.features is not None:
            features.extend(output.features)
        prefixes = [tokens[:i] for i in range(begin, end)]
        p = effective_probs(output.logits, prefixes, sampling, pair.target.available).probs
        chosen = np.array(tokens[begin:end])
        here = slice(begin - first, end - first)
        rows = np.arange(end - begin)
        found["p"][here] = p[rows, chosen]
        found["logprob"][here] = _logprob(output.logits, chosen)
        found["p_entropy"][here] = _entropy(p)
        found["p_top"][here] = p.max(axis=1)
        for index, walker in enumerate(walkers):
            seen = walker.follow(begin, end, share(features, asked, walker.wants_features))
            for name, laws in seen.laws.items():
                for row, law in enumerate(laws):
                    if law is None or not _is_watched(index, name):
                        continue
                    at = begin - first + row
                    beta[f"{walker.source.name}|{name}"][at] = np.minimum(p[row], law).sum()
                    if index or name != NOW:
                        continue
                    found["q_entropy"][at] = _entropy(law[None])[0]
                    over = np.maximum(law - p[row], 0.0)
                    if refuse is not None and over.any():
                        token = inverse_cdf(over, refuse.random())
                        refused[at], found["refused_p"][at] = token, p[row, token]
                        found["refused_q"][at] = law[token]
            if index == 0:
                found["q_logprob"][here] = seen.logprob
                found["outside"][here] = walker.unable(p)
                lacking[here] = walker.lacks(begin, end)
        yield None
    columns = {key: column for walker in walkers for key, column in walker.columns().items()}
    yield Along(**found, beta=beta, lacking=lacking, refused=refused, columns=columns)


@dataclass(slots=True)
class _Seen:
    """What a walker saw in a chunk: the law of each position as the first of a block, by controls (None where
    there is none), and the log probability of the text's tokens without controls."""

    laws: dict[str, list[np.ndarray | None]]
    logprob: np.ndarray


def _is_watched(index: int, controls: str) -> bool:
    """Whether β is wanted and not q(x) alone."""
    return controls == NOW or (index == 0 and controls == EQUAL)


class _Walker:
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


class _ModelWalker(_Walker):
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
        logprob[:known] = _logprob(logits, chosen)
        return _Seen(laws, logprob)


class _ProposedWalker(_Walker):
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
                logprob[i - begin] = _logprob(first[0], np.array([self.tokens[i]]))[0]
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


def _walker(source: Source, pair: Pair, tokens: Sequence[int], first: int) -> _Walker:
    if isinstance(source.drafter, LanguageModelDrafter):
        return _ModelWalker(source, pair, tokens, first)
    heads = getattr(source.drafter, "heads", None)
    # Prompt lookup always proposes the same continuation: its later tokens follow from the first match.
    depth = heads.count if heads is not None else 4 if source.drafter.wants_features else 16
    return _ProposedWalker(source, pair, tokens, first, depth)


def _entropy(probs: np.ndarray) -> np.ndarray:
    """Entropy of each row (R, V) in nats."""
    return -(probs * np.log(np.where(probs > 0.0, probs, 1.0))).sum(axis=1) + 0.0


def _logprob(logits: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """log softmax of each row (R, V) at its chosen id; -inf where the model has no such id."""
    scores = logits.astype(np.float64)
    highest = scores.max(axis=1)
    total = np.log(np.exp(scores - highest[:, None]).sum(axis=1)) + highest
    return scores[np.arange(len(scores)), chosen] - total
