"""The five lines end at p, whatever the draft."""

import numpy as np
import pytest

from specviz.decoding.faults import FAULTS, Spot
from specviz.exactness.proof import proof

GOLDEN = Spot(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]))


def test_golden_numbers():
    lines = proof(GOLDEN, 0).lines
    assert [line.value for line in lines] == pytest.approx([0.2, 0.3, 0.3, 0.3, 0.5])
    assert lines[0].numbers == "0.2 · min(1, 0.5/0.2) = 0.2"
    assert lines[4].numbers == "0.2 + 0.3 = 0.5"
    assert proof(GOLDEN, 0).beta == pytest.approx(0.7)


@pytest.mark.parametrize("seed", range(6))
def test_five_lines_end_at_p_for_every_token_and_draft(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(5), 2)
    if seed == 1:
        q = p
    if seed == 2:
        q = np.eye(5)[3]
    if seed == 3:
        p = np.eye(5)[2]
    wrong = FAULTS["correction-from-p"].law(Spot(p, q))
    for token in range(5):
        result = proof(Spot(p, q), token)
        assert len(result.lines) == 5
        assert result.lines[-1].value == pytest.approx(p[token], abs=1e-15)
        assert result.lines[1].value == pytest.approx(1 - result.beta, abs=1e-15)
        assert result.from_p == pytest.approx(wrong[token])
        assert all(line.claim and line.numbers and line.why.endswith(".") for line in result.lines)


def test_why_the_correction_is_not_drawn_from_p():
    low, high = proof(GOLDEN, 0), proof(GOLDEN, 2)
    assert low.from_p == pytest.approx(0.35) and "below p = 0.5" in low.from_p_sentence
    assert high.from_p == pytest.approx(0.26) and "above p = 0.2" in high.from_p_sentence
    same = proof(Spot(GOLDEN.p, GOLDEN.p), 0)
    assert "no difference" in same.from_p_sentence and "p = q" in same.lines[2].numbers
    assert "weaker claim" in low.greedy_sentence
