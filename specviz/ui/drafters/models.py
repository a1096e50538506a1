"""Which models the page works with, and whether it is at work with them."""

import streamlit as st

from specviz.recipe import BUILT_IN, Recipe
from specviz.ui.state import address, jobs, links

ALONG, SAME, SHAPES = "strip", "same", "shapes"  # the page's jobs


def going(*names: str) -> bool:
    """Whether a job of these names is at work; any of the page's, if none is named."""
    found = (jobs.kept(name) for name in names or (ALONG, SAME, SHAPES))
    return any(job is not None and job.active for job in found)


def panel() -> None:
    """The choice of models: the same as on the Rounds page, and part of the address."""
    with st.expander("Models", icon=":material/tune:"):
        left, right = st.columns(2)
        busy = going()
        with left:
            links.text("target", "Target model", busy)
        with right:
            links.text("draft", "Draft model", busy)
        st.caption(
            "Medusa heads and EAGLE need weights trained for the very target: they come with the built-in "
            "one, and `python -m specviz train-drafts` makes them for others."
        )


def recipe() -> Recipe:
    """A recipe with the page's models."""
    chosen = {name: st.session_state.get(name) or st.query_params.get(name, "") for name in address.MODELS}
    return Recipe(target=chosen["target"] or BUILT_IN, draft=chosen["draft"])
