"""The audit button: does what the caches hold agree with a pass that uses no cache?"""

from typing import Any

import streamlit as st

from specviz.exactness.cache_check import check_caches
from specviz.ui.state import pairs, runner, runs
from specviz.ui.state.runs import Entry


def audit_button(entry: Entry, place: Any) -> None:
    """The button; what the audit says goes to the container `place`."""
    if "audit" in runs.hidden() or runner.going():
        return
    live = entry.run is not None
    asked = st.button(
        "Audit the caches",
        icon=":material/fact_check:",
        disabled=not live,
        help="Compares the logits on top of each cache with those of an uncached pass over the whole text."
        if live
        else "Only a run made here has caches to look into. Press Run.",
    )
    if asked and entry.run is not None:
        with place, st.spinner("Passes without a cache over the whole text …"), pairs.shelf().stepping:
            checks = check_caches(entry.run)
        for check in checks:
            if check.ok:
                place.success(check.sentence, icon=":material/check:")
            else:
                place.error(check.sentence, icon=":material/error:")
