"""A run as tables for a spreadsheet or a notebook.

Token text comes from a model and may begin with =, +, - or @, which a spreadsheet would run as a formula.
In CSV such a cell gets an apostrophe in front (as do cells that begin with a tab or a line break); the
`bytes` column always has the exact bytes in hexadecimal. Parquet holds the text unchanged.
"""

from io import BytesIO
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from specviz.decoding.trace import Round, Trace

WHOLE = ("token", "p_rank", "q_rank", "draft_cache_before", "draft_cache_fed", "draft_cache_kept")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def rounds_frame(trace: Trace) -> pd.DataFrame:
    """A row a round: what was drafted, accepted and added, cache movements and wall times.

    `log_prob` and `raw_log_prob` are of the token that the round added, where it was committed: natural logs
    of its probability under the target after and before all controls.
    """
    rows = []
    for round in trace.rounds:
        row: dict[str, Any] = {
            "round": round.number,
            "start": round.start,
            "drafted": round.k,
            "accepted": round.accepted,
            "outcome": round.outcome,
            **_token(trace, round.token),
            "correct_u": round.correct_u,
            "residual_empty": round.residual_empty,
            **_log_probs(round, round.accepted),
            "committed": len(round.committed),
            "finish": round.finish,
            "verifier": round.verifier,
        }
        for model, step in (("target", round.target_cache), ("draft", round.draft_cache)):
            for name in ("before", "fed", "kept"):
                row[f"{model}_cache_{name}"] = None if step is None else getattr(step, name)
        row |= {
            "draft_seconds": round.draft_seconds,
            "verify_seconds": round.verify_seconds,
            "other_seconds": round.other_seconds,
            "record_seconds": round.record_seconds,
        }
        rows.append(row)
    return _frame(rows)


def positions_frame(trace: Trace) -> pd.DataFrame:
    """A row a position: the scalars of the full distributions. The last of a round is the bonus row.

    `prefix_weight` and `prefix_passes` are r and h of block verification; empty under other rules.
    `log_prob` and `raw_log_prob` are of the draft token, where it was committed; see `rounds_frame`.
    """
    scalars = (
        "p",
        "q",
        "accept_probability",
        "prefix_weight",
        "prefix_passes",
        "u",
        "draft_u",
        "p_rank",
        "q_rank",
        "beta",
        "tv",
        "residual_mass",
        "kl",
        "p_entropy",
        "q_entropy",
    )
    return _frame(
        [
            {
                "round": round.number,
                "position": i,
                "state": position.state,
                **_token(trace, position.token),
                **{name: getattr(position, name) for name in scalars},
                **_log_probs(round, i - 1 if i <= round.accepted else None),
            }
            for round in trace.rounds
            for i, position in enumerate(round.positions, 1)
        ]
    )


def tables_frame(trace: Trace) -> pd.DataFrame:
    """A row a token of each position's table, and one without an id for all other tokens together.

    `residual` is normalised; `count` is the number of tokens a row stands for.
    """
    rows = []
    for round in trace.rounds:
        for i, position in enumerate(round.positions, 1):
            where = {"round": round.number, "position": i}
            table = position.table
            mass = position.residual_mass
            for j, token in enumerate(table.ids):
                p, q = table.p[j], table.q[j]
                rows.append(
                    {
                        **where,
                        **_token(trace, token),
                        "count": 1,
                        "p": p,
                        "q": None if position.token is None else q,
                        "residual": max(0.0, p - q) / mass if mass else None,
                        "target_logit": table.target_logits[j],
                        "draft_logit": table.draft_logits[j],
                        "target_removed": table.target_removed[j],
                        "draft_removed": table.draft_removed[j],
                    }
                )
            rest = position.rest
            rows.append(
                {
                    **where,
                    **_token(trace, None),
                    "count": rest.count,
                    "p": rest.p_over + rest.p_under,
                    "q": None if position.token is None else rest.q_over + rest.q_under,
                    "residual": max(0.0, rest.p_over - rest.q_over) / mass if mass else None,
                    "target_logit": None,
                    "draft_logit": None,
                    "target_removed": "",
                    "draft_removed": "",
                }
            )
    return _frame(rows)


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """UTF-8 CSV with a byte order mark (spreadsheets need it), text cells safe to open in a spreadsheet."""
    texts = [name for name in frame.columns if not is_numeric_dtype(frame[name])]
    safe = frame.assign(**{name: frame[name].map(_harmless) for name in texts})
    return safe.to_csv(index=False).encode("utf-8-sig")


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    out = BytesIO()
    frame.to_parquet(out, index=False)
    return out.getvalue()


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    # Whole numbers stay whole where some are missing.
    return frame.astype({name: "Int64" for name in WHOLE if name in frame})


def _token(trace: Trace, token: int | None) -> dict[str, Any]:
    """Id, text and exact bytes of a token; None for all where there is none."""
    known = None if token is None else trace.tokens[token]
    return {
        "token": token,
        "text": None if known is None else known.data.decode("utf-8", errors="replace"),
        "bytes": None if known is None else known.data.hex(),
        "special": None if known is None else known.special,
    }


def _log_probs(round: Round, place: int | None) -> dict[str, float | None]:
    """Of the committed token at `place` (from 0); None for a token that was not committed."""

    def at(values: tuple[float | None, ...]) -> float | None:
        return values[place] if place is not None and place < len(values) else None

    return {"log_prob": at(round.log_probs), "raw_log_prob": at(round.raw_log_probs)}


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
