"""One text with β under each token, and two audits compared."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from specviz.diagnosis import recorded
from specviz.diagnosis.causes import CAUSE
from specviz.diagnosis.compare import CHANGED, Position, compare
from specviz.diagnosis.report import Report
from specviz.diagnosis.walk import span
from specviz.ui.components.strips import lines
from specviz.ui.debug import shown
from specviz.ui.shell.markup import plain
from specviz.ui.state import keys

MOST = 400  # tokens of a text that are drawn


def one_text(now: shown.Shown) -> None:
    """A text, token by token, for one draft or two."""
    report = now.report
    assert report is not None
    prompts = report.measured.set_index("prompt")
    order = prompts.sort_values("lost", ascending=False).index.tolist()
    if st.session_state.get(keys.DEBUG_TEXT) not in order:
        st.session_state.pop(keys.DEBUG_TEXT, None)  # it was a prompt of another audit
    prompt = st.selectbox(
        "Prompt",
        order,
        format_func=lambda i: f"{i}: {prompts.loc[i, 'text'][:80]}",
        key=keys.DEBUG_TEXT,
        help="Those that lost most come first.",
        persist_state="session",
    )
    frame = report.frames["tokens"]
    frame = frame[frame["prompt"] == prompt].sort_values("index")
    first, second = frame["beta"].to_numpy(float), frame["beta_second"].to_numpy(float)
    rows = [(report.setting.drafter, first)]
    both = np.isfinite(first) & np.isfinite(second)
    if both.any():
        rows.append((report.setting.second, second))
        change = (second - first)[both]
        st.markdown(
            f"**Mean β {first[both].mean():.2f} ({report.setting.drafter}) against {second[both].mean():.2f} "
            f"({plain(report.setting.second)}):** the second is better by more than {CHANGED:g} at "
            f"{int((change > CHANGED).sum())} of {len(change)} tokens, worse at "
            f"{int((change < -CHANGED).sum())}."
        )
    elif np.isfinite(first).any():
        st.markdown(f"**Mean β {np.nanmean(first):.2f}** over {int(np.isfinite(first).sum())} tokens.")
    texts = frame["text"].tolist()[:MOST]
    if texts:
        chosen = min(max(1, st.session_state.get(keys.DEBUG_TOKEN) or 1), len(texts))
        st.session_state[keys.DEBUG_TOKEN] = chosen
        shown = [(name, values[:MOST].tolist()) for name, values in rows]
        lines(texts, shown, chosen - 1, _choose, keys.of(keys.DEBUG_LINES, now.name, prompt))
    if len(frame) > MOST:
        st.caption(f"The first {MOST} of {len(frame):,} tokens; the table `tokens` has all.")
    st.caption(
        "β = Σ min(p, q): how likely a draft token is kept there, in hundredths. Click a token, move by "
        "arrow keys, or type its number: its round can be opened below."
    )
    if texts:
        _one_token(now, frame.head(MOST).reset_index(drop=True))


def choose(prompt: int, token: int) -> None:
    """The prompt and the token (from 1) that are shown."""
    st.session_state[keys.DEBUG_TEXT] = prompt
    st.session_state[keys.DEBUG_TOKEN] = token


def choose_emitted(report: Report, mark: list[int] | None) -> None:
    """The same by the number of a token (from 1) among all that the runs emitted, prompt after prompt."""
    tokens = report.frames["tokens"].sort_values(["prompt", "index"])
    if mark and 1 <= mark[0] <= len(tokens):
        row = tokens.iloc[int(mark[0]) - 1]
        choose(int(row["prompt"]), int(row["index"]) + 1)


def _choose(token: int) -> None:
    st.session_state[keys.DEBUG_TOKEN] = token + 1


def _choose_changed(positions: Sequence[Position]) -> None:
    rows = st.session_state[keys.DEBUG_COMPARED_TOKENS]["selection"]["rows"]
    if rows and rows[0] < len(positions):
        choose(positions[rows[0]].prompt, positions[rows[0]].index + 1)


def _one_token(now: shown.Shown, frame: pd.DataFrame) -> None:
    """One committed token: its numbers, and the way to the round that wrote it."""
    report = now.report
    assert report is not None
    number = st.number_input("Token", 1, len(frame), key=keys.DEBUG_TOKEN, persist_state="session")
    row = frame.iloc[int(number) - 1]
    st.text(f"{row['text']}  ·  {row['kind']}")
    said = [f"p = {row['p']:.3f}"]
    if row["beta"] == row["beta"]:
        said.append(f"β = {row['beta']:.2f} as the first of a block")
    if row["beta_second"] == row["beta_second"]:
        said.append(f"{row['beta_second']:.2f} of the second draft")
    rounds = report.frames["rounds"]
    mine = rounds[(rounds["prompt"] == row["prompt"]) & (rounds["round"] == row["round"])]
    if not len(mine):
        st.markdown(f"{', '.join(said)}.")
        return
    place = int(row["index"]) - int(mine["start"].iloc[0]) + 1
    how = "drafted and kept" if place <= int(mine["accepted"].iloc[0]) else "written by the target"
    st.markdown(f"{', '.join(said)}. Round {row['round']}, position {place}\\: {how}.")
    shown.open_in_rounds(now, int(row["prompt"]), (int(row["round"]), place), keys.DEBUG_OPEN_TOKEN)


def two_audits(now: shown.Shown) -> None:
    """Another audit of the same prompts against this one."""
    report = now.report
    assert report is not None
    others = {kept.name: f"{kept.title} · recorded" for kept in recorded.RECORDED if kept.name != now.name}
    others = {name: title for name, title in shown.own(now).items() if name != now.name} | others
    other = st.selectbox(
        "Compare with",
        list(others),
        format_func=lambda name: others[name],
        key=keys.DEBUG_COMPARE,
        persist_state="session",
    )
    if other is None:
        return
    found = shown.by_name(other)
    if found is None or found.report is None:
        st.caption("That audit has no tables yet.")
        return
    try:
        result = compare(report, found.report)
    except ValueError as error:
        st.text(str(error))
        return
    st.markdown(f"**{result.sentence}**")
    if result.positions:
        st.write(
            f"Behind the same text ({result.positions:,} positions) β changed by "
            f"{result.beta_change:+.3f} on "
            f"average ({span(result.beta_low, result.beta_high, '+.3f')}); better by more than "
            f"{CHANGED:g} at "
            f"{result.better:,}, worse at {result.worse:,}."
        )
    left, right = st.columns(2)
    with left:
        st.dataframe(
            pd.DataFrame(
                {
                    "Cause": [CAUSE[key].title for key, _, _ in result.causes],
                    "Before": [before for _, before, _ in result.causes],
                    "After": [after for _, _, after in result.causes],
                }
            ),
            hide_index=True,
            key=keys.DEBUG_COMPARED_CAUSES,
            column_config={n: st.column_config.NumberColumn(format="percent") for n in ("Before", "After")},
        )
    with right:
        st.dataframe(
            pd.DataFrame(
                {
                    "Prompt": [p.prompt for p in result.largest],
                    "Token": [p.text for p in result.largest],
                    "β before": [p.before for p in result.largest],
                    "β after": [p.after for p in result.largest],
                }
            ),
            hide_index=True,
            height=240,
            key=keys.DEBUG_COMPARED_TOKENS,
            on_select=lambda: _choose_changed(result.largest),
            selection_mode="single-row",
        )
        st.caption("Choose a line: that token is then the one shown above.")
