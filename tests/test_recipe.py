"""Recipes: links are read value by value, and what cannot be taken is said."""

import argparse
import json
from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import TableModel, TablePair

from specviz.cli import options
from specviz.decoding import codec
from specviz.models.asked import turns
from specviz.recipe import DEFAULT, Recipe, checked, from_link, longest_prompt, replaced, to_link
from specviz.ui.rounds.files import recipe_of


@pytest.mark.parametrize("name", ["k", "seed", "temperature", "top_p", "draft_penalty", "max_tokens"])
@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-inf", "1e999", "", "x", "0x10", "١.nan", None])
def test_what_is_no_number_is_the_default_and_said(name, value):
    assert checked(name, value) == (getattr(DEFAULT, name), "is not a number")


@pytest.mark.parametrize(
    "name, value, used, why",
    [
        ("k", "999", 16, "outside 0 … 16"),
        ("k", "-1", 0, "outside"),
        ("k", "3.5", 3, "whole"),
        ("temperature", "-4", 0.0, "outside"),
        ("temperature", "1e-308", 0.0, "neither 0 nor at least 0.00001"),
        ("draft_temperature", "9", 2.0, "outside 0 … 2"),
        ("seed", "99999999999", 2**31 - 1, "outside"),
        ("top_p", "0", 0.05, "outside"),
        ("chat", "perhaps", False, "neither on nor off"),
        ("drafter", "<script>", "model", "does not exist"),
        ("drafter", "early-exit:x", "model", "does not exist"),
        ("rule", "[x](http://y)", "exact", "does not exist"),
        ("prompt", "x" * (longest_prompt() + 1), DEFAULT.prompt, "8,001 characters, and at most 8,000"),
        ("prompt", "a\ud800", DEFAULT.prompt, "half of a surrogate pair"),
        ("target", "\udc80", DEFAULT.target, "half of a surrogate pair"),
    ],
)
def test_what_cannot_be_taken_is_replaced_and_said(name, value, used, why):
    assert checked(name, value)[0] == used
    (found,) = replaced({name: value, "run": "x", "other": "nan"})
    assert (found.name, found.given, found.used) == (name, value, used) and why in found.why
    assert getattr(from_link({name: value}), name) == used


def test_what_can_be_taken_is_taken_as_it_stands():
    recipe = Recipe(
        prompt="é 👩 x",
        drafter="early-exit:20",
        rule="lenience=0.3",
        k=16,
        temperature=1e-5,
        seed=2**31 - 1,
        own=True,
    )
    assert from_link(to_link(recipe)) == recipe
    assert replaced(to_link(recipe)) == ()
    assert from_link({"k": "4.0", "chat": "Yes", "own": "0"}) == Recipe(chat=True)


# --- every field goes through a trace file, a link and the command line ----------------------------------

WORDS = st.text("abcdef", min_size=1, max_size=6)
TOKENS = st.lists(st.sampled_from(["3", "11", '"a"', '"b"']), max_size=3, unique=True).map(", ".join)
GRAMMARS = [("json", '{"type": "string"}'), ("regex", "[a-e]{2,9}"), ("lark", "start: /[a-e]+/")]
OPTIONS = ("temperature", "top-k", "top-p", "min-p", "repetition-penalty")
MIXED = st.sampled_from(["", "cpu", "cuda:1", "mps", "auto"])
DTYPE = st.sampled_from(["", "float32", "bfloat16", "float16"])
CONTROL = {
    "temperature": st.sampled_from([0.0, 0.3, 1.0, 1.7]),
    "top_k": st.sampled_from([0, 5]),
    "top_p": st.sampled_from([0.75, 1.0]),
    "min_p": st.sampled_from([0.0, 0.125]),
    "penalty": st.sampled_from([1.0, 1.25]),
}
FIELDS = {
    "prompt": WORDS,
    "drafter": st.sampled_from(["model", "ngram", "suffix"]),
    "k": st.integers(1, 5),
    **CONTROL,
    **{f"draft_{name}": values for name, values in CONTROL.items()},
    "seed": st.integers(0, 99),
    "max_tokens": st.integers(1, 4),
    "stop": st.sampled_from(["", "fa"]),
    "target": st.sampled_from(["built-in", "some/target"]),
    "draft": st.sampled_from(["some/draft", "folder"]),
    "rule": st.sampled_from(["exact", "block", "no-stop"]),
    "system": WORDS,
    "turns": st.sampled_from(["", "hi\n---\nyes"]),
    "template": st.sampled_from(["", '{"enable_thinking": false}']),
    "bias": st.sampled_from(["", "4:-2.5, 7:0.0001", '"c": 3']),
    "ban": TOKENS,
    "force": st.sampled_from(["", "4, 2", '"cb"']),
    "min_tokens": st.integers(0, 2),
    "ignore_eos": st.booleans(),
    "constrain": st.sampled_from(["both", "target", "draft"]),
    "device": MIXED,
    "dtype": DTYPE,
    "draft_device": MIXED,
    "draft_dtype": DTYPE,
}


@st.composite
def recipes(draw):
    made = Recipe(own=True, **{name: draw(values) for name, values in FIELDS.items()})
    kind, text = draw(st.sampled_from([("json", ""), *GRAMMARS]))
    made = replace(made, grammar_kind=kind, grammar=text)
    how = draw(st.sampled_from(["plain", "chat", "ids"]))
    if how == "chat":
        return replace(made, chat=True)
    made = replace(made, system="", turns="", template="")
    return replace(made, prompt=DEFAULT.prompt, ids="3, 1, 0") if how == "ids" else made


class Talking(TablePair):
    """Takes a conversation, and has an end."""

    def __init__(self):
        law = {"law": lambda history: [0.1 * ((7 * len(history) + i) % 5) for i in range(26)]}
        super().__init__(TableModel(26, **law), TableModel(26, **law), eos=[25])
        self.tokenizer = self

    def encode(self, prompt, chat, **conversation):
        return super().encode(prompt, chat)


def argv(recipe):
    """The options of a command that say a recipe. The rule is an option of each command's own."""
    said = ["--drafter", recipe.drafter, "-k", str(recipe.k), "--tree", recipe.tree] if recipe.tree else []
    said = said or ["--drafter", recipe.drafter, "-k", str(recipe.k)]
    said += ["--prompt-ids", recipe.ids] if recipe.ids else ["--prompt", recipe.prompt]
    said += ["--chat"] * recipe.chat + ["--ignore-eos"] * recipe.ignore_eos
    for turn in turns(recipe.turns):
        said += ["--turn", turn]
    texts = {
        "--system": recipe.system,
        "--chat-settings": recipe.template,
        "--stop": recipe.stop,
        "--bias": recipe.bias,
        "--ban": recipe.ban,
        "--force": recipe.force,
        "--device": recipe.device,
        "--dtype": recipe.dtype,
        "--draft-device": recipe.draft_device,
        "--draft-dtype": recipe.draft_dtype,
        "--target": recipe.target,
        "--draft": recipe.draft,
        "--constrain": recipe.constrain,
        "--seed": recipe.seed,
        "--max-new-tokens": recipe.max_tokens,
        "--min-new-tokens": recipe.min_tokens,
    }
    for prefix, place in (("--", ""), ("--draft-", "draft_")):
        for name, option in zip(CONTROL, OPTIONS, strict=True):
            texts[f"{prefix}{option}"] = getattr(recipe, f"{place}{name}")
    said += [f"{option}={value}" for option, value in texts.items() if value != ""]
    return said


def through_the_command_line(recipe, folder):
    parser = argparse.ArgumentParser()
    options.add_run_options(parser)
    options.add_pair_options(parser)
    said = argv(recipe)
    if recipe.grammar and recipe.grammar_kind == "regex":
        said.append(f"--regex={recipe.grammar}")
    elif recipe.grammar:
        path = folder / "grammar"
        path.write_text(recipe.grammar)
        said.append(f"--{'json-schema' if recipe.grammar_kind == 'json' else 'grammar'}={path}")
    return options.recipe(parser.parse_args(said), rule=recipe.rule)


@given(recipe=recipes())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_field_of_a_recipe_survives_a_link_a_trace_file_and_the_command_line(recipe, tmp_path):
    assert from_link(to_link(recipe)) == recipe and replaced(to_link(recipe)) == ()
    assert from_link(json.loads(json.dumps(to_link(recipe)))) == recipe  # as saved runs keep it
    typed = through_the_command_line(recipe, tmp_path)
    ids = {"prompt": recipe.prompt} if recipe.ids else {}  # ids are the whole prompt
    assert replace(typed, **ids) == recipe
    trace = recipe.start(Talking()).trace()
    assert recipe_of(codec.loads(codec.dumps(trace))) == recipe


def test_no_field_of_a_recipe_is_left_out_of_that():
    others = {"chat", "own", "ids", "grammar", "grammar_kind"}  # set by `recipes`
    assert {f.name for f in fields(Recipe)} == {*FIELDS, *others, "tree"}
    tree = Recipe(prompt="ab", tree="2-1", draft="some/draft", own=True)
    assert from_link(to_link(tree)) == tree


def test_a_recipe_that_contradicts_its_trace_is_not_believed():
    run = Recipe(prompt="abc", own=True, draft="d", ban='"a"', k=2, max_tokens=4).start(Talking())
    list(run)
    trace = run.trace()
    assert recipe_of(trace).ban == '"a"'
    for change in ({"seed": 5}, {"k": 3}, {"chat": True}, {"drafter": "<b>"}, {"ignore_eos": True}):
        assert recipe_of(replace(trace, **change)) is None
    hostile = (("target", "x" * 9000), ("rule", "<script>"))
    assert recipe_of(replace(trace, recipe=hostile)) is None
    assert Recipe(prompt="abc").start(Talking(), prompt=[1, 2], written=1).trace().recipe == ()
