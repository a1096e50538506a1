"""The metrics, against a worked example and against the engine's own counts."""

import pytest
from tables import table_pair

from specviz.decoding.run import DecodingRun
from specviz.reading.metrics import metrics


class FakeRound:
    """The fields that metrics read, for a round of k drafts with `accepted` kept."""

    def __init__(self, k, accepted, betas):
        self.k, self.accepted, self.drafted = k, accepted, k
        self.committed = (0,) * (accepted + 1)
        self.positions = [type("Row", (), {"beta": beta}) for beta in (*betas, None)]
        self.seconds, self.draft_seconds, self.verify_seconds = 1.0, 0.25, 0.5


def test_a_worked_example():
    rounds = [
        FakeRound(3, 3, (1, 1, 1)),
        FakeRound(3, 1, (0.5, 0.5, 0.5)),
        FakeRound(2, 0, (0, 0)),
        FakeRound(0, 0, ()),
    ]
    m = metrics(rounds)
    assert (m.rounds, m.drafted, m.accepted, m.emitted) == (4, 8, 4, 8)
    assert m.draft_acceptance_rate == 0.5
    assert m.mean_acceptance_length == 2.0
    assert m.per_position == pytest.approx((2 / 3, 1 / 3, 1 / 2))
    assert m.conditional == pytest.approx((2 / 3, 1 / 2, 1.0))
    assert m.histogram == (2, 1, 0, 1)
    assert m.alpha == pytest.approx(4.5 / 8)
    assert m.tokens_per_second == 2.0


def test_no_drafts_gives_no_rates():
    m = metrics([FakeRound(0, 0, ())])
    assert m.draft_acceptance_rate is None and m.alpha is None and m.per_position == ()
    assert m.mean_acceptance_length == 1.0
    nothing = metrics([])
    assert nothing.mean_acceptance_length is None and nothing.tokens_per_second is None


def test_published_example_per_position_rates_sum_to_the_mean_accepted():
    """llama.cpp prints, for one run, length 2.92 and rates .805, .632, .483, which sum to 1.92."""
    assert 1 + sum((0.805, 0.632, 0.483)) == pytest.approx(2.92, abs=0.005)
    rounds = [r for r in DecodingRun(table_pair(6), "abcab", k=3, max_new_tokens=50, seed=1) if r.k == 3]
    m = metrics(rounds)
    assert 1 + sum(m.per_position) == pytest.approx(m.mean_acceptance_length)
    assert list(m.per_position) == sorted(m.per_position, reverse=True)
    assert m.draft_acceptance_rate <= 1.0
