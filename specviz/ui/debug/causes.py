"""Causes by tokens lost, the rules behind them, and acceptance by position."""

import pandas as pd
import streamlit as st

from specviz.diagnosis.causes import CAUSE, CAUSES
from specviz.diagnosis.report import Report
from specviz.ui.debug import charts, choosing
from specviz.ui.shell.teaching import chart
from specviz.ui.state import keys

CAUSE_WIDTH = 280  # pixels in a table: the longest title


def table(report: Report, audit: str) -> str:
    """The table of causes. Returns the key of the chosen one, "" for all."""
    shares = [share for share in report.causes if share.rejections or share.lost]
    total = sum(share.lost for share in shares)
    two = shares[:2]
    if two:
        part = sum(share.share for share in two)
        names = " and ".join(CAUSE[share.key].title for share in two)
        st.markdown(f"**{len(two)} causes cost {part:.0%} of the {total:,} lost tokens:** {names}.")
    examples = [_example(report, share.example) for share in shares]
    frame = pd.DataFrame(
        {
            "Cause": [CAUSE[share.key].title for share in shares],
            "Share of lost tokens": [share.share for share in shares],
            "Lost": [share.lost for share in shares],
            "Rejections": [share.rejections for share in shares],
            "Example": examples,
        }
    )
    row = choosing.table(
        frame,
        keys.DEBUG_CAUSES,
        audit,
        column_config={
            "Share of lost tokens": st.column_config.ProgressColumn(
                format="percent", min_value=0, max_value=1
            ),
            "Cause": st.column_config.TextColumn(width=CAUSE_WIDTH),
        },
    )
    key = "" if row is None else shares[row].key
    for share in [s for s in shares if s.key == key] or two:
        cause = CAUSE[share.key]
        st.markdown(f"**{cause.title[0].upper()}{cause.title[1:]}:** {cause.remedy}.")
    st.caption(
        "A rejection costs its token and those discarded behind it. Choose a line: the rejections below "
        "are then those of this cause. By keyboard, in every table here: arrow keys, then Shift + Space."
    )
    return key


def rules() -> None:
    """How each cause is decided."""
    with st.expander("How each is decided", icon=":material/help:"):
        st.write(
            "The rules are tried in this order on each rejection's own numbers; the first that holds wins."
        )
        for cause in CAUSES:
            st.markdown(
                f"**{cause.title[0].upper()}{cause.title[1:]}.** {cause.rule} *Example: {cause.example}*"
            )


def _example(report: Report, place: tuple[int, int, int] | None) -> str:
    if place is None:
        return ""
    frame = report.frames["positions"]
    prompt, round, position = place
    row = frame[
        (frame["prompt"] == prompt) & (frame["round"] == round) & (frame["position"] == position)
    ].iloc[0]
    instead = report.token_texts.get(int(row["instead"]), "") if row["instead"] == row["instead"] else ""
    came = f", came {instead}" if instead else ""
    return f"{row['text']}  q {_short(row['q'])}, p {_short(row['p'])}{came}"


def _short(value: float) -> str:
    return f"{value:.2f}".removeprefix("0") if value >= 0.005 or value == 0 else "<.01"


def curve(report: Report) -> None:
    """Acceptance by position, both definitions, against independence, and what the shape says."""
    st.markdown(f"**{report.shape.title}.** {report.shape.sentence}")
    found = report.curve
    chart(charts.acceptance(found), keys.DEBUG_CURVE, charts.describe_acceptance(found), _at_position)
    counts = ", ".join(f"{rate.count:,}" for rate in found.conditional)
    st.caption(
        "Bars: rounds with at least i accepted, of all that drafted i (vLLM's per-position rate). "
        "Points: of "
        f"those with i − 1 accepted (conditional; {counts} rounds), with 95 % intervals. Dashed: what "
        "independent positions with the mean β would give. Click a bar or a point, or choose the "
        "position below: the rejections are then those at it, each with the way to its round."
    )


def _at_position(mark: list[int] | None) -> None:
    """The clicked position is the one whose rejections are listed."""
    if mark:
        st.session_state[keys.DEBUG_PLACE] = int(mark[0])
