"""The lessons."""

import streamlit as st

from specviz.ui import frame, learning, teaching, tour
from specviz.ui.components import browser_memory

frame.require_entrypoint()
st.space(8)

learning.analogy()
with st.container(horizontal=True, vertical_alignment="bottom"):
    lesson = learning.choose_topic()
    level = learning.choose_level()
    tour.start_menu()
    teaching.projector()
    teaching.link_maker("learn", topic=lesson.key, level=learning.LEVELS[level])
learning.progress()

st.header(f"{lesson.number}. {lesson.title}", anchor=False)
if learning.predict(lesson.predict, lesson.key):
    learning.body(lesson, level)
    learning.next_button(lesson)
browser_memory.mount()
