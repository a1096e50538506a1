"""The timeline's Python side: what is sent to the browser, and who knows the selection."""

import json
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from stories import HOSTILE, PROMPT, cut_story, first, long_story, story
from streamlit.testing.v1 import AppTest

from specviz.decoding.trace import TokenText
from specviz.reading.metrics import metrics
from specviz.ui.components.timeline import payload

timeline_module = sys.modules["specviz.ui.components.timeline"]  # the package has the function by that name
COMPONENTS = Path(__file__).parents[1] / "specviz" / "ui" / "components"


@pytest.fixture(scope="module")
def trace():
    return story()


def test_positions_and_states_are_those_of_the_trace(trace):
    data = payload(trace)
    rows = [row for round in trace.rounds for row in round.positions if row.token is not None]
    assert "".join(data["rounds"]["states"]) == "".join(row.state[0] for row in rows)
    for name in ("p", "q", "u"):
        assert data["positions"][name] == pytest.approx([getattr(row, name) for row in rows], rel=1e-5)
    texts = [data["tokens"][i] for i in data["positions"]["token"]]
    assert ["".join(text[1::2]).encode() for text in texts] == [trace.tokens[row.token].data for row in rows]


def test_every_round_column_has_a_value_for_every_round(trace):
    columns = payload(trace)["rounds"]
    assert {len(column) for column in columns.values()} == {len(trace.rounds)}
    for i, round in enumerate(trace.rounds):
        assert columns["number"][i] == round.number
        assert columns["accepted"][i] == round.accepted
        assert columns["committed"][i] == len(round.committed)
        assert columns["target"][i] == [
            round.target_cache.before,
            round.target_cache.fed,
            round.target_cache.kept,
        ]
        assert columns["verifyMs"][i] == pytest.approx(1000 * round.verify_seconds, rel=1e-5)


def test_a_correction_comes_with_its_share_of_the_residual_and_a_bonus_with_p(trace):
    columns = payload(trace)["rounds"]
    outcomes = set()
    for i, round in enumerate(trace.rounds):
        row = round.positions[round.accepted]
        at = row.table.ids.index(round.token)
        outcomes.add(round.outcome)
        assert columns["p"][i] == pytest.approx(row.table.p[at], rel=1e-5)
        if round.outcome == "bonus":
            assert columns["share"][i] is None
        else:
            share = (row.table.p[at] - row.table.q[at]) / row.residual_mass
            assert columns["share"][i] == pytest.approx(share, rel=1e-5)
            assert 0 < columns["share"][i] <= 1
    assert outcomes == {"corrected", "bonus"}


def test_a_correction_without_residual_says_that_it_came_from_p(trace):
    i = next(i for i, round in enumerate(trace.rounds) if round.outcome == "corrected")
    rounds = list(trace.rounds)
    rounds[i] = replace(rounds[i], residual_empty=True)
    columns = payload(replace(trace, rounds=tuple(rounds)))["rounds"]
    assert columns["fromP"][i] is True
    assert columns["share"][i] is None


def test_groups_are_the_committed_text_in_whole_characters():
    trace = story(120, texts=HOSTILE, seed=5)
    data = payload(trace)
    assert sum(data["groups"]) == len(PROMPT) + len(trace.output_ids)
    assert all(data["groups"][i] > 1 for i in data["merged"])
    assert [size for size in data["groups"] if size > 1], "the story should contain split characters"


def test_a_run_that_ends_inside_a_round_keeps_verified_and_emitted_apart():
    trace = cut_story()
    columns = payload(trace)["rounds"]
    assert columns["finish"][-1] == "eos"
    assert columns["committed"][-1] == 2 < columns["accepted"][-1] + 1


def test_rounds_without_a_draft(trace):
    data = payload(story(12, k=0))
    assert set(data["rounds"]["states"]) == {""}
    assert set(data["rounds"]["outcome"]) == {"bonus"}
    assert not any(data["rounds"]["chosen"])
    looked_up = payload(story(60, drafter="ngram"))["rounds"]
    assert any(looked_up["chosen"])
    assert len({len(states) for states in looked_up["states"]}) > 1


def test_a_trace_without_rounds_and_one_with_an_error(trace):
    data = payload(first(trace, 0))
    assert data["rounds"] == {} and data["mean"] is None
    assert data["groups"] == [1] * len(PROMPT)
    assert payload(replace(trace, error="nan in round 3"))["error"] == "nan in round 3"


def test_the_mean_is_the_mean_acceptance_length_of_the_metrics(trace):
    assert payload(trace)["mean"] == metrics(trace.rounds).mean_acceptance_length


def test_appending_rounds_leaves_what_was_said_before_as_it_was(trace):
    def said(data, group):
        columns = dict(data[group])
        columns["token"] = [data["tokens"][i] for i in columns["token"]]
        return columns

    for count in range(1, len(trace.rounds)):
        short, long = payload(first(trace, count)), payload(first(trace, count + 1))
        for group in ("rounds", "positions"):
            for name, column in said(short, group).items():
                assert said(long, group)[name][: len(column)] == column


def test_it_is_compact_and_json():
    trace = long_story(2000)
    text = json.dumps(payload(trace), separators=(",", ":"), allow_nan=False)
    assert len(text) < 120 * len(trace.output_ids)


def test_special_tokens_are_marked(trace):
    tokens = {**trace.tokens, PROMPT[1]: TokenText(b"<|im_end|>", special=True)}
    data = payload(replace(trace, tokens=tokens))
    assert data["tokens"][data["prompt"][1]] == ["special", "<|im_end|>"]


# --- The selection -----------------------------------------------------------------------------------


def page():
    import sys

    import streamlit as st
    from stories import story

    from specviz.ui.components import timeline

    module = sys.modules[timeline.__module__]
    state = st.session_state
    for name in state.pop("events", ()):  # AppTest calls no callbacks of components
        module._MOUNT.callbacks[f"on_{name}_change"]()
    state.setdefault("trace", story())
    state.setdefault("selection", (1, 3))

    def keep(selection):
        state.selection = selection

    if not state.get("away"):
        shown = timeline(
            state.trace,
            key="tl",
            selected=... if state.get("own") else state.selection,
            on_select=keep,
            covered=state.get("covered", False),
        )
        state.shown = shown


class Mount:
    """The real component, and the callbacks that it was given."""

    def __init__(self, real):
        self.real = real
        self.callbacks = {}

    def __call__(self, **options):
        self.callbacks = options
        return self.real(**options)


@pytest.fixture
def app(monkeypatch):
    monkeypatch.setattr(timeline_module, "_MOUNT", Mount(timeline_module._MOUNT))
    app = AppTest.from_function(page, default_timeout=20).run()
    assert not app.exception
    return app


def sent(app) -> dict:
    return json.loads(app.get("bidi_component")[0].proto.json)


def browser_says(app, **values):
    app.session_state["tl"] = {name: {"value": value, "push": 1} for name, value in values.items()}
    app.session_state["events"] = list(values)
    app.run()
    assert not app.exception
    return app


def test_the_selection_is_sent_once_with_a_version(app):
    assert sent(app)["push"] == {"version": 1, "selected": [1, 3], "revealed": []}
    before = app.get("bidi_component")[0].proto.json
    app.run()
    assert app.get("bidi_component")[0].proto.json == before


def test_a_selection_made_in_the_browser_is_not_sent_back(app):
    before = app.get("bidi_component")[0].proto.json
    browser_says(app, selected=[2, 1])
    assert app.session_state["selection"] == (2, 1)
    assert app.session_state["shown"].selected == (2, 1)
    assert app.get("bidi_component")[0].proto.json == before
    browser_says(app, selected=None)
    assert app.session_state["selection"] is None


def test_a_selection_made_by_the_page_is_sent(app):
    browser_says(app, selected=[2, 1])
    app.session_state["selection"] = (3, 2)
    app.run()
    assert sent(app)["push"] == {"version": 2, "selected": [3, 2], "revealed": []}


def test_after_another_page_the_selection_is_sent_again(app):
    browser_says(app, selected=[2, 1])
    app.session_state["away"] = True
    app.run()
    app.session_state["away"] = False
    app.run()
    assert sent(app)["push"]["selected"] == [2, 1]
    assert sent(app)["push"]["version"] == 2


@pytest.mark.parametrize(
    "value", ["x", [1], [0, 1], [1, "2"], [True, 1], [1, -1], {"a": 1}, [1.5, 2], [[1], 2], 7]
)
def test_nonsense_from_the_browser_is_no_selection(app, value):
    browser_says(app, selected=value)
    assert app.session_state["selection"] is None


def test_without_a_selection_of_the_page_the_timeline_keeps_its_own(app):
    app.session_state["own"] = True
    app.run()
    assert app.session_state["shown"].selected == (1, 3)
    before = app.get("bidi_component")[0].proto.json
    browser_says(app, selected=[2, 1])
    app.run()
    assert app.session_state["shown"].selected == (2, 1)
    assert app.get("bidi_component")[0].proto.json == before
    browser_says(app, selected=None)
    assert app.session_state["shown"].selected is None


@pytest.mark.parametrize("place", [(1000, 1), (1, 6), (1, 0)])
def test_a_place_that_the_trace_does_not_have_is_no_selection(app, place):
    app.session_state["selection"] = place
    app.run()
    assert app.session_state["shown"].selected is None
    assert sent(app)["push"]["selected"] is None


def test_revealed_rounds_are_remembered_until_another_run(app):
    app.session_state["covered"] = True
    browser_says(app, revealed=[2, 1, "x"])
    assert app.session_state["shown"].revealed == frozenset({1, 2})
    app.session_state["trace"] = story(20, seed=4)
    app.run()
    assert app.session_state["shown"].revealed == frozenset()
    assert sent(app)["push"]["revealed"] == []


# --- Colours -------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def mixed(colour: str, share: float, surface: str) -> str:
    parts = [(int(colour[i : i + 2], 16), int(surface[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in parts)


@pytest.fixture(scope="module")
def themes() -> list[dict[str, str]]:
    """The custom properties of the light and of the dark theme."""
    css = (COMPONENTS / "timeline" / "timeline.css").read_text(encoding="utf-8")
    blocks = [css[css.index(f"{name} {{") :].split("}")[0] for name in (".timeline", ".timeline.dark")]
    light, dark = (dict(re.findall(r"--([\w-]+):\s*([^;]+);", block)) for block in blocks)
    return [light, {**light, **dark}]


STATES = ("accepted", "rejected", "corrected", "bonus", "discarded", "proposed", "covered")


def test_words_are_readable_on_every_surface_they_stand_on(themes):
    for theme, page in zip(themes, ("#fbfbfc", "#12161c"), strict=True):
        tint = float(theme["tint"].rstrip("%")) / 100
        for name in (*STATES, "p", "q"):
            ink = theme[f"{name}-ink"]
            cell = mixed(theme[name], 1.6 * tint, theme["raised"])
            for surface in (theme["raised"], page, cell):
                assert contrast(ink, surface) >= 4.5, (name, ink, surface)
        for surface in (theme["raised"], page):
            assert contrast(theme["muted"], surface) >= 4.5


def test_p_and_q_have_their_colours_to_themselves(themes):
    for theme in themes:
        states = {theme[name] for name in STATES} | {theme[f"{name}-ink"] for name in STATES}
        assert not states & {theme[name] for name in ("p", "q", "p-ink", "q-ink")}
    assert themes[0]["p"] == "#0072b2" and themes[0]["q"] == "#cc79a7"


def test_the_scripts_put_nothing_into_markup():
    for path in COMPONENTS.glob("*/*.js"):
        source = path.read_text(encoding="utf-8")
        for danger in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
        ):
            assert danger not in source, (path.name, danger)


def test_story_helper_numbers_rounds_on():
    assert all(b.number == a.number + 1 for a, b in pairwise(long_story(500).rounds))
