"""Every drafter on the same text, and on the same prompt; what each of them is."""

import streamlit as st

from specviz.ui.drafters import compare, kinds, models, overlap, shapes
from specviz.ui.shell import frame
from specviz.ui.state import keys, watch

frame.require_entrypoint()

text, prompt, ways = st.tabs(kinds.VIEWS, key=keys.DRAFTERS_VIEW, bind="query-params", on_change="rerun")
with text:
    overlap.section()
with prompt:
    compare.section()
with ways:
    shapes.section()
models.panel()
kinds.cards()
watch.follow(overlap.current(), compare.current(), shapes.current())
