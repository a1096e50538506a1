"""A whole run judged again by another rule, from the recorded numbers and draws; no model is needed."""

import pandas as pd
import streamlit as st

from specviz.decoding.block import BLOCK, EXACT_RULES
from specviz.decoding.faults import FAULTS
from specviz.decoding.trace import Trace
from specviz.decoding.verify import VerifyError
from specviz.reading.rejudge import NotRecorded, rejudge_trace
from specviz.reading.two_rules import compare
from specviz.recipe import EXACT
from specviz.tokens import visible
from specviz.ui.state import address, keys


def panel(trace: Trace) -> None:
    if "judge" in address.hidden() or not trace.rounds or trace.tree:
        return
    st.session_state.setdefault(keys.JUDGE_OPEN, "judge" in st.query_params)
    with st.expander(
        "Judge again by another rule", icon=":material/gavel:", key=keys.JUDGE_OPEN, on_change="rerun"
    ) as opened:
        if not opened.open:
            return
        blocks = [BLOCK] if all(round.verifier == BLOCK for round in trace.rounds) else []
        names = [EXACT, *blocks, *(name for name, fault in FAULTS.items() if fault.rejudge)]
        name = st.selectbox("Rule that judges", names, key=keys.JUDGE, bind="query-params")
        if name in FAULTS:
            st.caption(FAULTS[name].does)
        verifier = EXACT_RULES[name] if name in EXACT_RULES else FAULTS[name].verifier
        try:
            again = rejudge_trace(trace, verifier)
        except (NotRecorded, VerifyError) as error:
            st.text(f"This run cannot be judged by {name}: {error}")
            return
        both = compare([trace.rounds])
        if both is not None and name in EXACT_RULES:
            st.caption(both.sentence + " Computed from these drafts, without a random number.")
        before = sum(round.accepted for round in trace.rounds)
        if again.first_difference is None:
            st.write(f"Every round ends as it did: {again.accepted} draft tokens accepted, as recorded.")
        else:
            st.write(
                f"Round {again.first_difference} is the first to end differently; from there the text would "
                "have gone another way. The rounds behind it only say how this rule judges their blocks. "
                f"Accepted in all: {again.accepted}, recorded: {before}."
            )
        st.dataframe(
            pd.DataFrame(
                {
                    "round": [r.number for r in again.rounds],
                    "accepted": [r.accepted for r in again.rounds],
                    "recorded": [round.accepted for round in trace.rounds],
                    "then": [r.outcome for r in again.rounds],
                    "token": [_token(trace, r.token) for r in again.rounds],
                    "as recorded": [r.recorded for r in again.rounds],
                }
            ),
            hide_index=True,
            height=240,
        )


def _token(trace: Trace, token: int | None) -> str:
    if token is None:
        return "one outside the recorded table"
    return visible(trace.tokens[token])
