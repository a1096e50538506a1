"""Page configuration and navigation. Start with: streamlit run app.py"""

import streamlit as st

from specviz.ui.classroom import presenting
from specviz.ui.debug import audited
from specviz.ui.shell import frame, teaching, tour
from specviz.ui.state import address, guard, watch

st.set_page_config(page_title="SpecViz", page_icon="⏩", layout="wide")
frame.enter()
watch.look()
guard.admit()
page = st.navigation(frame.pages(), position="top")
address.carry_over(page.url_path)
audited.bring()
teaching.projector()
presenting.strip()
tour.banner()
frame.run(page)
