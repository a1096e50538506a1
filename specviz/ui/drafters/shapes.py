"""Chains under both exact rules, and trees: how many draft tokens a round each of them keeps."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import streamlit as st

from specviz.recipe import Recipe
from specviz.speed import accepted
from specviz.speed.accepted import PROMPTS, RECIPE, Count, Counted
from specviz.ui.drafters import charts, models
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import jobs, keys, links

MOST_PROMPTS = len(PROMPTS)
USUAL = 3  # prompts of a measurement here: about two minutes with the built-in pair


class Counting(jobs.Job):
    """A round of one of the ways a turn.

    Args:
        recipe: the pair, the temperature and the length.
        prompts: how many of `PROMPTS`.
    """

    def __init__(self, recipe: Recipe, prompts: int) -> None:
        super().__init__()
        self.recipe, self.prompts, self.needs = recipe, prompts, (recipe,)
        self.count: Count | None = None
        self.result: Counted | None = None

    @property
    def done(self) -> bool:
        return self.count is None and self.result is not None

    @property
    def share(self) -> float | None:
        return None if self.count is None else self.count.made / max(1, self.count.total)

    def turn(self, pair: Any) -> None:
        if self.count is None:
            self.count = Count(pair, PROMPTS[: self.prompts], 1, self.recipe)
        self.count.attach(pair)
        made = self.count.made
        self.count.step()
        if self.count.made != made or self.count.done:
            self.result = self.count.result()
        if self.count.done:
            self.count = None  # its run has caches


def section() -> None:
    """The recorded figures or those made here, and the button that makes them."""
    st.write(
        "The same draft model, used in three ways. A **chain** drafts one token after another; the **token "
        "rule** judges each token, the **block rule** whole beginnings of the block. A **tree** drafts "
        "several candidates a place, and the target scores all of them in one pass. All are exact: what "
        "differs is how many drafted tokens a round keeps."
    )
    prompts, temperature = _controls()
    job, busy = current(), models.going(models.ALONG, models.SAME)
    if jobs.button(keys.SHAPES_TOGGLE, "Measure here", job, disabled=busy, type="primary"):
        recipe = replace(models.recipe(), k=RECIPE.k, temperature=temperature, max_tokens=RECIPE.max_tokens)
        begun = job is not None and not job.done and (job.recipe, job.prompts) == (recipe, prompts)
        jobs.start(jobs.keep(models.SHAPES, job if begun and job else Counting(recipe, prompts)))
        st.rerun()
    jobs.progress(job, "The measurement broke off.", bar=False)
    if job is not None:
        with job.lock:
            found, count = job.result, job.count
            share, now = (
                job.share,
                "" if count is None else f"run {count.made + 1} of {count.total}: {count.now}",
            )
        if job.active and count is not None:
            st.progress(share or 0.0, now)
        elif not job.done and found is not None:
            st.caption("Stopped: the figures are those of the runs so far. **Measure here** goes on.")
        if found is not None and (found.kept or found.refused):
            return _figures(found, "measured here")
    return _figures(_recorded(), "recorded")


@cache
def _recorded() -> Counted:
    return accepted.recorded()


def current() -> Counting | None:
    """The measurement that is shown or made."""
    return jobs.kept(models.SHAPES)


def _controls() -> tuple[int, float]:
    going = models.going()
    columns = st.columns([1, 1, 3])
    prompts = columns[0].number_input(
        "Prompts",
        1,
        MOST_PROMPTS,
        USUAL,
        key=keys.SHAPES_PROMPTS,
        disabled=going,
        help=f"Each of the eight ways writes {RECIPE.max_tokens} tokens behind each prompt.",
    )
    temperature = columns[1].number_input(
        "Temperature",
        0.1,
        2.0,
        RECIPE.temperature,
        step=0.1,
        key=keys.SHAPES_TEMPERATURE,
        disabled=going,
        help=links.HELP["temperature"],
    )
    return int(prompts), float(temperature)


def _figures(found: Counted, label: str) -> None:
    machine = found.machine
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        here = label != "recorded"
        icon = ":material/straighten:" if here else ":material/history:"
        st.badge(label, color="green" if here else "gray", icon=icon)
        st.text(
            f"{found.pair} in {found.dtype}, temperature {found.temperature:g}, {found.tokens} tokens a run, "
            f"{machine.processor}, {machine.date[:10]}"
        )
    if found.kept:
        st.table(table(found), hide_index=True, border="horizontal")
        st.plotly_chart(charts.kept_by_way(found.kept), config=CONFIG, key=keys.KEPT_BY_WAY)
        st.caption(sentence(found))
    for way, reason in found.refused.items():
        st.caption(f"Did not run: {way}.")
        st.text(reason)


def table(found: Counted) -> Mapping[str, list[str]]:
    """Accepted tokens a round with their 95% intervals, a line a way."""
    return {
        "Way": [each.way[:1].upper() + each.way[1:] for each in found.kept],
        "Drafted a round": [str(each.drafted) for each in found.kept],
        "Accepted a round (95%)": [each.interval for each in found.kept],
        "Tokens a target pass": [f"{1 + each.mean:.2f}" for each in found.kept],
        "Accepted of drafted": [f"{each.mean / each.drafted:.0%}" for each in found.kept],
        "Rounds": [f"{each.rounds:,}" for each in found.kept],
        "Texts": [str(each.texts) for each in found.kept],
    }


def sentence(found: Counted) -> str:
    """What the figures say, with them."""
    most = max(found.kept, key=lambda each: each.mean)
    first = found.kept[0]
    if len(found.kept) == 1:
        return f"So far: the {first.way}, {first.interval} draft tokens a round."
    text = f"Most is kept by the {most.way}: {most.interval} draft tokens a round"
    if most is not first:
        text += f", against {first.interval} by the {first.way}"
    apart = [
        each
        for each in found.kept[1:]
        if each.half is not None
        and first.half is not None
        and each.mean - each.half > first.mean + first.half
    ]
    text += ". "
    if first.half is None:
        text += "One text says nothing about how far that is chance. "
    elif apart:
        text += f"Beyond the interval of the {first.way}: {', '.join(each.way for each in apart)}. "
    else:
        text += f"No interval lies wholly above that of the {first.way}: on so few texts it may be chance. "
    return text + (
        "Intervals are over texts. Different ways write different texts, of one distribution. A wider "
        "tree asks the target to score more rows, which a CPU pays for and a GPU hardly."
    )
