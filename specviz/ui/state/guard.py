"""What whoever runs the server lets its visitors do; the settings say it, see `specviz.settings`."""

from pathlib import Path

import streamlit as st
from streamlit.runtime import exists

from specviz.models.errors import LoadError
from specviz.recipe import BUILT_IN, Recipe
from specviz.settings import settings
from specviz.ui.state import keys, owner

HERE = ("localhost", "127.0.0.1", "::1")  # addresses that only this machine can reach


def refusal(recipe: Recipe) -> str:
    """Why this server does not run a recipe, in a sentence; "" if it does."""
    held = settings()
    if held.read_only:
        return "This server shows recordings only. Start SpecViz on your own machine to run it yourself."
    if held.pinned and (recipe.target, recipe.draft) != (held.target, held.draft):
        return f"This server works with one pair of models only: {_pair(held.target, held.draft)}."
    if held.pinned and any((recipe.device, recipe.dtype, recipe.draft_device, recipe.draft_dtype)):
        return "This server chooses device and dtype itself."
    wrong = [name for name in (recipe.target, recipe.draft) if name and not _allowed(name)]
    if not wrong:
        return ""
    if held.allowed_models is None:
        return (
            f"{wrong[0]!r} is not loaded here: this server can be reached from other machines, so whoever "
            "runs it has to name the models that visitors may load, in SPECVIZ_ALLOWED_MODELS."
        )
    allowed = ", ".join(held.allowed_models) or "no others"
    return f"{wrong[0]!r} is not among the models of this server. There are {BUILT_IN} and {allowed}."


def require(recipe: Recipe) -> None:
    """Raises:
    LoadError: if this server does not run the recipe.
    """
    if said := refusal(recipe):
        raise LoadError(said)


def exposed() -> bool:
    """True if other machines may reach this server. Streamlit listens everywhere unless told otherwise."""
    return exists() and st.get_option("server.address") not in HERE


def admit() -> None:
    """Let this session in, or tell it that the server is full and stop its script."""
    visitors, most = owner.visitors(), settings().sessions
    if visitors > most and not st.session_state.get(keys.ADMITTED):
        st.info(
            f"This server takes {most} visitors at once, and they are all here. Try again in a few minutes, "
            "or run SpecViz on your own machine.",
            icon=":material/groups:",
        )
        st.stop()
    st.session_state[keys.ADMITTED] = True


def _allowed(name: str) -> bool:
    held = settings()
    if name in (BUILT_IN, held.target, held.draft):
        return True
    if held.allowed_models is None:
        return not exposed()
    if name in held.allowed_models:
        return True
    path = Path(name).expanduser()
    if not path.exists():
        return False
    # A folder allows what lies in it, wherever links inside it lead from there.
    inside = path.resolve()
    folders = [Path(allowed).expanduser() for allowed in held.allowed_models]
    return any(inside.is_relative_to(folder.resolve()) for folder in folders if folder.is_dir())


def _pair(target: str, draft: str) -> str:
    return f"{target} and {draft}" if draft else target
