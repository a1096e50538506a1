"""Exactness by sampling and by arithmetic: right for the right rule, wrong for wrong ones."""

import numpy as np
import pytest
from scipy import stats

from specviz.decoding.faults import EXACT, FAULTS, Rule, Spot, make_verifier, output
from specviz.decoding.randomness import accepts, inverse_cdf
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.verify import verify_block
from specviz.exactness.arithmetic import arithmetic
from specviz.exactness.chi_square import goodness_of_fit, merge, same_law
from specviz.exactness.guide_table import InverseCdf
from specviz.exactness.noise import honest_noise, mean_absolute_deviation
from specviz.exactness.sampling import Draws, SamplingTest, draws_until_caught

GOLDEN = Spot(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]))


def opposed(v=16, seed=0, scale=1.0):
    """Target logits z, draft logits -z: a draft that is wrong wherever it can be."""
    z = np.random.default_rng(seed).normal(0.0, scale, v)
    p, q = np.exp(z), np.exp(-z)
    return Spot(p / p.sum(), q / q.sum(), target_logits=z, draft_logits=-z)


def filtered(sampling, seed=0, v=16):
    """A spot whose p and q went through the controls."""
    z = np.random.default_rng(seed).normal(0.0, 1.5, (2, v))
    raw = Spot(z[0], z[1], target_logits=z[0], draft_logits=z[1])
    p, q = raw.target_scored(sampling, ()), raw.draft_scored(sampling)
    return Spot(p, q, None, z[0], z[1], (), (), sampling, sampling)


class TestInverseCdf:
    @pytest.mark.parametrize("shape", ["smooth", "sparse", "one-hot", "ties"])
    def test_it_draws_what_the_engine_draws(self, shape):
        rng = np.random.default_rng(1)
        weights = rng.random(5000) ** 6
        if shape == "sparse":
            weights *= rng.random(5000) < 0.01
        elif shape == "one-hot":
            weights = np.eye(1, 5000, 77)[0]
        elif shape == "ties":
            weights = np.floor(weights * 4)
        us = np.concatenate([rng.random(1000), np.arange(64) / 64, [0.0, np.nextafter(1.0, 0.0)]])
        assert InverseCdf(weights)(us).tolist() == [inverse_cdf(weights, u) for u in us]

    @pytest.mark.parametrize("weights", [np.zeros(3), np.array([1.0, np.inf]), np.array([np.nan])])
    def test_weights_without_a_law_are_refused(self, weights):
        with pytest.raises(ValueError, match="cannot draw"):
            InverseCdf(weights)


class Given:
    """The uniforms of one draw, behind the engine's protocol."""

    def __init__(self, draft, accept, correct):
        self.us = draft, accept, correct

    def accept(self, row, p, q):
        return accepts(self.us[1], p, q)

    def correct(self, weights):
        return inverse_cdf(weights, self.us[2])

    def draft_u(self, row):
        return self.us[0]

    def accept_u(self, row):
        return self.us[1]


RULES = {"exact": EXACT} | {n: f.rule for n, f in FAULTS.items() if f.rule != EXACT}


@pytest.mark.parametrize("name", RULES)
def test_a_million_draws_are_the_engines_draws(name):
    """The vectorised path against the verifier, draw by draw, with the same uniforms."""
    rule = RULES[name]
    verifier = verify_block if name == "exact" else make_verifier(name, rule)
    for seed, v in ((0, 3), (1, 16), (2, 700)):
        spot = opposed(v, seed, 1.5)
        rng = np.random.default_rng(seed)
        us = rng.random((3, 400))
        draws = Draws(spot.hand, rule)
        tokens, kept = draws.judge(us[0], us[1], us[2].take)
        rows, accepted = np.stack([spot.p, spot.p]), 0
        for i, u in enumerate(us.T):
            drafted = inverse_cdf(spot.q, u[0])
            verdict = verifier(rows, spot.q[None], [drafted], Given(*u))
            accepted += verdict.accepted
            assert tokens[i] == (drafted if verdict.accepted else verdict.token)
        assert kept == accepted


def test_draws_do_not_depend_on_how_they_are_cut():
    whole, parts = (Draws(opposed().hand, seed=4) for _ in range(2))
    whole.add(200_000)
    for n in (1, 70_000, 0, 129_999):
        parts.add(n)
    assert whole.total == parts.total == 200_000
    assert whole.accepted == parts.accepted
    np.testing.assert_array_equal(whole.counts, parts.counts)


def test_the_honest_rule_agrees_with_p():
    test = SamplingTest(opposed(), seed=1)
    for n in (1000, 199_000):
        test.add(n)
        check = test.check()
        assert check.draws == test.draws.total
        assert check.says == "agrees" and not check.caught and "agrees with p" in check.sentence
        assert check.noise.low <= check.tv <= check.noise.high
        assert check.accepted_low <= check.beta <= check.accepted_high
        assert check.acceptance == pytest.approx(check.beta)
    assert sum(b.share for b in check.bars) == pytest.approx(1.0)
    assert sum(b.p for b in check.bars) == pytest.approx(1.0)
    assert sum(b.inside for b in check.bars) >= len(check.bars) - 2
    assert check.bars[-1].token is None and len(check.bars) == 9
    assert [b.token for b in test.check([3, 1]).bars] == [3, 1, None]


def test_p_values_of_the_honest_rule_are_uniform():
    spot = opposed(16, 3)
    p_values, own = [], []
    for seed in range(200):
        test = SamplingTest(spot, seed=seed)
        test.add(20_000)
        p_values.append(goodness_of_fit(test.draws.counts, spot.p).p_value)
        faulty = SamplingTest(spot, FAULTS["ratio-inverted"], seed=seed)
        faulty.add(2000)
        own.append(goodness_of_fit(faulty.draws.counts, faulty.expected.law).p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.05
    assert stats.kstest(own, "uniform").pvalue > 0.05  # a fault's own law is its law


def test_p_values_of_a_wrong_rule_are_not_uniform():
    spot = opposed(16, 3)
    p_values = []
    for seed in range(50):
        test = SamplingTest(spot, FAULTS["coarse-uniforms"], seed=seed)
        test.add(20_000)
        p_values.append(goodness_of_fit(test.draws.counts, spot.p).p_value)
    assert stats.kstest(p_values, "uniform").pvalue < 0.01


TOP_K = filtered(SamplingConfig(top_k=6))
WHERE_IT_SHOWS = {
    "temperature-one-side": filtered(SamplingConfig(temperature=0.6)),
    "q-before-filters": TOP_K,
    "target-unfiltered": TOP_K,
    "stale-history": Spot(
        p=filtered(SamplingConfig(repetition_penalty=1.6)).target_scored(
            SamplingConfig(repetition_penalty=1.6), [0, 1, 2, 3]
        ),
        q=opposed().q,
        target_logits=filtered(SamplingConfig(repetition_penalty=1.6)).target_logits,
        committed=(0, 1),
        drafts=(2, 3),
        sampling=SamplingConfig(repetition_penalty=1.6),
    ),
}
CHANGES_THE_LAW = [
    n for n, f in FAULTS.items() if f.kind in ("law", "lossy") and f.one_position and n != "eos-ignored"
]


@pytest.mark.parametrize("name", [n for n in CHANGES_THE_LAW if n != "inclusive"])
def test_faults_are_caught_within_a_million_draws_and_follow_their_own_law(name):
    spot = WHERE_IT_SHOWS.get(name, opposed())
    needed, check = draws_until_caught(spot, FAULTS[name])
    assert needed is not None and needed == check.draws <= 1_000_000
    assert check.caught
    assert check.own.ok  # the measured law is the predicted one, within noise
    assert check.accepted_low - 0.02 <= check.acceptance <= check.accepted_high + 0.02
    test = SamplingTest(spot, FAULTS[name], seed=7)
    test.add(1_000_000)
    check = test.check()
    assert check.caught and check.own.ok
    assert check.tv == pytest.approx(FAULTS[name].tv(spot), abs=0.003)
    assert abs(check.accepted - check.acceptance) < 0.003


@pytest.mark.parametrize("name", [n for n, f in FAULTS.items() if f.kind in ("wasteful", "bookkeeping")])
def test_exact_and_bookkeeping_variations_stay_green(name):
    test = SamplingTest(opposed(), FAULTS[name], seed=1)
    test.add(300_000)
    assert test.check().says == "agrees"


def test_the_inclusive_comparison_is_too_rare_for_sampling_but_not_for_arithmetic():
    spot = Spot(np.array([0.0, 0.6, 0.4]), np.array([0.5, 0.2, 0.3]))
    needed, check = draws_until_caught(spot, FAULTS["inclusive"], most=100_000)
    assert needed is None and check.says == "agrees"
    sums = arithmetic(spot, FAULTS["inclusive"])
    assert not sums.ok and sums.deviation == pytest.approx(2.0**-25)
    assert sums.worst in (0, 1)


def test_one_draw_that_p_excludes_is_enough():
    spot = Spot(np.array([0.0, 0.6, 0.4]), np.array([0.3, 0.3, 0.4]))
    test = SamplingTest(spot, FAULTS["always-accept"])
    test.add(20)
    check = test.check()
    assert check.evidence.impossible > 0 and check.caught and "excludes" in check.sentence


def test_a_position_without_chance_is_decided_by_what_p_excludes():
    spot = Spot(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    test = SamplingTest(spot)
    test.add(1000)
    check = test.check()
    assert check.says == "agrees" and check.enough == 4 and check.test.degrees == 0  # 1 - 0.5⁴ > 0.9
    faulty = SamplingTest(spot, FAULTS["always-accept"])
    faulty.add(1000)
    assert faulty.check().caught


FLAT = np.full(2000, 1 / 2000)
TILTED = np.where(np.arange(2000) < 1000, 1.75, 0.25) / 2000  # three eighths of the mass elsewhere


@pytest.mark.parametrize(
    "spot, draws",
    [
        (Spot(FLAT, TILTED), 200),
        (Spot(np.array([0.5, 0.5]), np.array([0.5, 0.5])), 10_000),
        (Spot(np.array([0.5, 0.5]), np.array([0.501, 0.499])), 10_000),
        (Spot(np.array([0.0, 1.0]), np.array([0.0, 1.0])), 10_000),
    ],
    ids=["flat", "equal", "nearly equal", "equal and certain"],
)
def test_where_nothing_can_be_said_it_neither_passes_nor_fails(spot, draws):
    for fault in (None, FAULTS["always-accept"]):
        test = SamplingTest(spot, fault)
        test.add(draws)
        check = test.check()
        assert check.says == "too few" and not check.caught
        assert "Too few draws to tell" in check.sentence and "agrees" not in check.sentence


def test_with_enough_draws_the_same_position_is_decided():
    spot = Spot(FLAT, TILTED)
    honest, faulty = SamplingTest(spot), SamplingTest(spot, FAULTS["always-accept"])
    assert 200 < honest.enough < 20_000
    for test in (honest, faulty):
        test.add(2 * honest.enough)
    assert honest.check().says == "agrees" and faulty.check().caught


def test_faults_over_several_positions_are_refused():
    with pytest.raises(ValueError, match="several positions"):
        SamplingTest(GOLDEN, FAULTS["no-stop"])
    with pytest.raises(ValueError, match="several positions"):
        arithmetic(GOLDEN, FAULTS["no-stop"])


class TestChiSquare:
    def test_bins_follow_from_the_law_alone(self):
        law = np.array([0.5, 0.001, 0.3, 0.001, 0.198])
        bins = merge(law, 10_000)
        assert sorted(np.bincount(bins).tolist()) == [1, 1, 1, 1, 1]
        bins = merge(law, 100)  # the two rare ones expect 0.2 together and join the lightest
        assert bins.tolist() == [0, 2, 1, 2, 2]
        assert set(merge(law, 3)) == {0}

    def test_it_agrees_with_scipy(self):
        rng = np.random.default_rng(1)
        law = rng.dirichlet(np.ones(12))
        counts = rng.multinomial(5000, law)
        ours, theirs = goodness_of_fit(counts, law), stats.chisquare(counts, law * 5000)
        assert ours.statistic == pytest.approx(theirs.statistic)
        assert ours.p_value == pytest.approx(theirs.pvalue)

    def test_two_samples_agree_with_scipy(self):
        rng = np.random.default_rng(2)
        a, b = rng.multinomial(3000, np.full(6, 1 / 6)), rng.multinomial(500, np.full(6, 1 / 6))
        ours, theirs = same_law(a, b), stats.chi2_contingency(np.stack([a, b]), correction=False)
        assert ours.statistic == pytest.approx(theirs.statistic)
        assert ours.p_value == pytest.approx(theirs.pvalue)
        assert same_law(a, rng.multinomial(500, [0.3, 0.1, 0.1, 0.1, 0.2, 0.2])).p_value < 1e-6


class TestNoise:
    @pytest.mark.parametrize("n", [1, 7, 100, 12_345])
    def test_the_mean_absolute_deviation_of_a_binomial(self, n):
        p = np.array([0.0, 1e-7, 0.003, 0.5, 0.77, 1.0])
        ks = np.arange(n + 1)
        exact = [(np.abs(ks - n * x) * stats.binom.pmf(ks, n, x)).sum() for x in p]
        assert mean_absolute_deviation(p, n) == pytest.approx(exact, rel=1e-7, abs=1e-12)

    @pytest.mark.parametrize("v", [2, 20, 3000])
    @pytest.mark.parametrize("n", [100, 1000, 20_000])
    def test_mean_and_range_against_plain_simulation(self, v, n):
        rng = np.random.default_rng(v)
        law = rng.dirichlet(np.full(v, 0.3))
        distances = np.abs(rng.multinomial(n, law, 4000) / n - law).sum(axis=1) / 2
        noise = honest_noise(law, n)
        spread = distances.std()
        assert noise.mean == pytest.approx(distances.mean(), abs=4 * spread / 60)
        assert noise.low == pytest.approx(np.quantile(distances, 0.025), abs=0.35 * spread)
        assert noise.high == pytest.approx(np.quantile(distances, 0.975), abs=0.35 * spread)


class TestArithmetic:
    def test_kept_and_corrected_add_up_to_p(self):
        sums = arithmetic(GOLDEN)
        assert sums.ok and sums.deviation < 1e-15 and sums.tokens == 3
        assert [s.kept for s in sums.shares] == pytest.approx([0.2, 0.3, 0.2, 0.0])
        assert [s.corrected for s in sums.shares] == pytest.approx([0.3, 0.0, 0.0, 0.0])
        assert sums.beta == sums.acceptance == pytest.approx(0.7)
        assert "exactly" in sums.sentence

    def test_the_rest_is_summed_and_the_deviation_is_over_everything(self):
        spot = opposed(500, 2)
        sums = arithmetic(spot)
        assert len(sums.shares) == 9 and sums.shares[-1].token is None
        assert sum(s.p for s in sums.shares) == pytest.approx(1.0)
        assert sum(s.total for s in sums.shares) == pytest.approx(1.0)
        assert sums.ok
        wrong = arithmetic(spot, FAULTS["always-accept"])
        law = FAULTS["always-accept"].law(spot)
        assert wrong.deviation == np.abs(law - spot.p).max() == abs(law - spot.p)[wrong.worst]

    @pytest.mark.parametrize("name", CHANGES_THE_LAW)
    def test_it_fails_under_every_fault_that_changes_the_law(self, name):
        spot = WHERE_IT_SHOWS.get(name, opposed())
        if name == "inclusive":
            spot = Spot(np.array([0.0, 0.6, 0.4]), np.array([0.5, 0.2, 0.3]))
        sums = arithmetic(spot, FAULTS[name])
        assert not sums.ok and "does not follow" in sums.sentence
        assert sums.tv == pytest.approx(FAULTS[name].tv(spot))

    def test_a_rule_with_an_epsilon_in_the_residual_fails(self):
        """What a guard against division by zero costs."""
        rule = Rule(correction=lambda p, q: (np.maximum(p - q, 0.0) + 1e-9, False))
        law = output(rule, GOLDEN.hand).law
        assert np.abs(law - GOLDEN.p).max() > 1e-12
