"""Recipes: links are read value by value, and what cannot be taken is said."""

import pytest

from specviz.recipe import DEFAULT, Recipe, checked, from_link, longest_prompt, replaced, to_link


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
