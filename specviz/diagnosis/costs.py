"""What a pass costs here, for the predicted speed-ups of an audit. Medians of a few passes on this
machine, made in turns."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.drafters import COPYING, make_drafter
from specviz.decoding.drafters.eagle import EagleDrafter
from specviz.decoding.drafters.medusa import MedusaDrafter
from specviz.decoding.drafters.parallel import ParallelDrafter
from specviz.decoding.protocols import LanguageModel, Pair
from specviz.decoding.sampling import SamplingConfig
from specviz.speed.clock import clock_for, in_turns

ROWS = (1, 2, 3, 5, 9, 17)
CONTEXT, REPEATS = 48, 5


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of passes, relative to one pass of the target over one row.

    Attributes:
        target_seconds: one row of the target.
        verify: relative cost of passes over `ROWS` rows.
        draft: relative cost of one draft token; None if it was not measured. A drafter that gives a block
            in one pass has it shared among the block's tokens.
        second: the same of the second draft.
    """

    target_seconds: float
    verify: tuple[float, ...]
    draft: float | None
    second: float | None = None

    def v(self, drafted: float) -> float:
        """Relative cost of a pass that verifies so many drafts, between the measured ones."""
        return float(np.interp(drafted + 1, ROWS, self.verify))

    def speed_up(self, tokens: float, drafted: float, k: float, draft: float | None) -> float | None:
        """Against plain decoding: tokens a round / (drafted·c + v), for rounds of `tokens` tokens that draft
        `drafted` with the model and verify `k`. The host's part of a round is left out on both sides."""
        return None if draft is None else tokens / (drafted * draft + self.v(k))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> "Costs | None":
        try:
            verify = tuple(float(v) for v in data["verify"])
            if len(verify) != len(ROWS):
                return None
            draft, second = (
                None if data[name] is None else float(data[name]) for name in ("draft", "second")
            )
            return cls(float(data["target_seconds"]), verify, draft, second)
        except (KeyError, TypeError, ValueError):
            return None


Work = tuple[Callable[[], Any], int]
"""What is timed, and how many draft tokens it gives."""


def measure(pair: Pair, drafter: str, second: Any = None, k: int = 4) -> Costs:
    """Time passes of the target over 1 … 17 rows, and draft tokens, in turns.

    Args:
        second: a pair and a kind of drafter, or None.
        k: draft tokens a block.
    """
    ids = np.random.default_rng(0).integers(0, pair.vocab_size, CONTEXT + ROWS[-1]).tolist()
    works: dict[Any, Work] = {rows: (_pass(pair.target, ids, rows, ROWS[-1]), 1) for rows in ROWS}
    drafts = {"draft": (pair, drafter)} | ({} if second is None else {"second": second})
    for name, (whose, kind) in drafts.items():
        if work := _draft_tokens(whose, kind, ids, k):
            works[name] = work
    clock, _ = clock_for(pair.info.target.device)
    taken = in_turns({name: work for name, (work, _) in works.items()}, REPEATS, clock)
    seconds = {name: median(taken[name]) / tokens for name, (_, tokens) in works.items()}
    one = seconds[ROWS[0]]
    return Costs(
        one,
        tuple(seconds[rows] / one for rows in ROWS),
        seconds.get("draft", 0.0) / one,
        None if second is None else seconds.get("second", 0.0) / one,
    )


def _draft_tokens(pair: Pair, kind: str, ids: list[int], k: int) -> Work | None:
    """A pass of what drafts; None for what only looks up. A combined drafter costs what its model does:
    where it copies it costs less."""
    drafter: Any = make_drafter(kind, pair, SamplingConfig())
    drafter = getattr(drafter, "inner", drafter)
    if drafter.kind.partition(":")[0] in COPYING:
        return None
    if isinstance(drafter, MedusaDrafter):
        feature = _features(pair, ids[:1], drafter)[-1]
        return lambda: drafter.heads.forward(feature), min(k, drafter.heads.count)
    if isinstance(drafter, EagleDrafter):
        return _feature_pass(drafter, pair, ids), 1
    if isinstance(drafter, ParallelDrafter):
        return _pass(drafter.model, ids, k), k
    return _pass(drafter.model, ids, 1), 1


def _pass(model: LanguageModel, ids: list[int], rows: int, room: int | None = None) -> Callable[[], Any]:
    """A pass over so many rows, behind as many tokens as leave `room` for more."""
    ids, context = _possible(model, ids), _context(model, room or rows)
    cache = model.new_cache()
    model.forward(ids[:context], cache, 1)
    return _cut(lambda: model.forward(ids[context : context + rows], cache, rows), cache)


def _feature_pass(drafter: EagleDrafter, pair: Pair, ids: list[int]) -> Callable[[], Any]:
    """A pass over one token: as the later ones of a block, and the first after a rejection."""
    model, cache = drafter.model, drafter.cache
    context = min(_context(model, 1), _context(pair.target, 1))
    ids = _possible(pair.target, ids[: context + 1])
    features = _features(pair, ids[:context], drafter)
    if context > 1:  # the first token of a text has no feature before it
        model.forward(ids[1:context], features[:-1], cache)
    return _cut(lambda: model.forward([ids[context]], [features[-1]], cache), cache)


def _features(pair: Pair, ids: list[int], drafter: Any) -> Any:
    """The target's features of these tokens, as the drafter wants them."""
    fed = _possible(pair.target, ids)
    return pair.target.forward(fed, pair.target.new_cache(), 1, drafter.wants_features).features


def _context(model: Any, room: int) -> int:
    return max(1, min(CONTEXT, model.context_length - room - 1))


def _cut(work: Callable[[], Any], cache: Any) -> Callable[[], Any]:
    """The same work, whose additions to a cache are cut again."""
    length = caches.length(cache)

    def whole() -> None:
        work()
        caches.keep(cache, length)

    return whole


def _possible(model: LanguageModel, ids: list[int]) -> list[int]:
    """The same ids if they stand for tokens, others in their place."""
    available = model.available
    return ids if available is None else [int(available[i % len(available)]) for i in ids]
