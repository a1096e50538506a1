"""What the cards of the Speed page share: names of drafters, colours of verdicts, axes."""

from typing import Any

import streamlit as st

from specviz.speed.verdict import gains
from specviz.ui.shell.palette import ACCEPTED, DIMMED, FAINT, REJECTED, TARGET, bare_axis, frame
from specviz.ui.state.links import DRAFTERS

REST = "#6b7480"  # neither draft nor target: sampling, judging, floors
COLOURS: dict[str, Any] = {"faster": "green", "slower": "red", "even": "gray"}
MARKS = {"faster": ACCEPTED, "slower": REJECTED, "even": DIMMED}
BAND = "rgba(0,114,178,0.13)"
LOSS = "rgba(213,94,0,0.10)"

# Small capitals for the cards, the big verdict, and the table of drafters with its scale.
STYLE = """
.stMainBlockContainer [class*="st-key-card-speed"] h2 {
  font-size: 0.85rem; letter-spacing: 0.05em; text-transform: uppercase; font-weight: 600;
  opacity: 0.72; padding: 0;
}
.stMainBlockContainer [class*="st-key-card-speed"] h3 { padding: 0; }
.speed-table {
  width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem;
}
.speed-table th { text-align: left; font-weight: 500; color: light-dark(#5b6270, #a9b2bd); }
.speed-table th[scope="row"] { color: inherit; }
.speed-table :is(td, th) { padding: 0.4rem 0.6rem 0.4rem 0; border-bottom: 1px solid rgba(128,136,150,0.25); }
.speed-table .n { text-align: right; white-space: nowrap; }
.speed-table tr.here > * { background: rgba(0,114,178,0.10); font-weight: 600; }
.speed-table .scale { min-width: 14rem; padding: 0 0.8rem; position: relative; height: 2.2rem; }
.speed-table .scale > div { position: relative; height: 2.2rem; }
.speed-table .scale i { position: absolute; display: block; }
.speed-table .loss { left: 0; top: 0; bottom: 0; background: rgba(213,94,0,0.10); }
.speed-table .one { top: 0; bottom: 0; width: 1.5px; background: #B34E00; }
.speed-table .span { height: 2px; top: calc(50% - 1px); }
.speed-table .dot { width: 10px; height: 10px; border-radius: 50%; top: calc(50% - 5px); margin-left: -5px; }
.speed-table .told {
  width: 2px; height: 14px; top: calc(50% - 7px); background: light-dark(#5b6270, #a9b2bd);
}
.speed-table .faster { color: light-dark(#00714f, #35c796); }
.speed-table .slower { color: light-dark(#a84300, #ff9a57); }
.speed-wide { overflow-x: auto; }
@media (max-width: 900px) {
  [class*="st-key-speed-pair"] .stHorizontalBlock { flex-wrap: wrap; }
  [class*="st-key-speed-pair"] .stHorizontalBlock > .stColumn { min-width: 100%; }
}
"""


def style() -> None:
    st.html(f"<style>{STYLE}</style>")


def title(text: str) -> None:
    st.markdown(f"## {text}", anchors=False)


def name(kind: str) -> str:
    """A drafter's name for people."""
    return DRAFTERS.get(kind, kind)


def ratio(value: float) -> str:
    """A speed-up in the colour of its verdict, as markdown."""
    kind = gains(value)
    mark = {"faster": "✓ ", "slower": "✗ ", "even": ""}[kind]
    return f":{COLOURS[kind]}[**{mark}{value:.2f}×**]"


def axes(x: str, suffix: str, high: float, low: float = 0.0, height: int = 300) -> dict:
    """A layout with two labelled axes, the second from `low` to `high`."""
    plain = {**bare_axis(), "showticklabels": True}
    return {
        **frame(height),
        "margin": {"l": 46, "r": 10, "t": 8, "b": 40},
        "xaxis": {**plain, "title": {"text": x}},
        "yaxis": {**plain, "ticksuffix": suffix, "range": [low, high], "showgrid": True, "gridcolor": FAINT},
    }


def line(x: list, y: list, name: str, dash: str, colour: str = REST, **more: Any) -> dict:
    """A line that names itself."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": name,
        "line": {"color": colour, "dash": dash, "width": 2},
        **more,
    }


def intervals(
    x: list,
    spreads: list,
    name: str,
    factor: float,
    hover: str,
    middle: list | None = None,
    **more: Any,
) -> dict:
    """Points with their 5th and 95th percentiles; `middle` instead of the medians."""
    y = [s.median * factor for s in spreads] if middle is None else middle
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": y,
        "name": name,
        "marker": {"color": TARGET, "size": 9},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, s.high * factor - at) for s, at in zip(spreads, y, strict=True)],
            "arrayminus": [max(0.0, at - s.low * factor) for s, at in zip(spreads, y, strict=True)],
            "color": TARGET,
            "thickness": 1.5,
            "width": 0,
        },
        "hovertemplate": hover + "<extra></extra>",
        **more,
    }


def area(**where: Any) -> dict:
    """A filled rectangle behind everything else."""
    return {"type": "rect", "line": {"width": 0}, "layer": "below", **where}


def note(x: Any, y: Any, text: str, **more: Any) -> dict:
    """A few words in a figure."""
    return {"x": x, "y": y, "text": text, "showarrow": False, "xanchor": "left", **more}
