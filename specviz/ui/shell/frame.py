"""The frame around every page: the list of pages, and the way in.

Streamlit looks for a folder `pages/` when the server starts and then serves its files directly, without
app.py, until some session calls `st.navigation`. A link to a page of a fresh server would therefore show
that page without its frame. `require_entrypoint`, the first line of every page, notices this, switches
the discovery off and starts over through app.py; address and query stay as they are.
"""

import logging

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from specviz.models.errors import LoadError
from specviz.ui.state import keys, trouble

LOG = logging.getLogger("specviz")

# Streamlit leaves broad margins even in its wide layout; the timeline needs the room.
STYLE = """
.stMainBlockContainer { padding: 3.6rem clamp(0.8rem, 2.2vw, 2.5rem) 3rem; }
/* Streamlit's captions are too pale to read for many. */
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] p {
  color: light-dark(#5b6270, #a9b2bd) !important;
  opacity: 1 !important;
}
/* No blue gives white text and text on a dark page enough contrast at once. */
button[kind="primary"] { color: light-dark(#ffffff, #0b0e13) !important; }
.st-key-figures [data-testid="stMetricValue"] { font-size: 1.25rem; }
/* Streamlit's own Stop would cut a page off in the middle; a run has a Stop of its own. */
[data-testid="stStatusWidget"] button { display: none; }
.st-key-inspector-unseen { display: none; }
@media (max-width: 1100px) {
  .st-key-stage > * > .stHorizontalBlock { flex-wrap: wrap; }
  .st-key-stage > * > .stHorizontalBlock > .stColumn { min-width: 100%; }
}
"""


def pages() -> list:
    """The pages in the order of the navigation.

    Without icons: Streamlit fetches those of Material Symbols from Google for the browser's tab.
    """
    return [
        st.Page("pages/rounds.py", title="Rounds", url_path="home", default=True),
        # The default page answers at "/" only; this one makes its own name a valid address too.
        st.Page("pages/rounds.py", title="Rounds", url_path="rounds", visibility="hidden"),
        st.Page("pages/exactness.py", title="Exactness"),
        st.Page("pages/drafters.py", title="Drafters"),
        st.Page("pages/learn.py", title="Learn"),
        st.Page("pages/practice.py", title="Practice"),
    ]


def enter() -> None:
    """Called by app.py before any page runs."""
    st.session_state[keys.ENTERED] = True
    st.html(f"<style>{STYLE}</style>")


def run(page: StreamlitPage) -> None:
    """Run a page; whatever goes wrong in it ends in a sentence that says what to do."""
    try:
        page.run()
    except Exception as error:  # Streamlit's own signals are no Exceptions
        LOG.exception("a page could not be drawn")
        if trouble.is_out_of_memory(error):
            trouble.free()
        trouble.show("This page could not be drawn to its end.", trouble.failure(error), error)
        if not isinstance(error, (LoadError, ValueError)):
            st.button("Try again", key=keys.TRY_AGAIN, icon=":material/refresh:")


def require_entrypoint() -> None:
    """First line of every page: start over through app.py if the page was run on its own."""
    if not st.session_state.get(keys.ENTERED):
        st.navigation(pages(), position="hidden")
        st.rerun()
