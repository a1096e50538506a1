"""The part of the run panel for what stands around a prompt, what the text must and must not have, and where
the models run: folded away, as most runs need none of it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from specviz import recipe as recipes
from specviz.recipe import DTYPES, WHERE, Recipe, limits
from specviz.ui.state import keys, pairs

THINKING = {
    "": "as the template has it",
    '{"enable_thinking": true}': "thinking on",
    '{"enable_thinking": false}': "thinking off",
}
NOTATIONS = {"json": "JSON schema", "regex": "regular expression", "lark": "grammar (Lark)"}
WHOSE = {"both": "draft and target", "target": "target only", "draft": "draft only"}
# What counts as set; the notation of a grammar and whose constraints they are say nothing alone.
NAMES = (
    *("system", "turns", "template", "ids", "bias", "ban", "force", "min_tokens", "ignore_eos", "grammar"),
    *pairs.FROM[2:],
)
DEVICES = ("", "cpu", "cuda", "mps", "auto")
TOKENS = 'Ids or texts in double quotes, as 42, " Paris". The inspector shows the id of a token.'
EXAMPLES = {
    "json": '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}',
    "regex": "(yes|no), because [a-z ,]+",
    "lark": 'start: "yes" | "no"',
}


def feeding(control: Callable, disabled: bool) -> dict[str, Any]:
    """Draw the controls; return the values of a recipe's fields.

    Args:
        control: draws one setting by its name, unless a link hides it.
        disabled: nothing can be changed now.
    """
    values: dict[str, Any] = {}

    def draw(name: str, make: Callable[..., Any], *args: Any, **more: Any) -> Any:
        values[name] = control(name, partial(make, *args, key=name, disabled=disabled, **more))
        return values[name]

    with st.expander(_title(), icon=":material/rule:", key=keys.FEEDING_OPEN, on_change="rerun"):
        _conversation(draw)
        st.caption("Constraints: the output follows the target's distribution under them, exactly")
        constraints(draw)
        _places(draw)
        _chosen_places()
    return values


def how_many(given: Callable[[str], Any]) -> int:
    """How many of these settings are not their defaults; `given` has them by name."""
    return sum(given(name) != _default(name) for name in NAMES)


def _title() -> str:
    """What is set is told without unfolding."""
    changed = how_many(lambda name: st.session_state.get(name, _default(name)))
    return "Conversation, constraints, devices" + (f" · {changed} set" if changed else "")


def _default(name: str) -> Any:
    return getattr(recipes.DEFAULT, name)


def _conversation(draw: Callable) -> None:
    st.caption("Conversation: goes into the chat template (switch it on above), before the prompt")
    left, right = st.columns(2)
    with left:
        draw("system", st.text_area, "System prompt", height=68, max_chars=recipes.longest_prompt())
        draw(
            "template",
            st.selectbox,
            "Template settings",
            list(THINKING),
            format_func=lambda value: THINKING.get(value, value),
            accept_new_options=True,
            help='Variables of the chat template. Others than thinking as JSON: {"documents": []}.',
        )
    with right:
        draw(
            "turns",
            st.text_area,
            "Earlier turns",
            height=68,
            placeholder="What is the capital of France?\n---\nParis.",
            max_chars=recipes.longest_prompt(),
            help="Yours and the model's in turn, with a line --- between two.",
        )
        draw("ids", st.text_input, "Token ids", help="In place of the prompt, as 504, 3575, 282.")


def constraints(draw: Callable) -> None:
    """What the text must and must not have; `draw` makes a control by its setting's name."""
    for column, (name, label, text) in zip(
        st.columns(3),
        (
            ("bias", "Logit bias", 'Token and what is added to its logit, as 42: -5, " Paris": 2.5. '),
            ("ban", "Banned tokens", "These are never written. "),
            ("force", "Forced tokens", "The text begins with these. "),
        ),
        strict=True,
    ):
        with column:
            draw(name, st.text_input, label, help=text + TOKENS)
    columns = st.columns([1, 1, 1.2, 1.2], vertical_alignment="bottom")
    with columns[0]:
        low, high = limits("min_tokens")
        help = "No end of text before so many tokens. A stop text still ends it."
        draw("min_tokens", st.number_input, "Min new tokens", int(low), int(high), step=1, help=help)
    with columns[1]:
        draw("ignore_eos", st.toggle, "Ignore EOS", help="The text goes on behind an end-of-text token.")
    with columns[2]:
        kind = draw(
            "grammar_kind",
            st.selectbox,
            "Grammar is a",
            list(NOTATIONS),
            format_func=lambda kind: NOTATIONS.get(kind, kind),
        )
    with columns[3]:
        draw(
            "constrain",
            st.selectbox,
            "Constraints are for",
            list(WHERE),
            format_func=lambda whose: WHOSE.get(whose, whose),
            help="Target only: the text obeys, and drafts that do not are rejected. Draft only: the text is "
            "free; only acceptance changes.",
        )
    draw(
        "grammar",
        st.text_area,
        "Grammar of the whole answer",
        height=68,
        placeholder=EXAMPLES.get(kind, ""),
        max_chars=recipes.longest_prompt(),
        help="Tokens that cannot lead to such a text get probability 0, row by row along the drafts.",
    )


def _places(draw: Callable) -> None:
    st.caption("Device and number format, if not chosen by what the machine has")
    labels = dict(zip(pairs.FROM[2:], ("Device", "Dtype", "Draft device", "Draft dtype"), strict=True))
    for column, (name, label) in zip(st.columns(4), labels.items(), strict=True):
        empty = "as the target" if name.startswith("draft") else "chosen"
        with column:
            draw(
                name,
                st.selectbox,
                label,
                list(DEVICES) if name.endswith("device") else ["", *DTYPES],
                format_func=lambda value, empty=empty: value or empty,
                accept_new_options=name.endswith("device"),
            )


def _chosen_places() -> None:
    """Where the loaded pair runs, and why."""
    recipe = Recipe(**{name: st.session_state.get(name, _default(name)) for name in pairs.FROM})
    pair = pairs.shelf().get(recipe)
    for line in getattr(pair, "report", ()):
        if line.subject in ("target runs", "draft runs"):
            st.caption(f"The {line.subject} {line.text}.")
    if pair is None and not (recipe.device and recipe.dtype):
        st.caption(
            "By itself: CUDA if there is one, else Apple's GPU, else the CPU; bfloat16 on a GPU that "
            "computes in it, else float32 (the built-in pair on a CPU: whichever measures faster)."
        )
