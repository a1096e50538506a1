"""The table of a position, the tokens worth drawing, and the mass of all others."""

from typing import Any

import numpy as np

from specviz.decoding.controls import REMOVED
from specviz.decoding.drafters.base import Proposal
from specviz.decoding.position import Rest, Table
from specviz.decoding.sampling import Effective


def table_of(
    ids: np.ndarray,
    row: int,
    p: np.ndarray,
    q: np.ndarray | None,
    target_logits: np.ndarray,
    target: Effective,
    proposal: Proposal,
) -> Table:
    """The table of `ids`, given in any order and more than once."""
    ids = np.unique(ids.astype(np.int64))
    q_ids = np.zeros(len(ids)) if q is None else q[ids]
    order = np.lexsort((ids, -q_ids, -p[ids]))
    ids, q_ids = ids[order], q_ids[order]
    draft_logits = None if q is None or proposal.logits is None else proposal.logits[row]
    return Table(
        ids=tuple(ids.tolist()),
        p=tuple(p[ids].tolist()),
        q=tuple(q_ids.tolist()),
        target_logits=_logits(target_logits[ids]),
        draft_logits=(None,) * len(ids) if draft_logits is None else _logits(draft_logits[ids]),
        target_removed=_removed(target.removed, row, ids),
        draft_removed=_removed(proposal.removed if q is not None else None, row, ids),
    )


def _logits(values: np.ndarray) -> tuple[float | None, ...]:
    """Logits as plain floats; None where the model has none (ids outside its vocabulary)."""
    return tuple(v if np.isfinite(v) else None for v in values.tolist())


def _removed(codes: np.ndarray | None, row: int, ids: np.ndarray) -> tuple:
    if codes is None:
        return ("",) * len(ids)
    return tuple(REMOVED[code] for code in codes[row, ids])


def rest_of(
    p: np.ndarray, q: np.ndarray | None, held: Any, table: Table, vocab_size: int, work: np.ndarray
) -> Rest:
    """What `table` leaves. `p` and `q` are those of the ids `held`."""
    count = vocab_size - len(table.ids)
    ids = np.array(table.ids)
    if not isinstance(held, slice):
        places = np.minimum(np.searchsorted(held, ids), len(held) - 1)
        ids = places[held[places] == ids]
    # Products with 0/1 weights: several times faster than picking elements by a mask.
    over, under = work[:2]
    if q is None:
        over.fill(1.0)
        over[ids] = 0.0
        return Rest(count, float(p @ over), 0.0, 0.0, 0.0)
    np.copyto(over, p > q)
    np.subtract(1.0, over, out=under)
    over[ids] = under[ids] = 0.0
    return Rest(
        count=count,
        p_over=float(p @ over),
        q_over=float(q @ over),
        p_under=float(p @ under),
        q_under=float(q @ under),
    )
