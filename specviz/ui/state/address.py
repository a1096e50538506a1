"""The address: what it says beside recipe and run, and how a page that was left is found as it was."""

from dataclasses import fields

import streamlit as st

from specviz.recipe import Recipe
from specviz.ui.state import keys

RUN_PAGES = ("", "home", "rounds", "exactness")  # those that show a run
OF_A_RUN = ("run", "sel", "full")  # parameters that mean nothing beside another run
MODELS = ("target", "draft")
MODEL_PAGES = ("drafters", "speed")  # those that work with the same models
OF_A_TOUR = ("tour", "step")  # a tour that is left is over


def carry_over(page: str) -> None:
    """Keep what a page shows when it is left and opened again from the navigation, which empties the address.

    The run, its selection and the recipe follow to the other pages that show a run. Called by app.py before
    the page. An address that says anything, as a link's, is left alone.

    Args:
        page: the page's own address; "" is the first one.
    """
    state = st.session_state
    before, state[keys.PAGE] = state.get(keys.PAGE), page
    if before not in (None, page) and not st.query_params:
        own = dict(state.get(keys.ADDRESSES, {}).get(page, {}))
        if page in RUN_PAGES:
            shown, recipe = state.get(keys.CARRIED, ({}, {}))
            if own.get("run") != shown.get("run"):
                own = {name: value for name, value in own.items() if name not in OF_A_RUN}
            own |= shown
            state.update(recipe)
        elif page in MODEL_PAGES:
            _, recipe = state.get(keys.CARRIED, ({}, {}))
            state.update({name: recipe[name] for name in MODELS if name in recipe})
        st.query_params.update(own)
    note()


def note() -> None:
    """Keep the address of the page that is shown, and of what it shows."""
    state, address = st.session_state, st.query_params.to_dict()
    page = state.get(keys.PAGE, "")
    state.setdefault(keys.ADDRESSES, {})[page] = {k: v for k, v in address.items() if k not in OF_A_TOUR}
    if page in RUN_PAGES:
        names = [f.name for f in fields(Recipe)]
        shown = {name: address[name] for name in ("run", "sel") if name in address}
        _, recipe = state.get(keys.CARRIED, ({}, {}))
        state[keys.CARRIED] = shown, recipe | {name: state[name] for name in names if name in state}
    elif page in MODEL_PAGES:
        shown, recipe = state.get(keys.CARRIED, ({}, {}))
        state[keys.CARRIED] = shown, recipe | {name: state[name] for name in MODELS if name in state}


def hidden() -> frozenset[str]:
    """Controls that a teacher's link leaves out (`hide=k,seed`)."""
    return frozenset(name.strip() for name in st.query_params.get("hide", "").split(",") if name.strip())


def covered() -> bool:
    """True if a teacher's link keeps the verdicts covered until they are revealed (`lock=1`)."""
    return st.query_params.get("lock", "") not in ("", "0", "false")
