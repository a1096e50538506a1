"""Long work of the page: a moment of it in each run of the script, so that Stop answers."""

from collections.abc import Mapping
from typing import Any, Protocol

import streamlit as st

from specviz.decoding.run import RunError
from specviz.models.errors import LoadError
from specviz.recipe import BUILT_IN, Recipe
from specviz.ui.state import keys, pairs

STATE = keys.DRAFTERS_WORKING


class Job(Protocol):
    @property
    def done(self) -> bool: ...

    def burst(self, pair: Any) -> None:
        """Work for a moment."""


def going(name: str = "") -> bool:
    """Whether the job of this name is at work; any job, if none is named."""
    working = st.session_state.get(STATE, "")
    return bool(working) and name in ("", working)


def start(name: str) -> None:
    st.session_state[STATE] = st.session_state[keys.DRAFTERS_FRESH] = name


def stop() -> None:
    st.session_state[STATE] = ""


def button(name: str, label: str, disabled: bool = False) -> bool:
    """The button that starts a job, or stops it. True if it was just pressed to start: set the job up."""
    at_work = going(name)
    # One button in one place: another one would stand beside it until the script comes to an end.
    st.button(
        "Stop" if at_work else label,
        key=keys.of(name, keys.TOGGLE),
        on_click=stop if at_work else start,
        args=() if at_work else (name,),
        type="primary",
        icon=":material/stop:" if at_work else ":material/play_arrow:",
        disabled=not at_work and (disabled or going()),
    )
    return at_work and st.session_state.pop(keys.DRAFTERS_FRESH, "") == name


def trouble(name: str) -> None:
    """Why the job of this name broke off, if it did; said once."""
    failed, reason = st.session_state.get(keys.DRAFTERS_TROUBLE, ("", ""))
    if failed == name:
        del st.session_state[keys.DRAFTERS_TROUBLE]
        st.error("This broke off.", icon=":material/error:")
        st.text(reason)


def advance(jobs: Mapping[str, Job | None], place: Any) -> None:
    """Go on with the job at work, if any, and start the script over. Last on the page.

    Args:
        jobs: by name; None if it has not been set up.
        place: the container in which loading a pair shows its progress.
    """
    name = st.session_state.get(STATE, "")
    if not name:
        return
    job = jobs[name]
    try:
        if job is not None and not job.done:
            pair = pairs.obtain(recipe(), place)
            with pairs.shelf().stepping:
                job.burst(pair)
        if job is None or job.done:
            stop()
    except (LoadError, RunError, ValueError) as error:
        st.session_state[keys.DRAFTERS_TROUBLE] = name, str(error)
        stop()
    st.rerun()


def models() -> None:
    """Which models the page works with."""
    with st.expander("Models", icon=":material/tune:"):
        left, right = st.columns(2)
        left.text_input(
            "Target model",
            BUILT_IN,
            key=keys.DRAFTERS_TARGET,
            help="built-in, a hub id, or a local folder with safetensors weights.",
            disabled=going(),
            max_chars=300,
        )
        right.text_input(
            "Draft model",
            key=keys.DRAFTERS_DRAFT,
            help="Empty: the draft trained for this target, if there is one. The target again: q = p.",
            disabled=going(),
            max_chars=300,
        )
        st.caption(
            "Medusa heads and EAGLE need weights trained for the very target: they come with the built-in "
            "one, and `python -m specviz train-drafts` makes them for others."
        )


def recipe() -> Recipe:
    """A recipe with the page's models."""
    return Recipe(
        target=st.session_state.get(keys.DRAFTERS_TARGET) or BUILT_IN,
        draft=st.session_state.get(keys.DRAFTERS_DRAFT) or "",
    )
