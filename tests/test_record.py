"""What a trace keeps of a round: figures against their definitions on full rows."""

import numpy as np
import pytest
from drafts import table_drafts
from tables import TableModel, TablePair

from specviz.decoding import codec
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig

PROMPT = (0, 1, 0, 2, 0, 1)
CONTROLS = [
    SamplingConfig(),
    SamplingConfig(0.6),
    SamplingConfig(0.8, top_k=9),
    SamplingConfig(1.2, top_p=0.7),
    SamplingConfig(0.9, min_p=0.1, repetition_penalty=1.4, banned=(3,)),
    SamplingConfig(0.0),
]


def logs(values):
    return np.log(np.where(values > 0.0, values, 1.0))


@pytest.mark.parametrize("sampling", CONTROLS, ids=str)
@pytest.mark.parametrize("kind", ["model", "ngram", "medusa"])
def test_figures_are_those_of_the_full_rows(sampling, kind):
    run = DecodingRun(
        table_drafts(40, seed=2), PROMPT, drafter=kind, k=3, max_new_tokens=20, seed=3, sampling=sampling
    )
    for round in run:
        for i, row in enumerate(round.positions):
            p = run.recent.target_probs[i]
            close = {"rel": 1e-9, "abs": 1e-12}
            assert row.p_entropy == pytest.approx(-(p * logs(p)).sum(), **close)
            assert row.p_root_sum == pytest.approx(np.sqrt(p).sum(), **close)
            assert row.p_sesqui_sum == pytest.approx((p**1.5).sum(), **close)
            others = np.setdiff1d(np.arange(40), row.table.ids)
            q = run.recent.draft_probs[i] if i < round.k else np.zeros(40)
            over = others[p[others] > q[others]]
            under = others[p[others] <= q[others]]
            if i == round.k:
                over, under = others, under[:0]
                assert row.rest.p_over == pytest.approx(p[over].sum(), **close) and row.rest.p_under == 0.0
                continue
            assert row.rest.p_over == pytest.approx(p[over].sum(), **close)
            assert row.rest.q_under == pytest.approx(q[under].sum(), **close)
            assert row.beta == pytest.approx(np.minimum(p, q).sum(), **close)
            assert row.residual_mass == pytest.approx(np.maximum(p - q, 0.0).sum(), **close)
            assert row.q_entropy == pytest.approx(-(q * logs(q)).sum(), **close)
            if (q[p > 0.0] == 0.0).any():
                assert row.kl is None
            else:
                held = p > 0.0
                assert row.kl == pytest.approx(
                    (p[held] * np.log(p[held] / q[held])).sum(), rel=1e-9, abs=1e-9
                )
    assert codec.loads(codec.dumps(run.trace())) == run.trace()


@pytest.mark.parametrize("sampling", CONTROLS, ids=str)
def test_every_committed_token_has_its_log_probability_before_and_after_the_controls(sampling):
    pair = table_drafts(12, seed=4)
    run = DecodingRun(pair, PROMPT, k=3, max_new_tokens=30, seed=1, sampling=sampling)
    text = list(PROMPT)
    for round in run:
        assert len(round.log_probs) == len(round.raw_log_probs) == len(round.committed)
        for i, token in enumerate(round.committed):
            raw = pair.target.probs(text)[token]
            assert round.raw_log_probs[i] == pytest.approx(np.log(raw), rel=1e-9)
            assert round.log_probs[i] == pytest.approx(np.log(run.recent.target_probs[i, token]), abs=1e-12)
            text.append(token)
        assert 0.0 <= round.record_seconds <= round.other_seconds


def test_the_raw_log_probability_counts_what_the_target_can_emit_only():
    target = TableModel(6, salt=1, available=np.array([0, 1, 2, 4]))
    run = DecodingRun(TablePair(target, TableModel(6, salt=2)), (0, 1), k=2, max_new_tokens=8, seed=1)
    text = [0, 1]
    for round in run:
        for i, token in enumerate(round.committed):
            p = target.probs(text)[[0, 1, 2, 4]]
            assert round.raw_log_probs[i] == pytest.approx(np.log(target.probs(text)[token] / p.sum()))
            text.append(token)


@pytest.mark.parametrize("available", [None, np.arange(0, 60, 2)])
def test_greedy_tables_keep_the_runners_up(available):
    """At temperature 0 probabilities tell the winner only; the gap to the next logit is asked for."""
    pair = TablePair(*(TableModel(60, salt=salt, available=available) for salt in (1, 2)))
    run = DecodingRun(pair, PROMPT, k=3, max_new_tokens=12, sampling=SamplingConfig(0.0))
    text = list(PROMPT)
    for round in run:
        for i, row in enumerate(round.positions):
            for model, logits in (
                (pair.target, row.table.target_logits),
                (pair.draft, row.table.draft_logits),
            ):
                if i == round.k and model is pair.draft:
                    continue
                full = model.logits([*text, *round.draft_tokens[:i]])
                ids = np.arange(60) if available is None else available
                best = ids[np.argsort(-full[ids])][:8]
                assert set(best.tolist()) <= set(row.table.ids)
                found = {
                    id: logit for id, logit in zip(row.table.ids, logits, strict=True) if logit is not None
                }
                assert all(found[id] == pytest.approx(full[id]) for id in best)
        text += round.committed
    assert codec.loads(codec.dumps(run.trace())) == run.trace()
