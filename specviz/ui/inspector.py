"""The panel beside the timeline: one place of a run, from the verdict in words down to the logits."""

import pandas as pd
import streamlit as st

from specviz.analysis import explain
from specviz.analysis.caches import cache_strips, figures, next_feed
from specviz.analysis.chain import STEPS, Chain, Model, chain
from specviz.analysis.export import csv_bytes
from specviz.analysis.inspect import Inspection, inspect_position
from specviz.analysis.prose import GLYPHS, Notation, letters
from specviz.analysis.rejudge import NotRecorded, Rejudged, rejudge
from specviz.decoding.trace import Round, Trace
from specviz.decoding.verify import VerifyError
from specviz.ui import charts, pictures
from specviz.ui.markup import code, markdown
from specviz.ui.text import visible

BADGES = {
    "accepted": "green",
    "rejected": "orange",
    "discarded": "gray",
    "corrected": "yellow",
    "bonus": "blue",
}
NOTATIONS: dict[Notation, str] = {"leviathan": "p target, q draft", "chen": "q target, p draft"}


def inspector(trace: Trace, round: int, position: int, *, key: str, notation: Notation = "leviathan") -> None:
    """Show one place of a run.

    Args:
        trace: the run.
        round: number of the round, from 1.
        position: 1 … K for a draft token, K + 1 for the corrected or bonus token.
        key: names the widgets of this panel.
        notation: what the notation switch starts with.

    Raises:
        ValueError: if the trace has no such place.
    """
    place = inspect_position(trace, round, position)

    def show(token: int) -> str:
        return visible(place.text(token))

    with st.container(border=True, key=f"{key}-panel"):
        words, coin, sums, more = (st.container() for _ in range(4))
        with sums:
            lines = st.container()
            notation = notation_switch(notation)
        with words:
            _heading(place, show)
            _verdict(place, show, notation)
            if place.candidates:
                _distributions(place, show, notation, key)
            else:
                st.caption("The trace holds no table of tokens for this position.")
        with coin:
            if place.row.u is not None:
                _coin(place, show, notation, key)
        formula = explain.formula(place, notation)
        if formula:
            lines.code("\n".join(formula), language=None, wrap_lines=True)
        with more:
            if place.candidates:
                _chains(trace, place, show, notation, key)
                _table(place, show, notation, key)
    with st.container(border=True, key=f"{key}-caches"):
        _caches(trace, place.round, show, key)


def notation_switch(default: Notation = "leviathan") -> Notation:
    """The choice between the letters of Leviathan et al. and those of Chen et al.; part of the address."""
    choices: list[Notation] = list(NOTATIONS)
    return st.segmented_control(
        "Notation",
        choices,
        default=default,
        required=True,
        format_func=NOTATIONS.__getitem__,
        key="notation",
        bind="query-params",
        help="Leviathan et al. (2023) call the target p and the draft q, Chen et al. (2023) the reverse.",
    )


def _heading(place: Inspection, show: charts.Show) -> None:
    where = f"Round {place.round.number} · position {place.position}"
    st.markdown(f"##### {where} · {code(show(place.token))} {_badge(place.state)}", anchors=False)


def _verdict(place: Inspection, show: charts.Show, notation: Notation) -> None:
    st.markdown(markdown(explain.verdict(place, notation), show))
    st.write(explain.residual_line(place, notation))


def _distributions(place: Inspection, show: charts.Show, notation: Notation, key: str) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(
            f"**{' and '.join(letters(notation))}**" if place.row.q else f"**{letters(notation)[0]}**"
        )
        log = st.toggle("Log scale", key=f"{key}-log")
    st.plotly_chart(
        charts.distributions(place, show, notation, log),
        key=f"{key}-distributions",
        config=charts.CONFIG,
        alt=charts.describe_distributions(place, show, notation),
    )
    if place.row.residual_mass is not None:
        st.caption(explain.masses(place, notation))


@st.fragment
def _coin(place: Inspection, show: charts.Show, notation: Notation, key: str) -> None:
    """The accept probability and the coin; dragging the coin judges the round again."""
    recorded = place.row.u
    assert recorded is not None
    widget = f"{key}-u-{place.round.number}-{place.row_position}"
    u = st.session_state.get(widget, recorded)
    pictures.gauge(place, u, f"{key}-gauge")
    if place.state == "discarded":
        return
    st.slider(
        f"What if the random number u had fallen elsewhere? {explain.coins(place)}",
        0.0,
        max(0.999, recorded),
        value=recorded,
        step=0.001,
        format="%.3f",
        key=widget,
        help="The round is judged again from the recorded numbers; its other random numbers stay.",
    )
    if u != recorded:
        _what_if(place, u, show, notation, widget)


def _what_if(place: Inspection, u: float, show: charts.Show, notation: Notation, widget: str) -> None:
    def back() -> None:
        st.session_state[widget] = place.row.u

    with st.container(border=True):
        st.markdown(":violet-badge[:material/help: What if] not what happened")
        try:
            again = rejudge(place.round, accept_us={place.row_position - 1: u})
        except (NotRecorded, VerifyError) as error:
            st.text(f"This round cannot be judged again: {error}.")
        else:
            st.markdown(markdown(explain.what_if(place, again, u, notation), show))
            with st.container(horizontal=True, gap="small"):
                for word in _round_again(place, again, show):
                    st.markdown(word, width="content")
        st.button("Back to the recorded u", on_click=back, key=f"{widget}-back", icon=":material/undo:")


def _round_again(place: Inspection, again: Rejudged, show: charts.Show) -> list[str]:
    """The round as it would have ended, token by token."""
    drafted = zip(again.states, place.round.draft_tokens, strict=False)
    added = "a token not told apart" if again.token is None else code(show(again.token))
    return [
        *(f"{_badge(state)} {code(show(token))}" for state, token in drafted),
        f"{_badge(again.outcome)} {added}",
    ]


def _badge(state: str) -> str:
    return f":{BADGES[state]}-badge[{GLYPHS[state]} {state}]"


def _chains(trace: Trace, place: Inspection, show: charts.Show, notation: Notation, key: str) -> None:
    with st.expander(
        "From logit to probability", key=f"{key}-chain", on_change="rerun", icon=":material/conversion_path:"
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
            key=f"{key}-chain-{place.round.number}-{place.row_position}-{place.state}",
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


def _table(place: Inspection, show: charts.Show, notation: Notation, key: str) -> None:
    with st.expander("All numbers", key=f"{key}-table", on_change="rerun", icon=":material/table:") as opened:
        if not opened.open:
            return
        frame = table(place, show, notation)
        numbers = [name for name in frame.columns if frame[name].dtype.kind == "f"]
        st.dataframe(
            frame,
            hide_index=True,
            column_config={name: st.column_config.NumberColumn(format="%.6g") for name in numbers},
            placeholder="",
            key=f"{key}-table-frame",
            alt="The tokens of this position with their numbers",
        )
        st.download_button(
            "CSV",
            csv_bytes(frame),
            f"round-{place.round.number}-position-{place.position}.csv",
            "text/csv",
            key=f"{key}-table-csv",
            icon=":material/download:",
            on_click="ignore",
        )


def table(place: Inspection, show: charts.Show, notation: Notation = "leviathan") -> pd.DataFrame:
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


def _caches(trace: Trace, round: Round, show: charts.Show, key: str) -> None:
    strips = cache_strips(trace, round)
    st.markdown("##### Caches: what stays, what is removed", anchors=False)
    pictures.caches(strips, show, f"{key}-strips")
    for strip in strips:
        says = markdown(next_feed(round, strip), show)
        st.markdown(f":small[**{strip.role.capitalize()}** {code(strip.model)}: {figures(strip)}. {says}]")
    if len(strips) == 1:
        st.caption("This drafter keeps no cache of its own.")
