"""Practice: predict the verdicts of real rounds."""

import streamlit as st

from specviz.lessons import verdicts
from specviz.lessons.verdicts import Task
from specviz.reading import explain
from specviz.reading.prose import number as figure
from specviz.tokens import shower
from specviz.ui.components import memory
from specviz.ui.learn import charts
from specviz.ui.practice.sections import SEED, choose_run
from specviz.ui.shell import palette
from specviz.ui.shell.markup import code, markdown
from specviz.ui.shell.teaching import answers_hidden, chart, number
from specviz.ui.state import keys

LEVELS = {1: "1 with the coin", 2: "2 without the coin", 3: "3 another token"}
HELP = {
    1: "You see p, q and the coin u. What is the verdict, and would it be the same for every coin?",
    2: "The coin is covered. How likely is it that the token is kept? On average you score best by saying "
    "what you believe.",
    3: "How likely is it that this place ends with a certain *other* token, the one with the largest share "
    "of the residual? It has to be rejected first, and then corrected to that token.",
}
BEST = "best-streaks"


def verdict_section() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        level = _level()
        trace = choose_run()
    game = f"{trace.created}-{trace.seed}-{level}-{number(SEED)}"
    made = verdicts.tasks(trace, level, number(SEED))
    if not made:
        st.info("This run has no judged draft token to ask about. Choose another one.")
        return
    state = st.session_state.setdefault(keys.VERDICTS, {}).setdefault(
        game, {"turn": 0, "scores": [], "streak": 0}
    )
    task = made[state["turn"] % len(made)]
    st.caption(HELP[level])
    _standing(state, level)
    show = shower(trace)
    with st.container(border=True):
        _question(task, show)
        answer = state.get("answer")
        if answer is None:
            _ask(task, state, level)
        else:
            _reveal(task, answer, show)
            st.button(
                "Next",
                key=keys.VERDICT_NEXT,
                type="primary",
                on_click=lambda: _advance(state),
                icon=":material/arrow_forward:",
            )


def _level() -> int:
    """The level that the address asks for, or that the reader chooses."""
    if keys.VERDICT_LEVEL not in st.session_state or st.query_params.get("game"):
        asked = number("game", 1)
        st.session_state[keys.VERDICT_LEVEL] = asked if asked in LEVELS else 1
        st.query_params.pop("game", None)
    level = st.segmented_control(
        "Level",
        list(LEVELS),
        required=True,
        format_func=LEVELS.__getitem__,
        key=keys.VERDICT_LEVEL,
    )
    return level or 1


def _advance(state: dict) -> None:
    state["turn"] += 1
    state["answer"] = None


def _standing(state: dict, level: int) -> None:
    scores = state["scores"]
    with st.container(horizontal=True):
        st.metric("Answered", len(scores), border=True)
        st.metric("Mean score", f"{sum(scores) / len(scores):.3f}" if scores else "–", border=True)
        st.metric("Streak", state["streak"], border=True)
        st.metric("Best on this browser", _best(level), border=True)


def _best(level: int) -> int:
    stored = memory.recall(BEST)
    value = stored.get(str(level)) if isinstance(stored, dict) else None
    return value if type(value) is int and 0 <= value < 1_000_000 else 0


def _question(task: Task, show) -> None:
    seen = task.inspection
    row = seen.row
    assert row.token is not None
    st.markdown(f"Round {task.round}, position {task.position}: the draft drew {code(show(row.token))}.")
    with st.container(horizontal=True):
        st.metric("p, target", figure(row.p, 3), border=True)
        st.metric("q, draft", figure(row.q, 3), border=True)
        if task.level == 1:
            st.metric("u, the coin", figure(row.u, 3), border=True)
    if task.level == 3:
        chosen = sorted(seen.candidates, key=lambda c: -max(c.p, c.q or 0.0))[:6]
        if not any(c.token == task.about for c in chosen):
            chosen.append(next(c for c in seen.candidates if c.token == task.about))
        names = [show(c.token) for c in chosen]
        series = [
            ("target p", palette.TARGET, [c.p for c in chosen]),
            ("draft q", palette.DRAFT, [c.q or 0.0 for c in chosen]),
        ]
        words = "p and q of the leading tokens: " + "; ".join(
            f"{n} {figure(c.p)}, {figure(c.q)}" for n, c in zip(names, chosen, strict=True)
        )
        chart(charts.compare(names, series, 220), keys.VERDICT_BARS, words)
        assert task.about is not None
        st.markdown(
            f"How probable is it that this place ends with {code(show(task.about))}? "
            f"(1 − β = {figure(row.residual_mass, 3)})"
        )
    elif task.level == 2:
        st.markdown("How probable is it that the token is kept?")


def _ask(task: Task, state: dict, level: int) -> None:
    turn = f"{level}-{state['turn']}"
    widget = keys.of(keys.VERDICT if level == 1 else keys.FORECAST, turn)

    def answered() -> None:
        given = st.session_state.get(widget)
        state["empty"] = given is None
        if given is not None and not answers_hidden():
            _score(task, given if level == 1 else given / 100, state)

    with st.form(keys.of(keys.VERDICT_FORM, turn), border=False):
        if level == 1:
            st.radio("Verdict", verdicts.KINDS, index=None, key=widget)
        else:
            st.slider("Probability in %", 0, 100, 50, key=widget)
        if answers_hidden():
            st.caption("The answers are covered in this link.")
            st.form_submit_button("Keep my answer", key=keys.of(keys.KEEP, turn))
        else:
            st.form_submit_button("Answer", key=keys.VERDICT_COMMIT, type="primary", on_click=answered)
    if state.get("empty"):
        st.caption(":material/info: Choose an answer first.")


def _score(task: Task, answer, state: dict) -> None:
    state["answer"] = answer
    if task.level == 1:
        score, good = float(answer == task.kind), answer == task.kind
    else:
        score = verdicts.quadratic_score(answer, task.happened)
        good = abs(answer - task.probability) <= verdicts.CLOSE
    state["scores"].append(score)
    state["streak"] = state["streak"] + 1 if good else 0
    if state["streak"] > _best(task.level):
        stored = memory.recall(BEST)
        known = stored if isinstance(stored, dict) else {}
        memory.remember(BEST, {**known, str(task.level): state["streak"]})


def _reveal(task: Task, answer, show) -> None:
    if task.level == 1:
        if answer == task.kind:
            st.success(f"The token was {task.kind}.", title="Right", icon=":material/check:")
        else:
            st.warning(f"You said: {answer}.", title=f"It was {task.kind}", icon=":material/close:")
    else:
        happened = "It happened" if task.happened else "It did not happen"
        score = verdicts.quadratic_score(answer, task.happened)
        loss = verdicts.expected_loss(answer, task.probability)
        close = abs(answer - task.probability) <= verdicts.CLOSE
        st.info(
            f"{happened}. You said {answer:.2f}, score {score:.3f}. On average this forecast loses "
            f"{loss:.4f} against the true probability: {'close enough' if close else 'the streak ends'}.",
            title=f"The rule gives {figure(task.probability, 3)}",
            icon=":material/check:" if close else ":material/adjust:",
        )
        if task.level == 3:
            keep = min(1.0, (task.inspection.row.p or 0.0) / (task.inspection.row.q or 1.0))
            other = task.inspection.candidate(task.about)
            assert other is not None
            st.markdown(
                f"Refused with probability 1 − {figure(keep, 3)} = {figure(1 - keep, 3)}, then "
                f"corrected to it with {figure(other.residual, 3)}, its share of the residual."
            )
    st.markdown(markdown(explain.verdict(task.inspection), show))
