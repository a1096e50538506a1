"""Practice for an interview: a plan for two days, a mock interview, weak spots, the progress as a file."""

from datetime import date
from time import time

import streamlit as st

from specviz.lessons import interview, library, progress
from specviz.lessons.library import Card
from specviz.reading.prose import count
from specviz.ui.components import memory
from specviz.ui.components.clock import clock
from specviz.ui.practice.cards import answer
from specviz.ui.practice.sections import SEED
from specviz.ui.shell.teaching import LARGEST, answers_hidden, number
from specviz.ui.state import keys

PARTS = {
    "plan": "I have two days",
    "mock": "Mock interview",
    "weak": "Weak spots",
    "file": "Progress as a file",
}
PAGES = {name: f"pages/{name}.py" for name in ("rounds", "learn", "practice")}
LENGTHS = (3, 5, 8)
SECONDS = {1: 60.0, 2: 120.0, 3: 180.0}  # that an answer should take, by level
REMEMBERED = ("done", "level", "card-boxes", "best-streaks", "checks", "mock", "plan")
PLAN, MOCK = "plan", "mock"


def interview_section() -> None:
    match _part():
        case "plan":
            plan()
        case "mock":
            mock()
        case "weak":
            weak()
        case _:
            file()


def _part() -> str:
    if keys.INTERVIEW_PART not in st.session_state or st.query_params.get("interview"):
        asked = st.query_params.get("interview", "plan")
        st.session_state[keys.INTERVIEW_PART] = asked if asked in PARTS else "plan"
        st.query_params.pop("interview", None)
    part = st.segmented_control(
        "Part",
        list(PARTS),
        required=True,
        format_func=PARTS.__getitem__,
        key=keys.INTERVIEW_PART,
        label_visibility="collapsed",
    )
    return part or "plan"


def remembered() -> dict:
    """All that this browser remembers of a reader."""
    return {name: value for name in REMEMBERED if (value := memory.recall(name)) is not None}


def plan() -> None:
    blocks = interview.plan()
    ticked = _ticked()

    def tick(index: int) -> None:
        on = st.session_state[keys.of(keys.PLAN_TICK, index)]
        memory.remember(PLAN, sorted(_ticked() | {index} if on else _ticked() - {index}))

    for day in sorted({block.day for block in blocks}):
        of_day = [(i, b) for i, b in enumerate(blocks) if b.day == day]
        minutes = sum(b.minutes for _, b in of_day)
        left = sum(b.minutes for i, b in of_day if i not in ticked)
        st.subheader(f"Day {day}", anchor=False)
        st.caption(f"{_hours(minutes)} in all, {_hours(left)} left. Take a break every hour.")
        for i, block in of_day:
            with st.container(border=True):
                st.session_state[keys.of(keys.PLAN_TICK, i)] = i in ticked  # the browser's comes late
                st.checkbox(
                    f"**{block.title}**, {block.minutes} minutes",
                    key=keys.of(keys.PLAN_TICK, i),
                    on_change=tick,
                    args=(i,),
                )
                st.markdown(block.what)  # a checkbox cuts its label off where it has no room
                st.page_link(
                    PAGES[block.page],
                    label="Go there",
                    icon=":material/arrow_forward:",
                    query_params=block.parameters,
                )
    st.caption("What is ticked is remembered on this browser only.")


def _ticked() -> set[int]:
    stored = memory.recall(PLAN)
    return {i for i in stored if type(i) is int} if isinstance(stored, list) else set()


def _hours(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours and rest else f"{hours} h" if hours else f"{rest} min"


def mock() -> None:
    state = st.session_state.get(keys.MOCK)
    if state is None:
        _invite()
        return
    cards = {card.key: card for card in library.cards()}
    asked = [cards[key] for key in state["cards"]]
    if len(state["answers"]) == len(asked):
        _summary(asked, state)
    elif state["seconds"] is None:
        _ask(asked[len(state["answers"])], state, len(asked))
    else:
        _compare(asked[len(state["answers"])], state)


def _invite() -> None:
    st.markdown(
        "You are asked one question after the other. Answer **aloud**, as you would in the room: first the "
        "short answer, then the reason, then where it stops being true. Say so when you have finished; then "
        "you see what a strong answer holds, are asked a follow-up, and grade yourself."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        length = st.segmented_control("Questions", LENGTHS, default=5, required=True, key=keys.MOCK_LENGTH)
        focus = st.toggle("Begin with my weak spots", key=keys.MOCK_FOCUS)

    def start() -> None:
        spots = [w.topic for w in progress.weak_spots(remembered())][:5] if focus else []
        chosen = interview.questions(length or LENGTHS[0], number(SEED), spots)
        st.session_state[keys.MOCK] = {
            "cards": [card.key for card in chosen],
            "answers": [],
            "since": time(),
            "seconds": None,
            "follow": False,  # its answer is shown
        }

    if answers_hidden():
        st.caption("The answers are covered in this link, so there is no mock interview.")
        return
    st.button("Begin", key=keys.MOCK_BEGIN, type="primary", on_click=start, icon=":material/mic:")


def _ask(card: Card, state: dict, total: int) -> None:
    def finished() -> None:
        state["seconds"] = time() - state["since"]

    with st.container(border=True):
        st.caption(f"Question {len(state['answers']) + 1} of {total} · {library.lesson(card.topic).title}")
        st.subheader(card.question, anchor=False)
        clock(time() - state["since"], SECONDS[card.level], key=keys.MOCK_CLOCK)
        st.button("I have answered", key=keys.MOCK_ANSWERED, type="primary", on_click=finished)
        _stop()


def _compare(card: Card, state: dict) -> None:
    done = len(state["answers"])
    with st.container(border=True):
        st.caption(f"You took {_clock(state['seconds'])}; about {_clock(SECONDS[card.level])} is usual.")
        st.subheader(card.question, anchor=False)
        st.markdown("**A strong answer holds** (tick what you said)")
        said = [
            i
            for i, line in enumerate(card.bullets)
            if st.checkbox(line, key=keys.of(keys.MOCK_SAID, done, i))
        ]
        st.markdown(f":violet-badge[The interviewer listens for] {card.listens_for}")
        st.markdown(f":blue-badge[Solid answer] {card.solid}")
        with st.expander("The whole card"):
            answer(card)
    follow = card.follow_ups[done % len(card.follow_ups)]
    with st.container(border=True):
        st.markdown(f":blue-badge[Follow-up] **{follow.question}**")
        if state["follow"]:
            st.markdown(follow.answer)
        else:
            st.button(
                "Show its answer",
                key=keys.MOCK_SHOW,
                on_click=lambda: state.update(follow=True),
            )
    suggested = interview.held(card.bullets, said)

    def grade(value: int) -> None:
        state["answers"].append(interview.Answer(card.key, state["seconds"], value))
        state.update(seconds=None, since=time(), follow=False)
        today = date.today().toordinal()
        kept = progress.mock_from(memory.recall(MOCK))
        memory.remember(MOCK, {k: list(v) for k, v in {**kept, card.key: (value, today)}.items()})

    st.markdown("**How was it?** The marked grade is what your ticks suggest.")
    with st.container(horizontal=True):
        for value, name in enumerate(progress.GRADES):
            st.button(
                name.capitalize(),
                key=keys.of(keys.MOCK_GRADE, value),
                type="primary" if value == suggested else "secondary",
                on_click=grade,
                args=(value,),
            )


def _stop() -> None:
    st.button(
        "Stop the interview",
        key=keys.MOCK_STOP,
        type="tertiary",
        on_click=lambda: st.session_state.pop(keys.MOCK, None),
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d} minutes"


def _summary(asked: list[Card], state: dict) -> None:
    answers: list[interview.Answer] = state["answers"]
    mean = sum(a.grade for a in answers) / len(answers)
    with st.container(horizontal=True):
        st.metric("Mean grade, 0 to 3", f"{mean:.1f}", border=True)
        st.metric("Solid or better", f"{sum(a.grade >= 2 for a in answers)} of {len(answers)}", border=True)
        st.metric("Time", _clock(sum(a.seconds for a in answers)), border=True)
    for card, given in zip(asked, answers, strict=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f"**{progress.GRADES[given.grade].capitalize()}**, {_clock(given.seconds)}: {card.question}"
            )
            if given.grade < 2:
                _lesson_link(card.topic)

    def again() -> None:
        st.query_params[SEED] = str((number(SEED) + 1) % (LARGEST + 1))
        st.session_state.pop(keys.MOCK, None)

    st.button("Another interview", key=keys.MOCK_AGAIN, type="primary", on_click=again)


def _lesson_link(topic: str) -> None:
    lesson = library.lesson(topic)
    st.page_link(
        "pages/learn.py",
        label=f"{lesson.number}. {lesson.title}",
        icon=":material/menu_book:",
        query_params={"topic": topic},
    )


def weak() -> None:
    spots = progress.weak_spots(remembered())
    if not spots:
        st.info(
            "Nothing missed so far on this browser. Answer cards, questions or a mock interview first.",
            icon=":material/check:",
        )
        return
    st.markdown(
        "Where answers were missed, the weakest topic first. Cards, questions and mock interviews count."
    )
    names = {card.key: card.question for card in library.cards()}
    for spot in spots:
        with st.container(border=True):
            st.markdown(f"**{library.lesson(spot.topic).title}**: {spot.missed} of {spot.asked} missed")
            if spot.cards:
                st.markdown("\n".join(f"- {names[key]}" for key in spot.cards))
            with st.container(horizontal=True):
                _lesson_link(spot.topic)
                st.page_link(
                    "pages/practice.py",
                    label="Questions on it",
                    icon=":material/fitness_center:",
                    query_params={"practice": "check", "topic": spot.topic},
                )


def file() -> None:
    st.markdown(
        "Lessons done, cards, answers and grades are remembered in this browser and nowhere else. A file "
        "carries them to another browser, or keeps them."
    )
    st.download_button(
        "Save my progress",
        lambda: progress.exported(remembered()),
        "specviz-progress.json",
        "application/json",
        icon=":material/download:",
        key=keys.PROGRESS_SAVE,
        on_click="ignore",
    )

    def arrived() -> None:
        given = st.session_state.get(keys.PROGRESS_LOAD)
        if given is None:
            return
        try:
            found = progress.imported(given.getvalue())
        except ValueError as error:
            st.session_state[keys.PROGRESS_SAID] = (False, str(error))
            return
        for name, value in found.items():
            memory.remember(name, value)
        lessons, cards = len(found.get("done", [])), len(found.get("card-boxes", {}))
        told = f"{count(lessons, 'lesson')} done, {count(cards, 'card')}"
        st.session_state[keys.PROGRESS_SAID] = (
            True,
            f"Read: {told}. What the file holds has replaced what was here.",
        )

    st.file_uploader(
        "Read a saved file", type="json", key=keys.PROGRESS_LOAD, on_change=arrived, max_upload_size=1
    )
    said = st.session_state.pop(keys.PROGRESS_SAID, None)
    if said is not None:
        (st.success if said[0] else st.warning)(said[1])
