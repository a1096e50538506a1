"""Every drafter on the same text, and on the same prompt; what each of them is."""

import streamlit as st

from specviz.ui import frame
from specviz.ui.drafters import along, compare, kinds, work

frame.require_entrypoint()

text, prompt = st.tabs(kinds.VIEWS, key="view", bind="query-params", on_change="rerun")
with text:
    along.section()
with prompt:
    compare.section()
loading = st.container()
work.models()
kinds.cards()
work.advance({along.NAME: along.current(), compare.NAME: compare.current()}, loading)
