"""The run panel: the controls of a recipe. Every one is in the address, clamped, and can be hidden."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import streamlit as st

from specviz import recipe as recipes
from specviz.decoding.block import BLOCK, EXACT_RULES
from specviz.decoding.tree import SHAPES
from specviz.models.asked import why_not
from specviz.recipe import CONTROLS, Recipe, Replaced, limits, to_link
from specviz.settings import settings
from specviz.ui.shell.markup import code
from specviz.ui.state import guard, keys
from specviz.ui.state.address import hidden
from specviz.ui.state.feeding import feeding

DRAFTERS = {
    "model": "small model",
    "ngram": "prompt lookup",
    "suffix": "suffix decoding",
    "early-exit": "early exit",
    "parallel": "parallel draft",
    "medusa": "Medusa heads",
    "eagle": "EAGLE",
    "mtp": "MTP module",
    "combined": "suffix, else the draft",
}
GREEDY: dict[str, Any] = {"own": True, "draft_temperature": 0.0}  # q of the favourite token is 1
NAMES = {
    "temperature": "Temperature",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "min_p": "Min-p",
    "penalty": "Repetition penalty",
}
RULES = {recipes.EXACT: "exact, token by token", BLOCK: "exact, whole blocks"}
TREES = {
    f"{size}{draw}": f"tree of {size}, {name}"
    for draw, name in (("", "distinct"), (":iid", "i.i.d."))
    for size in SHAPES
}
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
    "rule": "exact judges token by token, block whole beginnings of the block; both are exact. The others "
    "are the faults of the gallery.",
    "tree": "A tree gives several candidates a position: all are scored in one pass and one path is kept, by "
    "a rule that is exact. Distinct: drawn without replacement; i.i.d.: each drawn from the same q. The tree "
    "sets how far a draft reaches, not K; it goes with the rule “exact, token by token” only.",
    "draft": "Empty: the built-in draft, or none beside another target. The target again: q = p. An EAGLE or "
    "Medusa checkpoint (folder or id): that draft.",
}


def recipe_panel(
    disabled: bool, shown: Recipe | None = None, summary: Callable[[Recipe], str] = lambda recipe: "Settings"
) -> Recipe:
    """Draw the controls, folded to a line where a run is shown; return the recipe they make.

    Controls and address say the same: whichever was changed last is right. The address is written in one
    go, so that one action is one step for the back button.

    Args:
        disabled: nothing can be changed now.
        shown: what made the run that is shown; an address without settings means this recipe.
        summary: the line, as markdown.
    """
    _read_address(shown)
    if st.session_state.get(keys.SHOWN, "") != shown or keys.SETTINGS_OPEN not in st.session_state:
        st.session_state[keys.SHOWN] = shown
        st.session_state[keys.SETTINGS_OPEN] = shown is None  # what is shown needs the room
    present = Recipe(**{f.name: st.session_state[f.name] for f in fields(Recipe)})
    with st.expander(summary(present), key=keys.SETTINGS_OPEN, on_change="rerun", icon=":material/tune:"):
        recipe = _controls(disabled, shown)
    if settings().pinned:
        recipe = replace(recipe, target=settings().target, draft=settings().draft)
    if settings().read_only:
        st.caption(guard.refusal(recipe))
    elif why := guard.refusal(recipe):
        st.error("These settings cannot be run on this server.", icon=":material/error:")
        st.text(why)  # it may name what a link asks for
    elif why := _too_long(recipe):
        st.error(why, icon=":material/error:")
    elif why := why_not(recipe):
        st.error("These settings do not fit together.", icon=":material/error:")
        st.text(why)
    elif recipe != _meaning(_settings(), shown):
        _write_address(recipe)
    for trouble in st.session_state.get(keys.UNUSABLE, ()):
        st.warning(trouble, icon=":material/link_off:")
    return recipe


def _controls(disabled: bool, shown: Recipe | None) -> Recipe:
    gone = hidden()

    def control(name: str, draw: Callable[[], Any]) -> Any:
        if name in gone:
            return getattr(_meaning(_settings(), shown), name)
        return draw()

    values: dict[str, Any] = {}
    names = ("prompt", "drafter", "k", "temperature", "seed")
    for column, name in zip(st.columns([3, 1.4, 0.9, 1.35, 1.1]), names, strict=True):
        with column:
            values[name] = control(name, partial(_main, name, disabled))
    with st.expander(
        "Sampling, limits, models", icon=":material/tune:", key=keys.DETAILS_OPEN, on_change="rerun"
    ):
        values |= _details(control, disabled)
    values |= feeding(control, disabled)
    return Recipe(**{f.name: values.get(f.name, getattr(recipes.DEFAULT, f.name)) for f in fields(Recipe)})


def refused(recipe: Recipe) -> str:
    """Why these settings cannot be run, or ""."""
    return guard.refusal(recipe) or _too_long(recipe) or why_not(recipe)


def _too_long(recipe: Recipe) -> str:
    length = len(recipe.prompt)
    if length <= recipes.longest_prompt():
        return ""
    return (
        f"This prompt has {length:,} characters. A link carries the prompt, and holds at most "
        f"{recipes.longest_prompt():,}: shorten it to run it."
    )


def _settings() -> dict[str, str]:
    """What the address says of a recipe."""
    return {f.name: st.query_params[f.name] for f in fields(Recipe) if f.name in st.query_params}


def _meaning(settings: dict[str, str], shown: Recipe | None) -> Recipe:
    """The recipe that an address stands for."""
    if not settings:
        return shown or recipes.DEFAULT
    recipe = recipes.from_link(settings)
    drafter, rule = recipe.drafter, recipe.rule
    return replace(
        recipe,
        drafter=drafter if drafter in DRAFTERS else recipes.DEFAULT.drafter,
        rule=rule if rule in _rules() else recipes.EXACT,
    )


def _read_address(shown: Recipe | None) -> None:
    """Put what the address says into the controls, if it is not what they said last: a link, or Back."""
    settings, state = _settings(), st.session_state
    asks = settings, "" if settings else st.query_params.get("run", "")
    if state.get(keys.ADDRESS) == asks and all(f.name in state for f in fields(Recipe)):
        return
    recipe = _meaning(settings, shown)
    for f in fields(Recipe):
        state[f.name] = getattr(recipe, f.name)
    state[keys.ADDRESS] = asks
    state[keys.UNUSABLE] = _unusable(settings, recipe)


def _unusable(settings: dict[str, str], recipe: Recipe) -> list[str]:
    """What became of values of the address that a control cannot have."""
    found = recipes.replaced(settings)
    here = [
        Replaced(name, settings[name], getattr(recipe, name), "cannot be chosen on this page")
        for name in ("drafter", "rule")
        if settings.get(name) not in (None, getattr(recipe, name)) and name not in [r.name for r in found]
    ]
    return [
        f"The address asks for {r.name} = {code(_short(r.given))}, which {r.why}: "
        f"{code(_short(str(r.used)))} is used."
        for r in (*found, *here)
    ]


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def _write_address(recipe: Recipe, **more: str) -> None:
    """Make the address say `recipe`, and what else is given. One step for the back button."""
    said, default = to_link(recipe), {f.name: getattr(recipes.DEFAULT, f.name) for f in fields(Recipe)}
    # A parameter cannot be taken out and others put in at one time: one that is there says its default.
    said |= {name: _text_of(default[name]) for name in _settings() if name not in said}
    st.query_params.update({**said, **more})
    st.session_state[keys.ADDRESS] = _settings(), "" if _settings() else st.query_params.get("run", "")
    st.session_state[keys.UNUSABLE] = []


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _main(name: str, disabled: bool) -> Any:
    if name == "prompt":
        return st.text_area(
            "Prompt",
            recipes.DEFAULT.prompt,
            key=name,
            height=68,
            disabled=disabled,
        )
    if name == "drafter":
        return st.selectbox(
            "Drafter",
            list(DRAFTERS),
            key=name,
            format_func=DRAFTERS.__getitem__,
            help=HELP[name],
            disabled=disabled,
        )
    return _number(name, {"k": "K", "seed": "Seed"}.get(name) or NAMES[name], disabled)


def _number(name: str, label: str, disabled: bool) -> Any:
    default = getattr(recipes.DEFAULT, name)
    low, high = limits(name)
    kind = type(default)
    return st.number_input(
        label,
        kind(low),
        kind(high),
        default,
        step=kind(0.05) if kind is float else 1,
        format="%.2f" if kind is float else "%d",
        key=name,
        help=HELP.get(name.removeprefix("draft_")),
        disabled=disabled,
    )


def _details(control: Callable, disabled: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    st.caption("Target's sampling controls: the output follows exactly this distribution")
    for column, name in zip(st.columns(4), CONTROLS[1:], strict=True):
        with column:
            values[name] = control(name, partial(_number, name, NAMES[name], disabled))
    values["own"] = control("own", partial(_own, disabled))
    if values["own"]:
        for column, name in zip(st.columns(5), CONTROLS, strict=True):
            with column:
                draft = f"draft_{name}"
                label = f"Draft {NAMES[name].lower()}"
                values[draft] = control(draft, partial(_number, draft, label, disabled))
    columns = st.columns([1.1, 1.3, 1.6, 1.6], vertical_alignment="bottom")
    with columns[0]:
        values["max_tokens"] = control("max_tokens", partial(_number, "max_tokens", "New tokens", disabled))
    for column, name, label in zip(
        columns[1:], ("stop", "target", "draft"), ("Stop text", "Target", "Draft"), strict=True
    ):
        with column:
            values[name] = control(name, partial(text, name, label, disabled))
    columns = st.columns([1, 1, 1], vertical_alignment="bottom")
    with columns[0]:
        values["rule"] = control("rule", partial(_rule, disabled))
    with columns[1]:
        values["tree"] = control("tree", partial(_tree, disabled))
    with columns[2]:
        values["chat"] = control("chat", partial(_toggle, "chat", "Chat template", disabled))
    return values


def _rules() -> list[str]:
    from specviz.decoding.faults import FAULTS

    return [*EXACT_RULES, *FAULTS]


def _rule(disabled: bool) -> str:
    from specviz.decoding.faults import FAULTS

    rule = st.selectbox(
        "Rule",
        _rules(),
        key=keys.RULE,
        format_func=lambda name: RULES.get(name, name),
        help=HELP["rule"],
        disabled=disabled,
    )
    if rule == BLOCK:
        st.caption("Exact too: whole beginnings of the block are judged; the longest that passes is kept.")
    elif rule != recipes.EXACT:
        st.caption(f":material/warning: Not exact: {FAULTS[rule].title}.")
    return rule


def _tree(disabled: bool) -> str:
    given = st.session_state[keys.TREE]
    options = ["", *TREES]
    return st.selectbox(
        "Candidates",
        options if given in options else [*options, given],
        key=keys.TREE,
        format_func=lambda text: TREES.get(text, f"tree {text}") if text else "one a position (a chain)",
        help=HELP["tree"],
        disabled=disabled,
    )


def text(name: str, label: str, disabled: bool) -> str:
    """A setting that is text."""
    default = getattr(recipes.DEFAULT, name)
    return st.text_input(label, default, key=name, help=HELP[name], disabled=disabled, max_chars=300)


def _own(disabled: bool) -> bool:
    with st.container(horizontal=True, vertical_alignment="center"):
        own = _toggle("own", "The draft has its own controls", disabled)
        st.button(
            "Draft greedily",
            key=keys.GREEDY_DRAFT,
            on_click=_draft_greedily,
            disabled=disabled or all(st.session_state.get(name) == value for name, value in GREEDY.items()),
            help="The draft's own temperature 0: it takes its favourite token, and q is one-hot. vLLM drafts "
            "like this by default. The output stays the target's.",
        )
    return own


def _draft_greedily() -> None:
    """The draft's favourite each time, and nothing that would choose another."""
    penalty = CONTROLS[-1]
    kept = {f"draft_{penalty}": st.session_state.get(penalty, recipes.DEFAULT.penalty)}
    for name, value in (GREEDY | kept).items():
        st.session_state[name] = value


def _toggle(name: str, label: str, disabled: bool) -> bool:
    return st.toggle(label, key=name, help=HELP[name], disabled=disabled)


def set_recipe(recipe: Recipe, **more: str) -> None:
    """Put a recipe into the controls and the address, in one step with what else the address is to say.

    Call it before the controls are drawn, as callbacks do.
    """
    for f in fields(Recipe):
        st.session_state[f.name] = getattr(recipe, f.name)
    _write_address(recipe, **more)
