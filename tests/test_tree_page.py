"""A round with a tree on the page: what the timeline is sent and what the inspector says."""

import json
from dataclasses import replace

import pytest

from specviz.decoding.run import DecodingRun
from specviz.decoding.trace import TokenText
from specviz.decoding.tree import main_line, shape
from specviz.reading import explain, explain_numbers
from specviz.reading.inspect import inspect_position
from specviz.reading.metrics import metrics
from specviz.reading.rejudge import NotRecorded, rejudge
from specviz.ui.components.timeline import payload
from specviz.ui.rounds.files import recipe_of


@pytest.fixture(scope="module")
def trace(tiny_llama_pair):
    run = DecodingRun(tiny_llama_pair, "hello world", tree=shape("3-2"), seed=5, max_new_tokens=30)
    list(run)
    return run.trace()


def test_the_timeline_is_sent_the_line_and_what_stands_beside_it(trace):
    data = payload(trace)
    beside = data["positions"]["beside"]
    assert len(beside) == len(data["positions"]["token"]) == len(data["positions"]["h"])
    assert data["rounds"]["nodes"] == [len(round.tree) for round in trace.rounds]
    at = 0
    for round in trace.rounds:
        for depth, node in enumerate(main_line(round.tree)):
            assert len(beside[at]) == (2 if depth == 0 else 1)
            on_line = round.tree[node]
            states = {letter for _, letter in beside[at]}
            if on_line.state == "unseen":
                assert data["positions"]["h"][at] is None and states == {"u"}
            elif on_line.state == "refused":
                assert states == {"r"}
            at += 1
    json.dumps(data, allow_nan=False)
    hostile = {id: TokenText(b"<img src=x onerror=alert(1)>") for id in trace.tokens}
    sent = payload(replace(trace, tokens=hostile))
    # Pieces of text, which the browser puts in as text.
    assert sent["tokens"][0][:2] == ["text", "<img"]


def test_the_inspector_says_what_became_of_every_candidate(trace):
    for round in trace.rounds:
        for position in range(1, round.k + 2):
            place = inspect_position(trace, round.number, position)
            said = explain.verdict(place)
            assert said and explain_numbers.residual_line(place)
            if place.state in ("accepted", "rejected"):
                assert explain_numbers.formula(place)
    refused = next(r for r in trace.rounds if r.outcome == "corrected" and r.k == 2)
    place = inspect_position(trace, refused.number, refused.accepted + 1)
    assert place.in_tree and place.added_probability == refused.share
    assert place.added == refused.token


def test_candidates_count_as_drafted_and_no_round_is_judged_again(trace):
    m = metrics(trace.rounds)
    assert m.drafted == sum(len(r.tree) for r in trace.rounds)
    assert m.mean_acceptance_length == 1 + m.accepted / m.rounds
    with pytest.raises(NotRecorded, match="tree"):
        rejudge(trace.rounds[0])


def test_a_file_of_the_built_in_pair_leads_back_to_its_recipe(trace):
    named = replace(trace, pair=replace(trace.pair, name="built-in"))
    recipe = recipe_of(named)
    assert recipe is not None and recipe.tree == "3-2" and recipe.rule == "exact"
