"""At temperature 0: the target's own text, and every difference by name."""

from dataclasses import replace

import numpy as np
import pytest
from tables import TableModel, TablePair, table_pair

from specviz.decoding.faults import FAULTS
from specviz.decoding.sampling import SamplingConfig
from specviz.exactness.greedy import greedy_checks

GREEDY = SamplingConfig(0.0)


def test_every_k_gives_the_targets_text():
    for sampling in (GREEDY, replace(GREEDY, repetition_penalty=1.5)):
        checks = greedy_checks(table_pair(6, 1), (0, 1), sampling=sampling, max_new_tokens=20)
        assert [c.k for c in checks] == [1, 4, 8]
        assert all(c.ok and c.position is None and "the same 20 tokens" in c.sentence for c in checks)


def test_a_wrong_engine_is_told_from_a_near_tie():
    checks = greedy_checks(
        table_pair(6, 1),
        (0, 1),
        start=FAULTS["always-accept"].start,
        sampling=GREEDY,
        max_new_tokens=20,
    )
    wrong = next(c for c in checks if not c.ok)
    assert wrong.position >= 1 and wrong.gap > wrong.tolerance and not wrong.near_tie
    assert f"token {wrong.position}" in wrong.sentence and "more than" in wrong.sentence


class Rounding(TableModel):
    """Gives the runner-up a little more in a block than in a single row, as low precision may."""

    tolerance = 0.01

    def forward(self, tokens, cache, rows, features=False):
        output = super().forward(tokens, cache, rows, features)
        if rows > 1:
            output.logits[:, 2] += 2e-3
        return output


def test_a_near_tie_is_named_with_position_gap_and_dtype():
    def law(history):
        logits = np.array([0.0, 1.0, 0.999])
        return logits if len(history) == 5 else np.eye(3)[len(history) % 2] * 4.0

    pair = TablePair(Rounding(3, law=law), TableModel(3, law=law))
    check = greedy_checks(pair, (0, 1), blocks=(4,), sampling=GREEDY, max_new_tokens=6)[0]
    assert check.ok and check.near_tie and check.position == 4
    assert check.gap == pytest.approx(0.001, abs=1e-9) and check.dtype == "float64"
    assert "near-tie" in check.sentence and "token 4" in check.sentence and "float64" in check.sentence


def test_only_at_temperature_zero():
    with pytest.raises(ValueError, match="temperature 0"):
        greedy_checks(table_pair(3), (0,), sampling=SamplingConfig(1.0), max_new_tokens=3)
