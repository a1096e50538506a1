"""Is speculation faster here, and why: a round to scale, costs, speed-up by K, map, roofline, calculator."""

import streamlit as st

from specviz.ui.shell import frame
from specviz.ui.speed import by_k, calculator, companion, costs, look, maps, roofline, round, table, work
from specviz.ui.state import keys, watch

frame.require_entrypoint()

look.style()
st.title("Is it faster here, and why?", anchor=False)
job = work.current()
work.turn_to_fresh(job)
report, shown = work.choose(job)
with st.container():  # always there, so that what follows keeps its place on the page
    work.progress(job)
work.options(job)
work.about(report, shown)
with st.container(border=True, key=keys.CARD_SPEED_ROUND):
    with st.container(key=keys.SPEED_PAIR_TOP):
        left, right = st.columns([2.2, 1], gap="large")
    with left:
        round.section(report)
    with right:
        companion.section(report, shown)
with st.container(key=keys.SPEED_PAIR_COSTS):
    left, right = st.columns(2)
with left.container(border=True, key=keys.CARD_SPEED_COSTS):
    costs.section(report)
with right.container(border=True, key=keys.CARD_SPEED_BY_K):
    by_k.section(report)
with st.container(key=keys.SPEED_PAIR_WHY):
    left, right = st.columns(2)
with left.container(border=True, key=keys.CARD_SPEED_MAP):
    maps.section(report)
with right.container(border=True, key=keys.CARD_SPEED_ROOF):
    roofline.section(report)
with st.container(border=True, key=keys.CARD_SPEED_CALCULATOR):
    calculator.section(report)
with st.container(border=True, key=keys.CARD_SPEED_TABLE):
    table.section(report)
    work.downloads(report)
watch.follow(job)
