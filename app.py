"""Page configuration and navigation. Start with: streamlit run app.py"""

import streamlit as st

from specviz.ui import frame, tour

st.set_page_config(page_title="SpecViz", page_icon="⏩", layout="wide")
frame.enter()
page = st.navigation(frame.pages(), position="top")
tour.banner()
page.run()
