"""The verdict, and an average round to scale beside the plain passes that give the same tokens."""

import plotly.graph_objects as go
import streamlit as st

from specviz.speed import verdict
from specviz.speed.report import Report, Run
from specviz.speed.verdict import Scale
from specviz.ui.shell.markup import code
from specviz.ui.shell.palette import ACCEPTED, DRAFT, FAINT, REJECTED, TARGET, figure, frame
from specviz.ui.shell.teaching import chart
from specviz.ui.speed.look import COLOURS, REST, name, note, ratio, title
from specviz.ui.state import keys

ONE, OTHER = 1.0, 0.0  # the two bars
HALF = 0.24


def section(report: Report) -> None:
    """The card of the drafter and the K that the page is about."""
    setting, plain = report.setting, report.plain
    run = report.run(setting.drafter, setting.k)
    title("A round, to scale")
    if plain is None or run is None or run.ratio is None:
        _not_run(report)
        return
    scale = verdict.scale(run, plain)
    headline = verdict.headline(scale.speedup)
    st.markdown(f"### :{COLOURS[verdict.gains(scale.speedup)]}[{headline}]", anchors=False)
    st.markdown(verdict.reason(scale))
    chart(to_scale(scale), keys.SPEED_ROUND, f"{headline}. {describe(scale)}")
    st.markdown(verdict.wanted(scale, setting.k))
    if faster := faster_ones(report, scale.speedup):
        st.markdown(f"**Faster here:** {faster}.")
    st.caption(_measured(report, run, plain))
    _adaptive(report)


def faster_ones(report: Report, now: float) -> str:
    """What was run and is clearly faster than this: the drafter's own best K, and the best of another."""
    own = report.best(report.setting.drafter)
    others = [best for kind in report.drafters if (best := report.best(kind)) is not None]
    top = max(others, key=report.speedup, default=None)
    found = [
        f"{name(run.drafter)} with K = {run.k}, {ratio(report.speedup(run))}"
        for run in dict.fromkeys((own, top))
        if run is not None and report.speedup(run) > now + verdict.EVEN
    ]
    return "; ".join(found)


def _measured(report: Report, run: Run, plain: Run) -> str:
    spread = run.ratio
    assert spread is not None
    by_text = zip(report.setting.texts, run.by_text, strict=False)
    texts = ", ".join(f"{code(text)} {value:.2f}×" for text, value in by_text)
    said = (
        f"{name(run.drafter).capitalize()}, K = {run.k}, temperature {report.setting.temperature:g}: "
        f"{run.speed:.1f} tokens a second against {plain.speed:.1f}, over {spread.count} runs beside plain "
        f"decoding of the same texts; 90 % of the runs lie between {spread.low:.2f}× and {spread.high:.2f}×."
    )
    return f"{said} By text: {texts}." if len(run.by_text) > 1 else said


def _adaptive(report: Report) -> None:
    """What choosing K before each round brings."""
    run = report.adaptive(report.setting.drafter)
    if run is None or run.ratio is None:
        return
    now = report.speedup(run)
    worst = min(run.by_text, default=now)
    st.markdown(
        f"**With K chosen before each round** from these costs and what was accepted lately: "
        f"{ratio(now)} with {run.drafted / run.rounds:.1f} drafts a round, and "
        f"{worst:.2f}× on the text that suits it least."
    )


def _not_run(report: Report) -> None:
    setting = report.setting
    if report.plain is None:
        st.caption("No run has been measured yet: the passes come first.")
        return
    told = report.predicted(setting.drafter, setting.k)
    said = f"{name(setting.drafter).capitalize()} with K = {setting.k} was not run in this measurement."
    if told is not None:
        said += f" From its parts, measured one by one: {ratio(told)} (predicted)."
    known = ", ".join(str(run.k) for run in report.fixed(setting.drafter))
    st.markdown(f"{said} {f'Run were K = {known}. ' if known else ''}**Measure** runs it here.")


def to_scale(scale: Scale, small: bool = False) -> go.Figure:
    """An average round over the plain passes that give the same tokens, both in milliseconds."""
    each = scale.drafts / scale.k if scale.k else 0.0
    traces = [
        _piece(ONE, part * each, DRAFT, f"{i}" if part == 1 else "", f"draft {i}")
        for i, part in enumerate(_whole_and_rest(scale.k) if each else [], 1)
    ]
    traces.append(_piece(ONE, scale.verify, TARGET, f"verify {scale.verify * 1e3:.1f} ms", "target pass"))
    traces.append(_piece(ONE, scale.rest, REST, "", "sampling, judging, recording"))
    for i, part in enumerate(_whole_and_rest(scale.tokens), 1):
        seconds = part * scale.plain
        text = f"pass {i}, {seconds * 1e3:.1f} ms" if part == 1 else f"{part:.2f}"
        traces.append(_piece(OTHER, seconds, TARGET, text, f"plain pass {i}"))
    plain, ms = scale.tokens * scale.plain, 1e3
    longer = max(plain, scale.round)
    saved = plain - scale.round
    at, colour = (ONE, ACCEPTED) if saved > 0 else (OTHER, REJECTED)
    start = min(plain, scale.round)
    said = f"{'saves' if saved > 0 else 'too long by'} {abs(saved) * ms:.1f} ms"
    if small:
        said = f"{'−' if saved > 0 else '+'}{abs(saved) * ms:.1f} ms"
    wide = abs(saved) > 0.16 * longer
    gap = {
        "type": "rect",
        "x0": start * ms,
        "x1": longer * ms,
        "y0": at - HALF,
        "y1": at + HALF,
        "line": {"color": colour, "dash": "dot", "width": 2},
        "fillcolor": f"rgba({'0,158,115' if saved > 0 else '213,94,0'},0.14)",
    }
    layout = {
        **frame(212),
        "barmode": "stack",
        "uniformtext": {"mode": "hide", "minsize": 11},
        "margin": {"l": 0, "r": 4, "t": 4, "b": 26},
        "xaxis": {
            "ticksuffix": " ms",
            "gridcolor": FAINT,
            "zeroline": False,
            "fixedrange": True,
            "range": [0, longer * ms * 1.01],
            "nticks": 4 if small else 8,
        },
        "yaxis": {"visible": False, "fixedrange": True, "range": [-0.4, 1.62]},
        "shapes": [gap],
        "annotations": [
            note(
                0,
                y + 0.4,
                f"{what}: <b>{seconds * ms:.1f} ms</b>",
                font={"size": 14},
            )
            for y, what, seconds in (
                (
                    ONE,
                    "one round" if small else f"one speculative round, {scale.tokens:.2f} tokens",
                    scale.round,
                ),
                (OTHER, f"plain, same {'' if small else f'{scale.tokens:.2f} '}tokens", plain),
            )
        ]
        + [
            note(
                (start + longer) / 2 * ms if wide else longer * ms,
                at if wide else at + 0.4,
                f"<b>{said}</b>",
                xanchor="center" if wide else "right",
                font={"size": 14},
            )
        ],
    }
    return figure(traces, layout)


def describe(scale: Scale) -> str:
    """What `to_scale` shows, in numbers."""
    plain = scale.tokens * scale.plain
    return (
        f"A round takes {scale.round * 1e3:.1f} ms: drafting {scale.drafts * 1e3:.1f}, the target's pass "
        f"{scale.verify * 1e3:.1f}, everything else {scale.rest * 1e3:.1f}. Plain passes for the same "
        f"{scale.tokens:.2f} tokens take {plain * 1e3:.1f} ms."
    )


def _whole_and_rest(amount: float) -> list[float]:
    """Ones, and what remains."""
    whole = int(amount + 1e-9)
    rest = amount - whole
    return [1.0] * whole + ([rest] if rest > 0.005 else [])


def _piece(y: float, seconds: float, colour: str, text: str, hover: str) -> dict:
    return {
        "type": "bar",
        "orientation": "h",
        "y": [y],
        "x": [seconds * 1e3],
        "width": 2 * HALF,
        "marker": {"color": colour, "line": {"color": "rgba(255,255,255,0.9)", "width": 1}},
        "text": text,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": "#1c2430" if colour == DRAFT else "#ffffff", "size": 13},
        "hovertemplate": f"{hover}: %{{x:.2f}} ms<extra></extra>",
    }
