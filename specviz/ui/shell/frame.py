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
from specviz.ui.state import keys, trouble, watch

LOG = logging.getLogger("specviz")

# Streamlit leaves broad margins even in its wide layout; the timeline needs the room.
STYLE = """
.stMainBlockContainer { padding: 4rem clamp(0.8rem, 2.2vw, 2.5rem) 3rem; }
/* The name of the product, before the pages. */
[data-testid="stToolbar"]::before {
  content: "SpecViz";
  flex: none;
  margin: 0 0.4rem 0 0.6rem;
  font-size: 1.15rem;
  font-weight: 700;
  letter-spacing: -0.01em;
}
[data-testid="stTopNavLink"]:focus-visible {
  outline: 3px solid var(--st-primary-color, light-dark(#00629b, #4a9fd8)) !important;
  outline-offset: -3px;
  box-shadow: none !important;
}
/* The line of controls: the settings take the room that the buttons leave, and a line when open. */
.st-key-bar > .st-key-settings-open:has(details[open]) { flex-basis: 100%; order: 1; }
.st-key-settings-open .stHorizontalBlock { flex-wrap: wrap; }
.st-key-settings-open .stColumn { min-width: min(8.5rem, 100%); }
.st-key-bar summary code { white-space: pre !important; font-size: 0.8rem; }
.st-key-bar > :has(.stAlert), .st-key-bar > :has(.st-key-status) { flex-basis: 100%; order: 2; }
.st-key-bar summary :is([data-testid="stMarkdownContainer"], p) {
  white-space: nowrap;
  overflow: hidden;
  text-overflow: ellipsis;
}
.st-key-lesson-bar > :first-child { flex: 1 1 20rem; min-width: min(20rem, 100%); }
.st-key-front > :first-child { flex: 1 1 20rem; }
.st-key-front > :has(.st-key-doors) { flex: 0 1 auto; width: auto; }
h1 { font-size: 1.4rem !important; padding: 0 !important; line-height: 1.3 !important; }
/* The first screen of a run is dense: sentences stand close. */
.stMainBlockContainer > .stVerticalBlock:has(.st-key-stage) { gap: 0.6rem; }
.st-key-tools {
  position: fixed;
  z-index: 999991;
  top: 0.75rem;
  right: 4.2rem;
  width: auto;
}
@media (max-width: 640px) { .st-key-tools { display: none; } }
@media (max-width: 900px) {  /* eight pages and the switch in one line */
  [data-testid="stToolbar"]::before { content: none; }
  .st-key-tools { right: 3.4rem; }
}
/* Streamlit's captions are too pale to read for many. */
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] p {
  color: light-dark(#5b6270, #a9b2bd) !important;
  opacity: 1 !important;
}
/* No blue gives white text and text on a dark page enough contrast at once. */
button[kind^="primary"]:not(:disabled) { color: light-dark(#ffffff, #0b0e13) !important; }
button[kind^="primary"]:disabled { color: light-dark(#5b6270, #a9b2bd) !important; border-style: dashed; }
.st-key-figures [data-testid="stMetricValue"] { font-size: 1.25rem; }
/* Streamlit's own Stop would cut a page off in the middle; a run has a Stop of its own. */
[data-testid="stStatusWidget"] button { display: none; }
.st-key-watch-jobs, .st-key-class-watch, .st-key-inspector-unseen { display: none; }
/* Beside each other also on a projector of 1024 pixels; one under the other where there is less room. */
@media (max-width: 900px) {
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
        st.Page("pages/debug.py", title="Debug"),
        st.Page("pages/speed.py", title="Speed"),
        st.Page("pages/drafters.py", title="Drafters"),
        st.Page("pages/learn.py", title="Learn"),
        st.Page("pages/practice.py", title="Practice"),
        st.Page("pages/class.py", title="Class"),
    ]


def enter() -> None:
    """Called by app.py before any page runs."""
    st.session_state[keys.ENTERED] = True
    st.html(f"<style>{STYLE}</style>")


def run(page: StreamlitPage) -> None:
    """Run a page; whatever goes wrong in it ends in a sentence that says what to do."""
    try:
        page.run()
        watch.drawn()
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
