"""What a draft token costs, for every kind of drafter."""

import pytest
from drafts import KINDS, table_drafts

from specviz.decoding.drafters import COPYING
from specviz.diagnosis import costs
from specviz.diagnosis.costs import ROWS, Costs

TARGET, DRAFT = 10.0, 1.0  # what a pass takes on the clock below


@pytest.fixture
def pair(monkeypatch):
    """A pair on whose clock only passes take time: those of the target, and of anything that drafts."""
    pair, now = table_drafts(vocab_size=5), [0.0]
    monkeypatch.setattr(costs, "clock_for", lambda device: (lambda: now[0], "invented seconds"))

    def timed(model, seconds):
        forward = model.forward

        def call(*args, **more):
            now[0] += seconds
            return forward(*args, **more)

        monkeypatch.setattr(model, "forward", call)

    timed(pair.target, TARGET)
    for model in (pair.draft, pair.medusa, pair.eagle):
        timed(model, DRAFT)
    first_layers = pair.early_exit

    def early_exit(layers=None):
        model = first_layers(layers)
        timed(model, DRAFT)
        return model

    monkeypatch.setattr(pair, "early_exit", early_exit)
    return pair


@pytest.mark.parametrize("kind", [*KINDS, "combined:eagle", "combined:ngram"])
def test_every_drafter_has_a_cost(pair, kind):
    found = costs.measure(pair, kind, k=4)
    tokens = {"medusa": pair.medusa.count, "parallel": 4}.get(kind, 1)  # of a pass
    copies = kind in COPYING or kind == "combined:ngram"
    assert found.draft == (0.0 if copies else pytest.approx(DRAFT / TARGET / tokens))
    assert found.verify == (1.0,) * len(ROWS) and found.second is None
    assert Costs.from_dict(found.to_dict()) == found


def test_a_second_draft_on_the_features_has_one_too(pair):
    assert costs.measure(pair, "model", (pair, "eagle")).second == pytest.approx(DRAFT / TARGET)


@pytest.mark.parametrize("limit", [20, 40])
@pytest.mark.parametrize("kind", ["model", "eagle", "parallel"])
def test_short_contexts_are_not_run_over(kind, limit):
    pair = table_drafts(vocab_size=5, context_length=limit)
    longest = []
    for model in (pair.target, pair.draft, pair.eagle):
        forward = model.forward

        def call(tokens, before, *rest, forward=forward, **more):
            cache = rest[0] if hasattr(rest[0], "layers") else before
            longest.append(len(cache.layers[0].tokens) + len(tokens))
            return forward(tokens, before, *rest, **more)

        model.forward = call
    costs.measure(pair, kind, k=1)
    assert 0 < max(longest) <= limit
