"""All drafters of a measurement in one table, on one scale, with verdicts."""

from html import escape

import streamlit as st

from specviz.speed import verdict
from specviz.speed.report import Report, Run
from specviz.ui.speed.costs import small
from specviz.ui.speed.look import MARKS, name, title


def section(report: Report) -> None:
    title("Drafters")
    rows = [(kind, run) for kind in report.drafters if (run := shown(report, kind)) is not None]
    if not rows:
        st.caption("No run has been measured yet.")
        return
    rows.sort(key=lambda row: -report.speedup(row[1]))
    wide = '<div class="speed-wide" tabindex="0" role="region" aria-label="Drafters">'
    st.html(f"{wide}{html(report, rows)}</div>")
    st.caption(
        f"With K = {report.setting.k}, or the nearest that was run. Dots: measured over all texts, lines: "
        "5 to 95 % of single runs, ticks: predicted from parts that were measured apart. The verdict looks "
        "at every K that was run."
    )


def shown(report: Report, kind: str) -> Run | None:
    """The run of a drafter at the setting's K, or the nearest K that was run."""
    known = [run for run in report.fixed(kind) if run.ratio is not None]
    return min(known, key=lambda run: abs(run.k - report.setting.k), default=None)


def html(report: Report, rows: list[tuple[str, Run]]) -> str:
    """The table; every text in it is a number or escaped."""
    spreads = [run.ratio for _, run in rows if run.ratio is not None]
    low = min([0.5, *(s.low for s in spreads)])
    high = max([1.6, *(s.high for s in spreads)]) * 1.04

    def at(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.1f}%"

    head = "".join(
        f'<th scope="col" class="{"n" if numeric else ""}">{text}</th>'
        for text, numeric in (
            ("drafter", False),
            ("K", True),
            ("draft token", True),
            ("c", True),
            ("v", True),
            ("mean length", True),
            ("predicted", True),
            ("measured", True),
            (f"{low:.1f}× to {high:.1f}×, line at 1×", False),
            ("best K", True),
            ("verdict", False),
        )
    )
    body = "".join(_row(report, kind, run, at) for kind, run in rows)
    return f'<table class="speed-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _row(report: Report, kind: str, run: Run, at) -> str:
    spread, told, best = run.ratio, report.explained(run), report.best(kind)
    assert spread is not None
    block, c, v = report.drafting(kind, run.k), report.c(kind, run.k), report.v(run.k)
    now = report.speedup(run)
    gains = verdict.gains(now)
    colour = MARKS[gains]
    said = verdict.of_drafter(report, kind)
    cells = (
        str(run.k),
        "–" if block is None else escape(f"{small(block / run.k * 1e3)} ms"),
        "–" if c is None else escape(small(c)),
        "–" if v is None else f"{v:.2f}",
        f"{run.length:.2f}",
        "–" if told is None else f"{told:.2f}×",
        f'<b class="{gains}">{now:.2f}×</b>',
    )
    tick = "" if told is None else f'<i class="told" style="left:{at(told)}"></i>'
    scale = (
        f'<div><i class="loss" style="width:{at(1.0)}"></i><i class="one" style="left:{at(1.0)}"></i>'
        f'<i class="span" style="left:{at(spread.low)};right:calc(100% - {at(spread.high)});'
        f'background:{colour}"></i>{tick}<i class="dot" style="left:{at(now)};background:{colour}"></i></div>'
    )
    at_best = verdict.gains(report.speedup(best)) if best is not None else "even"
    best_k = str(best.k) if best is not None and at_best != "slower" else "–"
    here = ' class="here"' if kind == report.setting.drafter else ""
    return (
        f'<tr{here}><th scope="row">{escape(name(kind))}</th>'
        + "".join(f'<td class="n">{cell}</td>' for cell in cells)
        + f'<td class="scale">{scale}</td><td class="n">{best_k}</td>'
        + f'<td class="{at_best}">{escape(said)}</td></tr>'
    )
