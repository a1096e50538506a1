"""The run panel: the controls of a recipe. Every one is in the address, clamped, and can be hidden."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from math import isfinite
from typing import Any

import streamlit as st

from specviz import recipe as recipes
from specviz.recipe import CONTROLS, LIMITS, Recipe
from specviz.ui.state import keys
from specviz.ui.state.runs import hidden

DRAFTERS = {
    "model": "small model",
    "ngram": "prompt lookup",
    "early-exit": "early exit",
    "medusa": "Medusa heads",
    "eagle": "EAGLE",
}
NAMES = {
    "temperature": "Temperature",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "min_p": "Min-p",
    "penalty": "Repetition penalty",
}
NUMBERS = {*LIMITS, *(f"draft_{name}" for name in CONTROLS)}
HELP = {
    "drafter": "Who proposes: " + ", ".join(f"{kind} – {text}" for kind, text in DRAFTERS.items()) + ".",
    "k": "Draft tokens in a round (γ in Leviathan et al.). Rounds near a limit draft fewer.",
    "seed": "Determines every random draw: the same recipe and seed give the same run.",
    "temperature": "Divides the logits. 0 is greedy: all probability on the largest logit.",
    "top_k": "Keeps the k largest logits. 0 keeps all.",
    "top_p": "Keeps the smallest set of leading tokens with this mass. 1 keeps all.",
    "min_p": "Keeps tokens with at least this share of the largest probability. 0 keeps all.",
    "penalty": "Lowers the logits of tokens that the text already has. 1 changes nothing.",
    "chat": "Puts the target's chat template around the prompt.",
    "own": "The output follows the target's controls whatever the draft's are; only acceptance changes.",
    "stop": "The run ends with the token that completes this text.",
    "target": "built-in, a hub id, or a local folder with safetensors weights.",
    "rule": "The exact rule, or a wrong one from the fault gallery, to see what becomes of the output.",
    "draft": "Empty: the built-in draft, or none beside another target. The target again: q = p.",
}


def recipe_panel(disabled: bool) -> Recipe:
    """Draw the controls; return the recipe they make."""
    _drop_unusable()
    gone = hidden()

    def control(name: str, draw: Callable[[], Any]) -> Any:
        if name in gone:
            return recipes.clamp(name, st.query_params.get(name, getattr(recipes.DEFAULT, name)))
        return draw()

    values: dict[str, Any] = {}
    names = ("prompt", "drafter", "k", "temperature", "seed")
    for column, name in zip(st.columns([3, 1.4, 0.9, 1.35, 1.1]), names, strict=True):
        with column:
            values[name] = control(name, partial(_main, name, disabled))
    with st.expander("Sampling, limits, models", icon=":material/tune:"):
        values |= _details(control, disabled)
    return Recipe(**{f.name: values.get(f.name, getattr(recipes.DEFAULT, f.name)) for f in fields(Recipe)})


def _drop_unusable() -> None:
    """Take numbers out of the address that are none: Streamlit would stop at an infinite one."""
    unusable = [
        name
        for name, value in st.query_params.to_dict().items()
        if name in NUMBERS and name not in st.session_state and not _is_number(value)
    ]
    if unusable:
        for name in unusable:
            del st.query_params[name]
        st.rerun()


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _main(name: str, disabled: bool) -> Any:
    if name == "prompt":
        return st.text_area(
            "Prompt",
            recipes.DEFAULT.prompt,
            key=name,
            bind="query-params",
            height=68,
            max_chars=recipes.LONGEST_PROMPT,
            disabled=disabled,
        )
    if name == "drafter":
        from specviz.decoding.drafters import DRAFTERS as KINDS

        return st.selectbox(
            "Drafter",
            list(KINDS),  # as they are: what is shown is also what stands in the address
            key=name,
            help=HELP[name],
            bind="query-params",
            disabled=disabled,
        )
    return _number(name, {"k": "K", "seed": "Seed"}.get(name) or NAMES[name], disabled)


def _number(name: str, label: str, disabled: bool) -> Any:
    default = getattr(recipes.DEFAULT, name)
    low, high = LIMITS[name.removeprefix("draft_")]
    kind = type(default)
    return st.number_input(
        label,
        kind(low),
        kind(high),
        default,
        step=kind(0.05) if kind is float else 1,
        format="%.2f" if kind is float else "%d",
        key=name,
        bind="query-params",
        help=HELP.get(name.removeprefix("draft_")),
        disabled=disabled,
    )


def _details(control: Callable, disabled: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    st.caption("Target's sampling controls: the output follows exactly this distribution")
    for column, name in zip(st.columns(4), CONTROLS[1:], strict=True):
        with column:
            values[name] = control(name, partial(_number, name, NAMES[name], disabled))
    values["own"] = control("own", partial(_toggle, "own", "The draft has its own controls", disabled))
    if values["own"]:
        for column, name in zip(st.columns(5), CONTROLS, strict=True):
            with column:
                draft = f"draft_{name}"
                label = f"Draft {NAMES[name].lower()}"
                values[draft] = control(draft, partial(_number, draft, label, disabled))
    columns = st.columns([1.1, 1.3, 1.6, 1.6, 1.8, 1.6], vertical_alignment="bottom")
    with columns[0]:
        values["max_tokens"] = control("max_tokens", partial(_number, "max_tokens", "New tokens", disabled))
    for column, name, label in zip(
        columns[1:4], ("stop", "target", "draft"), ("Stop text", "Target", "Draft"), strict=True
    ):
        with column:
            values[name] = control(name, partial(_text, name, label, disabled))
    with columns[4]:
        values["rule"] = control("rule", partial(_rule, disabled))
    with columns[5]:
        values["chat"] = control("chat", partial(_toggle, "chat", "Chat template", disabled))
    return values


def _rule(disabled: bool) -> str:
    from specviz.decoding.faults import FAULTS

    return st.selectbox(
        "Rule",
        [recipes.EXACT, *FAULTS],
        key=keys.RULE,
        bind="query-params",
        help=HELP["rule"],
        disabled=disabled,
    )


def _text(name: str, label: str, disabled: bool) -> str:
    default = getattr(recipes.DEFAULT, name)
    return st.text_input(
        label, default, key=name, bind="query-params", help=HELP[name], disabled=disabled, max_chars=300
    )


def _toggle(name: str, label: str, disabled: bool) -> bool:
    return st.toggle(label, key=name, bind="query-params", help=HELP[name], disabled=disabled)


def set_recipe(recipe: Recipe) -> None:
    """Put a recipe into the controls. Call it before they are drawn, as callbacks do."""
    for f in fields(Recipe):
        st.session_state[f.name] = getattr(recipe, f.name)
