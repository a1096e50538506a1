"""Page configuration and navigation. Start with: streamlit run app.py"""

import streamlit as st

from specviz.ui import frame, session, tour

st.set_page_config(page_title="SpecViz", page_icon="⏩", layout="wide")
frame.enter()
page = st.navigation(frame.pages(), position="top")
session.carry_over(page.url_path)
tour.banner()
page.run()
