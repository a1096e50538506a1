"""How many bytes runs and traces take, near enough to bound what a server holds."""

from typing import Any

import numpy as np

from specviz.decoding.trace import Trace

POSITION = 1200  # a Position's own values
CANDIDATE = 300  # a token of its table: seven numbers as Python objects, in tuples
ROUND = 800
TOKEN = 250  # a token's text


def trace_bytes(trace: Trace) -> int:
    """A trace as Python objects."""
    rows = [row for round in trace.rounds for row in round.positions]
    listed = sum(len(row.table.ids) for row in rows)
    return (
        ROUND * (1 + len(trace.rounds))
        + POSITION * len(rows)
        + CANDIDATE * listed
        + TOKEN * len(trace.tokens)
    )


def run_bytes(run: Any) -> int:
    """What a run holds beside its trace: both caches, and the full rows of its last round."""
    if run is None:
        return 0
    rows = run.recent
    held = 0 if rows is None else rows.target_probs.nbytes + rows.draft_probs.nbytes
    return held + sum(_cache(cache) for cache in (run.target_cache, run.drafter.cache) if cache is not None)


def _cache(cache: Any) -> int:
    # A growing cache's keys are the front of a larger tensor, which it holds too: that memory counts once.
    return sum(
        weigh(value) for layer in cache.layers for name, value in vars(layer).items() if name[0] != "_"
    )


def weigh(value: Any) -> int:
    """Arrays, tensors and what contains them; anything else counts little."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if hasattr(value, "untyped_storage"):
        return int(value.untyped_storage().nbytes())
    if isinstance(value, dict):
        return 64 + sum(weigh(part) for part in value.values())
    if isinstance(value, (tuple, list, set, frozenset)):
        return 64 + sum(weigh(part) for part in value)
    fields = getattr(value, "__dataclass_fields__", None)
    if fields:
        return 64 + sum(weigh(getattr(value, name, None)) for name in fields)
    return 64 + (len(value) if isinstance(value, (str, bytes)) else 0)
