"""Practice: put a round in order."""

from collections.abc import Sequence

import streamlit as st

from specviz.lessons import ordering as exercise
from specviz.tokens import shower
from specviz.ui.components.ordering import Order, ordering
from specviz.ui.learn.widgets_rule import pick_round
from specviz.ui.practice.sections import SEED, another, choose_run
from specviz.ui.shell.teaching import answers_hidden, number
from specviz.ui.state import keys

MOST_MISTAKES = 3


def order_section() -> None:
    seed = number(SEED)
    _from_address()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        source = st.segmented_control(
            "Lines",
            ["five steps", "a real round"],
            default="five steps",
            required=True,
            key=keys.ORDER_SOURCE,
            persist_state="session",
        )
        if source == "five steps":
            count = _mistakes()
            lines = (*exercise.steps(), *exercise.distractors(count, seed))
            name = f"steps-{count}-{seed}"
        else:
            count = 0
            trace = choose_run()
            drafted = [r for r in trace.rounds if r.k] or list(trace.rounds)
            round = pick_round(trace, keys.ORDER_ROUND, max(drafted, key=lambda r: (r.accepted, -r.number)))
            lines = exercise.from_round(round, shower(trace))
            name = f"{trace.created}-{trace.seed}-{round.number}-{seed}"
    graded = keys.of(keys.GRADED, name)
    solved = bool(st.session_state.get(keys.of(keys.SOLVED, name)))
    belonging = [line for line in lines if line.rank is not None]
    mistakes = [line for line in lines if line.rank is None]
    marks = st.session_state.get(graded)
    order = ordering(
        belonging if solved else exercise.shuffled(lines, seed),
        out=mistakes if solved else (),
        exercise=f"{name}-{'solved' if solved else 'open'}",
        key=keys.ORDERING,
        bin=count > 0,
        marks=marks[1] if marks and marks[0] == _current(name) else None,
    )
    st.session_state[keys.of(keys.ORDER, name)] = order
    _order_buttons(lines, order, name)
    if marks and marks[0] == order:
        _explain(lines, order)


def _from_address() -> None:
    """Set up, once, the five steps with the common mistakes that the address asks for."""
    if st.query_params.get("mistakes"):
        asked = number("mistakes")
        st.session_state[keys.ORDER_MISTAKES] = asked if asked <= MOST_MISTAKES else 0
        st.session_state[keys.ORDER_SOURCE] = "five steps"
        st.query_params.pop("mistakes", None)


def _mistakes() -> int:
    """How many common mistakes are mixed in."""
    st.session_state.setdefault(keys.ORDER_MISTAKES, 0)
    count = st.segmented_control(
        "Common mistakes mixed in",
        list(range(MOST_MISTAKES + 1)),
        required=True,
        key=keys.ORDER_MISTAKES,
        persist_state="session",  # also while the lines are those of a real round
    )
    return count or 0


def _current(name: str) -> Order | None:
    """The order of the exercise as the browser last sent it."""
    memory = st.session_state.get(keys.of(keys.ORDERING, keys.MEMORY))
    return memory["order"] if memory and str(memory["exercise"]).startswith(name) else None


def _order_buttons(lines: Sequence[exercise.Line], order: Order, name: str) -> None:
    def check() -> None:
        now = _current(name) or order
        st.session_state[keys.of(keys.GRADED, name)] = (now, _marks(lines, now))

    def solve() -> None:
        st.session_state[keys.of(keys.SOLVED, name)] = True
        st.session_state.pop(keys.of(keys.GRADED, name), None)  # it was about another order

    with st.container(horizontal=True):
        if not answers_hidden():
            st.button("Check", key=keys.ORDER_CHECK, type="primary", on_click=check)
            st.button("Show the order", key=keys.ORDER_SOLVE, on_click=solve)
        another()


def _grade(lines: Sequence[exercise.Line], order: Order) -> exercise.Grade:
    by_key = {line.key: line for line in lines}
    return exercise.grade([by_key[key] for key in order.kept], lines)


def _marks(lines: Sequence[exercise.Line], order: Order) -> dict[str, str]:
    """Words for the lines that are wrong, "" for those that stand at their place; the others say nothing."""
    verdict = _grade(lines, order)
    texts = {line.key: line.text for line in lines}
    marks = {}
    for move in verdict.moves:
        where, other = ("before", move.second) if move.key == move.first else ("after", move.first)
        marks[move.key] = f"belongs {where}: {texts[other]}"
    ranks = {line.key: line.rank for line in lines}
    placed = {key: "" for i, key in enumerate(order.kept) if ranks[key] == i}
    left = {key: "" for key in order.out if ranks[key] is None}
    return {
        **placed,
        **left,
        **marks,
        **dict.fromkeys(verdict.extra, "does not belong in a round"),
        **dict.fromkeys(verdict.missing, "belongs in a round"),
    }


def _explain(lines: Sequence[exercise.Line], order: Order) -> None:
    verdict = _grade(lines, order)
    by_key = {line.key: line for line in lines}
    if verdict.right:
        st.success("Every line stands where it must.", title="Right", icon=":material/check:")
        return
    moves = len(verdict.moves)
    if moves:
        st.warning(
            "The other lines are in the right order among themselves.",
            title=f"{moves} line{'' if moves == 1 else 's'} to move",
            icon=":material/swap_vert:",
        )
    # Lines of a real round hold token text: shown as text, never as markup.
    for move in verdict.moves:
        with st.container(border=True):
            st.text(f"{by_key[move.first].text}\n… comes before …\n{by_key[move.second].text}")
            st.markdown(move.why)
    for key in verdict.extra:
        with st.container(border=True):
            st.markdown(f"**{by_key[key].text}** does not belong. {by_key[key].why_not}")
    for key in verdict.missing:
        with st.container(border=True):
            st.text(f"{by_key[key].text}\n… is part of every round.")
