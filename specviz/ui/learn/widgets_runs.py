"""What the lessons let one try: topics about whole runs, cost, caches and engines."""

import re
from collections.abc import Callable
from dataclasses import asdict
from statistics import median

import pandas as pd
import streamlit as st

from specviz import traces
from specviz.decoding.trace import Trace
from specviz.decoding.verify import VerifyError, verify_block
from specviz.lessons import library, worked
from specviz.reading.cache_cells import cache_strips, figures, next_feed
from specviz.reading.metrics import metrics
from specviz.reading.prose import count, number
from specviz.reading.rejudge import NotRecorded, rejudge_trace
from specviz.speed import formulas as cost
from specviz.tokens import shower
from specviz.ui.components.blocks import blocks
from specviz.ui.learn import charts
from specviz.ui.learn import widgets_drafts as drafts
from specviz.ui.learn import widgets_rule as rule
from specviz.ui.learn import widgets_serving as serve
from specviz.ui.learn.widgets_rule import pick_round
from specviz.ui.rounds import gauges
from specviz.ui.shell import palette
from specviz.ui.shell.markup import code, markdown
from specviz.ui.shell.teaching import chart
from specviz.ui.state import keys

ROWS = [1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025]


def memory_bound(trace: Trace) -> None:
    target = trace.pair.target
    with st.container(horizontal=True, vertical_alignment="bottom"):
        rows = st.slider("Rows a request in one pass (K + 1)", 1, 17, trace.k + 1, key=keys.LESSON_ROWS)
        batch = st.select_slider(
            "Requests in the batch", [1, 2, 4, 8, 16, 32, 64, 128], key=keys.LESSON_BATCH
        )
        bits = st.segmented_control(
            "Bits a weight", [32, 16, 8, 4], default=16, required=True, key=keys.LESSON_BITS
        )
    read = target.parameters * bits / 8
    operations = 2.0 * target.parameters * rows * batch
    intensity = cost.intensity(rows * batch, bits / 8)
    balance = cost.H100.operations / cost.H100.bandwidth
    with st.container(horizontal=True):
        st.metric("Weights read in a pass", f"{read / 1e6:,.0f} MB", border=True)
        st.metric("Operations in a pass", f"{operations / 1e9:,.1f} G", border=True)
        st.metric("Operations per byte", f"{intensity:,.1f}", border=True)
    relative = [max(1.0, cost.intensity(n, bits / 8) / balance) for n in ROWS]
    now = max(1.0, intensity / balance)
    words = (
        f"Computed, weights only: on an H100 a pass over {count(rows * batch, 'row')} takes "
        + ("no longer than" if now == 1.0 else f"{number(now)} times as long as")
        + " reading the weights once."
    )
    chart(
        charts.curve(
            ROWS,
            [("time of a pass / time of reading", charts.OUTPUT, relative, "solid")],
            x_title="rows in a pass, all requests together",
            y_title="relative time",
            marks=[(rows * batch, now, "here")],
            log=True,
        ),
        keys.LESSON_ROOFLINE,
        words,
    )
    st.markdown(words)
    measured = worked.times(trace).passes
    shown = ", ".join(
        f"{count(n, 'row')} {seconds * 1000:,.0f} ms ({passes} pass{'' if passes == 1 else 'es'})"
        for n, (passes, seconds) in measured.items()
    )
    st.caption(
        f"Measured in this run, {code(f'{target.name}, {target.device}, {target.dtype}')}, "
        f"{target.parameters / 1e6:.0f} M weights, median times of the passes: {shown}. A busy processor has "
        "little idle arithmetic."
    )


def tokenizers(trace: Trace) -> None:
    show = shower(trace)
    ids = trace.output_ids[:16]
    ours = [show(i) for i in ids]
    text = "".join(ours)
    other = re.findall(r"[^\W\d_]+␣?|\d␣?|.", text)
    cuts = _cuts(ours)
    both = cuts & _cuts(other)
    st.markdown(f"**The target's tokens** (recorded)\n\n{_pieces(ours, both)}")
    st.markdown(
        "**Another tokenizer's** (simulated: a space belongs to the word before it)\n\n"
        f"{_pieces(other, both)}"
    )
    st.markdown(
        f"{len(both)} of the target's {len(cuts)} cuts are also cuts of the other tokenizer: the green bars. "
        "Between two shared cuts, neither model's tokens say anything about the other's."
    )
    pair = trace.pair
    rows = [row for round in trace.rounds for row in round.positions[: round.k]]
    outside = [
        sum(p for p, why in zip(row.table.p, row.table.draft_removed, strict=True) if why == "vocabulary")
        for row in rows
    ]
    st.markdown(
        f"**Trimmed vocabulary.** The draft proposes {pair.draft_vocab_size:,} of {pair.vocab_size:,} ids. "
        f"Over {len(rows)} positions of this run at least {number(max(outside, default=0.0))} of p lay "
        f"outside it in the worst place, {number(median(outside))} in the median (leading tokens only)."
    )


def _pieces(pieces: list[str], shared: set[int]) -> str:
    """The pieces one after the other, with a bar where a shared cut is."""
    line, at = "", 0
    for piece in pieces:
        at += len(piece)
        line += code(piece) + (" :green[**┃**] " if at in shared else " ")
    return line


def _cuts(pieces: list[str]) -> set[int]:
    ends, at = set(), 0
    for piece in pieces:
        at += len(piece)
        ends.add(at)
    return ends


def two_caches(trace: Trace) -> None:
    show = shower(trace)
    round = pick_round(trace, keys.LESSON_ROUND, worked.bonus_round(trace) or trace.rounds[0])
    strips = cache_strips(trace, round)
    blocks([gauges.caches(strips, show)], key=keys.LESSON_CACHES)
    for part in strips:
        feeds = markdown(next_feed(round, part), show)
        st.markdown(f"**{part.role.capitalize()}** {code(part.model)}: {figures(part)}. {feeds}")


def acceptance(trace: Trace) -> None:
    m = metrics(trace.rounds)
    if m.alpha is None or m.mean_acceptance_length is None or m.draft_acceptance_rate is None:
        st.caption("Nothing was drafted in this run.")
        return
    with st.container(horizontal=True):
        st.metric("α, mean of β", number(m.alpha), border=True)
        st.metric("Draft acceptance rate", number(m.draft_acceptance_rate), border=True)
        st.metric("Mean acceptance length", number(m.mean_acceptance_length, 3), border=True)
        st.metric("Rejected or discarded", f"{m.drafted - m.accepted} of {m.drafted}", border=True)
    words = (
        f"Measured {', '.join(number(r) for r in m.per_position)}; αⁱ would be "
        f"{', '.join(number(m.alpha**i) for i in range(1, len(m.per_position) + 1))}."
    )
    chart(charts.rates(m.per_position, m.alpha), keys.LESSON_RATES, words)
    st.caption(f"{words} With {count(m.rounds, 'round')} the measured rates are rough.")
    alpha = st.slider("α", 0.05, 0.99, 0.7, 0.01, key=keys.LESSON_ALPHA)
    ks = list(range(17))
    tokens = [cost.expected_tokens(alpha, k) for k in ks]
    wasted = [k - (t - 1) for k, t in zip(ks, tokens, strict=True)]
    four = (
        f"With K = 4 a round yields {tokens[4]:.2f} tokens on average, with K = 8 {tokens[8]:.2f}; no K "
        f"yields more than {1 / (1 - alpha):.2f}."
    )
    chart(
        charts.curve(
            ks,
            [
                ("tokens per round", charts.OUTPUT, tokens, "solid"),
                ("drafts thrown away", palette.REJECTED, wasted, "dot"),
            ],
            x_title="K",
            y_title="tokens",
        ),
        keys.LESSON_TOKENS,
        four,
    )
    st.markdown(f"{four} (Independent acceptance.)")


def cost_widget(trace: Trace) -> None:
    seen = worked.times(trace)
    with st.container(horizontal=True):
        alpha = st.slider("α", 0.05, 0.99, 0.7, 0.01, key=keys.LESSON_ALPHA)
        c = st.slider("c: draft step / target step", 0.0, 0.6, 0.05, 0.01, key=keys.LESSON_C)
    with st.container(horizontal=True):
        slope = st.slider("each extra row adds to the pass", 0.0, 0.5, 0.0, 0.01, key=keys.LESSON_SLOPE)
        k = st.slider("K", 0, 16, 4, key=keys.LESSON_K)
    gain = cost.speedup(alpha, k, c, 1 + slope * k)
    values = [cost.speedup(alpha, n, c, 1 + slope * n) for n in range(17)]
    best = values.index(max(values))
    verdict = "faster" if gain > 1 else "no faster" if gain == 1 else "slower"
    words = (
        f"K = {k}: {gain:.2f} times plain decoding, {verdict}. The best K is {best} with {values[best]:.2f}."
    )
    chart(charts.speedups(alpha, c, slope, k), keys.LESSON_SPEED, words)
    st.markdown(words)
    if seen.c is not None and seen.v is not None:
        st.caption(f"Measured in this run: c = {number(seen.c)}, v({trace.k + 1} rows) = {number(seen.v)}.")
    else:
        step = seen.draft_step or 0.0
        full = f"{(seen.full or 0.0) * 1000:,.0f} ms for {trace.k + 1} rows"
        st.caption(
            f"This run has no pass over a single row, so it gives no c and v: a draft step took "
            f"{step * 1000:,.0f} ms, a pass {full}."
        )


def drafters(trace: Trace) -> None:
    rows = []
    for entry in traces.RECORDINGS:
        if not entry.path.exists():
            continue
        run = traces.load(entry.name)
        m = metrics(run.rounds)
        rows.append(
            {
                "recorded run": entry.title,
                "drafter": run.drafter,
                "K": run.k,
                "T": run.sampling.temperature,
                "rounds": m.rounds,
                "α": m.alpha,
                "draft acceptance rate": m.draft_acceptance_rate,
                "mean acceptance length": m.mean_acceptance_length,
            }
        )
    figures_ = ("α", "draft acceptance rate", "mean acceptance length")
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        column_config={name: st.column_config.NumberColumn(format="%.2f") for name in figures_},
        alt="Recorded runs with their drafters and metrics",
    )
    st.caption("All recorded with the built-in target. Where nothing was drafted there is no rate.")


def two_surfaces(trace: Trace) -> None:
    rule_column, state_column = st.columns(2)
    with rule_column.container(border=True, height="stretch"):
        st.markdown("**The rule**, judged again from the trace")
        st.markdown(_rule_check(trace))
    with state_column.container(border=True, height="stretch"):
        st.markdown("**The state**, from the recorded cache lengths")
        st.markdown(_state_check(trace))
    st.dataframe(
        pd.DataFrame([asdict(symptom) for symptom in library.symptoms()]).rename(
            columns={"caught": "caught by"}
        ),
        hide_index=True,
        alt="Faults, the surface they belong to, and what catches them",
    )


def _rule_check(trace: Trace) -> str:
    try:
        again = rejudge_trace(trace, verify_block)
    except (NotRecorded, VerifyError) as error:
        return f":orange-badge[not checked] {error}"
    same = sum(r.recorded for r in again.rounds)
    badge = ":green-badge[:material/check: agrees]" if same == len(again.rounds) else ":orange-badge[differs]"
    total = count(len(again.rounds), "round")
    return f"{badge} In {same} of {total} verdicts and added token come out as recorded."


def _state_check(trace: Trace) -> str:
    right = sum(r.target_cache.kept == r.start + r.accepted for r in trace.rounds)
    badge = (
        ":green-badge[:material/check: agrees]" if right == len(trace.rounds) else ":orange-badge[differs]"
    )
    return (
        f"{badge} In {right} of {count(len(trace.rounds), 'round')} the target keeps exactly the text before "
        "the round and the accepted tokens. Whether its rows are right, only a pass of the model can tell."
    )


def who_does_what(trace: Trace) -> None:
    rows = [
        {
            "project, read on": f"{engine.name}, {engine.read:%-d %B %Y} ({engine.version})",
            "drafts with": engine.drafters,
            "rule": engine.rule,
            "exact?": engine.exact,
            "metrics": engine.metrics,
            "source": engine.source,
        }
        for engine in library.engines()
    ]
    st.table(
        pd.DataFrame(rows).set_index("project, read on"), alt="Engines, their drafters, rules and metrics"
    )


WIDGETS: dict[str, Callable[[Trace], None]] = {
    "memory-bound": memory_bound,
    "five-steps": rule.five_steps,
    "what-the-draft-records": rule.draft_records,
    "accept": rule.accept,
    "residual": rule.residual,
    "bonus": rule.bonus,
    "greedy": rule.greedy,
    "effective-distributions": rule.effective,
    "tokenizers": tokenizers,
    "two-caches": two_caches,
    "acceptance-and-k": acceptance,
    "metrics": serve.engine_numbers,
    "cost": cost_widget,
    "batch-and-context": serve.batch_and_context,
    "measured-passes": serve.measured_passes,
    "drafters": drafters,
    "what-each-sees": drafts.what_each_sees,
    "training-a-draft": drafts.training,
    "trees": drafts.trees,
    "block-verification": drafts.block_verification,
    "exact-lossy-heuristic": rule.exact_or_not,
    "two-surfaces": two_surfaces,
    "serving": serve.serving,
    "who-does-what": who_does_what,
}
"""The widget of each lesson, by its key."""

WITHOUT_RUN = ("batch-and-context", "drafters", "what-each-sees", "who-does-what")
"""Lessons whose widget does not look at the chosen run."""
