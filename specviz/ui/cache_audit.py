"""The audit button: does what the caches hold agree with a pass that uses no cache?"""

import streamlit as st

from specviz.decoding.cache import CacheAudit, audit
from specviz.decoding.drafters.model import LanguageModelDrafter
from specviz.ui import pairs, runner, session
from specviz.ui.session import Entry


def audit_button(entry: Entry) -> None:
    if "audit" in session.hidden() or runner.going():
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
        with st.spinner("One uncached pass of each model …"), pairs.shelf().stepping:
            run = entry.run
            committed = len(run.tokens)
            _report("target", audit(run.pair.target, run.target_cache, run.tokens, committed - 1))
            if isinstance(run.drafter, LanguageModelDrafter):
                # Behind a full acceptance the last draft token was never fed to the draft.
                last = run.rounds[-1].draft_cache if run.rounds else None
                expected = last.kept if last else 0
                _report("draft", audit(run.drafter.model, run.drafter.cache, run.tokens, expected))


def _report(name: str, result: CacheAudit) -> None:
    worst = max(result.max_abs_diff, default=0.0)
    text = (
        f"{name}: {result.cached} positions cached, {result.expected} expected · largest logit difference "
        f"{worst:.1e}, tolerance {result.tolerance:.0e}"
    )
    if result.ok:
        st.success(text, icon=":material/check:")
    else:
        st.error(text, icon=":material/error:")
