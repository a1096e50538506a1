"""β at every position of a text, for every drafter: one teacher-forced pass along tokens that stay fixed.

At position i the target's p and the drafter's q are the laws of token i after the tokens before it, and
β = Σ min(p, q) is the probability that a token drawn from q would be accepted there. A language model
gives all its laws in the same pass. The other drafters are led along the text by their own `propose` and
`observe`, so that each law is the one they would really have drafted from: prompt lookup looks up anew at
every position, EAGLE has the target's features of everything before the block, Medusa's heads the feature
of the last token that the target was fed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from specviz.decoding.controls import SamplingConfig, bind
from specviz.decoding.drafters import DRAFTERS, DraftUnavailable, make_drafter
from specviz.decoding.drafters.model import LanguageModelDrafter
from specviz.decoding.features import Features, share, together
from specviz.decoding.protocols import Pair
from specviz.decoding.sampling import effective_probs
from specviz.models.errors import LoadError

CHUNK = 8  # tokens a pass: rows over the whole vocabulary are large, and a stop waits for one
LEADING = 4
LIKELY = 1e-3
DEPTH = 4  # drafts of a block whose laws differ: Medusa's heads, EAGLE on its own features
LONGEST = 400  # tokens of a text

Leading = tuple[tuple[int, float], ...]
"""The likeliest tokens of a law with their probabilities."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One drafter along a text of n positions.

    Attributes:
        kind: the drafter's name.
        beta: (depths, n) Σ min(p, q) of the token that is the 1st, 2nd, … of its block; NaN where the
            drafter proposes nothing. One row if the law does not depend on that.
        endless: whether a block may be longer than `depths`; its further tokens have the last row's law.
        leading: of q, as the first of a block; empty where nothing is proposed.
        outside: (n,) mass of p on tokens that the drafter can never propose.
    """

    kind: str
    beta: np.ndarray
    endless: bool
    leading: tuple[Leading, ...]
    outside: np.ndarray

    @property
    def first(self) -> np.ndarray:
        """(n,) β of the first token of a block."""
        return self.beta[0]

    @property
    def coverage(self) -> float:
        """Share of positions where something is proposed."""
        return float(np.mean(~np.isnan(self.first)))

    def mean(self, depth: int = 0) -> float:
        """Mean β of the token that is number `depth` (from 0) of its block. A position without a proposal
        counts as 0, for nothing is accepted there; so early ones that no block reaches do not count."""
        return float(np.nan_to_num(self.beta[depth, depth:]).mean())

    def layers(self, k: int) -> list[np.ndarray]:
        """β of the 1st … kth token of a block; fewer if the drafter has no more."""
        rows = list(self.beta[:k])
        return rows + [self.beta[-1]] * (k - len(rows)) if self.endless else rows


@dataclass(frozen=True, slots=True)
class Measured:
    """All strips of one text, so far.

    Attributes:
        tokens: the whole text.
        first: the index of the token at position 0 of the strips.
        leading: of p, a row for each position.
        strips: one for each drafter that this pair has.
        missing: why the others are not to be had, by kind.
    """

    tokens: tuple[int, ...]
    first: int
    leading: tuple[Leading, ...]
    strips: tuple[Strip, ...]
    missing: dict[str, str]

    def agreement(self, strip: Strip) -> float:
        """Share of positions where the likeliest token of q is that of p."""
        same = [bool(q) and p[0][0] == q[0][0] for p, q in zip(self.leading, strip.leading, strict=True)]
        return sum(same) / len(same)


class Measurement:
    """The pass along a text, a chunk at a time, so that it can be watched and stopped.

    Args:
        pair: target and drafts.
        tokens: the text; at most `LONGEST` tokens, and what the contexts hold, are looked at.
        first: index of the first token whose laws are wanted, 1 or more; those before are context.
        sampling: the target's controls.
        draft_sampling: the drafts'; the target's if None.
        kinds: drafters; those that the pair lacks are noted in `missing`.

    Raises:
        ValueError: if no position is left.
    """

    def __init__(
        self,
        pair: Pair,
        tokens: Sequence[int],
        *,
        first: int = 1,
        sampling: SamplingConfig | None = None,
        draft_sampling: SamplingConfig | None = None,
        kinds: Sequence[str] = tuple(DRAFTERS),
    ) -> None:
        self.pair = pair
        sampling = sampling or SamplingConfig()
        draft_sampling = bind(draft_sampling or sampling, pair, first)
        self.sampling = bind(sampling, pair, first)
        self.missing: dict[str, str] = {}
        self.laws: list[_ModelLaw | _ProposedLaw] = []
        room = min(LONGEST, pair.target.context_length)
        for kind in kinds:
            try:
                drafter = make_drafter(kind, pair, draft_sampling)
            except (DraftUnavailable, LoadError, ValueError) as error:
                self.missing[kind] = str(error)
                continue
            room = min(room, drafter.context_length or room)
            law = _ModelLaw if isinstance(drafter, LanguageModelDrafter) else _ProposedLaw
            self.laws.append(law(kind, drafter, pair))
        self.tokens = tuple(tokens)[:room]
        self.first = first
        if not 1 <= first < len(self.tokens):
            raise ValueError(
                f"there is nothing to measure: {len(self.tokens)} tokens were looked at, and the first "
                f"{first} of them are only context"
            )
        self._cache = pair.target.new_cache()
        self._features_asked = together(
            law.wants_features for law in self.laws if isinstance(law, _ProposedLaw)
        )
        self._features: list[Any] = []
        self._leading: list[Leading] = []

    @property
    def total(self) -> int:
        """Positions to measure."""
        return len(self.tokens) - self.first

    @property
    def positions(self) -> int:
        """Positions measured so far."""
        return len(self._leading)

    @property
    def done(self) -> bool:
        return self.positions == self.total

    def advance(self) -> None:
        """Measure the next chunk.

        Raises:
            ValueError: for logits that cannot be used.
        """
        begin = self.first + self.positions  # the next position's token
        end = min(begin + CHUNK, len(self.tokens))
        fed = self.tokens[begin - 1 if self.positions else 0 : end - 1]
        rows = end - begin
        output = self.pair.target.forward(fed, self._cache, rows, self._features_asked)
        prefixes = [self.tokens[:i] for i in range(begin, end)]
        target = self.pair.target
        probs = effective_probs(output.logits, prefixes, self.sampling, target.available).probs
        if output.features is not None:
            self._features.extend(output.features)
        for law in self.laws:
            law.follow(self.tokens, begin, fed, probs, self._features, self._features_asked)
        self._leading.extend(leading(row) for row in probs)

    def result(self) -> Measured:
        """What is known so far. Its tokens end with the last position that has been measured."""
        known = self.tokens[: self.first + self.positions]
        strips = tuple(law.strip(self.positions) for law in self.laws)
        return Measured(known, self.first, tuple(self._leading), strips, self.missing)


class _ModelLaw:
    """A drafter that is a language model: its laws come out of a pass over the text."""

    def __init__(self, kind: str, drafter: LanguageModelDrafter, pair: Pair) -> None:
        self.record = _Record(kind, 1, True, drafter.model.available, pair.vocab_size)
        self.drafter = drafter

    def follow(
        self,
        tokens: Sequence[int],
        begin: int,
        fed: Sequence[int],
        probs: np.ndarray,
        features: list[Any],
        asked: Features,
    ) -> None:
        """Take the positions of the tokens from `begin` on, a row of `probs` each."""
        model = self.drafter.model
        logits = model.forward(fed, self.drafter.cache, len(probs)).logits
        prefixes = [tokens[:i] for i in range(begin, begin + len(probs))]
        laws = effective_probs(logits, prefixes, self.drafter.sampling, model.available).probs
        for p, q in zip(probs, laws, strict=True):
            self.record.add(p, [q])

    def strip(self, n: int) -> Strip:
        return self.record.strip(n)


class _ProposedLaw:
    """A drafter that is led along the text and asked at every position what it would draft."""

    def __init__(self, kind: str, drafter: Any, pair: Pair) -> None:
        draft = getattr(drafter, "heads", None) or getattr(drafter, "model", None)
        self.depth = 1 if draft is None else DEPTH
        if kind == "medusa":
            self.depth = min(DEPTH, drafter.heads.count)
        available = None if draft is None else draft.available
        self.record = _Record(kind, self.depth, kind != "medusa", available, pair.vocab_size)
        self.drafter = drafter
        self.wants_features = drafter.wants_features
        self.seen = 0  # features that the drafter has been told
        # Laws for tokens further on, made in a block that began earlier: by depth, for the next token.
        self.ahead: list[list[np.ndarray | None]] = []

    def follow(
        self,
        tokens: Sequence[int],
        begin: int,
        fed: Sequence[int],
        probs: np.ndarray,
        features: list[Any],
        asked: Features,
    ) -> None:
        """Take the positions of the tokens from `begin` on, a row of `probs` each."""
        for i, p in enumerate(probs, begin):
            told = None
            if self.wants_features:
                told = share(features[self.seen : i - 1], asked, self.wants_features)
                self.seen = i - 1
            self.drafter.observe(tokens[:i], told)
            room = min(self.depth, len(tokens) - i)
            proposal = self.drafter.propose(tokens[:i], room, _Forced(tokens[i:]))
            self.ahead.append([*proposal.probs, *[None] * (self.depth - len(proposal.probs))])
            self.ahead = self.ahead[-self.depth :]
            # The block that began d positions ago has its law number d for this token.
            self.record.add(p, [block[d] for d, block in enumerate(reversed(self.ahead))])

    def strip(self, n: int) -> Strip:
        return self.record.strip(n)


class _Record:
    """Collects the figures of one strip."""

    def __init__(
        self, kind: str, depths: int, endless: bool, available: np.ndarray | None, vocab_size: int
    ) -> None:
        self.kind, self.depths, self.endless = kind, depths, endless
        self.lacking: np.ndarray | None = None
        if available is not None:
            self.lacking = np.setdiff1d(np.arange(vocab_size), available)
        self.beta: list[list[float]] = []
        self.leading: list[Leading] = []
        self.outside: list[float] = []

    def add(self, p: np.ndarray, laws: list[np.ndarray | None]) -> None:
        """A position: p (V,), and q as the 1st, 2nd, … token of a block, None where there is none."""
        betas = [float("nan") if q is None else float(np.minimum(p, q).sum()) for q in laws]
        self.beta.append(betas + [float("nan")] * (self.depths - len(betas)))
        self.leading.append(() if laws[0] is None else leading(laws[0]))
        self.outside.append(0.0 if self.lacking is None else float(p[self.lacking].sum()))

    def strip(self, n: int) -> Strip:
        beta = np.array(self.beta[:n]).reshape(n, self.depths).T
        return Strip(
            self.kind, beta, self.endless, tuple(self.leading[:n]), np.array(self.outside[:n], dtype=float)
        )


class _Forced:
    """Randomness that drafts the text itself, so that later laws of a block stand behind its tokens."""

    def __init__(self, following: Sequence[int]) -> None:
        self.following = following

    def draft(self, row: int, weights: np.ndarray) -> int:
        return self.following[row]


def leading(law: np.ndarray, count: int = LEADING) -> Leading:
    """The `count` likeliest tokens of a law (V,), likeliest first, lowest id on ties; none with 0."""
    found = np.flatnonzero(law > LIKELY)  # few, so that the rest need not be sorted
    if len(found) < count:
        found = np.flatnonzero(law)
    found = found[np.argsort(-law[found], kind="stable")][:count]
    return tuple((int(token), float(law[token])) for token in found)


def walk_tokens(strip: Strip, k: int) -> float | None:
    """Expected tokens a round if rounds of `k` drafts are made along the strip.

    A round that starts at position s accepts its drafts one after another, each with the β of its
    position, independently; it ends at the first refusal, where nothing is proposed, or after k. It
    commits what it accepted and one token more, and the next round starts behind them. The expectation is
    over all such walks, computed exactly: tokens expected / rounds expected, over the rounds that start
    where the text still has k positions. The text stays what it is, whatever a walk would have written.

    Returns:
        1 … k + 1, or None if the strip is shorter than k.
    """
    n = len(strip.first)
    if not 1 <= k <= n:
        return None
    layers = strip.layers(k)
    starts = np.zeros(n + k + 2)
    starts[0] = 1.0
    rounds = tokens = 0.0
    for s in range(n - k + 1):
        reached = starts[s]
        rounds += reached
        for length, layer in enumerate(layers):
            beta = 0.0 if isnan(layer[s + length]) else float(layer[s + length])
            starts[s + length + 1] += reached * (1.0 - beta)
            tokens += reached * (1.0 - beta) * (length + 1)
            reached *= beta
        starts[s + len(layers) + 1] += reached
        tokens += reached * (len(layers) + 1)
    return float(tokens / rounds)


def formula_tokens(strip: Strip, k: int) -> float:
    """Expected tokens a round if every position were alike: 1 + α₁ + α₁α₂ + … with the mean β of the
    1st, 2nd, … token of a block. With one α this is (1 − α^(k+1)) / (1 − α) (Leviathan et al. 2023)."""
    depths = len(strip.beta)
    means = [strip.mean(min(depth, depths - 1)) for depth in range(len(strip.layers(k)))]
    return 1.0 + float(np.cumprod(means).sum())
