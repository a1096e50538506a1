"""Practice: predict verdicts of real rounds, and interview cards with spaced repetition."""

from datetime import date

import streamlit as st

from specviz.lessons import anki, library, schedule, verdicts
from specviz.lessons.library import Card
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

LEVELS = {1: "1 with the coin", 2: "2 without the coin", 3: "3 what is emitted"}
HELP = {
    1: "p, q and the coin are shown. Which verdict, and was it certain?",
    2: "The coin is covered. State the probability that the token is kept; an honest forecast scores best.",
    3: "State the probability that this place ends with *another* token, that of the largest residual.",
}
BEST, BOXES = "best-streaks", "card-boxes"


def verdict_section() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        level = st.segmented_control(
            "Level",
            list(LEVELS),
            default=1,
            required=True,
            format_func=LEVELS.__getitem__,
            key=keys.VERDICT_LEVEL,
        )
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
    if level == 1:
        answer: str | float | None = st.radio(
            "Verdict", verdicts.KINDS, index=None, key=keys.of(keys.VERDICT, turn)
        )
    else:
        answer = st.slider("Probability in %", 0, 100, 50, key=keys.of(keys.FORECAST, turn)) / 100
    if answers_hidden():
        st.caption("The answers are covered in this link.")
        return
    st.button(
        "Commit",
        key=keys.VERDICT_COMMIT,
        type="primary",
        disabled=answer is None,
        on_click=lambda: _score(task, answer, state),
    )


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


def boxes() -> dict[str, tuple[int, int]]:
    """The boxes of the cards, as this browser remembers them."""
    return schedule.boxes_from(memory.recall(BOXES), {card.key for card in library.cards()})


def cards_section() -> None:
    today = date.today().toordinal()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        levels = st.pills(
            "Level",
            [1, 2, 3],
            default=[1, 2, 3],
            selection_mode="multi",
            format_func={1: "asked first", 2: "solid", 3: "specialist"}.__getitem__,
            key=keys.CARD_LEVELS,
        )
        mode = st.segmented_control(
            "Cards", ["due today", "all"], default="due today", required=True, key=keys.CARD_MODE
        )
        st.download_button(
            "Anki deck",
            lambda: anki.package(library.cards()),
            "speculative-decoding.apkg",
            icon=":material/download:",
            key=keys.ANKI,
            on_click="ignore",
        )
    chosen = [card for card in library.cards() if card.level in levels]
    queue = schedule.due(chosen, boxes(), today) if mode == "due today" else chosen
    st.caption(
        f"{len(queue)} of {len(chosen)} cards. When a card is due again is remembered on this browser only."
    )
    if not queue:
        st.success("Nothing is due. Come back tomorrow, or look at all cards.", icon=":material/check:")
        return
    card = queue[0]
    if mode == "all":
        names = {c.key: c.question for c in chosen}
        key = st.selectbox("Card", list(names), format_func=names.__getitem__, key=keys.CARD_CHOICE)
        card = next(c for c in chosen if c.key == key)
    _card(card, today, mode == "due today")


def _card(card: Card, today: int, asks: bool) -> None:
    with st.container(border=True):
        st.caption(f"{library.lesson(card.topic).title} · level {card.level}")
        st.subheader(card.question, anchor=False)
        shown = keys.of(keys.CARD_SHOWN, card.key, today)
        if asks and not st.session_state.get(shown):
            st.markdown("Answer aloud, then compare.")
            if not answers_hidden():
                st.button(
                    "Show the answer",
                    key=keys.CARD_SHOW,
                    type="primary",
                    on_click=lambda: st.session_state.update({shown: True}),
                )
            return
        if answers_hidden():
            return
        answer(card)
        if asks:
            _judge(card, today, shown)


def answer(card: Card) -> None:
    """All there is to say about a card."""
    left, right = st.columns([1.4, 1], gap="large")
    with left:
        for name, text in (("Short", card.short), ("Solid", card.solid), ("Expert", card.expert)):
            st.markdown(f":blue-badge[{name}] {text}")
        st.markdown(f":violet-badge[The interviewer listens for] {card.listens_for}")
    with right:
        st.markdown("**In a minute**\n" + "\n".join(f"- {line}" for line in card.bullets))
        st.markdown("**Follow-ups**\n" + "\n".join(f"- *{f.question}* {f.answer}" for f in card.follow_ups))
    for flag in card.red_flags:
        st.markdown(f":orange-badge[:material/flag: Red flag] “{flag.claim}.” {flag.why}")


def _judge(card: Card, today: int, shown: str) -> None:
    box = boxes().get(card.key, (0, today))[0]

    def judged(known: bool) -> None:
        memory.remember(BOXES, {**boxes(), card.key: schedule.answered(box, known, today)})
        st.session_state.pop(shown, None)

    rest = schedule.answered(box, True, today)[1] - today
    with st.container(horizontal=True):
        st.button("Again", key=keys.CARD_AGAIN, on_click=judged, args=(False,), icon=":material/replay:")
        st.button(
            f"Knew it (back in {rest} day{'' if rest == 1 else 's'})",
            key=keys.CARD_KNOWN,
            type="primary",
            on_click=judged,
            args=(True,),
            icon=":material/check:",
        )
