"""Where drafts fail: splits of all positions, the worst prompts and tokens, and single rejections."""

from typing import Any

import pandas as pd
import streamlit as st

from specviz.diagnosis import where
from specviz.diagnosis.causes import CAUSE
from specviz.diagnosis.report import Report
from specviz.diagnosis.walk import span
from specviz.ui.debug import choosing
from specviz.ui.debug import shown as audits
from specviz.ui.debug.causes import CAUSE_WIDTH
from specviz.ui.state import keys

ALL = "all"
MOST = 300  # rejections that are listed


def splits(report: Report, audit: str) -> list[tuple[str, str]]:
    """β and the share of lost tokens by kind of token, place, context and group. Returns the chosen cells,
    each as (title of the split, name)."""
    cells = []
    st.text(where.sentence(report.splits))  # names groups of the prompts' file
    falls = where.falls_with_context(report.splits)
    if falls:
        st.markdown(falls)
    columns = st.columns(2)
    for i, split in enumerate(report.splits):
        with columns[i % 2]:
            st.caption(split.title)
            row = choosing.table(
                pd.DataFrame(
                    {
                        split.title: [cell.name for cell in split.cells],
                        "β": [cell.beta for cell in split.cells],
                        "95 %": [
                            "" if cell.beta != cell.beta else span(cell.low, cell.high)
                            for cell in split.cells
                        ],
                        "Tokens": [cell.tokens for cell in split.cells],
                        "Of the lost": [cell.lost for cell in split.cells],
                    }
                ),
                keys.of(keys.DEBUG_SPLIT, i),
                audit,
                column_config={
                    "β": st.column_config.ProgressColumn(format="%.2f", min_value=0, max_value=1),
                    "Of the lost": st.column_config.NumberColumn(format="percent"),
                },
            )
            if row is not None:
                cells.append((split.title, split.cells[row].name))
    st.caption("Choose a line: the rejections below are then those at such tokens.")
    return cells


def worst(report: Report, audit: str) -> tuple[int | None, int | None]:
    """The worst prompts and tokens. Returns the chosen prompt and draft token, None for none."""
    prompts, tokens = where.worst_prompts(report.frames), where.worst_tokens(report.frames)
    left, right = st.columns(2)
    with left:
        total = max(1, report.totals["lost"])
        st.caption(f"Worst prompts: these cost {int(prompts['lost'].sum()) / total:.0%} of the lost tokens")
        prompt = choosing.table(
            pd.DataFrame(
                {
                    "Prompt": prompts["text"].str.slice(0, 60),
                    "Group": prompts["group"],
                    "Mean length": prompts["mean"],
                    "Lost": prompts["lost"],
                    "Main cause": [CAUSE[c].title if c in CAUSE else "" for c in prompts["cause"]],
                }
            ),
            keys.DEBUG_WORST_PROMPTS,
            audit,
            column_config={
                "Prompt": st.column_config.TextColumn(width=200),
                "Mean length": st.column_config.NumberColumn(format="%.2f"),
                "Main cause": st.column_config.TextColumn(width=CAUSE_WIDTH),
            },
        )
    with right:
        st.caption("Worst draft tokens")
        texts = _texts(report)
        token = choosing.table(
            pd.DataFrame(
                {
                    "Draft's token": [texts.get(row["token"], "") for row in tokens],
                    "Rejected": [f"{row['rejected']} of {row['judged']}" for row in tokens],
                    "Lost": [row["lost"] for row in tokens],
                    "Came instead": [report.token_texts.get(row["instead"], "") for row in tokens],
                }
            ),
            keys.DEBUG_WORST_TOKENS,
            audit,
        )
    return (
        None if prompt is None else int(prompts["prompt"].iloc[prompt]),
        None if token is None else tokens[token]["token"],
    )


def _texts(report: Report) -> dict[int, str]:
    frame = report.frames["positions"].drop_duplicates("token")
    return dict(zip(frame["token"].tolist(), frame["text"].tolist(), strict=True))


def rejections(
    shown: audits.Shown,
    cause: str,
    prompt: int | None,
    token: int | None,
    cells: list[tuple[str, str]],
) -> None:
    """Single rejections that fit what was chosen above; one of them in words, with a way to its round."""
    report = shown.report
    assert report is not None
    found = where.rejections(report.frames)
    said = []
    if cause:
        found = found[found["cause"] == cause]
        said.append(CAUSE[cause].title)
    if prompt is not None:
        found = found[found["prompt"] == prompt]
        said.append(f"prompt {prompt}")
    if token is not None:
        found = found[found["token"] == token]
        said.append("the chosen token")
    for title, name in cells:
        found = where.of_cell(report.frames, found, title, name)
        said.append(f"{title.lower()} {name}")
    longest = int(report.frames["positions"]["position"].max()) if len(report.frames["positions"]) else 1
    with st.container(horizontal=True):
        places = [ALL, *range(1, longest + 1)]
        if st.session_state.get(keys.DEBUG_PLACE) not in places:
            st.session_state[keys.DEBUG_PLACE] = ALL
        place = st.segmented_control(
            "Position in the block", places, key=keys.DEBUG_PLACE, persist_state="session"
        )
    if place not in (ALL, None):
        found = found[found["position"] == place]
        said.append(f"position {place}")
    st.markdown(f"**{len(found):,} rejections**")
    if said:
        st.text(", ".join(said))  # names groups of the prompts' file
    found = found.sort_values(["lost", "beta"], ascending=[False, True]).head(MOST).reset_index(drop=True)
    if not len(found):
        return
    instead = [report.token_texts.get(int(t), "") if t == t else "" for t in found["instead"]]
    at = choosing.table(
        pd.DataFrame(
            {
                "Prompt": found["prompt"],
                "Round": found["round"],
                "Position": found["position"],
                "Draft": found["text"],
                "Came": instead,
                "p": found["p"],
                "q": found["q"],
                "β": found["beta"],
                "Lost": found["lost"],
                "Cause": [CAUSE[c].title if c in CAUSE else "" for c in found["cause"]],
            }
        ),
        keys.DEBUG_REJECTIONS,
        shown.name,
        height=260,
        column_config={name: st.column_config.NumberColumn(format="%.3f") for name in ("p", "q", "β")},
    )
    row = found.iloc[at or 0]
    _one(shown, row, instead[int(row.name)])


def _one(shown: audits.Shown, row: Any, instead: str) -> None:
    """One rejection in words."""
    chance = min(1.0, row["p"] / row["q"]) if row["q"] else 0.0
    with st.container(border=True, key=keys.DEBUG_ONE):
        cause = CAUSE.get(row["cause"])
        st.text(f"{row['text']}  →  {instead or '?'}")
        coin = f", u = {row['u']:.3f}" if row["u"] == row["u"] else ""
        st.markdown(
            f"Prompt {row['prompt']}, round {row['round']}, position {row['position']}\\: q = "
            f"{row['q']:.3f}, "
            f"p = {row['p']:.3f}, kept with chance {chance:.2f}{coin}; β = {row['beta']:.2f}. "
            + (
                f"**{cause.title[0].upper()}{cause.title[1:]}.** {cause.rule} {cause.remedy}."
                if cause
                else ""
            )
        )
        audits.open_in_rounds(
            shown, int(row["prompt"]), (int(row["round"]), int(row["position"])), keys.DEBUG_OPEN_ROUND
        )
