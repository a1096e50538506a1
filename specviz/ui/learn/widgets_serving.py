"""What the lessons let one try: an engine's numbers, batch and context, measured passes, serving."""

import pandas as pd
import streamlit as st

from specviz.decoding.trace import Trace
from specviz.lessons import blocks
from specviz.lessons.facts import measured
from specviz.reading.metrics import metrics
from specviz.reading.prose import count, number
from specviz.speed import formulas as cost
from specviz.speed.formulas import H100, LLAMA_8B
from specviz.ui.learn import charts
from specviz.ui.shell import palette
from specviz.ui.shell.markup import code
from specviz.ui.shell.teaching import chart
from specviz.ui.state import keys


def engine_numbers(trace: Trace) -> None:
    m = metrics(trace.rounds)
    if not m.drafted or m.draft_acceptance_rate is None or m.mean_acceptance_length is None:
        st.caption("Nothing was drafted in this run.")
        return
    judged = sum(min(r.k, r.accepted + 1) for r in trace.rounds)
    drafting = [r for r in trace.rounds if r.k]
    length = 1 + m.accepted / len(drafting)
    committed = sum(r.accepted + 1 for r in trace.rounds)
    rows = [
        ("accepted / drafted", m.accepted, m.drafted, "draft acceptance rate"),
        ("accepted / judged", m.accepted, judged, "leaves out what came after a rejection"),
        ("accepted / all output", m.accepted, committed, "some engines print this"),
    ]
    st.dataframe(
        pd.DataFrame(
            [(name, f"{a} of {b}", a / b, remark) for name, a, b, remark in rows],
            columns=["share", "tokens", "value", "remark"],
        ),
        hide_index=True,
        column_config={"value": st.column_config.NumberColumn(format="%.2f")},
        alt="The same run as three shares with different denominators",
    )
    st.markdown(
        f"Mean acceptance length over all {count(m.rounds, 'round')}: "
        f"**{number(m.mean_acceptance_length, 3)}**; over the {len(drafting)} that drafted anything: "
        f"**{number(length, 3)}**."
    )
    conditional = [0.0 if value is None else value for value in m.conditional]
    places = [f"position {i + 1}" for i in range(len(m.per_position))]
    words = (
        f"Rate by position {', '.join(number(r) for r in m.per_position)}; given that all before were kept "
        f"{', '.join('–' if r is None else number(r) for r in m.conditional)}."
    )
    series = [
        ("rate", "#009E73", m.per_position),
        ("conditional rate", palette.NEUTRAL, conditional),
    ]
    chart(charts.compare(places, series), keys.LESSON_RATES, words)
    st.caption(words)


BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
CONTEXTS = [0, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000]


def batch_and_context(trace: Trace) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        batch = st.select_slider("Requests in the batch", BATCHES, 128, key=keys.LESSON_REQUESTS)
        context = st.select_slider(
            "Tokens of context in each",
            CONTEXTS,
            2000,
            format_func=lambda n: f"{n:,}",
            key=keys.LESSON_CONTEXT,
        )
        rows = st.slider("Rows for each (K + 1)", 2, 17, 5, key=keys.LESSON_BLOCK_ROWS)
    one = cost.roofline(LLAMA_8B, H100, batch, context, 1)
    many = cost.roofline(LLAMA_8B, H100, batch, context, rows)
    v = many.seconds / one.seconds
    bound = "arithmetic" if many.computing > many.reading else "reading"
    mostly = "caches" if one.cache_bytes > one.weight_bytes else "weights"
    with st.container(horizontal=True):
        st.metric("Plain step", f"{1000 * one.seconds:.1f} ms", border=True)
        st.metric(f"Pass over {rows} rows each", f"{1000 * many.seconds:.1f} ms", border=True)
        st.metric("v", f"{v:.2f}", border=True)
    words = (
        f"Most of what is read is {mostly}; the pass over {rows} rows is bound by {bound}: v = {v:.2f}."
        if bound == "reading"
        else f"The pass over {rows} rows is bound by arithmetic: v = {v:.2f}."
    )
    values = [cost.roofline_v(LLAMA_8B, H100, b, context, rows) for b in BATCHES]
    short = [cost.roofline_v(LLAMA_8B, H100, b, 0, rows) for b in BATCHES]
    chart(
        charts.curve(
            BATCHES,
            [
                (f"{context:,} tokens of context", charts.OUTPUT, values, "solid"),
                ("no context", palette.NEUTRAL, short, "dot"),
            ],
            x_title="requests in the batch",
            y_title=f"v({rows})",
            marks=[(batch, v, "here")],
            log=True,
        ),
        keys.LESSON_REGIMES,
        words,
    )
    st.markdown(words)
    needed = one.weight_bytes + one.cache_bytes
    if needed > H100.memory:
        st.warning(
            f"Weights and caches take {needed / 1e9:,.0f} GB, more than the {H100.memory / 1e9:.0f} GB of "
            "one such GPU: it takes several, and each then does its share of reading and of arithmetic.",
            icon=":material/memory:",
        )
    st.caption(
        f"Computed: {LLAMA_8B.name}, on an {H100.name} ({H100.operations / 1e12:.0f} T operations and "
        f"{H100.bandwidth / 1e12:.2f} TB a second). A floor: real passes have overheads on top."
    )


def measured_passes(trace: Trace) -> None:
    m = measured()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        dtype = st.segmented_control(
            "Number format", ["float32", "bfloat16"], default="float32", required=True, key=keys.LESSON_DTYPE
        )
        products = st.segmented_control(
            "Weights", list(PRODUCTS), default="as they come", required=True, key=keys.LESSON_PRODUCTS
        )
        c = st.slider("c: draft step / target step", 0.0, 0.6, 0.1, 0.01, key=keys.LESSON_DRAFT_STEP)
    rates = metrics(trace.rounds).per_position
    blocks_ = [rows - 1 for rows in m["rows"] if rows - 1 <= len(rates)]
    by_rows = dict(zip(m["rows"], PRODUCTS[products](m)[dtype]["passes"], strict=True))
    gains = [cost.speedup_from_rates(rates[:k], c, by_rows[k + 1]) for k in blocks_]
    ideal = [cost.speedup_from_rates(rates[:k], c) for k in blocks_]
    best = max(range(len(gains)), key=gains.__getitem__)
    words = (
        f"With the rates of this run, c = {c:g} and passes as measured in {dtype}, weights {products}, "
        f"the best K of these is {blocks_[best]}: {gains[best]:.2f} times plain decoding. "
        f"If every pass cost one step it would be {max(ideal):.2f}."
    )
    chart(
        charts.curve(
            blocks_,
            [
                (f"with v as measured in {dtype}", charts.OUTPUT, gains, "solid"),
                ("if v were 1", palette.NEUTRAL, ideal, "dot"),
            ],
            x_title="K",
            y_title="times plain decoding",
            level=1.0,
        ),
        keys.LESSON_SPEED,
        words,
    )
    st.markdown(words)
    st.dataframe(
        pd.DataFrame(
            [
                {
                    "engine": entry["engine"],
                    **{
                        f"{name}, {short}": entry[name][i]
                        for name in ("float32", "bfloat16")
                        for i, short in enumerate(TEXTS)
                    },
                }
                for entry in m["throughput"]
            ]
        ),
        hide_index=True,
        alt="Measured throughput of engines relative to plain decoding",
    )
    speed = m["speed"]
    st.caption(
        f"{speed['note'][0].upper()}{speed['note'][1:]}. Measured on {m['machine']}, "
        f"{speed['date']:%-d %B %Y}; the passes {m['date']:%-d %B %Y}."
    )


PRODUCTS = {"as they come": lambda m: m, "packed for few rows": lambda m: m["packed"]}
TEXTS = ("prose", "code", "copying")


def serving(trace: Trace) -> None:
    seen = blocks.arrivals(trace)
    if len(seen.times) < 2:
        st.caption("This run is too short to look at.")
        return
    with st.container(horizontal=True):
        st.metric("Time to first token", f"{1000 * seen.first:,.0f} ms", border=True)
        if seen.between is not None and seen.longest is not None:
            st.metric("Between tokens, mean", f"{1000 * seen.between:,.0f} ms", border=True)
            st.metric("Longest wait", f"{1000 * seen.longest:,.0f} ms", border=True)
    counts = list(range(1, len(seen.times) + 1))
    words = (
        f"{len(seen.times)} tokens in {count(len(trace.rounds), 'burst')}, after "
        f"{number(seen.times[-1], 3)} s. "
    )
    lines = [("this run", charts.OUTPUT, list(seen.times), "solid")]
    if seen.plain is not None:
        even = [seen.first + i * seen.plain for i in range(len(seen.times))]
        lines.append(("one pass per token, as measured here", palette.NEUTRAL, even, "dot"))
        words += (
            f"One row at a time, {1000 * seen.plain:,.0f} ms each, it would have been "
            f"{number(even[-1], 3)} s."
        )
    else:
        words += "This run has no pass over a single row to compare with."
    chart(
        charts.curve(counts, lines, x_title="token", y_title="seconds since the start"),
        keys.LESSON_ARRIVALS,
        words,
    )
    st.markdown(words)
    target = trace.pair.target
    st.caption(
        f"Recorded with {code(f'{target.name}, {target.device}, {target.dtype}')}. The first round also "
        "reads the prompt; flat stretches are bursts."
    )
