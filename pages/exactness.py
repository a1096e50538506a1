"""Is the output distributed as the target's? Five checks, and a gallery of faults that they must catch."""

import streamlit as st

from specviz.ui.exactness import (
    arithmetic,
    badges,
    caches,
    continuations,
    evidence,
    examined,
    gallery,
    proof,
    sampling,
    summary,
)
from specviz.ui.shell import frame
from specviz.ui.state import keys, runs, watch

frame.require_entrypoint()

entry = runs.current()
badges.style()
st.markdown(
    "**The claim:** speculative decoding changes how fast the tokens come, not which: every token has "
    "exactly the probability that the target alone would give it. Five checks test that on a real run, "
    "beside a rule that is known to be wrong and has to fail."
)
at = examined.selected(entry) if entry is not None else None
examined.heading(entry, at)
if entry is None:
    st.info("These settings have not been run here yet: run them on the Rounds page, or choose a run above.")
elif at is None:
    st.info("This run drafted nothing, so there is no rule to check: choose another run above.")
else:
    where = examined.obtain(entry, at, st.container())
    examined.text(where)
    top = st.container()
    with st.container(key=keys.STAGE):
        left, right = st.columns([1.75, 1], gap="medium")
    with left:
        arithmetic.card(where)
        sampling.card(where)
        evidence.card(entry)
        proof.card(where)
    with right:
        first = st.container()
        continuations.card(entry)
        caches.card(entry)
    with first:  # stands above the checks of whole runs, and says what they have found
        gallery.card(where)
    with top:
        summary.row(where)
    watch.follow(
        sampling.drawing(where), gallery.measuring(where), continuations.wanted(entry), caches.auditing(entry)
    )
