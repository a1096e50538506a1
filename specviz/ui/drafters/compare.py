"""The same prompt and seed, run by each drafter in turn."""

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz import recipe as recipes
from specviz import traces
from specviz.decoding.drafters import COPYING
from specviz.decoding.run import RunError
from specviz.models.errors import LoadError
from specviz.reading.metrics import Metrics, metrics
from specviz.recipe import Recipe, limits, to_link
from specviz.tokens import visible
from specviz.ui.drafters import charts, models
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import jobs, keys, links, runs, shelf
from specviz.ui.state.shelf import Entry
from specviz.ui.state.sizes import run_bytes

PLAIN = "none"  # plain decoding: rounds without a draft


class Comparison(jobs.Job):
    """One run a drafter, one after another, with a run that drafts nothing for reference.

    Args:
        recipe: what all have in common.
    """

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe, self.needs = recipe, (recipe,)
        # A round without drafts is plain decoding, whoever does not draft.
        self.recipes = {PLAIN: replace(recipe, drafter="ngram", k=0)}
        self.recipes |= {kind: replace(recipe, drafter=kind) for kind in links.DRAFTERS}
        self.waiting = list(self.recipes)
        self.entries: dict[str, Entry] = {}
        self.missing: dict[str, str] = {}
        self._warm = False

    @property
    def done(self) -> bool:
        return not self.waiting

    @property
    def now(self) -> str:
        """The drafter at work."""
        return self.waiting[0]

    @property
    def bytes(self) -> int:
        return sum(run_bytes(entry.run) for entry in self.entries.values())

    @property
    def share(self) -> float:
        written = self.entries[self.now].trace.output_ids if self.now in self.entries else ()
        finished = len(self.recipes) - len(self.waiting)
        return min(1.0, (finished + len(written) / self.recipe.max_tokens) / len(self.recipes))

    def turn(self, pair: Any) -> None:
        """One round of the drafter at work."""
        if not self._warm:  # the first pass after loading is slow, and would be charged to the first run
            self.recipes[PLAIN].start(pair).step()
            self._warm = True
        kind = self.now
        try:
            if kind not in self.entries:
                recipe = self.recipes[kind]
                run = recipe.start(pair)
                title = shelf.title(recipe)
                self.entries[kind] = Entry(runs.new_name(), title, "live", run.trace(), recipe, run)
            entry = self.entries[kind]
            entry.run.step()
            finished = entry.run.finish is not None
            entry.trace = entry.run.trace()
        except (LoadError, RunError, ValueError) as error:  # this drafter's trouble; the rest still run
            self.missing[kind] = str(error)
            self.entries.pop(kind, None)
            finished = True
        if finished:
            self.waiting.pop(0)
            if kind in self.entries:
                entry = self.entries[kind]
                entry.run = None  # its caches are megabytes
                runs.keep(entry, self.owner)


def section() -> None:
    """The settings, and what each drafter made of them."""
    st.write(
        "The same prompt, settings and seed with each drafter, one run after another, and once without any. "
        "Each run can then be opened round by round."
    )
    recipe = _controls()
    usable = bool(recipe.prompt)
    job, busy = current(), models.going(models.ALONG, models.SHAPES)
    if jobs.button(keys.SAME_TOGGLE, "Run all", job, disabled=not usable or busy, type="primary"):
        jobs.start(jobs.keep(models.SAME, Comparison(recipe)))
        st.rerun()
    jobs.progress(job, "The comparison broke off.", bar=False)
    if job is None:
        st.info(
            f"**Run all** writes {recipe.max_tokens} tokens six times: about a minute on two laptop cores, "
            "once the models are loaded. Rounds, acceptance, speed and the share of drafting are measured.",
            icon=":material/speed:",
        )
        return
    with job.lock:
        waiting, share = list(job.waiting), job.share if job.waiting else 1.0
    if job.active and waiting:
        shown = job.entries.get(waiting[0])
        written = 0 if shown is None else len(shown.trace.output_ids)
        number = len(job.recipes) - len(waiting) + 1
        st.progress(
            share,
            f"{name(waiting[0])}: {written} of {job.recipe.max_tokens} tokens "
            f"(run {number} of {len(job.recipes)})",
        )
    elif waiting:
        st.caption("Stopped. Run all starts again from the first drafter.")
    if recipe != job.recipe and not models.going():
        st.badge("settings changed: Run all again", color="yellow", icon=":material/edit:")
    _figures(job)


def current() -> Comparison | None:
    """The comparison that is shown or made."""
    return jobs.kept(models.SAME)


def _controls() -> Recipe:
    st.session_state.setdefault(keys.SAME_PROMPT, traces.STORY)
    going = models.going()
    columns = st.columns([3, 0.8, 1.1, 0.9, 0.9])
    prompt = columns[0].text_area(
        "Prompt", key=keys.SAME_PROMPT, height=100, max_chars=recipes.longest_prompt(), disabled=going
    )

    def number(column: int, label: str, key: str, value: Any, low: Any, high: Any, text: str = "") -> Any:
        step = 0.1 if isinstance(value, float) else 1
        return columns[column].number_input(
            label, low, high, value, step=step, key=key, disabled=going, help=text or None
        )

    k = number(1, "Drafts K", keys.SAME_K, 4, 1, int(limits("k")[1]), links.HELP["k"])
    temperature = number(2, "Temperature", keys.SAME_TEMPERATURE, 0.7, 0.0, 2.0, links.HELP["temperature"])
    seed = number(3, "Seed", keys.SAME_SEED, 0, 0, int(limits("seed")[1]))
    tokens = number(4, "Tokens", keys.SAME_TOKENS, 48, 1, 256)
    return replace(models.recipe(), prompt=prompt, k=k, temperature=temperature, seed=seed, max_tokens=tokens)


def _figures(job: Comparison) -> None:
    measured = {kind: metrics(entry.trace.rounds) for kind, entry in job.entries.items()}
    measured = {kind: m for kind, m in measured.items() if m.rounds}
    if not measured:
        return
    st.table(_table(job, measured), hide_index=True, border="horizontal")
    st.caption(_sentence(job, measured))
    finished = {kind: entry for kind, entry in job.entries.items() if kind not in job.waiting}
    if finished:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("Open on the Rounds page:", width="content")
            for kind, entry in finished.items():
                link = {**to_link(job.recipes[kind]), "run": entry.name}
                st.page_link(
                    "pages/rounds.py", label=name(kind), icon=":material/timeline:", query_params=link
                )
    drafted = {kind: m.per_position for kind, m in measured.items() if m.per_position}
    if drafted:
        st.markdown("##### Acceptance by position")
        st.plotly_chart(charts.rates_by_position(drafted, name), config=CONFIG, key=keys.RATES_BY_POSITION)
        st.caption(
            "Of the rounds that drafted at least so many tokens: the share that accepted at least so many."
        )
    for kind, reason in job.missing.items():
        st.caption(f"Did not run: {name(kind)}.")
        st.text(reason)
    with st.expander("What each wrote", icon=":material/article:"):
        st.caption(_equal(job))
        for kind, entry in job.entries.items():
            st.markdown(f"**{name(kind)}**")
            st.text("".join(visible(entry.trace.tokens[t]) for t in entry.trace.output_ids))


def _table(job: Comparison, measured: dict[str, Metrics]) -> dict[str, list[str]]:
    plain = measured[PLAIN].tokens_per_second if PLAIN in measured else None
    rows = list(measured.items())
    return {
        "Drafter": [title(kind) for kind, _ in rows],
        "Own parameters": [_size(job.entries[kind], kind) for kind, _ in rows],
        "Rounds": [str(m.rounds) for _, m in rows],
        "Tokens": [str(m.emitted) for _, m in rows],
        "Draft acceptance rate": [_share(m.draft_acceptance_rate) for _, m in rows],
        "Mean acceptance length": [f"{m.mean_acceptance_length:.2f}" for _, m in rows],
        "Tokens a second": [f"{m.tokens_per_second:.1f}" for _, m in rows],
        "Speed against none": [
            f"×{m.tokens_per_second / plain:.2f}" if plain and m.tokens_per_second else "–" for _, m in rows
        ],
        "Time spent drafting": [_share(m.draft_seconds / m.seconds) for _, m in rows],
        "ms a draft token": [
            f"{1000 * m.draft_seconds / m.drafted:.1f}" if m.drafted else "–" for _, m in rows
        ],
    }


def _size(entry: Entry, kind: str) -> str:
    draft = entry.trace.pair.draft
    if kind in (PLAIN, *COPYING) or draft is None:
        return "0"
    if kind == "early-exit":
        return f"0 ({draft.layers} layers of the target)"
    return f"{draft.parameters / 1e6:.1f} M"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _sentence(job: Comparison, measured: dict[str, Metrics]) -> str:
    drafted = {kind: m for kind, m in measured.items() if kind != PLAIN and kind not in job.waiting}
    if not drafted:
        return "Measured on the server's machine while the runs are made."
    longest = max(drafted, key=lambda kind: drafted[kind].mean_acceptance_length or 0.0)
    fastest = max(measured, key=lambda kind: measured[kind].tokens_per_second or 0.0)
    length = drafted[longest].mean_acceptance_length
    speed = measured[fastest].tokens_per_second
    winner = "plain decoding" if fastest == PLAIN else name(fastest)
    return (
        f"Most tokens a target pass: {name(longest)}, {length:.2f}. Fastest here: {winner}, {speed:.1f} "
        "tokens a second. Speeds are measured on the server's machine, with whatever else it does. On a "
        "CPU a pass over K + 1 tokens costs more than one over a single token; a GPU has room to spare."
    )


def _equal(job: Comparison) -> str:
    """Whether all wrote the same, and why that may or may not be."""
    texts = [entry.trace.output_ids for kind, entry in job.entries.items() if kind not in job.waiting]
    shared = min(map(len, texts), default=0)
    differs = next((i for i in range(shared) if len({text[i] for text in texts}) > 1), None)
    if differs is None:
        return f"All of them wrote the same {shared} tokens."
    if job.recipe.temperature > 0.0:
        return (
            f"The texts differ from token {differs + 1} on, though the seed is one: each drafter draws other "
            "drafts. The distribution that they come from is the same."
        )
    return (
        f"At temperature 0 all should write the same, and from token {differs + 1} on they do not. Passes "
        "over blocks of other lengths round differently, which decides where two logits nearly tie."
    )


def name(kind: str) -> str:
    """A drafter's name for people."""
    return "no drafter" if kind == PLAIN else links.DRAFTERS[kind]


def title(kind: str) -> str:
    """Its name at the beginning of a line."""
    return name(kind)[:1].upper() + name(kind)[1:]
