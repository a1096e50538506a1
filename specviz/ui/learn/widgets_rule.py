"""What the lessons let one try, on a recorded run: topics about one position and the rule."""

import pandas as pd
import streamlit as st

from specviz.decoding.trace import Round, Trace
from specviz.exactness.proof import proof
from specviz.exactness.recompute import table_spot
from specviz.lessons import laws, worked
from specviz.reading import explain
from specviz.reading.inspect import Inspection, inspect_position
from specviz.reading.prose import count, number
from specviz.reading.reduced import reduced
from specviz.tokens import shower, visible
from specviz.ui.components.blocks import blocks
from specviz.ui.learn import charts
from specviz.ui.rounds import gauges
from specviz.ui.rounds.bars import distributions
from specviz.ui.shell import palette
from specviz.ui.shell.markup import code, markdown
from specviz.ui.shell.teaching import chart
from specviz.ui.state import keys

BARS = 6


def pick_round(trace: Trace, key: str, first: Round) -> Round:
    """A round of the run, chosen by the reader."""
    numbers = [round.number for round in trace.rounds]

    def name(number: int) -> str:
        round = trace.rounds[number - 1]
        return f"Round {number}: {round.accepted} of {round.k} accepted, {round.outcome}"

    chosen = st.selectbox("Round", numbers, index=numbers.index(first.number), format_func=name, key=key)
    return trace.rounds[chosen - 1]


def pick_place(trace: Trace, key: str, *, rejected: bool = False) -> Inspection:
    """A judged position of the run, chosen by the reader."""
    places = worked.judged(trace, rejected=rejected)
    show = shower(trace)

    def name(place: tuple[int, int]) -> str:
        row = trace.rounds[place[0] - 1].positions[place[1] - 1]
        token = "" if row.token is None else show(row.token)
        return f"Round {place[0]}, position {place[1]}: “{token}”, {row.state}"

    first = places.index(worked.contested(trace)) if not rejected else 0
    return inspect_position(trace, *st.selectbox("Position", places, first, format_func=name, key=key))


def five_steps(trace: Trace) -> None:
    show = shower(trace)
    round = pick_round(trace, keys.LESSON_ROUND, worked.telling_round(trace))
    steps = range(1, 6)
    step = st.segmented_control(
        "Step",
        steps,
        default=1,
        required=True,
        format_func=lambda i: f"{i} {charts.STEP_NAMES[i - 1]}",
        key=keys.LESSON_STEP,
    )
    words = _stage(round, step)
    chart(charts.strip(round, show, step), keys.LESSON_STRIP, words)
    st.markdown(words)


def _stage(round: Round, step: int) -> str:
    target, draft = round.target_cache, round.draft_cache
    match step:
        case 1:
            return f"The draft has drawn {count(round.k, 'token')}, one by one, and recorded q for each."
        case 2:
            return (
                f"One pass of the target: {round.k + 1} rows. Each draft token now has a p, and the row "
                "after the last one is ready for a bonus."
            )
        case 3:
            judged = min(round.k, round.accepted + 1)
            end = "all were kept" if round.accepted == round.k else f"position {judged} was rejected"
            return f"{judged} of {round.k} tokens were judged: u < p/q keeps a token. Here {end}."
        case 4 if round.outcome == "bonus":
            return f"All {round.k} were kept: the bonus is drawn from the target's row {round.k + 1}."
        case 4:
            return f"The correction is drawn from the residual of position {round.accepted + 1}."
    cut = f"The target's cache goes from {target.before + target.fed} to {target.kept} positions"
    if draft is not None:
        cut += f", the draft's from {draft.before + draft.fed} to {draft.kept}"
    return f"{count(len(round.committed), 'token')} joined the text. {cut}. The next round begins."


def draft_records(trace: Trace) -> None:
    place = pick_place(trace, keys.LESSON_PLACE)
    choices = {
        "draws from q, reports q": "min(1, p/q), residual",
        "takes its favourite, reports one-hot": "argmax draft, one-hot q",
        "takes its favourite, reports q": "argmax draft, soft q",
    }
    choice = st.radio("The draft …", list(choices), key=keys.LESSON_DRAFT, horizontal=True)
    _law(place, choices[choice])


def exact_or_not(trace: Trace) -> None:
    place = pick_place(trace, keys.LESSON_PLACE)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        rule = st.selectbox("Rule", worked.RULES, index=2, key=keys.LESSON_RULE)
        lenience = 0.5
        if rule == "lenience":
            lenience = st.slider("Lenience l", 0.1, 1.0, 0.5, 0.05, key=keys.LESSON_LENIENCE)
    _law(place, rule, lenience)
    if rule == "draw from p, keep if equal":
        st.caption(
            "Acceptance here sums p·q over the tokens of the table; the others would add at most "
            f"{number(_rest_product(place))}."
        )


def _rest_product(place: Inspection) -> float:
    rest = place.row.rest
    return rest.p_over * rest.q_over + rest.p_under * rest.q_under


def _law(place: Inspection, rule: str, lenience: float = 0.5) -> None:
    """What comes out at this place beside p, with acceptance and distance."""
    result = worked.rule_law(place.row, rule, lenience)
    c = reduced(place.row)
    names, p, law = _leading(place, c.ids, list(c.p), list(result.law))
    exact = result.tv < 1e-9
    words = (
        f"The output follows p: TV {number(0.0 if exact else result.tv)}."
        if exact
        else f"The output does not follow p: total variation distance {number(result.tv)}."
    )
    series = [("target p", palette.TARGET, p), ("what comes out", charts.OUTPUT, law)]
    chart(charts.compare(names, series), keys.LESSON_LAW, words)
    mark = (
        ":green-badge[:material/check: exact here]"
        if exact
        else ":orange-badge[:material/close: another distribution]"
    )
    st.markdown(f"{mark} {words} Draft tokens accepted: **{number(result.acceptance)}**.")


def _leading(place: Inspection, ids, *values: list[float]) -> tuple:
    """Names and values of the tokens with most in any of the values, and of all others together."""
    token_columns = [i for i, token in enumerate(ids) if token is not None]
    shown = sorted(token_columns, key=lambda i: -max(v[i] for v in values))[:BARS]
    rest = [i for i in range(len(ids)) if i not in shown]
    names = [visible(place.text(ids[i])) for i in shown] + ["others"]
    return names, *([v[i] for i in shown] + [sum(v[i] for i in rest)] for v in values)


def accept(trace: Trace) -> None:
    place = pick_place(trace, keys.LESSON_PLACE)
    show = shower(trace)
    recorded = place.row.u
    u = st.slider(
        "The coin u. It starts where it fell in the run; drag it.",
        0.0,
        0.999,
        value=min(0.999, recorded if recorded is not None else 0.5),
        step=0.001,
        format="%.3f",
        key=keys.of(keys.LESSON_U, trace.created, trace.seed, place.round.number, place.position),
    )
    words = gauges.describe_gauge(place, u)
    blocks([gauges.gauge(place, u)], key=keys.LESSON_GAUGE)
    st.markdown(f"{code(show(place.token))}: p = {number(place.row.p)}, q = {number(place.row.q)}. {words}")


def residual(trace: Trace) -> None:
    place = pick_place(trace, keys.LESSON_REFUSED, rejected=True)
    show = shower(trace)
    blocks([distributions(place, show)], key=keys.LESSON_DISTRIBUTIONS)
    st.markdown(markdown(explain.verdict(place), show))
    ids = [c.token for c in place.candidates]
    first = ids.index(place.added) if place.added in ids else 0
    token = st.selectbox("The proof for one token", ids, index=first, format_func=show, key=keys.LESSON_TOKEN)
    at = table_spot(place.row)
    lines = proof(at.spot, at.ids.index(token)).lines
    text = "\n".join(f"{i}  {line.claim}\n   {line.numbers}" for i, line in enumerate(lines, 1))
    st.code(text, language=None, wrap_lines=True)


def bonus(trace: Trace) -> None:
    round = worked.bonus_round(trace)
    show = shower(trace)
    full = sum(r.accepted == r.k and r.k > 0 for r in trace.rounds)
    accepted = sum(r.accepted for r in trace.rounds)
    n = len(trace.rounds)
    with st.container(horizontal=True):
        st.metric("Rounds", n, border=True)
        st.metric("with all K accepted", full, border=True)
        st.metric("Tokens per pass", f"{1 + accepted / n:.2f}", border=True)
        st.metric("without the bonus", f"{(n + accepted - full) / n:.2f}", border=True)
    if round is None:
        st.caption("No round of this run ended with a bonus.")
        return
    place = inspect_position(trace, round.number, round.k + 1)
    blocks([distributions(place, show)], key=keys.LESSON_BONUS)
    st.markdown(markdown(explain.verdict(place), show))


def greedy(trace: Trace) -> None:
    show = shower(trace)
    rows = []
    for number_, position in worked.judged(trace):
        row = trace.rounds[number_ - 1].positions[position - 1]
        assert row.token is not None
        rows.append(
            {
                "round": number_,
                "position": position,
                "token": show(row.token),
                "p": row.p,
                "rank by p": row.p_rank,
                "in this run": row.state,
                "at temperature 0": "kept" if row.p_rank == 1 else "rejected",
                "gap of the two leading logits": worked.logit_gap(row),
            }
        )
    frame = pd.DataFrame(rows)
    other = int(((frame["in this run"] == "accepted") != (frame["at temperature 0"] == "kept")).sum())
    st.dataframe(
        frame,
        hide_index=True,
        height=280,
        column_config={"p": st.column_config.NumberColumn(format="%.3f")}
        | {"gap of the two leading logits": st.column_config.NumberColumn(format="%.2f")},
        alt="Judged positions, with the verdict here and at temperature 0",
    )
    smallest = frame["gap of the two leading logits"].min()
    st.caption(
        f"At {other} of {count(len(frame), 'position')} greedy verification would decide otherwise than this "
        f"run at T = {trace.sampling.temperature:g} did. The smallest gap is {number(smallest)}: a near-tie "
        "would need one of the size of the rounding error."
    )


def effective(trace: Trace) -> None:
    place = pick_place(trace, keys.LESSON_PLACE)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        k = st.slider("top-k of both models", 1, 8, 3, key=keys.LESSON_TOP_K)
        fault = st.segmented_control(
            "What the verifier is given",
            worked.FILTERS,
            default="both filtered",
            required=True,
            key=keys.LESSON_FILTERS,
        )
    remark, wanted, law, accepted = worked.filtered_law(place.row, k, fault)
    distance = laws.tv(law, wanted)
    labels, p, out = _leading(place, [*place.row.table.ids], list(wanted), list(law))
    exact = distance < 1e-9
    words = f"TV from what the user asked for: {number(0.0 if exact else distance)}."
    series = [
        ("p the user asked for", palette.TARGET, p[:-1]),
        ("what comes out", charts.OUTPUT, out[:-1]),
    ]
    chart(charts.compare(labels[:-1], series), keys.LESSON_FILTERED, words)
    mark = (
        ":green-badge[:material/check: exact here]"
        if exact
        else ":orange-badge[:material/close: another distribution]"
    )
    st.markdown(f"{mark} {words} Draft tokens accepted: **{number(accepted)}**. {remark}")
