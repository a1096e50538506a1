"""The caches, the second surface of correctness: what they hold against an uncached pass.

The rule can be exact and the caches wrong. A wrong draft cache leaves the text right and costs
acceptance; a wrong target cache gives the rule the wrong p. Neither shows in draws at one position.

Two comparisons. The logits of the next pass depend on everything cached, so a wrong entry shows in them,
in the unit in which it does harm. The keys and values themselves, row by row, say which entry it is and
miss none that happens to get little attention.

A grammar's parser is such a cache too: drafts advance it, and a rejection takes it back. It is asked what may
follow the text, beside one that has read nothing but this text.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.cache import Cache
from specviz.decoding.controls import Bound
from specviz.decoding.drafters.eagle import EagleDrafter
from specviz.decoding.grammar import GrammarError, Mask
from specviz.decoding.protocols import EagleModel, LanguageModel, ModelOutput
from specviz.decoding.run import DecodingRun
from specviz.decoding.trace import Round


@dataclass(frozen=True, slots=True)
class CacheCheck:
    """One model's cache after a round.

    Attributes:
        role: whose cache it is.
        round: rounds done.
        claimed: positions that the engine takes to be cached.
        held: positions that are really in it. The next token fed gets this position id.
        expected: what both should be.
        logit_diff: largest |difference of logits| between the next pass on top of this cache and an
            uncached pass; None where it cannot be compared.
        tolerance: largest difference that rounding explains for this dtype and device.
        row_diffs: for each cached row, |difference| / |row| of its keys and values against the uncached
            pass, the largest over the layers; () where the cache does not show them.
        row_tolerance: the largest of these that rounding explains.
        first_bad: the first cached row (from 0) that is not what the text says; None if all are right, or
            if nothing could be compared.
        parser: what is wrong with the state of this model's grammar parser, "" if nothing is; None without a
            grammar.
    """

    role: Literal["target", "draft"]
    round: int
    claimed: int
    held: int
    expected: int
    logit_diff: float | None
    tolerance: float
    row_diffs: tuple[float, ...]
    row_tolerance: float
    first_bad: int | None
    parser: str | None = None

    @property
    def lengths_ok(self) -> bool:
        return self.claimed == self.held == self.expected

    @property
    def ok(self) -> bool:
        near = self.logit_diff is None or self.logit_diff <= self.tolerance
        return self.lengths_ok and near and self.first_bad is None and not self.parser

    @property
    def sentence(self) -> str:
        """What the check says, with its numbers."""
        text = f"{self.role} cache after round {self.round}: {self.held} of {self.expected} positions"
        if self.claimed != self.held:
            text += f", taken for {self.claimed}; the next token gets position {self.held} instead of "
            text += f"{self.expected}"
        if self.logit_diff is not None:
            text += f"; logits differ from an uncached pass by at most {self.logit_diff:.2g} (tolerance "
            text += f"{self.tolerance:g})"
        if self.row_diffs:
            text += f"; cached rows by at most {max(self.row_diffs):.2g} of their size (tolerance "
            text += f"{self.row_tolerance:.2g})"
        if self.first_bad is not None:
            text += f"; the first wrong row is {self.first_bad + 1}"
        if self.parser is not None:
            text += f"; the grammar's parser {self.parser or 'stands where the text ends'}"
        return f"{text}: {'right' if self.ok else 'wrong'}."


def check_caches(run: DecodingRun) -> tuple[CacheCheck, ...]:
    """Compare the target's cache, and the draft's if it has one, with uncached passes, and the parsers of
    their grammars with fresh ones. Between rounds.

    The run's caches and parsers are copied, not touched.
    """
    number = len(run.rounds)
    expected = len(run.tokens) - 1 if number else 0
    target = _check("target", number, run.pair.target, run.target_cache, run.tokens, expected)
    checks = [replace(target, parser=_parser(run, run.controls))]
    drafter: Any = run.drafter
    while hasattr(drafter, "inner"):  # a faulty drafter around a correct one
        drafter = drafter.inner
    parser = _parser(run, getattr(drafter, "sampling", None))
    if drafter.cache is not None:
        model: Any = getattr(drafter, "model", None)
        if isinstance(drafter, EagleDrafter):
            shown = all(hasattr(layer, "keys") for layer in drafter.cache.layers)
            model = _OnFeatures(model, run.pair.target, run.tokens) if shown else None
        expected = expected_draft_length(run.rounds, drafter.keeps_drafts)
        draft = _check("draft", number, model, drafter.cache, run.tokens, expected)
        checks.append(replace(draft, parser=parser))
    elif parser is not None:  # it caches nothing else
        checks.append(CacheCheck("draft", number, 0, 0, 0, None, 0.0, (), 0.0, None, parser))
    return tuple(checks)


def _parser(run: DecodingRun, controls: Any) -> str | None:
    """What is wrong with a grammar's parser; see `CacheCheck`."""
    if not isinstance(controls, Bound) or controls.mask is None or controls.grammar is None:
        return None
    written = run.tokens[controls.start :]
    due = Mask(run.pair, controls.grammar).allowed(written)
    try:
        said = deepcopy(controls.mask).allowed(written)
    except GrammarError as error:
        return f"does not come back to the text ({error})"
    if due is None or said is None:
        return "" if due is said else "takes the text for another one"
    more, less = int((said & ~due).sum()), int((due & ~said).sum())
    if not more and not less:
        return ""
    return f"allows {more:,} tokens that cannot follow the text, and lacks {less:,} that can"


def checked(run: DecodingRun) -> Iterator[tuple[Round, tuple[CacheCheck, ...]]]:
    """Step a run to its end and check its caches after every round."""
    for round in run:
        yield round, check_caches(run)


def expected_draft_length(rounds: Sequence[Round], keeps_drafts: bool) -> int:
    """What the draft should have cached after these rounds, from what each drafted and committed.

    A block feeds everything committed and all its tokens but the last, which nobody feeds. Then the cache
    is cut to the committed tokens before the last one; a draft that made its block from features of its
    own, or from gaps, is cut to what it was fed of the text itself.
    """
    length = 0
    for round in rounds:
        copied = round.draft_cache is not None and not round.draft_cache.fed  # by a drafter in front
        if round.k and not copied:
            length = round.start + round.k - 1 if keeps_drafts else round.start
        length = min(length, round.start + len(round.committed) - 1)
    return length


class _OnFeatures:
    """A draft on the target's features, as if it were a language model: an uncached pass of the target says
    what it is to be told. Its passes give the last row of logits only."""

    def __init__(self, model: EagleModel, target: LanguageModel, tokens: Sequence[int]) -> None:
        self.model = model
        self.tolerance = target.tolerance
        self.context_length = min(model.context_length, target.context_length)
        seen = list(tokens[: self.context_length])
        self.features = target.forward(seen, target.new_cache(), 1, model.reads).features

    def new_cache(self) -> Cache:
        return self.model.new_cache()

    def forward(self, tokens: Sequence[int], cache: Cache, rows: int) -> ModelOutput:
        first = caches.length(cache)
        places = range(first, first + len(tokens))
        before = [self.features[i - 1] if i else self.model.no_feature for i in places]
        return self.model.forward(tokens, before, cache)


def _check(
    role: Literal["target", "draft"],
    number: int,
    model: Any,
    cache: Cache,
    tokens: Sequence[int],
    expected: int,
) -> CacheCheck:
    claimed = caches.length(cache)
    while hasattr(cache, "inner"):  # what a faulty cache really holds
        cache = cache.inner
    held = caches.length(cache)
    if model is None or not held:
        return CacheCheck(role, number, claimed, held, expected, None, 0.0, (), 0.0, None)
    while hasattr(model, "inner"):
        model = model.inner
    # At the end of the context the last committed token is one that no model can be fed.
    tokens = tokens[: model.context_length]
    copy = deepcopy(cache)
    audit = caches.audit(model, copy, tokens, expected)
    diffs, tolerance = _row_diffs(model, cache, tokens[:held])
    if diffs is None:
        first_bad = _first_bad_by_logits(model, cache, tokens, min(held, len(tokens) - 1))
    else:
        first_bad = next((row for row, diff in enumerate(diffs) if diff > tolerance), None)
    if first_bad is None and held > expected:
        first_bad = expected  # nothing should stand there
    return CacheCheck(
        role=role,
        round=number,
        claimed=claimed,
        held=held,
        expected=expected,
        logit_diff=max(audit.max_abs_diff, default=None),
        tolerance=model.tolerance,
        row_diffs=() if diffs is None else tuple(diffs.tolist()),
        row_tolerance=tolerance,
        first_bad=first_bad,
    )


def _row_diffs(model: Any, cache: Cache, tokens: Sequence[int]) -> tuple[np.ndarray | None, float]:
    """|difference| / |row| of keys or values against an uncached pass, (len(tokens),), the largest over the
    layers; and what rounding explains: twice the root of the dtype's spacing, far above what errors grow
    to through the layers, and far below the difference between two tokens' rows. None if the cache does
    not show its entries."""
    if not all(hasattr(layer, "keys") and hasattr(layer, "values") for layer in cache.layers):
        return None, 0.0
    import torch

    rows = len(tokens)
    fresh = model.new_cache()
    model.forward(list(tokens), fresh, 1)
    worst = np.zeros(rows)
    for ours, theirs in zip(cache.layers, fresh.layers, strict=True):
        parts = []
        for name in ("keys", "values"):
            # To the host first: Apple's devices have no doubles.
            a, b = (getattr(layer, name)[0, :, :rows].cpu().double() for layer in (ours, theirs))
            parts.append(torch.stack([((a - b) ** 2).sum((0, 2)), (b**2).sum((0, 2))]))
        for difference, size in parts:
            relative = torch.sqrt(difference / size.clamp_min(torch.finfo(torch.float64).tiny))
            worst = np.maximum(worst, relative.numpy())
    return worst, 2.0 * float(torch.finfo(cache.layers[0].keys.dtype).eps) ** 0.5


def _first_bad_by_logits(model: LanguageModel, cache: Cache, tokens: Sequence[int], held: int) -> int | None:
    """The first wrong row by bisection: a cache cut to its first n rows gives right logits for the rest
    of the text as long as none of the n is wrong."""

    reference = model.forward(list(tokens), model.new_cache(), len(tokens)).logits.astype(np.float64)

    def wrong(n: int) -> bool:
        copy = deepcopy(cache)
        caches.keep(copy, n)
        rows = model.forward(list(tokens[n:]), copy, len(tokens) - n).logits
        return bool(np.abs(rows - reference[n:]).max() > model.tolerance)

    if not wrong(held):
        return None
    good, bad = 0, held
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if wrong(middle) else (middle, bad)
    return bad - 1
