"""Practice: put a round in order, predict verdicts, answer interview questions, check yourself."""

import streamlit as st

from specviz.ui.components import memory
from specviz.ui.practice import games, sections
from specviz.ui.shell import frame, teaching

frame.require_entrypoint()
st.space(8)

with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    section = sections.choose_section()
    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        teaching.link_maker(
            "practice",
            practice=section,
            topic=st.query_params.get("topic", ""),
            exercise=teaching.number(sections.SEED),
        )

match section:
    case "order":
        sections.order_section()
    case "verdict":
        games.verdict_section()
    case "cards":
        games.cards_section()
    case _:
        sections.check_section()
memory.mount()
