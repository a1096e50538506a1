"""Why: how much arithmetic the machine has to spare, by batch and context."""

from math import log10

import plotly.graph_objects as go
import streamlit as st

from specviz.speed.report import Report
from specviz.ui.shell.palette import TARGET, figure, legend
from specviz.ui.shell.teaching import chart
from specviz.ui.speed.look import axes, line, ratio, title
from specviz.ui.state import keys

DEAR = 1.5  # passes: checking that costs more is no longer nearly free


def section(report: Report) -> None:
    title("Why: the roofline of this machine")
    contexts = sorted({p.context for p in report.grid})
    if not contexts:
        st.caption("Not measured: batches and contexts come last in a measurement, and only if asked for.")
        for line_ in report.refused:
            st.caption(f"Left out: {line_}.")
        return
    chosen = st.segmented_control(
        "Context",
        contexts,
        default=contexts[0],
        format_func=lambda n: f"context {n:,}",
        key=keys.SPEED_CONTEXT,
        label_visibility="collapsed",
    )
    context = chosen if chosen in contexts else contexts[0]
    said = sentence(report, context)
    st.markdown(said)
    chart(roofline(report, context), keys.SPEED_ROOF, said)
    rows = by_batch(report, context)
    if rows:
        st.table(rows, hide_index=True, border="horizontal")
    left = " ".join(f"Left out: {words}." for words in report.refused)
    st.caption(
        "Passes over random tokens behind random caches: only their time is measured. The speed-up of a "
        f"batch is estimated: the tokens a round and c of a single text, and the batch's own v. {left}"
    )


def batch_v(report: Report, context: int, batch: int) -> float | None:
    """v of a batch: a pass over several rows of each sequence in passes over one."""
    seconds = {p.rows: p.seconds.median for p in report.grid if (p.context, p.batch) == (context, batch)}
    many = max(seconds, default=1)
    return seconds[many] / seconds[1] if many > 1 and 1 in seconds else None


def by_batch(report: Report, context: int) -> dict[str, list[str]]:
    """A column a batch: v, the share of the bytes that the cache has, and the speed-up."""
    run, c = report.run(report.setting.drafter, _rows(report) - 1), report.c(report.setting.drafter)
    run = run or report.best(report.setting.drafter)
    batches = [b for b in _batches(report, context) if batch_v(report, context, b) is not None]
    if run is None or c is None or not batches:
        return {}
    table: dict[str, list[str]] = {"Batch": ["v", "cache, of the bytes read", "speed-up (estimated)"]}
    for batch in batches:
        v = batch_v(report, context, batch) or 1.0
        floor = report.floor(1, context, batch)
        share = floor.cache_bytes / (floor.cache_bytes + floor.weight_bytes)
        speedup = run.length / (c * run.drafted / run.rounds + v)
        table[str(batch)] = [f"{v:.2f}", f"{share:.0%}", ratio(speedup)]
    return table


def _batches(report: Report, context: int) -> list[int]:
    return sorted({p.batch for p in report.grid if p.context == context})


def _rows(report: Report) -> int:
    """Rows of the verify passes of the grid."""
    return max((p.rows for p in report.grid), default=1)


def roofline(report: Report, context: int) -> go.Figure:
    """Operations a second by operations a byte read: plain passes and verify passes over batches."""
    rates = report.rates
    turn = rates.operations / rates.bandwidth
    giga = 1e9
    traces: list[dict] = []
    points = [p for p in report.grid if p.context == context]
    xs: list[float] = []
    ys: list[float] = []
    for n in sorted({p.rows for p in points}):
        shown = [p for p in points if p.rows == n]
        floors = [report.floor(n, p.context, p.batch) for p in shown]
        x = [f.computing * rates.operations / (f.reading * rates.bandwidth) for f in floors]
        pairs = zip(floors, shown, strict=True)
        y = [f.computing * rates.operations / p.seconds.median / giga for f, p in pairs]
        xs, ys = xs + x, ys + y
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers+text",
                "x": x,
                "y": y,
                "text": [f"batch {p.batch}" if n > 1 and p in (shown[0], shown[-1]) else "" for p in shown],
                "textposition": ["bottom right"] * (len(shown) - 1) + ["top left"],
                "customdata": [[p.batch, p.seconds.median * 1e3] for p in shown],
                "line": {"color": TARGET, "width": 1.5, "dash": "dot" if n == 1 else "solid"},
                "marker": {
                    "color": "#ffffff" if n == 1 else TARGET,
                    "line": {"color": TARGET, "width": 2},
                    "size": 9,
                },
                "name": "plain, 1 row" if n == 1 else f"verify, {n} rows",
                "hovertemplate": "batch %{customdata[0]}: %{y:.0f} GFLOP/s, %{customdata[1]:.1f} ms a pass"
                "<extra></extra>",
            }
        )
    low, high = 0.6 * min([*xs, 1.0]), max(3 * turn, 1.6 * max(xs, default=1.0))
    limit = line(
        [low, turn, high],
        [low * rates.bandwidth / giga, rates.operations / giga, rates.operations / giga],
        "limit by this machine's measured rates",
        "solid",
        hovertemplate="limit: %{y:.0f} GFLOP/s<extra></extra>",
    )
    layout = axes("operations a byte read", "", 1, height=320)
    layout["xaxis"] |= {"type": "log", "dtick": 1}
    layout["yaxis"] |= {"type": "log", "title": {"text": "GFLOP/s"}, "dtick": 1}
    lowest, highest = 0.5 * min([*ys, low * rates.bandwidth / giga]), 2.2 * rates.operations / giga
    layout["yaxis"]["range"] = [log10(lowest), log10(highest)]
    layout |= {"showlegend": True, "legend": legend(1.02, "bottom")}
    layout["margin"] = {"l": 56, "r": 10, "t": 30, "b": 40}
    return figure([limit, *traces], layout)


def sentence(report: Report, context: int) -> str:
    """Where the spare arithmetic ends."""
    rates = report.rates
    turn = rates.operations / rates.bandwidth
    one = report.floor(1, context)
    plain = one.computing * rates.operations / (one.reading * rates.bandwidth)
    said = (
        f"**Spare arithmetic is the free lunch.** This machine computes {turn:.0f} operations in the time of "
        f"reading a byte; a plain pass needs {plain:.1f}. "
    )
    dear = [b for b in _batches(report, context) if (batch_v(report, context, b) or 0.0) > DEAR]
    if dear:
        return f"{said}From batch {dear[0]} on, checking {_rows(report)} rows costs over {DEAR:g} passes."
    return (
        f"{said}In every batch that was measured, checking {_rows(report)} rows stays below {DEAR:g} passes."
    )
