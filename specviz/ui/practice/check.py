"""Practice: check yourself, with fixed questions and ones with numbers of their own."""

from collections.abc import Callable

import numpy as np
import streamlit as st

from specviz.lessons import library, numeric, progress
from specviz.lessons.library import Choice
from specviz.lessons.numeric import Problem
from specviz.ui.components import memory
from specviz.ui.learn.lessons import result
from specviz.ui.practice.sections import SEED, another
from specviz.ui.shell.teaching import answers_hidden, number
from specviz.ui.state import keys

QUESTIONS = 8
VARIANTS = 3  # of a question with numbers, when one topic is practised
ALL = "all"
CHECKS = "checks"


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
    answered: dict[str, tuple[bool, float]] = st.session_state.setdefault(keys.ANSWERED, {})
    names = [f"{name}-{seed}" for name, _ in questions]
    right = sum(answered[name][0] for name in names if name in answered)
    tried = sum(name in answered for name in names)
    st.progress(tried / len(names), text=f"{tried} of {len(names)} answered, {right} right")
    for i, (name, (_, question)) in enumerate(zip(names, questions, strict=True), 1):
        with st.container(border=True, key=keys.of(keys.QUESTION, i)):
            st.markdown(
                f"**{i}.**\n\n{question.question}"
                if question.question.startswith("|")
                else f"**{i}.** {question.question}"
            )
            if name in answered:
                _answered(question, *answered[name])
            else:
                _ask(question, name)


def _ask(question: Choice | Problem, name: str) -> None:
    """A form of its own, so that Enter answers and a number need not be left first."""
    key = keys.of(keys.ANSWER, name)
    right: Callable[[float], bool]
    with st.form(keys.of(keys.CHECK_FORM, name), border=False):
        if isinstance(question, Choice):
            st.radio(
                "Answer",
                range(len(question.options)),
                index=None,
                format_func=question.options.__getitem__,
                key=key,
                label_visibility="collapsed",
            )
            answer = question.answer
            right = answer.__eq__
        else:
            st.number_input("A number", value=None, step=0.01, format="%.4g", key=key, width=220)
            right = question.right
        hidden = answers_hidden()

        def check() -> None:
            guess = st.session_state.get(key)
            st.session_state[keys.EMPTY_ANSWER] = name if guess is None else None
            if guess is not None and not answers_hidden():
                good = bool(right(guess))
                st.session_state.setdefault(keys.ANSWERED, {})[name] = (good, guess)
                _count(topic_of(name, question), good)

        if hidden:
            st.form_submit_button("Keep my answer", key=keys.of(keys.KEEP, name))
        else:
            st.form_submit_button("Check", key=keys.of(keys.CHECK, name), on_click=check)
    if st.session_state.get(keys.EMPTY_ANSWER) == name:
        st.caption(":material/info: Answer first, then check.")


def topic_of(name: str, question: Choice | Problem) -> str:
    """The topic of a question by its name in `pool`."""
    return question.topic if isinstance(question, Problem) else name.rsplit("-", 2)[0]


def _count(topic: str, right: bool) -> None:
    memory.remember(CHECKS, progress.counted(memory.recall(CHECKS), topic, right))


def _answered(question: Choice | Problem, right: bool, guess: float) -> None:
    if isinstance(question, Choice):
        st.markdown(f"You said: {question.options[int(guess)]}")
        result(question, int(guess))
        return
    st.markdown(f"You said: {guess:.4g}")
    steps = "\n".join(f"- {line}" for line in question.solution)
    if right:
        st.success(steps, title=f"Right: {question.answer:.4g}", icon=":material/check:")
    else:
        st.warning(steps, title=f"Not quite. The answer is {question.answer:.4g}", icon=":material/close:")
