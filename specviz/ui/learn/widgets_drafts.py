"""What the lessons let one try, on recorded rows: what drafters see, how they are trained, trees, blocks."""

import pandas as pd
import streamlit as st

from specviz import traces
from specviz.decoding.trace import Trace
from specviz.lessons import blocks
from specviz.reading.prose import count, number
from specviz.tokens import shower, visible
from specviz.ui.learn import charts
from specviz.ui.learn.widgets_rule import pick_place, pick_round
from specviz.ui.shell import palette
from specviz.ui.shell.teaching import chart
from specviz.ui.state import keys

SEEING = (("small model", "capital"), ("EAGLE", "eagle"), ("Medusa", "medusa"), ("early exit", "early-exit"))
COLOURS = (palette.TARGET, "#009E73", palette.DRAFT, palette.NEUTRAL)


def what_each_sees(trace: Trace) -> None:
    series, lines, depths = [], [], 0
    for (name, run), colour in zip(SEEING, COLOURS, strict=True):
        found = blocks.overlap_by_depth([traces.load(run)])
        depths = max(depths, len(found))
        series.append((name, colour, [beta for beta, _ in found]))
        lines.append(f"{name} {', '.join(number(beta) for beta, _ in found)}")
    places = [f"position {i + 1}" for i in range(depths)]
    words = "Mean β by position: " + "; ".join(lines) + "."
    chart(charts.compare(places, series, 300), keys.LESSON_DEPTH, words)
    st.markdown(words)
    rounds = ", ".join(f"{name} {len(traces.load(run).rounds)}" for name, run in SEEING)
    st.caption(
        f"β of every drafted row of the recorded runs, judged or not ({rounds} rounds: rough). Medusa's "
        "heads see neither the last committed token nor the drafts before theirs."
    )


def training(trace: Trace) -> None:
    place = pick_place(trace, keys.LESSON_PLACE)
    found = sorted(blocks.pushes(place.row), key=lambda x: -abs(x[1]))[:6]
    names = [visible(place.text(token)) for token, _, _ in found]
    rows = {token: (p, q) for token, p, q in zip(*_table(place.row), strict=True)}
    strongest = max(found, key=lambda x: x[1])
    p, q = rows[strongest[0]]
    words = (
        f"{visible(place.text(strongest[0]))}: p = {number(p)}, q = {number(q)}. KL pushes its logit up by "
        f"{number(strongest[1], 3)}, TV by {number(strongest[2], 3)}."
    )
    st.dataframe(
        pd.DataFrame(
            {
                "token": names,
                "p": [rows[t][0] for t, _, _ in found],
                "q": [rows[t][1] for t, _, _ in found],
                "push by KL, p − q": [kl for _, kl, _ in found],
                "push by TV": [total for _, _, total in found],
            }
        ),
        hide_index=True,
        column_config={
            name: st.column_config.NumberColumn(format="%.3f")
            for name in ("p", "q", "push by KL, p − q", "push by TV")
        },
        alt="How two losses push the draft's logits at this place",
    )
    st.markdown(words)
    st.caption("One step of gradient descent on each loss, at this very row. Positive: the logit rises.")


def _table(row) -> tuple:
    return row.table.ids, row.table.p, row.table.q


def trees(trace: Trace) -> None:
    place = pick_place(trace, keys.LESSON_PLACE)
    found = blocks.children(place.row)
    show = shower(trace)
    order = sorted(range(len(place.row.table.ids)), key=lambda i: -place.row.table.q[i])
    children = st.slider("Candidates at this place", 1, len(found), min(3, len(found)), key=keys.LESSON_NODES)
    m, chosen, drawn = found[children - 1]
    names = ", ".join(show(place.row.table.ids[i]) for i in order[:m])
    words = (
        f"{count(m, 'candidate')}: the draft's likeliest ones are accepted with {number(chosen, 3)}, "
        f"{count(m, 'draw')} from q with {'at most ' if m > 1 else ''}{number(drawn, 3)}."
    )
    chart(
        charts.curve(
            [m for m, _, _ in found],
            [
                ("the likeliest, chosen", charts.OUTPUT, [c for _, c, _ in found], "solid"),
                ("drawn from q, one after the other", palette.DRAFT, [d for _, _, d in found], "dot"),
            ],
            x_title="candidates at this place",
            y_title="chance that one is accepted",
        ),
        keys.LESSON_CHILDREN,
        words,
    )
    st.markdown(words)
    st.text(f"The likeliest: {names}")
    st.caption("Which way is better depends on the row: where the draft errs, its favourites are wrong ones.")


def block_verification(trace: Trace) -> None:
    drafted = [r for r in trace.rounds if r.k and all(row.q for row in r.positions[: r.k])]
    if not drafted:
        st.caption("No round of this run has drafts with a q.")
        return
    gains = [(found, r) for r in drafted for found in [blocks.block_rule(r)]]
    best = max(gains, key=lambda x: x[0].block - x[0].token)[1]
    round = pick_round(trace, keys.LESSON_ROUND, best)
    if round not in drafted:
        st.caption("This round has no drafts with a q. Choose another one.")
        return
    found = blocks.block_rule(round)
    show = shower(trace)
    st.dataframe(
        pd.DataFrame(
            {
                "draft token": [show(t) for t in round.draft_tokens],
                "p/q": found.ratios,
                "r, carried along": found.carried,
            }
        ),
        hide_index=True,
        column_config={
            "p/q": st.column_config.NumberColumn(format="%.3g"),
            "r, carried along": st.column_config.NumberColumn(format="%.3f"),
        },
        alt="Ratios of the drafts and the product that block verification carries along",
    )
    with st.container(horizontal=True):
        st.metric("Token rule accepts on average", number(found.token, 3), border=True)
        st.metric("Block rule, at least", number(found.block, 3), border=True)
    st.caption(
        "For exactly these drafts either rule may come out ahead: the block rule gains on average over the "
        "drafts that q might have drawn. *At least*, because tokens outside a row's table enter with their "
        "sums."
    )
