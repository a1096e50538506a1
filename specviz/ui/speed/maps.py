"""Which draft would pay: the best speed-up by α and c, with the drafters that were measured."""

from math import log2

import plotly.graph_objects as go
import streamlit as st

from specviz.speed import formulas
from specviz.speed.report import Report
from specviz.ui.shell.palette import REJECTED, figure
from specviz.ui.shell.teaching import chart
from specviz.ui.speed.look import axes, name, note, title
from specviz.ui.state import keys

LONGEST = 16  # rows beyond this were not timed
CONTOURS = (0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
INK = "#1c2430"  # the fields of the map are light in both themes


class Best:
    """The best speed-up over all K, with the measured cost of checking K + 1 rows.

    Args:
        report: gives v.
    """

    def __init__(self, report: Report) -> None:
        self.v = {k: v for k in range(1, LONGEST + 1) if (v := report.v(k)) is not None} or {1: 1.0}

    def k(self, alpha: float, c: float) -> int:
        return max(self.v, key=lambda k: formulas.speedup(alpha, k, c, self.v[k]))

    def __call__(self, alpha: float, c: float) -> float:
        return max(formulas.speedup(alpha, k, c, v) for k, v in self.v.items())


def section(report: Report) -> None:
    title("Which draft would pay")
    said = sentence(report)
    if not said:
        st.caption("Not measured yet.")
        return
    st.markdown(said)
    chart(chart_map(report), keys.SPEED_MAP, said)
    st.caption(
        "Best speed-up over all K by the formula, with the measured cost of the check and independent "
        "acceptance. α of a drafter is the chance of keeping a draft token that explains its tokens a round. "
        "Dotted: where the best K changes."
    )


def chart_map(report: Report) -> go.Figure:
    """The map, and every drafter on it."""
    best = Best(report)
    points = [
        (kind, alpha, c)
        for kind in report.drafters
        if (c := report.c(kind)) is not None and (alpha := report.kept(kind)) is not None
    ]
    alphas = [i / 50 for i in range(5, 49)]
    highest = max([0.4, *(1.15 * c for *_, c in points)])
    costs = [highest * i / 36 for i in range(37)]
    z = [[best(a, c) for a in alphas] for c in costs]
    chosen = report.setting.drafter
    shared = {"type": "contour", "x": alphas, "y": costs, "showscale": False}
    traces: list[dict] = [
        {
            **shared,
            "z": [[log2(value) for value in row] for row in z],
            "customdata": z,
            "contours": {"start": -1, "end": 3, "size": 0.125, "coloring": "heatmap"},
            "colorscale": [
                [0, "#f3b48d"],
                [0.249, "#fbe6d8"],
                [0.251, "#f4faf7"],
                [0.6, "#7cc4a5"],
                [1, "#2a8f6b"],
            ],
            "zmin": -1,
            "zmax": 3,
            "line": {"width": 0},
            "hovertemplate": "α = %{x:.2f}, c = %{y:.2f}: %{customdata:.2f}×<extra></extra>",
        },
        *(
            {
                **shared,
                "z": z,
                "contours": {
                    "type": "constraint",
                    "operation": "=",
                    "value": value,
                    "showlabels": True,
                    "labelfont": {"size": 12, "color": INK},
                    "labelformat": ".3~g",
                },
                "line": {"color": REJECTED if value == 1 else "#2a6f57", "width": 2.4 if value == 1 else 1},
                "hoverinfo": "skip",
            }
            for value in CONTOURS
        ),
        {
            **shared,
            "z": [[best.k(a, c) for a in alphas] for c in costs],
            "contours": {"start": 1.5, "end": 8.5, "size": 1, "coloring": "none"},
            "line": {"color": "rgba(28,36,48,0.45)", "width": 1, "dash": "dot", "smoothing": 0},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers+text",
            "x": [alpha for _, alpha, _ in points],
            "y": [c for *_, c in points],
            "text": [
                f"<b>you are here: {name(kind)}</b>" if kind == chosen else name(kind) for kind, *_ in points
            ],
            "textposition": beside(
                [len(name(kind)) + 14 * (kind == chosen) for kind, *_ in points], points, highest
            ),
            "textfont": {"color": INK, "size": 13},
            "cliponaxis": False,
            "marker": {
                "opacity": 1,
                "size": [14 if kind == chosen else 11 for kind, *_ in points],
                "color": [INK if kind == chosen else "#ffffff" for kind, *_ in points],
                "line": {"color": INK, "width": 2},
            },
            "hovertemplate": "%{text}: α = %{x:.2f}, c = %{y:.3f}<extra></extra>",
        },
    ]
    layout = axes("α, chance that a draft token is kept", "", highest, -0.07 * highest, height=380)
    layout["xaxis"] |= {"range": [alphas[0], alphas[-1]], "tickformat": ".1f"}
    layout["yaxis"] |= {"title": {"text": "c, a draft token in target passes"}, "showgrid": False}
    here = next(((alpha, c) for kind, alpha, c in points if kind == chosen), None)
    if here is not None and (better := wish(here[0])) > here[0]:
        layout["annotations"] = [
            note(
                better,
                here[1],
                f"<b>{best(better, here[1]):.2f}×</b>",
                xshift=4,
                yshift=-13,
                font={"color": INK, "size": 13},
            ),
            {
                "ax": here[0],
                "ay": here[1],
                "x": better,
                "y": here[1],
                "axref": "x",
                "ayref": "y",
                "text": "",
                "showarrow": True,
                "arrowhead": 2,
                "arrowwidth": 2,
                "arrowcolor": INK,
                "standoff": 2,
                "startstandoff": 8,
            },
        ]
    return figure(traces, layout)


SIDES = {
    "top center": (-0.5, 1.0),
    "middle right": (0.12, 0.0),
    "middle left": (-1.12, 0.0),
    "bottom center": (-0.5, -1.0),
    "top right": (0.0, 1.0),
    "top left": (-1.0, 1.0),
}


def beside(letters: list[int], points: list[tuple[str, float, float]], highest: float) -> list[str]:
    """Where the names stand: on the first side where none covers a point, another name or the edge."""
    row = highest / 17
    boxes = [(alpha - 0.015, c - row / 2, alpha + 0.015, c + row / 2) for _, alpha, c in points]
    places = []
    for count, (_, alpha, c) in zip(letters, points, strict=True):
        width = 0.0125 * count
        choices = {}
        for side, (x, y) in SIDES.items():
            box = alpha + x * width, c + (y - 0.5) * row, alpha + (x + 1) * width, c + (y + 0.5) * row
            inside = box[0] > 0.1 and box[2] < 0.96
            others = [b for b in boxes if b[:2] != (alpha - 0.015, c - row / 2)]
            choices[side] = sum(_meet(box, other) for other in others) + 2 * (not inside), box
        side = min(choices, key=lambda s: choices[s][0])
        boxes.append(choices[side][1])
        places.append(side)
    return places


def _meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def wish(alpha: float) -> float:
    """A draft that is clearly better than one with this α."""
    return min(0.95, round(alpha + 0.15, 2))


def sentence(report: Report) -> str:
    """What a better or a cheaper draft than the page's would bring."""
    drafter = report.setting.drafter
    alpha, c = report.kept(drafter), report.c(drafter)
    if alpha is None or c is None:
        return ""
    best, better = Best(report), wish(alpha)
    said = f"**An α of {better:.2f} would give {best(better, c):.2f}×.** Now it is {alpha:.2f}, which gives "
    said += f"{best(alpha, c):.2f}× at its best K"
    return said + (f"; half the draft's cost: {best(alpha, c / 2):.2f}×." if c > 0.02 else ".")
