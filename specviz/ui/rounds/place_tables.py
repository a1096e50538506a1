"""Tables of one place, folded away below the inspector: a token's way to its probability, and all numbers."""

import pandas as pd
import streamlit as st

from specviz.decoding.trace import Trace
from specviz.reading.export import csv_bytes
from specviz.reading.inspect import Inspection
from specviz.reading.logit_steps import STEPS, Chain, Model, chain
from specviz.reading.prose import Notation, letters
from specviz.tokens import Show
from specviz.ui.state import keys


def chains(trace: Trace, place: Inspection, show: Show, notation: Notation, key: str) -> None:
    """The way of one token from its logits to its probabilities, folded away."""
    with st.expander(
        "From logit to probability",
        key=keys.of(key, keys.CHAIN),
        on_change="rerun",
        icon=":material/conversion_path:",
    ) as opened:
        if not opened.open:
            return
        ids = [c.token for c in place.candidates]
        first = place.added if place.state in ("corrected", "bonus") else place.row.token
        token = st.selectbox(
            "Token",
            ids,
            index=ids.index(first) if first in ids else 0,
            format_func=show,
            key=keys.of(key, keys.CHAIN, place.round.number, place.row_position, place.state),
        )
        st.dataframe(chain_table(trace, place, token, notation), hide_index=True, placeholder="")
        if place.row.token is None:
            st.caption("The draft has no row here: the bonus is the target's alone.")


def chain_table(
    trace: Trace, place: Inspection, token: int, notation: Notation = "leviathan"
) -> pd.DataFrame:
    """A row a step from logit to probability, a column a model."""
    columns: dict[str, dict[str, str]] = {}
    models: tuple[Model, Model] = ("target", "draft")
    for model, letter in zip(models, letters(notation), strict=True):
        steps = chain(trace, place.round, place.row_position - 1, token, model)
        if steps is not None:
            columns[f"{model} {letter}"] = _cells(steps)
    names = [name for name in STEPS if any(name in cells for cells in columns.values())]
    rows = {title: [cells.get(name, "") for name in names] for title, cells in columns.items()}
    return pd.DataFrame({"step": names, **rows})


def _cells(steps: Chain) -> dict[str, str]:
    if not steps.steps:
        return {"logit": "none", "probability": f"{steps.recorded:.4g}"}
    cells = {}
    for step in steps.steps:
        setting = f"{step.setting}: " if step.setting else ""
        value = "" if step.value is None else f"{step.value:.4g}"
        cells[step.name] = setting + " ".join(filter(None, (value, step.note)))
    return cells


def numbers(place: Inspection, show: Show, notation: Notation, key: str) -> None:
    """All numbers of the table, folded away, and as a file."""
    with st.expander(
        "All numbers", key=keys.of(key, keys.TABLE), on_change="rerun", icon=":material/table:"
    ) as opened:
        if not opened.open:
            return
        frame = table(place, show, notation)
        floats = [name for name in frame.columns if frame[name].dtype.kind == "f"]
        st.dataframe(
            frame,
            hide_index=True,
            column_config={name: st.column_config.NumberColumn(format="%.6g") for name in floats},
            placeholder="",
            key=keys.of(key, keys.TABLE_FRAME),
            alt="The tokens of this position with their numbers",
        )
        st.download_button(
            "CSV",
            csv_bytes(frame),
            f"round-{place.round.number}-position-{place.position}.csv",
            "text/csv",
            key=keys.of(key, keys.TABLE_CSV),
            icon=":material/download:",
            on_click="ignore",
        )


def table(place: Inspection, show: Show, notation: Notation = "leviathan") -> pd.DataFrame:
    """A row a candidate with its numbers in full, and one for all tokens outside the table."""
    p, q = letters(notation)
    rest = place.rest
    rows = [
        {
            "token": show(c.token),
            "id": c.token,
            p: c.p,
            q: c.q,
            f"{p}/{q}": c.ratio,
            "residual": c.residual,
            f"rank by {p}": c.p_rank,
            f"rank by {q}": c.q_rank,
            "rank by residual": c.residual_rank,
            f"{p} removed by": c.target_removed,
            f"{q} removed by": c.draft_removed,
        }
        for c in place.candidates
    ]
    if rest.count:
        rows.append({"token": f"{rest.count:,} others", p: rest.p, q: rest.q, "residual": rest.residual})
    frame = pd.DataFrame(rows)
    whole = ["id", f"rank by {p}", f"rank by {q}", "rank by residual"]
    return frame.astype(dict.fromkeys(whole, "Int64"))
