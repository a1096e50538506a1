"""The streams: reproducible, independent, and drawn in an order that a trace can follow."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from specviz.decoding.randomness import SeededRandomness, heaviest, inverse_cdf


def uniforms(seed, rounds, rows):
    streams = SeededRandomness(seed)
    made = [streams.round(number) for number in range(1, rounds + 1)]
    drafts = np.array([[r.draft_u(i) for i in range(rows)] for r in made])
    accepts = np.array([[r.accept_u(i) for i in range(rows)] for r in made])
    corrects = np.array([r.correct_u() for r in made])
    return drafts, accepts, corrects


def test_a_uniform_depends_only_on_seed_stream_round_and_row():
    streams = SeededRandomness(7)
    first = streams.round(3)
    late = [first.accept_u(row) for row in (30, 2, 0)]
    again = SeededRandomness(7).round(3)
    assert [again.accept_u(row) for row in (0, 2, 30)] == late[::-1]
    assert again.accept_u(0) != SeededRandomness(8).round(3).accept_u(0)
    assert again.accept_u(0) != SeededRandomness(7).round(4).accept_u(0)


def test_the_streams_are_uniform_and_do_not_depend_on_each_other():
    drafts, accepts, corrects = uniforms(seed=1, rounds=2000, rows=4)
    for values in (drafts.ravel(), accepts.ravel(), corrects):
        assert kstest(values, "uniform").pvalue > 1e-3
    for a, b in ((drafts[:, 0], accepts[:, 0]), (accepts[:, 0], corrects), (drafts[:, 0], corrects)):
        assert not np.array_equal(a, b)
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.08  # 3.5 standard errors
    assert abs(np.corrcoef(accepts[:-1, 0], accepts[1:, 0])[0, 1]) < 0.08


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(ValueError, match="seed"):
        SeededRandomness(seed)


def test_inverse_cdf_walks_from_the_heaviest_token():
    weights = np.array([1.0, 4.0, 0.0, 3.0, 2.0])
    assert [inverse_cdf(weights, u) for u in (0.0, 0.39, 0.41, 0.69, 0.71, 0.89, 0.91)] == [
        1,
        1,
        3,
        3,
        4,
        4,
        0,
    ]


def test_inverse_cdf_never_draws_a_token_without_weight():
    weights = np.zeros(500)
    weights[[3, 400]] = 1e-300, 0.1
    draws = {inverse_cdf(weights, u) for u in (0.0, 0.5, np.nextafter(1, 0))}
    assert draws <= {3, 400}


@pytest.mark.slow
def test_inverse_cdf_law_with_more_tokens_than_the_leading_ones():
    rng = np.random.default_rng(0)
    weights = rng.random(300)
    counts = np.bincount([inverse_cdf(weights, u) for u in rng.random(60_000)], minlength=300)
    assert chisquare(counts, weights / weights.sum() * 60_000).pvalue > 1e-3


def test_the_short_and_the_long_way_agree():
    """Draws among the leading tokens equal those of a full sort."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        weights = rng.integers(0, 4, 200).astype(float)  # many ties
        weights[0] = 1.0
        u = rng.random()
        order = np.argsort(-weights, kind="stable")
        slow = order[np.searchsorted(np.cumsum(weights[order]), u * weights.sum(), side="right")]
        assert inverse_cdf(weights, u) == slow


def test_draws_from_the_tail_of_a_large_vocabulary_agree_too():
    """Above the mean and below it, with equal weights, and at the very end."""
    rng = np.random.default_rng(5)
    for coarse in (False, True):
        weights = np.exp(rng.normal(0.0, 3.0, 20_000))
        if coarse:
            weights = np.ceil(weights)
        order = np.argsort(-weights, kind="stable")
        sums = np.cumsum(weights[order])
        for u in (*rng.random(30), 0.97, 0.999, 0.9999999, np.nextafter(1, 0)):
            place = min(int(np.searchsorted(sums, u * weights.sum(), side="right")), len(order) - 1)
            assert inverse_cdf(weights, u) == order[place]


@pytest.mark.parametrize("weights", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_weights_without_a_law_are_refused(weights):
    with pytest.raises(ValueError, match="cannot draw"):
        inverse_cdf(np.array(weights), 0.5)


def test_heaviest_breaks_ties_by_id():
    assert heaviest(np.array([1.0, 2.0, 2.0, 1.0, 3.0]), 4).tolist() == [4, 1, 2, 0]
    assert heaviest(np.array([1.0, 2.0, 0.0]), 5).tolist() == [1, 0]


@pytest.mark.parametrize("shape", ["smooth", "ties", "sparse", "one-hot"])
def test_heaviest_agrees_with_a_full_sort(shape):
    rng = np.random.default_rng(3)
    for _ in range(50):
        weights = rng.random(5000)
        if shape == "ties":
            weights = np.floor(weights * 5)
        elif shape == "sparse":
            weights *= rng.random(5000) < 0.004
        elif shape == "one-hot":
            weights = np.eye(1, 5000, rng.integers(5000))[0]
        full = np.argsort(-weights, kind="stable")
        full = full[weights[full] > 0]
        for count in (1, 8, 64, 2048, 5000):
            assert heaviest(weights, count).tolist() == full[:count].tolist()


def test_the_largest_seeds_are_told_apart():
    draws = [SeededRandomness(2**64 - n).round(1).accept_u(0) for n in range(1, 6)]
    assert len(set(draws)) == 5
