"""Timeline and inspector side by side: what a click on a token redraws, and nothing else."""

import streamlit as st

from specviz.ui.classroom import presenting
from specviz.ui.components.timeline import timeline
from specviz.ui.rounds import files
from specviz.ui.rounds.branch import branching
from specviz.ui.rounds.cache_audit import audit_button
from specviz.ui.rounds.inspector import chosen_notation, inspector, tell_ahead
from specviz.ui.state import address, keys, runs
from specviz.ui.state.runs import Entry


def stage(entry: Entry) -> None:
    """Timeline and inspector. A click on a token redraws these alone, and so that it is quick they hold
    little else. While a run goes on, which redraws the page all the time, they are drawn with it."""
    if runs.going():
        with st.container():  # a fragment has one; without it the timeline would be built anew
            _stage(entry)
    else:
        st.fragment(_stage)(entry)


def _stage(entry: Entry) -> None:
    shown = runs.current()
    if shown is None or shown.name != entry.name:
        st.rerun()  # a click that was made while the page changed to another run
    with st.container(key=keys.STAGE):
        left, right = st.columns([1.75, 1], gap="medium")
    notation = chosen_notation()
    known_ahead = not address.covered() and not runs.going()
    run = f"{entry.name} {len(entry.trace.rounds)} {notation}" if known_ahead else ""
    with left:
        state = timeline(
            entry.trace,
            selected=runs.selection(),
            key=keys.TIMELINE,
            on_select=runs.choose,
            live=runs.going(),
            covered=address.covered(),
            notation=notation,
            run=run,
            uncovered=presenting.uncovered(entry.name),
        )
    presenting.show_run(entry.name, runs.selection(), address.covered(), state.revealed, notation)
    at = _place(entry)
    with right:
        if at is None:
            _no_selection()
        elif address.covered() and at[0] not in state.revealed:
            _still_covered(at[0])
        else:
            inspector(entry.trace, *at, key=keys.INSPECTOR, run=run, entry=entry.name)
            buttons, below = st.container(horizontal=True), st.container()
            with buttons:
                branching(entry, at)
                audit_button(entry, below)
                files.save_round(entry, at[0])
            if known_ahead:
                looked_at = {at[0], state.view or at[0]}
                tell_ahead(entry.trace, looked_at, notation, key=keys.INSPECTOR, run=run)


def _place(entry: Entry) -> tuple[int, int] | None:
    """The selected place if the trace has it."""
    chosen = runs.selection()
    if chosen is None or not 1 <= chosen[0] <= len(entry.trace.rounds):
        return None
    return chosen if 1 <= chosen[1] <= entry.trace.rounds[chosen[0] - 1].k + 1 else None


def _no_selection() -> None:
    with st.container(border=True):
        st.markdown("##### Choose a token")
        st.write(
            "Click a token in the timeline, or move with the arrow keys: here you see what target and draft "
            "gave it, the draw that decided, and where a correction came from."
        )


def _still_covered(number: int) -> None:
    with st.container(border=True):
        st.markdown(f"##### Round {number} is covered")
        st.write("What do you expect? Decide first, then reveal the round in the timeline.")
