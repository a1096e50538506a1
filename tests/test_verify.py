"""The rule itself: golden values, strictness, and refusals."""

import numpy as np
import pytest
from branching import enumerate_law

from specviz.decoding.faults import Hand
from specviz.decoding.randomness import accepts, inverse_cdf
from specviz.decoding.verify import VerifyError, residual, verify_block
from specviz.exactness.sampling import Draws

P = np.array([0.5, 0.3, 0.2])
Q = np.array([0.2, 0.3, 0.5])


class Fixed:
    """Given uniforms, so that a single judgement can be pinned."""

    def __init__(self, accept=(), correct=0.0):
        self.accepting, self.correcting = accept, correct

    def accept(self, row, p, q):
        return accepts(self.accepting[row], p, q)

    def correct(self, weights):
        return inverse_cdf(weights, self.correcting)


def first_token(verdict, drafts):
    return drafts[0] if verdict.accepted else verdict.token


def one_position_law(p, q, verifier=verify_block):
    """Exact law of the first committed token when one token is drafted from q."""

    def program(randomness):
        drafts = [randomness.draft(0, q)]
        return first_token(verifier(np.stack([p, p]), q[None], drafts, randomness), drafts)

    return enumerate_law(program)


def test_the_law_is_the_targets():
    law = one_position_law(P, Q)
    assert [law[x] for x in range(3)] == pytest.approx(P, abs=1e-15)


def test_golden_acceptance_probability_is_seven_tenths():
    def program(randomness):
        drafts = [randomness.draft(0, Q)]
        return verify_block(np.stack([P, P]), Q[None], drafts, randomness).accepted

    assert enumerate_law(program)[1] == pytest.approx(0.7, abs=1e-15)
    assert np.minimum(P, Q).sum() == pytest.approx(0.7)


@pytest.mark.parametrize(
    "alpha, k, expected", [(0.7, 1, 1.7), (0.7, 2, 2.19), (0.7, 4, 2.7731), (0.7, 8, 3.1988)]
)
def test_golden_tokens_per_target_pass(alpha, k, expected):
    """With a constant acceptance probability the engine's rule commits (1 - α^(K+1)) / (1 - α) a round."""
    p = np.array([alpha, 1 - alpha])
    q = np.array([1.0, 0.0])  # one-hot draft: accepted with probability p(0) = alpha

    def program(randomness):
        drafts = [randomness.draft(row, q) for row in range(k)]
        return verify_block(np.tile(p, (k + 1, 1)), np.tile(q, (k, 1)), drafts, randomness).accepted + 1

    mean = sum(tokens * mass for tokens, mass in enumerate_law(program).items())
    assert mean == pytest.approx((1 - alpha ** (k + 1)) / (1 - alpha), abs=1e-12)
    assert mean == pytest.approx(expected, abs=5e-5)


def test_a_token_without_target_probability_is_rejected_even_at_u_zero():
    p, q = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    verdict = verify_block(np.stack([p, p]), q[None], [0], Fixed(accept=[0.0]))
    assert (verdict.accepted, verdict.outcome, verdict.token) == (0, "corrected", 1)


def test_the_comparison_is_strict():
    p, q = np.array([0.25, 0.75]), np.array([0.5, 0.5])
    assert verify_block(np.stack([p, p]), q[None], [0], Fixed(accept=[0.5])).accepted == 0
    assert verify_block(np.stack([p, p]), q[None], [0], Fixed(accept=[np.nextafter(0.5, 0)])).accepted == 1


def test_everything_after_the_first_rejection_is_dropped():
    p = np.tile(np.array([0.5, 0.5, 0.0]), (4, 1))
    p[1] = [0.9, 0.1, 0.0]
    q = np.tile(np.array([0.2, 0.3, 0.5]), (3, 1))
    verdict = verify_block(p, q, [0, 2, 0], Fixed(accept=[0.1, 0.0, 0.0]))
    assert verdict.accepted == 1
    assert verdict.outcome == "corrected"
    assert verdict.token == 0  # the only token with residual mass in row 2


def test_all_accepted_draws_the_bonus_from_the_last_row():
    p = np.stack([Q, Q, np.array([0.0, 0.0, 1.0])])
    verdict = verify_block(p, np.stack([Q, Q]), [0, 1], Fixed(accept=[0.99, 0.99]))
    assert (verdict.accepted, verdict.outcome, verdict.token) == (2, "bonus", 2)


def test_no_drafts_is_plain_sampling():
    law = enumerate_law(lambda r: verify_block(P[None], np.zeros((0, 3)), [], r).token)
    assert [law[x] for x in range(3)] == pytest.approx(P)


def test_a_drawn_token_with_q_zero_is_an_error_that_names_model_and_position():
    q = np.array([0.0, 0.5, 0.5])
    with pytest.raises(VerifyError, match="draft model, position 1"):
        verify_block(np.stack([P, P]), q[None], [0], Fixed(accept=[0.5]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_probabilities_that_are_not_finite_are_errors(bad):
    p = P.copy()
    p[1] = bad
    with pytest.raises(VerifyError, match="target model, position 1"):
        verify_block(np.stack([p, p]), Q[None], [1], Fixed(accept=[0.5]))
    q = Q.copy()
    q[1] = bad
    with pytest.raises(VerifyError, match="draft model, position 1"):
        verify_block(np.stack([P, P]), q[None], [1], Fixed(accept=[0.5]))


def test_an_empty_residual_falls_back_to_p_and_says_so():
    # q is nowhere smaller than p, yet p(0) < q(0): only rounding can do this to real rows.
    p, q = np.array([0.5, 0.5]), np.array([0.5000001, 0.5])
    verdict = verify_block(np.stack([p, p]), q[None], [0], Fixed(accept=[0.9999999], correct=0.9))
    assert verdict.residual_empty
    assert verdict.token == 1
    weights, empty = residual(p, q)
    assert empty and (weights == p).all()


def test_the_residual_is_float64_even_for_float32_rows():
    weights, empty = residual(P.astype(np.float32), Q.astype(np.float32))
    assert weights.dtype == np.float64
    assert not empty


def test_opposed_distributions_match_the_target_by_chi_square():
    """200,000 draws, V = 16, draft logits the negative of the target's: nearly everything is rejected.

    The draws are those of `verify_block`, many at once; 1,000 of them are made by it, too.
    """
    from scipy.stats import chisquare

    z = np.random.default_rng(5).normal(0, 1.5, 16)
    p, q = (np.exp(s - np.logaddexp.reduce(s)) for s in (z, -z))
    rows, n = np.stack([p, p]), 200_000
    us = np.random.default_rng(11).random((3, n))
    tokens, _ = Draws(Hand(p, q, q)).judge(us[0], us[1], us[2].take)
    for i in range(1000):
        draft_u, accept_u, correct_u = us[:, i]
        drafts = [inverse_cdf(q, draft_u)]
        verdict = verify_block(rows, q[None], drafts, Fixed([accept_u], correct_u))
        assert first_token(verdict, drafts) == tokens[i]
    counts = np.bincount(tokens, minlength=16)
    assert chisquare(counts, p * n).pvalue > 1e-3
    assert chisquare(counts, q * n).pvalue < 1e-12  # the check can fail
