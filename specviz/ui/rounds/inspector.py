"""The panel beside the timeline: one place of a run, from the verdict in words down to the logits."""

from collections.abc import Iterable, Iterator, Sequence

import streamlit as st

from specviz.decoding.trace import Round, Trace
from specviz.decoding.verify import VerifyError
from specviz.reading import explain, explain_numbers
from specviz.reading.cache_cells import cache_strips, figures, next_feed
from specviz.reading.inspect import Inspection, inspect_position
from specviz.reading.prose import GLYPHS, Notation, name, sentence, strong
from specviz.reading.rejudge import NotRecorded, Rejudged, rejudge
from specviz.tokens import Show, shower
from specviz.ui.components.blocks import Block, Formula, Heading, ahead, blocks, packed, prose
from specviz.ui.rounds import gauges
from specviz.ui.rounds.bars import distributions
from specviz.ui.rounds.place_tables import chains, numbers
from specviz.ui.shell.markup import code, markdown
from specviz.ui.state import keys

BADGES = {
    "accepted": "green",
    "rejected": "orange",
    "discarded": "gray",
    "corrected": "yellow",
    "bonus": "blue",
}
WINDOW = 8  # rounds that the browser is told about at once
NOTATIONS: dict[Notation, str] = {"leviathan": "p target, q draft", "chen": "q target, p draft"}


def inspector(trace: Trace, round: int, position: int, *, key: str, run: str = "", entry: str = "") -> None:
    """Show one place of a run.

    Args:
        trace: the run.
        round: number of the round, from 1.
        position: 1 … K for a draft token, K + 1 for the corrected or bonus token.
        key: names the widgets of this panel.
        run: the name under which the timeline shows the run; see `blocks`.
        entry: the run's own name: what is tried out here stays with it.

    Raises:
        ValueError: if the trace has no such place.
    """
    place = inspect_position(trace, round, position)
    show = shower(trace)
    with st.container(border=True, key=keys.of(key, keys.PANEL)):
        words, coin, more = st.container(), st.container(), st.container()
        notation = notation_switch()
        with words:
            blocks(
                _told(place, show, notation), key=keys.of(key, keys.TOLD), run=run, place=(round, position)
            )
        with more:
            blocks(
                _spelled_out(place, show, notation),
                key=keys.of(key, keys.MORE),
                run=run,
                place=(round, position),
            )
        if place.row.u is not None and not place.in_tree:
            with coin:
                _coin(place, show, notation, key, run, entry)
        if place.candidates:
            chains(trace, place, show, notation, key)
            numbers(place, show, notation, key)
    with st.container(border=True, key=keys.of(key, keys.CACHES)):
        blocks(
            _caches(trace, place.round, show), key=keys.of(key, keys.CELLS), run=run, place=(round, position)
        )


def reading(trace: Trace, round: int, position: int, *, key: str, notation: Notation) -> None:
    """One place of a run to read only: the verdict in words, bars and the formula, nothing to change."""
    place = inspect_position(trace, round, position)
    show = shower(trace)
    with st.container(border=True, key=keys.of(key, keys.PANEL)):
        told = [*_told(place, show, notation), *_spelled_out(place, show, notation)]
        blocks(told, key=keys.of(key, keys.TOLD), place=(round, position))


def tell_ahead(trace: Trace, near: Iterable[int], notation: Notation, *, key: str, run: str) -> None:
    """Let the browser know what the inspector shows in the rounds around some, so that it need not ask.

    Rounds are told in windows that stand still, so that most moves send nothing.

    Args:
        trace, notation: as for `inspector`.
        near: numbers of rounds.
        key: that of the inspector.
        run: the name for the trace that the timeline has.
    """
    known: tuple[str, dict[int, str]] = st.session_state.get(keys.of(key, keys.AHEAD), ("", {}))
    if known[0] != run:
        known = st.session_state[keys.of(key, keys.AHEAD)] = run, {}
    last = (len(trace.rounds) - 1) // WINDOW
    windows = {(number - 1 + way) // WINDOW for number in near for way in (-WINDOW // 2, WINDOW // 2)}
    with st.container(key=keys.of(key, keys.UNSEEN)):
        for window in sorted(windows & set(range(last + 1))):
            if window not in known[1]:
                rounds = trace.rounds[window * WINDOW : (window + 1) * WINDOW]
                known[1][window] = packed(_around(trace, rounds, notation, key))
            ahead(run, known[1][window], key=keys.of(key, keys.AHEAD, window))


def _around(
    trace: Trace, rounds: Sequence[Round], notation: Notation, key: str
) -> dict[tuple[int, int], dict[str, Iterable[Block]]]:
    """What the inspector draws at every place of these rounds, by the keys of its components."""
    found: dict[tuple[int, int], dict[str, Iterable[Block]]] = {}
    show = shower(trace)
    for round in rounds:
        cells = list(_caches(trace, round, show))
        for position in range(1, round.k + 2):
            place = inspect_position(trace, round.number, position)
            gauge = [] if place.row.u is None or place.in_tree else [gauges.gauge(place, place.row.u)]
            found[round.number, position] = {
                f"{key}-told": _told(place, show, notation),
                f"{key}-gauge": gauge,
                f"{key}-more": _spelled_out(place, show, notation),
                f"{key}-cells": cells,
            }
    return found


def chosen_notation() -> Notation:
    """What the notation switch says, also before it is drawn for the first time."""
    if keys.NOTATION in st.session_state:
        return st.session_state[keys.NOTATION]
    # The address holds what the switch shows.
    return "chen" if st.query_params.get("notation") == NOTATIONS["chen"] else "leviathan"


def notation_switch() -> Notation:
    """The choice between the letters of Leviathan et al. and those of Chen et al.; part of the address."""
    choices: list[Notation] = list(NOTATIONS)
    return st.segmented_control(
        "Notation",
        choices,
        default=choices[0],
        required=True,
        format_func=NOTATIONS.__getitem__,
        key=keys.NOTATION,
        bind="query-params",
        help="Leviathan et al. (2023) call the target p and the draft q, Chen et al. (2023) the reverse.",
    )


def _told(place: Inspection, show: Show, notation: Notation) -> Iterator[Block]:
    """The verdict in words and numbers, and the bars of p and q."""
    yield Heading(
        f"Round {place.round.number} · position {place.position}",
        show(place.token),
        place.state,
        GLYPHS[place.state],
    )
    yield prose(explain.verdict(place, notation), show)
    if place.candidates:
        yield distributions(place, show, notation)
    else:
        yield prose(sentence("The trace holds no table of tokens for this position."), show, small=True)


def _spelled_out(place: Inspection, show: Show, notation: Notation) -> Iterator[Block]:
    """The verdict as a formula, and what the residual is for."""
    formula = explain_numbers.formula(place, notation)
    if formula:
        yield Formula(formula)
    yield prose(sentence(explain_numbers.residual_line(place, notation)), show)
    if place.candidates and place.row.residual_mass is not None:
        yield prose(sentence(explain_numbers.masses(place, notation)), show, small=True)


@st.fragment
def _coin(place: Inspection, show: Show, notation: Notation, key: str, run: str, entry: str) -> None:
    """The accept probability and the coin; dragging the coin judges the round again."""
    recorded = place.row.u
    assert recorded is not None
    widget = keys.of(key, keys.U, entry, place.round.number, place.row_position)
    u = st.session_state.get(widget, recorded)
    blocks(
        [gauges.gauge(place, u)],
        key=keys.of(key, keys.GAUGE),
        run=run,
        place=(place.round.number, place.position),
    )
    if place.state == "discarded" and not place.by_blocks:
        return
    st.slider(
        f"What if the random number u had fallen elsewhere? {explain_numbers.coins(place)}",
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


def _what_if(place: Inspection, u: float, show: Show, notation: Notation, widget: str) -> None:
    def back() -> None:
        st.session_state[widget] = place.row.u

    with st.container(border=True):
        st.markdown(":violet-badge[:material/help: What if] not what happened")
        try:
            again = rejudge(place.round, accept_us={place.row_position - 1: u})
        except (NotRecorded, VerifyError) as error:
            st.text(f"This round cannot be judged again: {error}.")
        else:
            st.markdown(markdown(explain_numbers.what_if(place, again, u, notation), show))
            with st.container(horizontal=True, gap="small"):
                for word in _round_again(place, again, show):
                    st.markdown(word, width="content")
        st.button(
            "Back to the recorded u", on_click=back, key=keys.of(widget, keys.BACK), icon=":material/undo:"
        )


def _round_again(place: Inspection, again: Rejudged, show: Show) -> list[str]:
    """The round as it would have ended, token by token."""
    drafted = zip(again.states, place.round.draft_tokens, strict=False)
    added = "a token not told apart" if again.token is None else code(show(again.token))
    return [
        *(f"{_badge(state)} {code(show(token))}" for state, token in drafted),
        f"{_badge(again.outcome)} {added}",
    ]


def _badge(state: str) -> str:
    return f":{BADGES[state]}-badge[{GLYPHS[state]} {state}]"


def _caches(trace: Trace, round: Round, show: Show) -> Iterator[Block]:
    strips = cache_strips(trace, round)
    yield Heading("Caches: what stays, what is removed")
    yield gauges.caches(strips, show)
    for strip in strips:
        who = strong(strip.role.capitalize()), " ", name(strip.model), f": {figures(strip)}. "
        yield prose((*sentence(*who), *next_feed(round, strip)), show, small=True)
    if len(strips) == 1:
        yield prose(sentence("This drafter keeps no cache of its own."), show, small=True)
