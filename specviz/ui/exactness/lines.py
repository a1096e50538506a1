"""Lines of the exactness checks over tokens and rounds, and the sentence that says what each figure shows."""

from collections.abc import Sequence
from math import exp, log

import plotly.graph_objects as go

from specviz.exactness.evidence import THRESHOLD, LeakTest
from specviz.reading.prose import count, number
from specviz.ui.shell.palette import (
    ACCEPTED,
    DRAFT,
    FAINT,
    NEUTRAL,
    REJECTED,
    TARGET,
    bare_axis,
    figure,
    frame,
    legend,
)

LOWEST, HIGHEST = 1e-3, 1e6  # the evidence is drawn between these
SMALLEST = 1e-16  # a difference of logits of 0 is drawn here


def evidence(test: LeakTest, control: LeakTest | None = None, height: int = 200) -> go.Figure:
    """Evidence against exactness over the emitted tokens, on a logarithmic scale, with the threshold."""
    lines = [(test, ACCEPTED if test.ok else REJECTED, "solid", "these tokens")]
    if control is not None:
        lines.append((control, REJECTED, "dot", "judged by the faulty rule"))
    longest = max(t.tokens for t, *_ in lines)
    traces = [_evidence_line(*line) for line in lines]
    highest = max([THRESHOLD, *(min(t.highest, HIGHEST) for t, *_ in lines)])
    lowest = min([0.1, *(max(exp(min(t.log_evidence, default=0.0)), LOWEST) for t, *_ in lines)])
    ticks = [t for t in (0.001, 0.01, 0.1, 1.0, 20.0, 1e3, 1e6) if lowest / 1.5 <= t <= highest * 1.5]
    guides = [_guide(longest, THRESHOLD, REJECTED, "dash"), _guide(longest, 1.0, NEUTRAL, "solid")]
    guides += [
        {
            "type": "line",
            "x0": end,
            "x1": end,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"width": 1, "color": FAINT},
        }
        for end in test.run_ends[:-1]
    ]
    layout = {
        **frame(height),
        "margin": {"l": 0, "r": 8, "t": 28, "b": 4},
        "showlegend": True,
        "legend": legend(1.02, "bottom"),
        "shapes": guides,
        "xaxis": {
            **bare_axis(),
            "showticklabels": True,
            "range": [0, longest * 1.01],
            "title": {"text": "tokens emitted", "font": {"size": 12}},
            "nticks": 8,
        },
        "yaxis": {
            **bare_axis(),
            "type": "log",
            "showticklabels": True,
            "automargin": True,
            "range": [log(lowest / 1.6) / log(10), log(highest * 1.8) / log(10)],
            "tickvals": ticks,
            "ticktext": [f"{t:,g}" for t in ticks],
        },
    }
    return figure(traces, layout)


def describe_evidence(test: LeakTest, control: LeakTest | None = None) -> str:
    """What `evidence` shows, with its numbers."""
    text = (
        f"A line of the evidence over {count(test.tokens, 'token')}, from 1 to {number(test.evidence, 3)}; "
        f"its highest point is {number(test.highest, 3)} and the threshold 20."
    )
    if control is not None:
        crossed = "never passes 20" if control.ok else f"passes 20 at token {control.crossed_at:,}"
        text += f" The same rounds judged by the faulty rule: the line {crossed}."
    return text


def differences(target: Sequence, draft: Sequence, height: int = 170) -> go.Figure:
    """Largest difference of logits between cached and uncached passes after every round.

    Args:
        target, draft: the checks of each model's cache, with `round`, `logit_diff`, `tolerance`.
    """
    lines = []
    for name, colour, checks in (("target", TARGET, target), ("draft", DRAFT, draft)):
        known = [c for c in checks if c.logit_diff is not None]
        if known:
            lines.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "x": [c.round for c in known],
                    "y": [max(c.logit_diff, SMALLEST) for c in known],
                    "name": name,
                    "line": {"color": colour, "width": 2},
                    "hovertemplate": "%{y:.2g} after round %{x}<extra></extra>",
                    "showlegend": True,
                }
            )
    last = max(c.round for c in (*target, *draft))
    tolerance = max(c.tolerance for c in (*target, *draft))
    diffs = [c.logit_diff for c in (*target, *draft) if c.logit_diff is not None]
    heights = [tolerance, *(max(diff, SMALLEST) for diff in diffs)]
    layout = {
        **frame(height),
        "margin": {"l": 0, "r": 8, "t": 28, "b": 4},
        "showlegend": True,
        "legend": legend(1.02, "bottom"),
        "shapes": [_guide(last, tolerance, REJECTED, "dash")],
        "annotations": [
            {
                "x": 0,
                "xref": "paper",
                "y": log(tolerance) / log(10),
                "text": "tolerance",
                "showarrow": False,
                "xanchor": "left",
                "yanchor": "bottom",
                "font": {"size": 11},
            }
        ],
        "xaxis": {
            **bare_axis(),
            "showticklabels": True,
            "range": [0, last * 1.02],
            "title": {"text": "rounds", "font": {"size": 12}},
            "dtick": max(1, last // 8),
        },
        "yaxis": {
            **bare_axis(),
            "type": "log",
            "showticklabels": True,
            "automargin": True,
            "exponentformat": "power",
            "dtick": 2,
            "range": [log(min(heights) / 3) / log(10), log(max(heights) * 5) / log(10)],
        },
    }
    return figure(lines, layout)


def describe_differences(checks: Sequence) -> str:
    """What `differences` shows, with its numbers."""
    worst = max((c for c in checks if c.logit_diff is not None), key=lambda c: c.logit_diff)
    return (
        f"The largest difference of logits between cached and uncached passes is {number(worst.logit_diff)}, "
        f"in the {worst.role}'s cache after round {worst.round}; the tolerance is {number(worst.tolerance)}."
    )


def _evidence_line(test: LeakTest, colour: str, dash: str, name: str) -> dict:
    heights = [exp(max(log(LOWEST), min(v, log(HIGHEST)))) for v in (0.0, *test.log_evidence)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(range(len(heights))),
        "y": heights,
        "name": name,
        "line": {"color": colour, "width": 2.5, "dash": dash},
        "hovertemplate": "%{y:.3g} after %{x} tokens<extra></extra>",
        "showlegend": True,
    }


def _guide(longest: int, y: float, colour: str, dash: str) -> dict:
    return {
        "type": "line",
        "x0": 0,
        "x1": longest * 1.01,
        "y0": y,
        "y1": y,
        "line": {"color": colour, "width": 1.5 if dash == "dash" else 1, "dash": dash},
    }
