"""Every drafter on the same text, and on the same prompt; what each of them is."""

import streamlit as st

from specviz.ui.drafters import compare, kinds, models, overlap
from specviz.ui.shell import frame
from specviz.ui.state import keys, watch

frame.require_entrypoint()

text, prompt = st.tabs(kinds.VIEWS, key=keys.DRAFTERS_VIEW, bind="query-params", on_change="rerun")
with text:
    overlap.section()
with prompt:
    compare.section()
models.panel()
kinds.cards()
watch.follow(overlap.current(), compare.current())
