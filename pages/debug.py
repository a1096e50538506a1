"""Why drafts get rejected, over many prompts; what would help; the logs of other engines."""

import streamlit as st

from specviz.ui.debug import begin, causes, engines, helps, overview, places, shown, texts, work
from specviz.ui.shell import frame
from specviz.ui.state import keys, watch

frame.require_entrypoint()

st.markdown("## Why does my draft get rejected?")
prompts, logs = st.tabs(
    ("My prompts", "Engine logs"), key=keys.DEBUG_VIEW, bind="query-params", on_change="rerun"
)
with logs:
    engines.section()
with prompts:
    if shown.lost():
        st.info(
            "The audit of this address is not here any more. A recorded one is shown.", icon=":material/info:"
        )
    now = shown.current()
    shown.choose(now)
    begin.panel(now)
    report = now.report
    if report is None or not report.findings:
        st.caption("Nothing has been measured yet. The first figures come with the first prompt.")
    else:
        if now.recorded:
            st.caption(f"Recorded audit of the built-in pair: {now.title}, {report.many}.")
        else:
            st.text(overview.audited(report))
        overview.headline(report)
        overview.figures(report)
        overview.checks(report)
        left, right = st.columns([3, 2])
        with left, st.container(border=True):
            st.markdown("#### Causes")
            cause = causes.table(report, now.name)
            causes.rules()
        with right, st.container(border=True):
            st.markdown("#### Acceptance by position")
            causes.curve(report)
        with st.container(border=True):
            st.markdown("#### What would help")
            helps.section(report)
        with st.container(border=True):
            st.markdown("#### Where")
            cells = places.splits(report, now.name)
        with st.container(border=True):
            st.markdown("#### Worst prompts, worst tokens")
            prompt, token = places.worst(report, now.name)
        with st.container(border=True):
            st.markdown("#### Rejections")
            places.rejections(now, cause, prompt, token, cells)
        with st.container(border=True):
            st.markdown("#### One text, token by token")
            texts.one_text(now)
        with st.container(border=True):
            st.markdown("#### Two audits")
            texts.two_audits(now)
watch.follow(work.current())
