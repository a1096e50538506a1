"""Speed-up by K: by the formula with independent acceptance, from measured parts, and really run."""

import plotly.graph_objects as go
import streamlit as st

from specviz.speed.report import Report
from specviz.ui.shell.palette import ACCEPTED, DIMMED, REJECTED, figure, legend
from specviz.ui.shell.teaching import chart
from specviz.ui.speed.look import BAND, LOSS, area, axes, intervals, line, note, title
from specviz.ui.state import keys


def section(report: Report) -> None:
    drafter = report.setting.drafter
    title("Speed-up by K")
    best = report.best(drafter)
    if best is None:
        st.caption("Not measured yet.")
        return
    said = sentence(report)
    st.markdown(said)
    chart(by_k(report), keys.SPEED_BY_K, said)
    run = report.run(drafter, report.setting.k) or best
    rates = " · ".join(f"{i}: {rate:.0%}" for i, rate in enumerate(run.rates, 1))
    st.caption(
        f"Acceptance rate by position with K = {run.k}: {rates}. Solid: from these rates and the "
        "costs of passes and blocks, measured apart from the runs. Dashed: the formula, as if every draft "
        "token were kept with the same chance and the check cost one pass (v = 1). Lines at the points reach "
        "from 5 to 95 % of single runs."
    )


def by_k(report: Report) -> go.Figure:
    """The three, over the K that were run, and the zone where speculation loses."""
    drafter, k = report.setting.drafter, report.setting.k
    runs = [run for run in report.fixed(drafter) if run.ratio is not None]
    ks = sorted({*(run.k for run in runs), k})
    spreads = [run.ratio for run in runs if run.ratio is not None]
    measured = [report.speedup(run) for run in runs]
    every = list(range(1, ks[-1] + 1))
    told = [report.predicted(drafter, n) for n in every]
    formula = [report.independent(drafter, n) for n in every]
    values = [x for x in (*told, *formula) if x is not None]
    high = 1.06 * max([1.2, *values, *(s.high for s in spreads)])
    low = 0.94 * min([0.8, *values, *(s.low for s in spreads)])
    layout = axes("K, draft tokens a round", "×", high, low)
    layout |= {"showlegend": True, "legend": legend(1.02, "bottom")}
    layout["margin"] = {**layout["margin"], "t": 30}
    layout["xaxis"] |= {"tickvals": ks, "range": [0.4, ks[-1] + 0.6]}
    layout["shapes"] = [
        area(xref="paper", x0=0, x1=1, y0=low, y1=1, fillcolor=LOSS),
        area(x0=k - 0.4, x1=k + 0.4, yref="paper", y0=0, y1=1, fillcolor=BAND),
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": 1,
            "y1": 1,
            "line": {"color": REJECTED, "width": 1.5},
        },
    ]
    layout["annotations"] = [
        note(0.01, 1, "slower than plain", xref="paper", yanchor="top", font={"size": 13})
    ]
    best = report.best(drafter)
    traces = [
        line(
            every,
            formula,
            "formula, v = 1",
            "dash",
            DIMMED,
            hovertemplate="formula, K = %{x}: %{y:.2f}×<extra></extra>",
        ),
        line(
            every,
            told,
            "from measured parts",
            "solid",
            hovertemplate="parts, K = %{x}: %{y:.2f}×<extra></extra>",
        ),
        intervals(
            [run.k for run in runs], spreads, "measured", 1.0, "K = %{x}: %{y:.2f}× measured", measured
        ),
    ]
    if best is not None:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [best.k],
                "y": [report.speedup(best)],
                "name": "best",
                "marker": {
                    "size": 19,
                    "color": "rgba(0,0,0,0)",
                    "line": {"color": ACCEPTED, "width": 2.5},
                    "symbol": "circle",
                },
                "hoverinfo": "skip",
            }
        )
    return figure(traces, layout)


def sentence(report: Report) -> str:
    """What `by_k` shows."""
    drafter = report.setting.drafter
    best, now = report.best(drafter), report.run(drafter, report.setting.k)
    if best is None:
        return ""
    top = report.speedup(best)
    said = f"**Best here: K = {best.k}, {top:.2f}×.**"
    if top < 1:
        return f"{said} At every K that was run it is slower than plain decoding."
    runs = [run for run in report.fixed(drafter) if run.ratio is not None]
    as_good = [r.k for r in runs if r.k != best.k and report.speedup(r) > 0.97 * top]
    losing = [r.k for r in runs if report.speedup(r) < 1 and r.k > best.k]
    if as_good:
        said += f" K = {' and '.join(map(str, as_good))} {'is' if len(as_good) == 1 else 'are'} as good."
    if now is not None and now.k not in (best.k, *as_good):
        said += f" K = {now.k} gives {report.speedup(now):.2f}×."
    if losing:
        said += f" From K = {min(losing)} on it is slower than plain decoding."
    return said
