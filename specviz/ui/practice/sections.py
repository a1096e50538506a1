"""Practice: put a round in order, and check yourself."""

from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st

from specviz import traces
from specviz.decoding.trace import Trace
from specviz.lessons import library, numeric
from specviz.lessons import ordering as exercise
from specviz.lessons.library import Choice
from specviz.lessons.numeric import Problem
from specviz.tokens import shower
from specviz.ui.components.ordering import Order, ordering
from specviz.ui.learn.lessons import result
from specviz.ui.learn.widgets_rule import pick_round
from specviz.ui.shell.teaching import LARGEST, answers_hidden, number
from specviz.ui.state import keys, runs

SECTIONS = {
    "order": "Put a round in order",
    "verdict": "Predict the verdict",
    "cards": "Interview cards",
    "check": "Check yourself",
}
SEED = "exercise"
QUESTIONS = 8
VARIANTS = 3  # of a question with numbers, when one topic is practised
ALL = "all"


def choose_section() -> str:
    asked = st.query_params.get("practice")
    if asked in SECTIONS:
        st.session_state[keys.PRACTICE_SECTION] = asked

    def chosen() -> None:
        st.query_params["practice"] = st.session_state[keys.PRACTICE_SECTION]

    st.session_state.setdefault(keys.PRACTICE_SECTION, "order")
    section = st.segmented_control(
        "Exercise",
        list(SECTIONS),
        required=True,
        format_func=SECTIONS.__getitem__,
        key=keys.PRACTICE_SECTION,
        on_change=chosen,
        label_visibility="collapsed",
    )
    return section or "order"


def another(label: str = "Another one") -> None:
    """A button for the next exercise; its number is part of the address."""

    def onward() -> None:
        st.query_params[SEED] = str((number(SEED) + 1) % (LARGEST + 1))

    st.button(label, key=keys.ANOTHER, icon=":material/refresh:", on_click=onward)


def choose_run() -> Trace:
    """A run of this session, or a recorded one."""
    mine = {entry.name: f"{entry.title} (your run)" for entry in reversed(runs.mine()) if entry.trace.rounds}
    recorded = {r.name: f"{r.title} (recorded)" for r in traces.RECORDINGS if r.path.exists()}
    names = {**mine, **recorded}
    name = st.selectbox("Run", list(names), format_func=names.__getitem__, key=keys.PRACTICE_RUN)
    entry = runs.entry_by_name(name)
    return entry.trace if entry is not None else traces.load("capital")


def order_section() -> None:
    seed = number(SEED)
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
            count = st.segmented_control(
                "Common mistakes mixed in",
                [0, 1, 2, 3],
                default=0,
                required=True,
                key=keys.ORDER_MISTAKES,
                persist_state="session",  # also while the lines are those of a real round
            )
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
        where, other = ("before", move.second) if move.key == move.first else ("behind", move.first)
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


def choose_topic() -> str:
    names = {ALL: "All topics"} | {x.key: f"{x.number}. {x.title}" for x in library.lessons()}
    asked = st.query_params.get("topic")
    if asked in names:
        st.session_state[keys.CHECK_TOPIC] = asked

    def chosen() -> None:
        st.query_params["topic"] = st.session_state[keys.CHECK_TOPIC]

    return st.selectbox(
        "Topic", list(names), format_func=names.__getitem__, key=keys.CHECK_TOPIC, on_change=chosen
    )


def pool(topic: str, seed: int) -> list[tuple[str, Choice | Problem]]:
    """The questions of an exercise, by name, drawn by the seed."""
    fixed: list[tuple[str, Choice | Problem]] = [
        (f"{x.key}-{i}", q)
        for x in library.lessons()
        if topic in (ALL, x.key)
        for i, q in enumerate(x.questions)
    ]
    fresh: list[tuple[str, Choice | Problem]] = [
        (f"{kind}-{variant}", numeric.problem(kind, VARIANTS * seed + variant))
        for kind in numeric.GENERATORS
        if topic in (ALL, numeric.topic_of(kind))
        for variant in range(1 if topic == ALL else VARIANTS)
    ]
    order = np.random.default_rng([seed, 3]).permutation(len(fixed) + len(fresh))
    everything = [*fixed, *fresh]
    return [everything[i] for i in order][:QUESTIONS]


def check_section() -> None:
    seed = number(SEED)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        topic = choose_topic()
        another("New questions")
    questions = pool(topic, seed)
    answered = st.session_state.setdefault(keys.ANSWERED, {})
    names = [f"{name}-{seed}" for name, _ in questions]
    right = sum(answered.get(name) is True for name in names)
    tried = sum(name in answered for name in names)
    st.progress(tried / len(names), text=f"{tried} of {len(names)} answered, {right} right")
    for i, (name, (_, question)) in enumerate(zip(names, questions, strict=True), 1):
        with st.container(border=True, key=keys.of(keys.QUESTION, i)):
            st.markdown(
                f"**{i}.**\n\n{question.question}"
                if question.question.startswith("|")
                else f"**{i}.** {question.question}"
            )
            if isinstance(question, Choice):
                _choice(question, name, answered)
            else:
                _problem(question, name, answered)


def _choice(question: Choice, name: str, answered: dict[str, bool]) -> None:
    guess = st.radio(
        "Answer",
        range(len(question.options)),
        index=None,
        format_func=question.options.__getitem__,
        key=keys.of(keys.ANSWER, name),
        label_visibility="collapsed",
        disabled=name in answered,
    )
    if _asks_to_check(name, answered, guess is not None, lambda: guess == question.answer):
        result(question, guess)


def _problem(question: Problem, name: str, answered: dict[str, bool]) -> None:
    guess = st.number_input(
        "A number",
        value=None,
        step=0.01,
        format="%.4g",
        key=keys.of(keys.ANSWER, name),
        disabled=name in answered,
        width=220,
    )
    if not _asks_to_check(name, answered, guess is not None, lambda: question.right(float(guess or 0.0))):
        return
    steps = "\n".join(f"- {line}" for line in question.solution)
    if answered[name]:
        st.success(steps, title=f"Right: {question.answer:.4g}", icon=":material/check:")
    else:
        st.warning(steps, title=f"Not quite: {question.answer:.4g}", icon=":material/close:")


def _asks_to_check(name: str, answered: dict[str, bool], ready: bool, right: Callable[[], bool]) -> bool:
    """A button that checks an answer once; True when it has been checked."""
    if name in answered:
        return True
    if answers_hidden():
        return False

    def check() -> None:
        answered[name] = right()

    st.button("Check", key=keys.of(keys.CHECK, name), on_click=check, disabled=not ready)
    return False
