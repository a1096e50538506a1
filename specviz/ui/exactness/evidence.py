"""Check 3: evidence against exactness over the tokens that runs really emitted."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from specviz.decoding.faults import FAULTS, Fault
from specviz.decoding.trace import Round, Trace
from specviz.decoding.tree import EXACT_NAMES
from specviz.decoding.verify import VerifyError
from specviz.exactness.evidence import LeakTest, leak_test
from specviz.reading.prose import count, number
from specviz.reading.rejudge import NotRecorded, rejudge
from specviz.ui.exactness import badges, chosen_fault
from specviz.ui.exactness import lines as charts
from specviz.ui.exactness.memory import remember
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import keys, runs
from specviz.ui.state.runs import Entry

SHOWN, ALL = "this run", "all runs made here"


def card(entry: Entry) -> None:
    with st.container(border=True, key=keys.CARD_LEAK):
        badges.title("3 · On the run")
        _choose_runs(entry)
        shown = entries(entry)
        found = test(shown)
        fault = chosen_fault.fault()
        control, left_out = remember(
            ("leak control", _key(shown), fault.name), lambda: _control([e.trace for e in shown], fault)
        )
        _rule(shown)
        _words(found)
        st.plotly_chart(
            charts.evidence(found, control),
            key=keys.LEAK_CHART,
            config=CONFIG,
            alt=charts.describe_evidence(found, control),
        )
        lines = [_numbers(found), _resets(found, shown)]
        if control is not None:
            lines.insert(1, _control_words(control, left_out, fault))
        st.caption("  \n".join(lines))


def test(entries: Sequence[Entry]) -> LeakTest:
    """The test over these runs."""
    return remember(("leak", _key(entries)), lambda: leak_test([e.trace for e in entries]))


def _key(entries: Sequence[Entry]) -> tuple:
    return tuple((e.name, len(e.trace.output_ids)) for e in entries)


def entries(entry: Entry) -> list[Entry]:
    """The runs whose tokens count: the shown one, or all of this browser."""
    return runs.mine() if st.session_state.get(keys.WATCH) == ALL else [entry]


def _choose_runs(entry: Entry) -> None:
    mine = runs.mine()
    if any(e.name != entry.name for e in mine):
        st.segmented_control(
            "Tokens of",
            [SHOWN, ALL],
            default=SHOWN,
            required=True,
            key=keys.WATCH,
            bind="query-params",
            label_visibility="collapsed",
        )


def _words(test: LeakTest) -> None:
    if not test.tokens:
        st.markdown("No token has been emitted yet: the evidence stands at 1.")
        return
    verdict = (
        ("green", f"✓ {number(test.evidence, 2)} after {count(test.tokens, 'token')}")
        if test.ok
        else ("red", f"✗ passed 20 at token {test.crossed_at:,}")
    )
    st.markdown(
        "A bet against exactness, over the tokens that were really emitted: that the draft leaks into the "
        "output, or that the temperature is off. It starts with 1 and wins only if the bet is right. Exact "
        "decoding lets it pass **20** in at most 1 of 20 runs, however long they are. "
        f"{badges.badge(verdict)}"
    )


def _rule(entries: Sequence[Entry]) -> None:
    """Says if a fault judged these runs."""
    rules = {round.verifier for e in entries for round in e.trace.rounds} - EXACT_NAMES
    titles = [FAULTS[name].title if name in FAULTS else "a rule unknown here" for name in sorted(rules)]
    if titles:
        st.warning(f"Not judged by the exact rule: {', '.join(titles)}.", icon=":material/warning:")


def _numbers(test: LeakTest) -> str:
    if test.leak is None:
        return "No token had a draft beside it, so there is no leak to estimate."
    return (
        f"Share of tokens that follow the draft instead of the target: {test.leak:.3f}, estimated "
        f"(95% interval: {test.leak_low:.3f} to {test.leak_high:.3f}). The highest point of the line was "
        f"{number(test.highest, 3)}.  \n{test.reach}"
    )


def _control_words(control: LeakTest, left_out: int, fault: Fault) -> str:
    fate = "stays below 20" if control.ok else f"passes 20 at token {control.crossed_at:,}"
    text = f"Control: the same rounds, judged again by “{fault.title}” with the same coins: the line {fate}"
    if left_out:
        text += f"; {count(left_out, 'round')} not counted, whose token the recording does not tell apart"
    return text + "."


def _resets(test: LeakTest, entries: Sequence[Entry]) -> str:
    text = (
        "It starts at 1 with the first token and is never reset in between"
        if len(entries) == 1
        else f"It goes on from run to run ({len(test.run_ends)} here, thin lines), never reset in between"
    )
    if test.left_out:
        text += f"; {count(len(test.left_out), 'run')} with the seed of an earlier one left out"
    return text + ". Choosing runs after seeing their lines voids the 1 in 20."


def _control(traces: Sequence[Trace], fault: Fault) -> tuple[LeakTest | None, int]:
    """The test over the same rounds judged by a fault, and how many rounds are not counted."""
    if not fault.rejudge or any(r.verifier != "exact" for t in traces for r in t.rounds):
        return None, 0
    left_out = 0
    judged = []
    for trace in traces:
        rounds = [_again(round, fault) for round in trace.rounds]
        left_out += rounds.count(None)
        judged.append(replace(trace, rounds=tuple(r for r in rounds if r is not None)))
    return leak_test(judged), left_out


def _again(round: Round, fault: Fault) -> Round | None:
    """The round as the fault would have ended it; None if its token is not known."""
    try:
        again = rejudge(round, fault.verifier)
    except (NotRecorded, VerifyError):
        return None
    table = round.positions[again.accepted].table
    if again.token is None or again.token not in table.ids:
        return None
    return replace(
        round,
        accepted=again.accepted,
        outcome=again.outcome,
        token=again.token,
        committed=(*round.draft_tokens[: again.accepted], again.token),
        verifier=fault.name,
    )
