"""Practice: put a round in order, predict verdicts, answer interview questions, check yourself."""

import streamlit as st

from specviz.ui import frame, practice, practice_games, teaching
from specviz.ui.components import browser_memory

frame.require_entrypoint()
st.space(8)

with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    section = practice.choose_section()
    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        teaching.projector()
        teaching.link_maker(
            "practice",
            practice=section,
            topic=st.query_params.get("topic", ""),
            exercise=teaching.number(practice.SEED),
        )

match section:
    case "order":
        practice.order_section()
    case "verdict":
        practice_games.verdict_section()
    case "cards":
        practice_games.cards_section()
    case _:
        practice.check_section()
browser_memory.mount()
