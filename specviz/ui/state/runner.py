"""Making rounds on a page: start, step, stop, branch. A run lives in the session, not in the script.

The script makes rounds for a moment, then starts over, so that every control answers while a run goes on.
"""

from dataclasses import dataclass
from time import monotonic
from typing import Any

import streamlit as st

from specviz.decoding.run import RunError
from specviz.models.errors import LoadError
from specviz.recipe import Recipe
from specviz.ui.state import keys, pairs, runs
from specviz.ui.state.runs import Entry

# Long enough that drawing does not dominate, short enough that a click feels answered.
BURST_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Branch:
    """A wish to go on from a place of a run in another way.

    Attributes:
        entry, at: the run, and the (round, position) that is replaced.
        token: what is taken there; None leaves it to the new run.
        recipe: how the new run goes on.
    """

    entry: Entry
    at: tuple[int, int]
    token: int | None
    recipe: Recipe


def going() -> bool:
    return bool(st.session_state.get(keys.GOING))


def start() -> None:
    st.session_state[keys.GOING] = "run"


def step() -> None:
    st.session_state[keys.GOING] = "step"


def stop() -> None:
    st.session_state[keys.GOING] = ""


def resumable(entry: Entry | None, recipe: Recipe) -> bool:
    """True if the shown run can go on with these settings."""
    return entry is not None and entry.run is not None and entry.run.finish is None and entry.recipe == recipe


def advance(entry: Entry | None, recipe: Recipe, place: Any) -> None:
    """Make rounds if asked to, then start the script over. Shows progress and errors in `place`."""
    wanted: Branch | None = st.session_state.pop(keys.BRANCH, None)
    mode = st.session_state.get(keys.GOING)
    if not mode and wanted is None:
        return
    try:
        if wanted is not None:
            entry = branch(wanted, pairs.obtain(wanted.recipe, place))
            mode = st.session_state[keys.GOING] = "run"
            recipe = wanted.recipe
        if not resumable(entry, recipe):
            entry = begin(recipe, pairs.obtain(recipe, place))
        assert entry is not None
        _burst(entry, once=mode == "step")
    except (LoadError, RunError, ValueError) as error:
        # The message outlives the rerun; the rounds so far are kept.
        st.session_state[keys.TROUBLE] = str(error)
        stop()
    if entry is not None and entry.run is not None:
        entry.trace = entry.run.trace()
        runs.show(entry, runs.selection() or (1, 1))
    st.rerun()


def begin(recipe: Recipe, pair: Any) -> Entry:
    """A new live entry."""
    run = recipe.start(pair)
    return Entry(runs.new_name(), _title(recipe), "live", run.trace(), recipe, run)


def _burst(entry: Entry, once: bool) -> None:
    until = monotonic() + BURST_SECONDS
    while entry.run.finish is None:
        with pairs.shelf().stepping:
            entry.run.step()
        if once or monotonic() > until:
            break
    if once or entry.run.finish is not None:
        stop()


def branch(wanted: Branch, pair: Any) -> Entry:
    """A new live entry: the text of another up to a place, the token taken there, then on by the recipe."""
    trace, (number, position) = wanted.entry.trace, wanted.at
    round = trace.rounds[number - 1]
    before = (trace.prompt_ids + trace.output_ids)[: round.start]
    kept = round.draft_tokens[: min(position - 1, round.accepted)]
    taken = () if wanted.token is None else (wanted.token,)
    run = wanted.recipe.start(pair, prompt=[*before, *kept, *taken])
    title = f"branch at round {number}, position {position} · {_title(wanted.recipe)}"
    parent = (wanted.entry.name, number, position)
    return Entry(runs.new_name(), title, "live", run.trace(), wanted.recipe, run, parent)


def _title(recipe: Recipe) -> str:
    text = " ".join(recipe.prompt.split())
    return (
        f"{text[:32]}{'…' if len(text) > 32 else ''} · {recipe.drafter} · K {recipe.k} · seed {recipe.seed}"
    )
