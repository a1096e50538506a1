"""Practice: which exercise is open, and what all exercises share."""

import streamlit as st

from specviz import traces
from specviz.decoding.trace import Trace
from specviz.ui.shell.teaching import LARGEST, number
from specviz.ui.state import keys, runs

SECTIONS = {
    "order": "Put a round in order",
    "verdict": "Predict the verdict",
    "check": "Check yourself",
    "cards": "Interview cards",
    "interview": "Interview",
}
SEED = "exercise"


def choose_section() -> str:
    asked = st.query_params.get("practice")
    if asked in SECTIONS:
        st.session_state[keys.PRACTICE_SECTION] = asked

    def chosen() -> None:
        st.query_params["practice"] = st.session_state[keys.PRACTICE_SECTION]

    st.session_state.setdefault(keys.PRACTICE_SECTION, "order")
    section = st.segmented_control(
        "Exercise",
        list(SECTIONS),
        required=True,
        format_func=SECTIONS.__getitem__,
        key=keys.PRACTICE_SECTION,
        on_change=chosen,
        label_visibility="collapsed",
    )
    return section or "order"


def another(label: str = "Another one") -> None:
    """A button for the next exercise; its number is part of the address."""

    def onward() -> None:
        st.query_params[SEED] = str((number(SEED) + 1) % (LARGEST + 1))

    st.button(label, key=keys.ANOTHER, icon=":material/refresh:", on_click=onward)


def choose_run() -> Trace:
    """A run of this session, or a recorded one."""
    mine = {entry.name: f"{entry.title} (your run)" for entry in reversed(runs.mine()) if entry.trace.rounds}
    recorded = {r.name: f"{r.title} (recorded)" for r in traces.RECORDINGS if r.path.exists()}
    names = {**mine, **recorded}
    name = st.selectbox("Run", list(names), format_func=names.__getitem__, key=keys.PRACTICE_RUN)
    entry = runs.entry_by_name(name)
    return entry.trace if entry is not None else traces.load("capital")
