"""The same question elsewhere: a measurement that was recorded with other texts, for contrast."""

import streamlit as st

from specviz.speed import verdict
from specviz.speed.files import RECORDED
from specviz.speed.report import Report
from specviz.ui.shell.teaching import chart
from specviz.ui.speed import round, work
from specviz.ui.speed.look import COLOURS, name, title
from specviz.ui.state import keys


def section(report: Report, shown: str) -> None:
    """The same drafter in the recorded measurement that is not shown."""
    other = "greedy" if shown == "hot" else "hot"
    beside = work.recorded(other)
    kind = report.setting.drafter
    known = [run for run in beside.fixed(kind) if run.ratio is not None]
    run = min(known, key=lambda r: abs(r.k - report.setting.k), default=None)
    title(f"With {RECORDED[other]}")
    if run is None or run.ratio is None or beside.plain is None:
        st.caption(f"{name(kind).capitalize()} was not recorded there.")
        return
    scale = verdict.scale(run, beside.plain)
    said = verdict.headline(scale.speedup)
    st.markdown(f":{COLOURS[verdict.gains(scale.speedup)]}[**{said}**]")
    st.markdown(
        f"A round costs **{scale.passes:.2f}** plain passes and brings **{scale.tokens:.2f}** tokens: "
        f"{name(kind)}, K = {run.k}, temperature {beside.setting.temperature:g}."
    )
    chart(round.to_scale(scale, small=True), keys.SPEED_OTHER, f"{said}. {round.describe(scale)}")
    st.caption(f"Recorded: {beside.setting.pair} on {beside.machine.short}.")
