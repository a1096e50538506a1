"""The first lines of the Rounds page: what this is, where to start, and what happened in the run shown."""

from functools import partial

import streamlit as st

from specviz import traces
from specviz.reading.story import happened
from specviz.recipe import EXACT, Recipe
from specviz.ui.rounds import run_bar
from specviz.ui.shell import tour
from specviz.ui.shell.markup import code
from specviz.ui.state import feeding, keys, links
from specviz.ui.state.runs import Entry

PROMPT = 44  # characters of the prompt that fit into the line of the settings


def title() -> None:
    """The name of the page, what it shows in a sentence, and where to start."""
    if tour.running():
        return  # its own words stand there
    with st.container(key=keys.FRONT, horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("# Speculative decoding, round by round", width="content")
        tour.doors()
    st.markdown(
        "A small **draft** guesses K tokens; one pass of the large **target** judges them all. The output is "
        "distributed exactly as if the target had written alone."
    )


def story(entry: Entry, covered: bool) -> None:
    """What happened in this run, with its numbers; nothing while verdicts are still to be guessed."""
    source = {
        "recorded": f"Recorded on {entry.trace.created[:10]}",
        "live": "Made here",
        "file": f"From a file, made on {entry.trace.created[:10]}",
    }[entry.source]
    said = "Covered: what do you expect?" if covered else happened(entry.trace)
    moral = f" {traces.recording(entry.name).moral}" if entry.source == "recorded" else ""
    speed = "" if covered else run_bar.against_plain_in_short(entry)
    st.markdown(f"**{source}.**{moral} {said}{speed}")


def summary(recipe: Recipe) -> str:
    """The settings in a line, as markdown. The prompt is data."""
    prompt = " ".join(recipe.prompt.split())
    prompt = prompt if len(prompt) <= PROMPT else prompt[: PROMPT - 1] + "…"
    parts = [
        code(prompt) if prompt else "no prompt",
        links.DRAFTERS.get(recipe.drafter, ""),
        f"tree {recipe.tree}" if recipe.tree else f"K {recipe.k}",
        f"temperature {recipe.temperature:g}",
        f"seed {recipe.seed}",
    ]
    if more := feeding.how_many(partial(getattr, recipe)):
        parts.append(f"{more} more below")
    if recipe.rule != EXACT:
        parts.append("**not the exact rule**")
    return "Settings: " + " · ".join(parts)
