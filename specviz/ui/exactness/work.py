"""Long work of the page, in bursts: the script works for a moment and starts over, so that Stop answers.

One job is at work at a time. It keeps what it has done, so that it can be stopped and continued.
"""

from collections.abc import Callable, Mapping
from threading import Lock
from time import monotonic
from typing import Protocol

import streamlit as st

from specviz.decoding.run import RunError
from specviz.models.errors import LoadError
from specviz.ui.state import keys

BURST_SECONDS = 0.3


class Job(Protocol):
    """Attributes: lock, held by whoever works on it, as a script that was cut short may still be at it."""

    lock: Lock

    @property
    def done(self) -> bool: ...

    def burst(self, until: float) -> None:
        """Work until about this moment of `time.monotonic`, a little at least."""


def going() -> str:
    """The name of the job at work, "" if none is."""
    return st.session_state.get(keys.WORKING, "")


def start(name: str) -> None:
    st.session_state[keys.WORKING] = name


def stop() -> None:
    st.session_state[keys.WORKING] = ""


def trouble(name: str) -> None:
    """Why the job of this name broke off, if it did; said once."""
    failed, reason = st.session_state.get(keys.WORK_TROUBLE, ("", ""))
    if failed == name:
        del st.session_state[keys.WORK_TROUBLE]
        st.error("This check broke off.", icon=":material/error:")
        st.text(reason)


def advance(jobs: Mapping[str, Callable[[], Job | None]]) -> None:
    """Go on with the job at work, if any, and start the script over.

    Args:
        jobs: by name what gives the job, None if there is none. Last on the page: it may take a moment.
    """
    name = going()
    if not name:
        return
    try:
        job = jobs[name]()
        if job is not None:
            with job.lock:
                if not job.done:
                    job.burst(monotonic() + BURST_SECONDS)
        if job is None or job.done:
            stop()
    except (LoadError, RunError, ValueError) as error:
        st.session_state[keys.WORK_TROUBLE] = name, str(error)
        stop()
    st.rerun()
