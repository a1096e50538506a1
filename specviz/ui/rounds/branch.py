"""Going on from a place of a run in another way, as a run of its own."""

from dataclasses import replace

import streamlit as st

from specviz.tokens import visible
from specviz.ui.state import address, keys, runs
from specviz.ui.state.runs import Entry


def branching(entry: Entry, at: tuple[int, int]) -> None:
    """Another token here, another K or seed, as a new run beside this one."""
    if "branch" in address.hidden() or entry.recipe is None or runs.going():
        return
    round = entry.trace.rounds[at[0] - 1]
    row = round.positions[min(at[1] - 1, round.accepted)]
    if st.session_state.pop(keys.BRANCHED, False):
        st.session_state[keys.BRANCH_OPEN] = False
    with st.popover(
        "Branch from here", icon=":material/call_split:", key=keys.BRANCH_OPEN, on_change="rerun"
    ) as opened:
        if not opened.open:
            return
        st.caption("A new run from this place, beside the old one: with another token, K or seed.")
        table = row.table
        token = st.selectbox(
            "Token here",
            [None, *table.ids],
            format_func=lambda i: (
                "leave it to the new run"
                if i is None
                else f"{visible(entry.trace.tokens[i])}  p = {table.p[table.ids.index(i)]:.3g}"
            ),
            key=keys.BRANCH_TOKEN,
        )
        k = st.number_input("K", 0, 16, entry.recipe.k, key=keys.BRANCH_K)
        seed = st.number_input(
            "Seed", 0, 2**31 - 1, min(entry.recipe.seed + 1, 2**31 - 1), key=keys.BRANCH_SEED
        )
        if st.button("Start the branch", type="primary", icon=":material/call_split:"):
            new = replace(entry.recipe, k=k, seed=seed)
            runs.branch(entry, at, token, new)
            st.session_state[keys.BRANCHED] = True
            st.rerun()
