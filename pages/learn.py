"""The lessons."""

import streamlit as st

from specviz.ui.classroom import desk
from specviz.ui.components import memory
from specviz.ui.learn import lessons
from specviz.ui.shell import frame, teaching, tour
from specviz.ui.state import keys

frame.require_entrypoint()
st.space(8)

lessons.analogy()
with st.container(key=keys.LESSON_BAR, horizontal=True, vertical_alignment="bottom"):
    lesson = lessons.choose_topic()
    level = lessons.choose_level()
    tour.start_menu()
    teaching.link_maker("learn", topic=lesson.key, level=lessons.LEVELS[level])
    desk.invitation(lesson.key, level)
lessons.progress()

st.header(f"{lesson.number}. {lesson.title}", anchor=False)
lessons.aims(lesson)
if lessons.predict(lesson.predict, lesson.key):
    lessons.body(lesson, level)
    lessons.next_button(lesson)
memory.mount()
