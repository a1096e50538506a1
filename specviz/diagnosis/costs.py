"""What a pass costs here, for the predicted speed-ups of an audit. Medians of a few passes on this
machine."""

from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.drafters import COPYING, make_drafter
from specviz.decoding.protocols import LanguageModel, Pair
from specviz.decoding.sampling import SamplingConfig

ROWS = (1, 2, 3, 5, 9, 17)
CONTEXT, REPEATS = 48, 5


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of passes, relative to one pass of the target over one row.

    Attributes:
        target_seconds: one row of the target.
        verify: relative cost of passes over `ROWS` rows.
        draft: relative cost of one draft token; None if it was not measured.
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


def measure(pair: Pair, drafter: str, second: Any = None) -> Costs:
    """Time passes of the target over 1 … 17 rows, and draft tokens.

    Args:
        second: a pair and a kind of drafter, or None.
    """
    tokens = list(np.random.default_rng(0).integers(0, pair.vocab_size, CONTEXT + ROWS[-1]))
    limit = pair.target.context_length
    context = max(1, min(CONTEXT, limit - ROWS[-1] - 1))
    one = None
    verify = []
    for rows in ROWS:
        seconds = _pass(pair.target, [int(t) for t in tokens], context, rows)
        one = one or seconds
        verify.append(seconds / one)
    assert one is not None
    drafts = [_draft_token(pair, drafter, tokens, context)]
    drafts.append(None if second is None else _draft_token(second[0], second[1], tokens, context))
    draft, other = (None if s is None else s / one for s in drafts)
    return Costs(one, tuple(verify), draft, other)


def _pass(model: LanguageModel, tokens: list[int], context: int, rows: int) -> float:
    available = model.available
    if available is not None:  # random ids may stand for no token
        tokens = [int(available[t % len(available)]) for t in tokens]
    cache = model.new_cache()
    model.forward(tokens[:context], cache, 1)
    times = []
    for _ in range(REPEATS + 1):
        began = perf_counter()
        model.forward(tokens[context : context + rows], cache, rows)
        times.append(perf_counter() - began)
        caches.keep(cache, context)
    return median(times[1:])


def _draft_token(pair: Pair, kind: str, tokens: Any, context: int) -> float | None:
    """Seconds a draft token; 0 for prompt lookup, None where it only comes out of a run."""
    drafter = make_drafter(kind, pair, SamplingConfig())
    if kind.partition(":")[0] in COPYING:
        return 0.0
    model = getattr(drafter, "model", None)
    if drafter.wants_features or model is None:
        return None
    return _pass(model, [int(t) for t in tokens], context, 1)
