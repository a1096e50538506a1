"""Cost of a pass: the target's by its rows with the floors of the machine, and a draft token's."""

import plotly.graph_objects as go
import streamlit as st

from specviz.speed.report import Report
from specviz.ui.shell.palette import DRAFT, FAINT, figure, frame
from specviz.ui.shell.teaching import chart
from specviz.ui.speed.look import BAND, area, axes, intervals, line, name, note, title
from specviz.ui.state import keys

MUCH = 0.3  # of a pass: more than this above the floor wants another reason


def section(report: Report) -> None:
    title("Cost of a pass")
    if len(report.passes) < 2:
        st.caption("Not measured yet.")
        return
    said = sentence(report)
    st.markdown(said)
    with st.container(key=keys.SPEED_PAIR_DRAFTS):
        left, right = st.columns([1.9, 1], gap="small")
    with left:
        chart(target(report), keys.SPEED_COST, said)
    costs = [(kind, c) for kind in report.drafters if (c := report.c(kind)) is not None]
    if costs:
        told = ", ".join(f"{name(kind)} {small(c)}" for kind, c in costs)
        with right:
            chart(drafts(costs, report.setting.drafter), keys.SPEED_DRAFTS, f"One draft token: {told}.")
    prefill = ", ".join(f"{p.rows} tokens {p.seconds.median * 1e3:.0f} ms" for p in report.prefill)
    floor, rates = report.floor(1), report.rates
    st.caption(
        "Dots are medians, lines reach from 5 to 95 %; a bar as wide as its track is a whole pass. "
        "The floors come from this machine's measured rates: "
        f"reading {floor.weight_bytes / 1e6:,.0f} MB of weights at {rates.bandwidth / 1e9:.1f} GB/s, "
        f"computing at {rates.operations / 1e9:,.0f} GFLOP/s. Prefill: {prefill}."
    )


def small(c: float) -> str:
    return "<.01" if c < 0.01 else f"{c:.2f}"


def target(report: Report) -> go.Figure:
    """Milliseconds of a target pass by its rows, with the floors."""
    rows = [p.rows for p in report.passes]
    one, ms = report.seconds(1) or 0.0, 1e3
    ends = [rows[0], rows[-1]]
    floors = [report.floor(n) for n in ends]
    high = max(p.seconds.high for p in report.passes) * ms * 1.08
    k = report.setting.k
    layout = axes("rows in one target pass", " ms", high, height=270)
    layout["xaxis"] |= {"tickvals": sorted({1, 5, 9, 13, 17, k + 1}), "range": [0.4, rows[-1] + 0.6]}
    layout["shapes"] = [area(x0=k + 0.6, x1=k + 1.4, y0=0, y1=1, yref="paper", fillcolor=BAND)]
    v = report.v(k)
    layout["annotations"] = [
        note(rows[0], floors[0].reading * ms, "reading the weights", yanchor="bottom"),
        note(rows[-1], floors[1].computing * ms, "computing", xanchor="right", yanchor="bottom"),
    ]
    if v is not None and k + 1 <= rows[-1]:
        words = f"<b>{k + 1} rows: v = {v:.2f}</b>"
        layout["annotations"].append(note(k + 1.5, 1, words, yref="paper", yanchor="top", font={"size": 13}))
    return figure(
        [
            line(
                ends,
                [f.reading * ms for f in floors],
                "reading",
                "dash",
                hovertemplate="reading: %{y:.1f} ms<extra></extra>",
            ),
            line(
                ends,
                [f.computing * ms for f in floors],
                "computing",
                "dot",
                hovertemplate="computing: %{y:.1f} ms<extra></extra>",
            ),
            intervals(
                rows,
                [p.seconds for p in report.passes],
                "measured",
                ms,
                "%{x} rows: %{y:.1f} ms, %{customdata:.2f} passes",
                customdata=[p.seconds.median / one for p in report.passes],
            ),
        ],
        layout,
    )


def sentence(report: Report) -> str:
    """What `target` shows."""
    k, one = report.setting.k, report.seconds(1)
    v = report.v(k)
    if one is None:
        return ""
    floor = report.floor(1)
    rest = one - floor.seconds
    what = "reading the weights" if floor.reading > floor.computing else "arithmetic"
    said = "" if v is None else f"**Checking {k + 1} rows costs {v:.2f} passes.** "
    said += f"One row takes {one * 1e3:.1f} ms. "
    if rest > MUCH * one:
        return said + (
            f"{what.capitalize()} takes at least {floor.seconds * 1e3:.1f} ms of that; the other "
            f"{rest * 1e3:.1f} ms are mostly many small operations, whose cost hardly grows with the rows."
        )
    return said + f"{what.capitalize()} sets the time: at least {floor.seconds * 1e3:.1f} ms."


def drafts(costs: list[tuple[str, float]], chosen: str) -> go.Figure:
    """c of each drafter, as a share of a target pass, which is the full width."""
    rows = list(range(len(costs)))[::-1]
    wide = max([1.0, *(c for _, c in costs)])
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": rows,
            "x": values,
            "width": 0.3,
            "marker": {"color": colour},
            "hovertext": [f"{name(kind)}: {c:.3f} of a target pass" for kind, c in costs],
            "hoverinfo": "text",
        }
        for colour, values in ((FAINT, [wide] * len(costs)), (DRAFT, [c for _, c in costs]))
    ]
    words = [(f"<b>{name(kind)}</b>" if kind == chosen else name(kind), c) for kind, c in costs]
    layout = {
        **frame(270),
        "margin": {"l": 4, "r": 4, "t": 26, "b": 4},
        "xaxis": {"visible": False, "range": [0, wide], "fixedrange": True},
        "yaxis": {"visible": False, "range": [-0.4, len(costs) - 0.2], "fixedrange": True},
        "annotations": [
            note(0, 1, "a draft token", xref="paper", yref="paper", yanchor="bottom"),
            note(1, 1, "c", xref="paper", yref="paper", yanchor="bottom", xanchor="right"),
            *(note(0, y + 0.2, text, yanchor="bottom") for y, (text, _) in zip(rows, words, strict=True)),
            *(
                note(wide, y + 0.2, f"<b>{small(c)}</b>", yanchor="bottom", xanchor="right")
                for y, (_, c) in zip(rows, words, strict=True)
            ),
        ],
    }
    return figure(traces, layout)
