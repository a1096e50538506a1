"""Pages are drawn again when there is news of the jobs that they show; see `jobs`.

`look` comes first in every run of the script, `follow` last on a page that shows jobs, `drawn` after it.
"""

from collections.abc import Sequence

import streamlit as st

from specviz.ui.state import jobs, keys
from specviz.ui.state.device import DEVICE
from specviz.ui.state.jobs import Job, where
from specviz.ui.state.owner import owner


def look() -> None:
    """First in every run of the script: whatever happens from now on is news to what is drawn.

    What the page looked at when it was drawn last is looked at from here on, before anything else, so that a
    run of the script that is cut short in the middle is followed by another.
    """
    st.session_state[keys.SEEN] = jobs.now()
    owner()
    followed: list[Job] = st.session_state.setdefault(keys.FOLLOWED, [])
    st.session_state[keys.FOLLOWS] = False
    with st.container(key=keys.WATCH):  # always there, so that what follows keeps its place on the page
        st.session_state[keys.WATCHING] = _watch(followed)


def follow(*shown: Job | None) -> None:
    """Last on a page: draw it again when there is news of these jobs, as long as they go on."""
    followed: list[Job] = st.session_state[keys.FOLLOWED]
    followed[:] = [job for job in shown if job is not None]
    st.session_state[keys.FOLLOWS] = True
    if not st.session_state[keys.WATCHING]:
        _watch(followed)


def drawn() -> None:
    """After a page was drawn to its end: one that follows nothing is not drawn again."""
    if not st.session_state[keys.FOLLOWS]:
        st.session_state[keys.FOLLOWED].clear()


def _watch(followed: list[Job]) -> bool:
    """Look for news of jobs, if any, every now and then, and draw the page again. True if it does so."""
    seen = st.session_state[keys.SEEN]
    if not any(job.active or job.version > seen for job in followed):
        return False
    said = {id(job): where(job) for job in followed}
    inline = [True]  # the first call is part of the page's own run

    # The page is at rest meanwhile, so that every control answers at once.
    @st.fragment(run_every=pace(followed))
    def watch() -> None:
        if inline:
            inline.clear()
        elif any(job.version > seen or where(job) != said.get(id(job), "") for job in followed):
            st.rerun()

    watch()
    return True


def pace(known: Sequence[Job]) -> float:
    """Seconds between two looks of a page at its jobs: longer the more of them share the server."""
    if all(job.state == "loading" for job in known):
        return 1.0  # importing torch wants the interpreter for itself
    return min(2.0, max(0.3, 0.1 * DEVICE.users()))
