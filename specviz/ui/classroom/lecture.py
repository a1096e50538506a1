"""The lecture view of a lesson: one thing at a time, large, moved by keys. A class follows it."""

from functools import partial

import streamlit as st

from specviz.lessons import library
from specviz.lessons.library import Lesson
from specviz.ui.classroom import rooms
from specviz.ui.classroom.answers import bars
from specviz.ui.classroom.polls import Poll
from specviz.ui.classroom.presenting import PACE, link_button, looking_on, show_slide
from specviz.ui.classroom.rooms import Room
from specviz.ui.classroom.shown import slide
from specviz.ui.classroom.slides import Slide, slides
from specviz.ui.components.remote import remote
from specviz.ui.learn.lessons import LEVELS
from specviz.ui.shell.teaching import number
from specviz.ui.state import keys
from specviz.ui.state.owner import owner

LECTURE, AT, LEVEL = "lecture", "at", "reading"  # of the address
STYLE = """
html { font-size: clamp(18px, 1.5vw + 0.6vh, 48px); }
[data-testid="stHeader"], .st-key-tools, .st-key-class-strip, .st-key-tour { display: none !important; }
.stMainBlockContainer { padding-top: 1.2rem !important; max-width: 44rem; margin: 0 auto; }
.st-key-lecture-stage { min-height: calc(100vh - 6.5rem); justify-content: center; }
.st-key-slide :is(p, li) { font-size: 1.15rem; line-height: 1.5; }
.st-key-slide h1 { font-size: 2rem !important; }
/* What could be changed is for the lesson's own page. */
.st-key-slide :is(.stSlider, .stSelectbox, .stSegmentedControl, .stButtonGroup, .stNumberInput, .stToggle,
  .stCheckbox, .stRadio, .stButton, [data-testid="stElementToolbar"]) { display: none; }
"""


def lesson_of_address() -> Lesson | None:
    """The lesson that the address wants as a lecture, None if it wants none."""
    key = st.query_params.get(LECTURE, "")
    return next((entry for entry in library.lessons() if entry.key == key), None)


def level_of_address() -> str:
    level = st.query_params.get(LEVEL, "")
    return level if level in LEVELS else "learner"


def parameters(topic: str, level: str, at: int = 0) -> dict[str, str]:
    """The address's parameters for a slide."""
    return {LECTURE: topic, LEVEL: level, AT: str(at)}


def page(lesson: Lesson) -> None:
    """The whole page: a slide, and a line below it."""
    level = level_of_address()
    made = slides(lesson, level)
    at = min(number(AT), len(made) - 1)
    st.html(f"<style>{STYLE}</style>")
    show_slide(lesson.key, level, at)
    room = rooms.presented(owner())
    if room is not None:
        _poll(room, lesson.key, made[at])
    asks = made[at].kind in ("question", "check")
    poll = room.poll if room is not None and room.poll is not None else None
    with st.container(key=keys.LECTURE_STAGE):
        slide(lesson.key, made[at], poll, large=True)
        if room is not None and asks:
            _live(room)
    go = partial(_go, lesson.key, level, at, len(made))
    remote(go)
    with st.container(key=keys.LECTURE_LINE, horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Back", key=keys.LECTURE_BACK, type="tertiary", on_click=go, args=("back",), disabled=not at
        )
        st.caption(f"{at + 1} of {len(made)}", width="content")
        st.button(
            "Next",
            key=keys.LECTURE_NEXT,
            type="tertiary",
            on_click=go,
            args=("next",),
            disabled=at == len(made) - 1,
        )
        st.space("stretch")
        if room is not None:
            _present(room)
            link_button(room, keys.LECTURE_LINK)
        st.button("Leave", key=keys.LECTURE_LEAVE, type="tertiary", on_click=go, args=("leave",))
    if st.session_state.pop(keys.LECTURE_LEFT, False):
        st.switch_page("pages/learn.py", query_params={"topic": lesson.key, "level": LEVELS[level]})


def _go(topic: str, level: str, at: int, slides: int, way: str) -> None:
    if way == "leave":
        st.session_state[keys.LECTURE_LEFT] = True
        return
    there = {"next": at + 1, "back": at - 1, "first": 0, "last": slides - 1}[way]
    st.query_params.update(parameters(topic, level, max(0, min(slides - 1, there))))


def _poll(room: Room, topic: str, shown: Slide) -> None:
    """A slide with a question asks the class; the slide that answers it ends that."""
    if shown.choice is None:
        return
    about = (topic, shown.choice.question)
    asked = room.poll if room.poll is not None and room.poll.about == about else None
    if shown.kind in ("question", "check"):
        if asked is None:
            rooms.ask(owner(), Poll(about, shown.choice.options, shown.choice.answer))
    elif asked is None:
        if room.poll is not None:
            rooms.ask(owner(), None)
    elif asked.open:
        rooms.reveal(owner())


@st.fragment(run_every=PACE)
def _live(room: Room) -> None:
    """The answers as they come in."""
    rooms.presented(owner())
    if room.poll is not None:
        with st.container(key=keys.LECTURE_POLL):
            bars(room.poll, truth=False)


@st.fragment(run_every=PACE)
def _present(room: Room) -> None:
    if rooms.presented(owner()) is not room:
        st.rerun()
    st.caption(f"class {room.code} · {looking_on(room)}", width="content")
