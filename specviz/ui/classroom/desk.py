"""The first screen of the Class page: join one, or prepare and begin one."""

import streamlit as st

from specviz.lessons import library
from specviz.ui.classroom import lecture, rooms
from specviz.ui.classroom.presenting import start_button
from specviz.ui.classroom.rooms import ShownSlide
from specviz.ui.learn.lessons import LEVELS
from specviz.ui.state import keys

ROOM = "room"  # of the address


def join() -> None:
    """The code that a presenter shows."""

    def enter() -> None:
        st.query_params[ROOM] = rooms.spelled(st.session_state[keys.CLASS_CODE]) or "?"

    with (
        st.container(border=True),
        st.form(keys.CLASS_JOIN, border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        st.text_input(
            "Join a class: the code that the presenter shows",
            key=keys.CLASS_CODE,
            max_chars=12,
            placeholder="ABC DEF",
            width=320,
        )
        st.form_submit_button("Join", key=keys.CLASS_ENTER, on_click=enter, type="primary")


def teach() -> None:
    """Choose lessons: minutes, aims, the lecture view, a class."""
    st.markdown("#### Teach a lesson")
    titles = {x.key: f"{x.number}. {x.title} · {x.minutes} min" for x in library.lessons()}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        key = st.selectbox("Lesson", list(titles), format_func=titles.__getitem__, key=keys.CLASS_LESSON)
        level = st.segmented_control(
            "Reading level",
            list(LEVELS),
            required=True,
            default="learner",
            format_func=LEVELS.__getitem__,
            key=keys.CLASS_LEVEL,
        )
    lesson = library.lesson(key)
    st.markdown(
        f":material/schedule: {lesson.minutes} minutes. Afterwards the class can:\n"
        + "\n".join(f"- {objective}" for objective in lesson.objectives)
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        _begin(key, level or "learner")
    st.caption(
        "The lecture view shows one thing at a time. Arrow keys, Space or a presenter's remote control move "
        "on, Escape leaves. To let a class follow a run instead, press **Class** on the Rounds page."
    )


def _begin(topic: str, level: str) -> None:
    if start_button(ShownSlide(topic, level, 0), "Start a class with this lesson"):
        st.switch_page("pages/class.py", query_params=lecture.parameters(topic, level))
    st.page_link(
        "pages/class.py",
        label="Lecture view",
        icon=":material/slideshow:",
        query_params=lecture.parameters(topic, level),
    )


def invitation(topic: str, level: str) -> None:
    """The popover of a lesson: lecture view, or a class that follows it."""
    with st.popover("Class", icon=":material/co_present:", key=keys.CLASS_INVITATION, on_change="rerun"):
        st.markdown("One thing at a time, large. A class follows it on its own screens, and answers polls.")
        _begin(topic, level)
