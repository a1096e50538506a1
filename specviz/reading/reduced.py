"""The distributions of a recorded row as far as a trace keeps them: single tokens, and the rest as two lumps.

The lumps are the tokens outside the table with p > q, and the others. min(p, q) and max(0, p − q) have one
form throughout a lump, so overlap, residual and acceptance are those of the full rows.
"""

from dataclasses import dataclass

import numpy as np

from specviz.decoding.position import Position

LUMPS = 2  # behind the table's tokens


@dataclass(frozen=True, slots=True)
class Reduced:
    """A row's p and q.

    Attributes:
        ids: (n,) token of each column; the last two are None, the lumps.
        p, q: (n,) float64, each of sum 1; q is 0 throughout in a bonus row.
    """

    ids: tuple[int | None, ...]
    p: np.ndarray
    q: np.ndarray


def reduced(row: Position) -> Reduced:
    """The columns of a row, the table's tokens first and in its order."""
    table, rest = row.table, row.rest
    return Reduced(
        (*table.ids, None, None),
        np.array([*table.p, rest.p_over, rest.p_under]),
        np.array([*table.q, rest.q_over, rest.q_under]),
    )
