"""Practice: put a round in order, predict verdicts, check yourself, interview cards, an interview."""

import streamlit as st

from specviz.ui.components import memory
from specviz.ui.practice import cards, check, interview, ordering, sections, verdicts
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
        ordering.order_section()
    case "verdict":
        verdicts.verdict_section()
    case "cards":
        cards.cards_section()
    case "interview":
        interview.interview_section()
    case _:
        check.check_section()
memory.mount()
