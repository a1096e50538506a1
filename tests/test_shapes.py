"""Chains, rules and trees on the Drafters page: recorded, and measured here."""

from dataclasses import replace

import pytest
from drafts import llama_drafts
from tables import branching_pair, table_pair
from test_drafters_page import open_page, texts
from waiting import finish, kept

from specviz.recipe import Recipe
from specviz.speed import accepted
from specviz.speed.accepted import Count, Counted
from specviz.ui.drafters import charts, shapes
from specviz.ui.state import jobs, pairs

FEW = {"chain": {}, "chain, block": {"rule": "block"}, "tree": {"tree": "2-1"}}
SHORT = Recipe(k=2, temperature=1.0, max_tokens=8)


@pytest.fixture
def small(monkeypatch):
    """A tiny pair, three ways and short texts."""
    pair = llama_drafts(6)
    pair.encode = lambda prompt, chat: [ord(c) % 6 for c in prompt][:20]
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    monkeypatch.setattr(accepted, "WAYS", FEW)
    monkeypatch.setattr(shapes, "RECIPE", SHORT)
    return pair


def shown(app):
    """The table of ways, the last one of the page."""
    frame = app.table[-1].value
    return {name: list(frame[name]) for name in frame}


def test_the_recorded_figures_are_there_at_once_and_say_what_they_are():
    app = open_page(view="Rules and trees")
    assert not app.exception
    found = accepted.recorded()
    assert list(found.to_dict()) == list(Counted.from_dict(found.to_dict()).to_dict())
    assert [each.way for each in found.kept] == list(accepted.WAYS) and found.pair == "built-in"
    assert all(each.half and each.texts == 30 for each in found.kept)
    assert shown(app)["Accepted a round (95%)"] == [each.interval for each in found.kept]
    said = texts(app)
    assert found.machine.date[:10] in said and found.dtype in said and "Most is kept by the" in said
    assert any("recorded" in str(badge.value) for badge in app.markdown) or "recorded" in said
    figure = charts.kept_by_way(found.kept)
    assert list(reversed(figure.data[0].x)) == [each.mean for each in found.kept]


@pytest.mark.slow
def test_measuring_here_replaces_them_and_a_stopped_one_goes_on(small):
    app = open_page(view="Rules and trees")
    app.number_input(key="shapes_prompts").set_value(2).run()
    app.button(key="shapes-toggle").click().run()
    finish(app)
    assert not app.exception
    job = kept(app, "shapes")
    assert job.done and job.count is None
    work = Count(small, accepted.PROMPTS[:2], 1, SHORT)
    expected = accepted.measure(work)
    assert job.result.kept == expected.kept and {each.texts for each in expected.kept} == {2}
    assert shown(app)["Way"] == ["Chain", "Chain, block", "Tree"]
    assert shown(app)["Drafted a round"] == ["2", "2", "4"]
    # Half of it, stopped: the figures so far are shown, and the button goes on with the same job.
    half = shapes.Counting(job.recipe, 2)
    while half.result is None:
        half.turn(small)
    jobs._kept[app.session_state["_owner"], "shapes"] = half
    app.run()
    assert "Stopped: the figures are those of the runs so far" in texts(app)
    app.button(key="shapes-toggle").click().run()
    finish(app)
    assert kept(app, "shapes") is half and half.result.kept == expected.kept


@pytest.mark.slow
def test_what_a_pair_cannot_do_is_said_with_the_reason(monkeypatch, small):
    pair = table_pair(6)
    pair.encode = small.encode
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    app = open_page(view="Rules and trees")
    app.number_input(key="shapes_prompts").set_value(1).run()
    app.button(key="shapes-toggle").click().run()
    finish(app)
    assert not app.exception and shown(app)["Way"] == ["Chain", "Chain, block"]
    assert "Did not run: tree." in texts(app)
    job = kept(app, "shapes")
    assert list(job.result.refused) == ["tree"] and job.result.kept[0].half is None
    assert "says nothing about how far that is chance" in texts(app)


def test_a_pair_that_was_loaded_again_begins_the_run_at_work_once_more():
    pair = branching_pair(5, seed=3)
    recipe = replace(SHORT, max_tokens=6)
    whole, broken = Count(pair, ["ab"], 1, recipe), Count(pair, ["ab"], 1, recipe)
    while not whole.done:
        whole.step()
    broken.step()
    broken.attach(branching_pair(5, seed=3))
    while not broken.done:
        broken.step()
    assert broken.result().kept == whole.result().kept
