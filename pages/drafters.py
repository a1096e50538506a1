"""Every drafter on the same text, and on the same prompt; what each of them is."""

import streamlit as st

from specviz.ui.drafters import compare, kinds, overlap, work
from specviz.ui.shell import frame
from specviz.ui.state import keys

frame.require_entrypoint()

text, prompt = st.tabs(kinds.VIEWS, key=keys.DRAFTERS_VIEW, bind="query-params", on_change="rerun")
with text:
    overlap.section()
with prompt:
    compare.section()
loading = st.container()
work.models()
kinds.cards()
work.advance({overlap.NAME: overlap.current(), compare.NAME: compare.current()}, loading)
