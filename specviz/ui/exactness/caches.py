"""Check 5: what the caches hold after every round, against uncached passes. The second surface."""

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.decoding.block import EXACT_RULES
from specviz.decoding.run import DecodingRun
from specviz.exactness.cache_check import CacheCheck, check_caches
from specviz.reading.prose import count
from specviz.recipe import EXACT, Recipe
from specviz.ui.exactness import badges, chosen_fault
from specviz.ui.exactness import lines as charts
from specviz.ui.exactness.continuations import ENGINES
from specviz.ui.exactness.memory import remember
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import jobs, keys
from specviz.ui.state.owner import owner
from specviz.ui.state.runs import Entry
from specviz.ui.state.sizes import run_bytes


class Auditing(jobs.Job):
    """A run made again, its caches compared after every round.

    Attributes:
        checks: all so far, a round's together.
    """

    def __init__(self, key: tuple, recipe: Recipe, prompt: tuple[int, ...], written: int) -> None:
        super().__init__()
        self.key, self.needs = key, (recipe,)
        self.recipe, self.prompt, self.written = recipe, prompt, written
        self.pair: Any = None
        self.checks: list[CacheCheck] = []
        self._run: DecodingRun | None = None

    @property
    def rounds(self) -> int:
        return 0 if self._run is None else len(self._run.rounds)

    @property
    def done(self) -> bool:
        return self._run is not None and self._run.finish is not None

    @property
    def share(self) -> float:
        """How much of the run is made, at most 1."""
        made = 0 if self._run is None else len(self._run.tokens) - len(self.prompt)
        return min(1.0, made / max(1, self.recipe.max_tokens))

    @property
    def acceptance(self) -> float | None:
        rounds = [] if self._run is None else self._run.rounds
        drafted = sum(round.k for round in rounds)
        return sum(round.accepted for round in rounds) / drafted if drafted else None

    @property
    def bytes(self) -> int:
        return run_bytes(self._run) + 1000 * len(self.checks)

    def turn(self, pair: Any) -> None:
        if self._run is None:
            self.pair = pair
            self._run = self.recipe.start(pair, prompt=list(self.prompt), written=self.written)
        self._run.step()
        self.checks += check_caches(self._run)

    def of(self, role: str) -> list[CacheCheck]:
        return [check for check in self.checks if check.role == role]


def auditing(entry: Entry) -> Auditing | None:
    """The job for the chosen engine; None if it is not known how to load the pair."""
    if entry.recipe is None:
        return None
    own = entry.recipe.rule if entry.recipe.rule in EXACT_RULES else EXACT
    rule = chosen_fault.fault().name if st.session_state.get(keys.CACHES) == ENGINES[1] else own
    key = entry.name, rule
    name = keys.of(keys.AUDITING, *key)
    recipe = replace(entry.recipe, rule=rule)
    return jobs.kept(name) or jobs.keep(
        name, Auditing(key, recipe, entry.trace.prompt_ids, entry.trace.written)
    )


def results(entry: Entry) -> dict[str, tuple[int | None, int]]:
    """By rule, the first round with a wrong cache, and the rounds that were made."""
    return remember((owner(), "caches", entry.name), dict)


def card(entry: Entry) -> None:
    before = auditing(entry)
    going = before is not None and before.active
    with st.container(border=True, key=keys.CARD_CACHES):
        badges.title("5 · Caches")
        st.markdown(
            "The run is made again; after every round each cache is compared with a pass that uses none."
        )
        if entry.recipe is None:
            st.caption("It is not known how to load the pair that made this run.")
            return
        st.segmented_control(
            "Engine of the caches",
            ENGINES,
            default=ENGINES[0],
            required=True,
            key=keys.CACHES,
            bind="query-params",
            label_visibility="collapsed",
            disabled=going,
        )
        job = auditing(entry)
        assert job is not None
        _controls(job)
        jobs.progress(job, "This check broke off.", bar=False)
        if job.key[1] not in EXACT_RULES:
            st.caption(f"With: {chosen_fault.fault().title}")
        if job.checks:
            bad = next((check.round for check in job.checks if not check.ok), None)
            results(entry)[job.key[1]] = bad, job.rounds
            _result(job)
        st.caption(
            "Two surfaces: checks 1 to 3 look at the rule, given the rows it was fed. This one looks at what "
            "feeds it. A fault in the draft's cache leaves 1 to 4 green and only slows the run; one in the "
            "target's cache leaves 1 to 3 green and changes the text."
        )


def _controls(job: Auditing) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if jobs.button(
            keys.CACHES_TOGGLE,
            "Continue" if job.rounds and not job.done else "Run",
            job,
            disabled=job.done,
            help="Loads the pair if need be. Two uncached passes a round.",
        ):
            jobs.start(job)
            st.rerun()
        if job.active:
            st.progress(job.share, width=110)
        st.markdown(f"**{count(job.rounds, 'round')}**")


def _result(job: Auditing) -> None:
    for role in ("target", "draft"):
        found = job.of(role)
        if found:
            st.markdown(_line(role, found))
    bad = next((check for check in job.checks if not check.ok), None)
    if bad is not None:
        st.error(bad.sentence, icon=":material/error:")
    if any(check.logit_diff for check in job.checks):
        st.plotly_chart(
            charts.differences(job.of("target"), job.of("draft")),
            key=keys.CACHES_CHART,
            config=CONFIG,
            alt=charts.describe_differences(job.checks),
        )
    if job.acceptance is not None:
        st.caption(f"Draft acceptance rate of this run: {job.acceptance:.1%}.")


def _line(role: str, found: list[CacheCheck]) -> str:
    """One model's caches in a line: the worst of all rounds, and the lengths after the last."""
    wrong = sum(not check.ok for check in found)
    verdict = ("green", "✓ right") if not wrong else ("red", f"✗ wrong after {count(wrong, 'round')}")
    last = found[-1]
    diffs = [check.logit_diff for check in found if check.logit_diff is not None]
    text = f"**{role}** {badges.badge(verdict)} {last.held} of {last.expected} positions"
    if diffs:
        text += f", logits off by at most **{max(diffs):.1e}** (tolerance {last.tolerance:.0e})"
    return text
