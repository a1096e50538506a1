"""A class: follow one, give one, the lecture view of a lesson."""

import streamlit as st

from specviz.ui.classroom import desk, lecture, rooms, viewing
from specviz.ui.shell import frame

frame.require_entrypoint()

asked = st.query_params.get(desk.ROOM, "")
room = rooms.room(asked)
lesson = lecture.lesson_of_address()
if room is not None:
    viewing.page(room)
elif lesson is not None and not asked:
    lecture.page(lesson)
else:
    if asked:
        viewing.gone(asked)
    desk.join()
    desk.teach()
