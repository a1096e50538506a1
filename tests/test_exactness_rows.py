"""Rows computed again from a trace are those that the run had."""

import numpy as np
import pytest
from tables import TableModel, TablePair, table_pair

from specviz.decoding.faults import EXACT, FAULTS, output
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.exactness.recompute import RowsUnavailable, recompute, table_spot

PROMPT = (0, 1, 0, 2, 0, 1)
CONTROLS = {
    "plain": {},
    "filtered": {"sampling": SamplingConfig(0.8, 4, 0.9), "draft_sampling": SamplingConfig(1.3)},
    "penalty": {"sampling": SamplingConfig(repetition_penalty=1.5)},
    "greedy": {"sampling": SamplingConfig(0.0)},
}


@pytest.mark.parametrize("drafter", ["model", "ngram"])
@pytest.mark.parametrize("controls", CONTROLS)
def test_rows_are_those_of_the_run(drafter, controls):
    pair = table_pair(6, 1)
    run = DecodingRun(pair, PROMPT, drafter=drafter, k=3, max_new_tokens=40, seed=2, **CONTROLS[controls])
    drafted = 0
    for round in run:
        rows = recompute(pair, run.trace(), round.number).rows
        assert rows.number == round.number
        np.testing.assert_allclose(rows.target_probs, run.recent.target_probs, atol=1e-12)
        np.testing.assert_allclose(rows.draft_probs, run.recent.draft_probs, atol=1e-12)
        drafted += round.k
    assert drafted > 20


def test_a_spot_carries_what_scores_it_again():
    pair = table_pair(6, 1)
    run = DecodingRun(pair, PROMPT, k=3, max_new_tokens=20, seed=2, **CONTROLS["filtered"])
    round = run.step()
    block = recompute(pair, run.trace(), 1)
    assert len(block.spots) == round.k
    for row, spot in enumerate(block.spots):
        prefix = [*spot.committed, *spot.drafts]
        assert prefix == [*PROMPT, *round.draft_tokens[:row]]
        np.testing.assert_array_equal(spot.target_scored(run.sampling, prefix), spot.p)
        np.testing.assert_array_equal(spot.draft_scored(run.draft_sampling), spot.q)
    assert block.spots[0].p_before is None
    np.testing.assert_array_equal(block.spots[2].p_before, block.spots[1].p)


def test_a_trimmed_draft_is_scored_within_its_vocabulary():
    keeps = np.array([0, 2, 5])

    class Trimmed(TableModel):
        def logits(self, history):
            full = np.full(6, -np.inf)
            full[keeps] = super().logits(history)[keeps]
            return full

    pair = TablePair(TableModel(6, salt=1), Trimmed(6, salt=2, available=keeps))
    run = DecodingRun(pair, PROMPT, k=2, max_new_tokens=20, seed=2)
    run.step()
    spot = recompute(pair, run.trace(), 1).spots[0]
    again = spot.draft_scored(SamplingConfig(2.0))
    assert np.flatnonzero(again).tolist() == keeps.tolist()


def test_a_spoilt_run_is_recomputed_right():
    """Rows come from the trace's tokens alone, so a faulty cache does not reach them."""
    pair = table_pair(6, 1)
    run = FAULTS["target-cache-cut-too-far"].start(pair, PROMPT, k=3, max_new_tokens=30, seed=2)
    different = 0
    for round in run:
        rows = recompute(pair, run.trace(), round.number).rows
        p = pair.target.probs(run.tokens[: round.start])
        np.testing.assert_allclose(rows.target_probs[0], p, atol=1e-12)
        different += not np.allclose(p, run.recent.target_probs[0])
    assert different > 2


def test_rows_that_cannot_be_had_are_refused():
    pair = table_pair(6, 1)
    run = DecodingRun(pair, PROMPT, k=3, max_new_tokens=9, seed=2)
    list(run)
    for number in (0, len(run.rounds) + 1):
        with pytest.raises(RowsUnavailable, match="rounds 1 to"):
            recompute(pair, run.trace(), number)
    with pytest.raises(RowsUnavailable, match="not with the pair"):
        recompute(table_pair(7, 1), run.trace(), 1)


def test_a_table_alone_gives_the_law_of_every_single_token():
    pair = table_pair(60, 1)
    run = DecodingRun(pair, PROMPT, k=3, max_new_tokens=30, seed=2)
    round = run.step()
    spots = recompute(pair, run.trace(), 1).spots
    for position, spot in zip(round.positions, spots, strict=False):
        table = table_spot(position)
        single = [i for i in table.ids if i is not None]
        assert 8 <= len(single) < 60 and table.ids[-2:] == (None, None)
        assert table.spot.p.sum() == pytest.approx(1.0)
        assert np.minimum(table.spot.p, table.spot.q).sum() == pytest.approx(position.beta)
        reduced, full = output(EXACT, table.spot.hand), output(EXACT, spot.hand)
        for part in ("kept", "corrected"):
            lumped = getattr(reduced, part)[: len(single)]
            np.testing.assert_allclose(lumped, getattr(full, part)[single], atol=1e-9)
        for name in ("correction-from-p", "always-accept"):
            law = FAULTS[name].law(table.spot)[: len(single)]
            np.testing.assert_allclose(law, FAULTS[name].law(spot)[single], atol=1e-9)
    with pytest.raises(RowsUnavailable, match="bonus"):
        table_spot(round.positions[-1])
