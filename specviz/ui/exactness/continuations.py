"""Check 4: whole continuations through drafter, caches, rule and cut, against the target's distribution."""

from time import monotonic
from typing import Any

import streamlit as st

from specviz.decoding.block import EXACT_RULES
from specviz.decoding.controls import bind
from specviz.decoding.faults import Fault
from specviz.decoding.tree import shape
from specviz.decoding.verify import verify_block
from specviz.exactness.continuations import EndToEnd, EndToEndCheck
from specviz.reading.prose import count
from specviz.recipe import EXACT, Recipe
from specviz.tokens import visible
from specviz.ui.exactness import badges, charts, chosen_fault
from specviz.ui.exactness.memory import remember
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import device, jobs, keys
from specviz.ui.state.owner import owner
from specviz.ui.state.runs import Entry

GOALS = ("500", "2,000", "10,000", "50,000")
LENGTHS = ("1", "2", "3", "4")
ENGINES = ("exact engine", "with the fault")
# Many at once share passes; a stop waits for the end of the passes.
SMALLEST, LARGEST = 32, 256
PATIENCE = 0.4  # seconds that a turn may take, for the sake of others
RERUN = 256  # of so many continuations one is made again without look-ups


class Continuations(jobs.Job):
    """The continuations of one engine, and the check of them."""

    def __init__(self, key: tuple, recipe: Recipe, trace: Any, length: int, fault: Fault | None) -> None:
        super().__init__()
        self.key, self.needs = key, (recipe,)
        self.recipe, self.trace, self.length, self.fault = recipe, trace, length, fault
        self.goal = 0
        self.work: EndToEnd | None = None
        self.pair: Any = None
        self._chunk = SMALLEST
        self._check: tuple[int, EndToEndCheck] | None = None

    @property
    def total(self) -> int:
        return 0 if self.work is None else self.work.done

    @property
    def done(self) -> bool:
        return self.total >= self.goal

    @property
    def share(self) -> float:
        return self.total / max(1, self.goal)

    @property
    def bytes(self) -> int:
        return 0 if self.work is None else self.work.bytes

    def turn(self, pair: Any) -> None:
        if self.work is None:
            self.pair = pair
            start = len(self.trace.prompt_ids) - self.trace.written
            target, draft = (bind(controls, pair, start) for controls in self.recipe.samplings(pair))
            self.work = EndToEnd(
                pair,
                self.trace.prompt_ids,
                fault=self.fault,
                verifier=EXACT_RULES.get(self.recipe.rule, verify_block),
                drafter=self.recipe.drafter,
                k=self.recipe.k,
                tree=shape(self.recipe.tree) if self.recipe.tree else None,
                sampling=target,
                draft_sampling=draft,
                length=self.length,
            )
            return
        started, before = monotonic(), self.total
        self.work.advance(min(self._chunk, self.goal - before))
        self.work.recheck(self.total // RERUN - before // RERUN)
        took = monotonic() - started
        if took < PATIENCE / 2:
            self._chunk = min(LARGEST, self._chunk * 2)
        elif took > PATIENCE:
            self._chunk = max(SMALLEST, self._chunk // 2)

    def check(self) -> EndToEndCheck | None:
        """What they say so far; None before the first."""
        if self.work is None or not self.total:
            return None
        if self._check is None or self._check[0] != self.total:
            work = self.work
            self._check = self.total, device.do(lambda: work.check(shown=6), owner())
        return self._check[1]

    def show(self, tokens: tuple[int, ...]) -> str:
        """A continuation's text."""
        assert self.work is not None
        pair = self.work.pair
        return "".join(visible(pair.token_text(t)) for t in tokens)


def wanted(entry: Entry) -> Continuations | None:
    """The job of the chosen engine; None if it is not known how to load the pair."""
    if entry.recipe is None:
        return None
    length = int(st.session_state.get(keys.LENGTH, "3"))
    fault = (
        chosen_fault.fault() if st.session_state.get(keys.WHOLE_ENGINE, ENGINES[0]) == ENGINES[1] else None
    )
    key = entry.name, length, fault and fault.name
    name = keys.of(keys.WHOLE, *key)
    return jobs.kept(name) or jobs.keep(name, Continuations(key, entry.recipe, entry.trace, length, fault))


def card(entry: Entry) -> None:
    with st.container(border=True, key=keys.CARD_WHOLE):
        badges.title("4 · End to end")
        st.markdown(
            "Whole continuations of this prompt, each a run of its own through drafter, caches, rule and "
            "cut, against the probabilities that the target gives to **whole continuations**, and against "
            "plain sampling from the target."
        )
        if entry.recipe is None:
            st.caption("It is not known how to load the pair that made this run.")
            return
        fault = chosen_fault.fault()
        before = wanted(entry)
        going = before is not None and before.active
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            st.selectbox(
                "Continuations",
                GOALS,
                index=1,
                key=keys.TEXTS,
                bind="query-params",
                width=120,
                disabled=going,
            )
            st.selectbox(
                "Tokens each",
                LENGTHS,
                index=2,
                key=keys.LENGTH,
                bind="query-params",
                width=100,
                disabled=going,
            )
        st.segmented_control(
            "Engine",
            ENGINES,
            default=ENGINES[0],
            required=True,
            key=keys.WHOLE_ENGINE,
            bind="query-params",
            label_visibility="collapsed",
            disabled=going,
        )
        job = wanted(entry)
        assert job is not None
        _controls(job, going)
        jobs.progress(job, "This check broke off.", bar=False)
        if job.fault is not None:
            st.caption(f"With: {fault.title}")
        if not going and job.total:
            with st.spinner("Computing the target's probabilities of whole continuations …"):
                check = job.check()
            assert check is not None
            results(entry)[job.fault.name if job.fault else EXACT] = check
            _result(check, job)


def results(entry: Entry) -> dict[str, EndToEndCheck]:
    """The last check of each engine, by the name of its rule."""
    return remember((owner(), "whole", entry.name), dict)


def _controls(job: Continuations, going: bool) -> None:
    goal = int(st.session_state[keys.TEXTS].replace(",", ""))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if jobs.button(
            keys.WHOLE_TOGGLE,
            "Continue" if 0 < job.total < goal else "Run",
            job,
            disabled=job.total >= goal,
            help="Loads the pair if need be. Passes over texts seen before are looked up.",
        ):
            job.goal = goal
            jobs.start(job)
            st.rerun()
        st.markdown(f"**{job.total:,}** of {goal:,}")
        if going:
            st.progress(min(1.0, job.share), width=110)


def _result(check: EndToEndCheck, job: Continuations) -> None:
    test = check.test
    if check.impossible:
        colour, glyph = ("green", "✓ caught:") if job.fault else ("red", "✗")
        verdict = (colour, f"{glyph} {check.impossible:,} texts that the target never writes")
    elif check.too_few:
        verdict = ("gray", "… too few to test")
    elif check.agrees:
        verdict = badges.NOT_YET if job.fault else ("green", "✓ agrees with the target")
    else:
        verdict = badges.CAUGHT if job.fault else ("red", "✗ contradicts the target")
    st.markdown(f"{count(check.continuations, 'continuation')}: {badges.badge(verdict)}")
    st.plotly_chart(
        charts.sequences(check.bars, job.show, faulty=not check.agrees),
        key=keys.WHOLE_CHART,
        config=CONFIG,
        alt=charts.describe_sequences(check.bars, job.show),
    )
    same = sum(control.same for control in check.controls)
    parts = [
        f"evidence against exactness {check.evidence.words} (exact decoding passes 1,000 in at most 1 of "
        "1,000 series, however often one looks)",
        f"for this look alone: chi-square {test.statistic:,.1f} on {test.degrees}, p-value {test.p_words}; "
        f"against as many plain samples p-value {check.plain_test.p_words}",
        f"{check.distinct:,} distinct, {check.seen_mass:.0%} of the target's mass",
        f"{check.rows_computed:,} rows computed, {check.rows_looked_up:,} looked up",
        f"{same} of {len(check.controls)} re-run without look-ups gave the same tokens",
        f"accepted {check.accepted / check.drafted:.1%} of {check.drafted:,} drafts" if check.drafted else "",
    ]
    st.caption(" · ".join(filter(None, parts)))
    if job.fault is not None and check.agrees:
        st.warning(
            "This fault was **not caught** by these continuations: more are needed, or it does not show with "
            "this prompt and these controls.",
            icon=":material/visibility_off:",
        )
