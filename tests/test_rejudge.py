"""Re-judging from a trace must be the verdict of the full rows, wherever the trace can tell."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tables import TableModel, TablePair, table_pair

from specviz.decoding.block import verify_whole_block
from specviz.decoding.faults import get_fault
from specviz.decoding.grammar import Grammar
from specviz.decoding.randomness import SeededRound
from specviz.decoding.record import LEADING
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import Trace
from specviz.decoding.verify import Verdict, residual, verify_block
from specviz.reading import explain
from specviz.reading.inspect import inspect_position
from specviz.reading.logit_steps import chain
from specviz.reading.rejudge import NotRecorded, rejudge, rejudge_trace

CONFIGS = [
    SamplingConfig(),
    SamplingConfig(temperature=0.0),
    SamplingConfig(temperature=0.6, top_k=12),
    SamplingConfig(temperature=1.3, top_p=0.9, repetition_penalty=1.2),
]


def make_run(vocab_size, seed, sampling=None, drafter="model", tokens=30, k=4):
    return DecodingRun(
        table_pair(vocab_size, seed),
        [0, 1, 2, 0, 1],
        drafter=drafter,
        k=k,
        sampling=sampling,
        max_new_tokens=tokens,
        seed=seed,
    )


@pytest.mark.parametrize("vocab_size", [3, 9, 40, 500])
@pytest.mark.parametrize("sampling", CONFIGS)
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_nothing_changed_reproduces_the_recorded_round(vocab_size, sampling, drafter):
    for seed in range(3):
        run = make_run(vocab_size, seed, sampling, drafter)
        for round in run:
            again = rejudge(round)
            assert again.recorded
            assert (again.accepted, again.outcome, again.token) == (
                round.accepted,
                round.outcome,
                round.token,
            )
            assert again.residual_empty == round.residual_empty
            assert again.states == tuple(p.state for p in round.positions)


def test_the_coin_decides_exactly_at_the_accept_probability():
    flipped = 0
    for seed in range(8):
        for round in make_run(60, seed):
            for row, position in enumerate(round.positions[: round.accepted]):
                edge = position.p / position.q
                if edge >= 1.0:
                    assert rejudge(round, accept_us={row: 1.0 - 1e-12}).recorded
                    continue
                assert rejudge(round, accept_us={row: edge * (1 - 1e-9)}).recorded
                above = rejudge(round, accept_us={row: edge * (1 + 1e-9)})
                assert (above.accepted, above.outcome, above.law) == (row, "corrected", "residual")
                assert not above.recorded
                flipped += 1
    assert flipped > 20


@pytest.mark.parametrize("vocab_size", [3, 30, 500])
@pytest.mark.parametrize("sampling", CONFIGS)
def test_any_uniforms_agree_with_the_full_rows(vocab_size, sampling):
    rng = np.random.default_rng(5)
    told = untold = 0
    for seed in range(2):
        run = make_run(vocab_size, seed, sampling)
        for round in run:
            rows = run.recent
            for _ in range(16):
                us = dict(enumerate(rng.random(round.k)))
                u = float(rng.random())
                full = verify_block(
                    rows.target_probs, rows.draft_probs, round.draft_tokens, GivenUniforms(us, u)
                )
                again = rejudge(round, accept_us=us, correct_u=u)
                assert (again.accepted, again.outcome) == (full.accepted, full.outcome)
                law = law_of(rows, full)
                if again.token is None:
                    untold += 1
                    leading = np.sort(law)[::-1][:LEADING].sum()
                    assert u >= leading - 1e-12
                    assert again.probability == pytest.approx(1.0 - leading)
                else:
                    told += 1
                    assert again.token == full.token
                    assert again.probability == pytest.approx(law[full.token])
                    assert again.law == ("p" if full.outcome == "bonus" else "residual")
    assert told > 80
    if vocab_size == 3 or sampling.greedy:
        assert untold == 0
    elif vocab_size == 500:
        assert untold > 20


def law_of(rows, verdict):
    p = rows.target_probs[verdict.accepted]
    if verdict.outcome == "bonus":
        return p
    weights, _ = residual(p, rows.draft_probs[verdict.accepted])
    return weights / weights.sum()


class GivenUniforms(SeededRound):
    def __init__(self, accept_us, correct_u):
        self.accept_us = accept_us
        self.u = correct_u

    def accept_u(self, row):
        return self.accept_us[row]

    def correct_u(self):
        return self.u


def always_accept(target_probs, draft_probs, draft_tokens, randomness):
    k = len(draft_tokens)
    return Verdict(k, "bonus", randomness.correct(target_probs[k]))


def correct_from_p(target_probs, draft_probs, draft_tokens, randomness):
    for row, token in enumerate(draft_tokens):
        if not randomness.accept(row, target_probs[row, token], draft_probs[row, token]):
            return Verdict(row, "corrected", randomness.correct(target_probs[row]))
    return always_accept(target_probs, draft_probs, draft_tokens, randomness)


def softmax_of_residual(target_probs, draft_probs, draft_tokens, randomness):
    for row, token in enumerate(draft_tokens):
        if not randomness.accept(row, target_probs[row, token], draft_probs[row, token]):
            weights = np.exp(np.maximum(0.0, target_probs[row] - draft_probs[row]))
            return Verdict(row, "corrected", randomness.correct(weights))
    return always_accept(target_probs, draft_probs, draft_tokens, randomness)


def test_other_rules_judge_the_same_block():
    run = make_run(40, 3, tokens=60)
    trace = run_to_end(run)
    exact = rejudge_trace(trace, verify_block)
    assert exact.first_difference is None
    assert exact.accepted == sum(r.accepted for r in trace.rounds)

    lax = rejudge_trace(trace, always_accept)
    assert lax.verifier == "always_accept"
    assert lax.accepted == sum(r.k for r in trace.rounds)
    rejections = [r.number for r in trace.rounds if r.accepted < r.k]
    assert lax.first_difference == rejections[0]

    wrong = rejudge_trace(trace, correct_from_p)
    assert wrong.accepted == exact.accepted
    corrected = [again for again in wrong.rounds if again.outcome == "corrected"]
    assert corrected and all(again.law == "p" for again in corrected)
    for again, round in zip(wrong.rounds, trace.rounds, strict=True):
        if again.outcome == "corrected" and again.token is not None:
            p = round.positions[again.accepted].table
            assert again.probability == pytest.approx(p.p[p.ids.index(again.token)])


def test_weights_that_a_table_cannot_form_leave_the_token_open():
    trace = run_to_end(make_run(40, 3, tokens=60))
    corrected = [r for r in rejudge_trace(trace, softmax_of_residual).rounds if r.outcome == "corrected"]
    assert corrected
    assert all((r.token, r.law, r.probability) == (None, None, None) for r in corrected)


def test_a_trace_of_another_rule_is_reproduced_by_it_and_differs_under_the_exact_one():
    run = DecodingRun(table_pair(500, 2), [0, 1], k=4, max_new_tokens=60, seed=1, verifier=correct_from_p)
    trace = run_to_end(run)
    assert rejudge_trace(trace, correct_from_p).first_difference is None
    exact = rejudge_trace(trace, verify_block)
    assert exact.accepted == sum(r.accepted for r in trace.rounds)
    assert exact.first_difference is not None


def test_a_round_without_drafts_is_a_plain_draw_from_p():
    round = make_run(40, 1, k=0).step()
    assert rejudge(round).recorded
    u = 1e-9
    heaviest = rejudge(round, correct_u=u)
    assert heaviest.token == round.positions[0].table.ids[0]
    assert heaviest.law == "p"


def test_a_draft_equal_to_the_target_accepts_at_every_uniform():
    model = TableModel(50, salt=4)
    run = DecodingRun(TablePair(model, model), [1], k=3, max_new_tokens=12, seed=0)
    for round in run:
        assert rejudge(round, accept_us=dict.fromkeys(range(round.k), 0.999999)).accepted == round.k


def test_missing_uniforms_are_said():
    round = make_run(500, 0).step()
    row = round.positions[0]
    silent = replace(round, positions=(replace(row, u=None), *round.positions[1:]))
    with pytest.raises(NotRecorded, match="accept uniform of position 1"):
        rejudge(silent)


def run_to_end(run):
    for _ in run:
        pass
    return run.trace()


def test_no_torch():
    code = "import sys; import specviz.reading.rejudge; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


CONSTRAINED = SamplingConfig(
    0.9,
    banned=(3, 25),
    bias=((4, 2.5), (7, -3.0)),
    forced=(1, 4),
    min_new_tokens=5,
    grammar=Grammar("regex", "[b-y]{4,30}"),
)


@pytest.mark.parametrize("verifier", [verify_block, verify_whole_block], ids=["token", "block"])
@pytest.mark.parametrize("where", ["both", "target", "draft"])
def test_a_constrained_run_read_back_is_judged_the_same_at_every_place(where, verifier, tmp_path):
    """Grammar, bias, bans, forced tokens and a least number of them, on p, on q and on both."""
    removed, states = set(), set()
    for seed in range(3):
        made = DecodingRun(
            table_pair(27, seed, eos=[26]),
            [0, 1, 2, 0, 1],
            k=4,
            sampling=SamplingConfig() if where == "draft" else CONSTRAINED,
            draft_sampling=SamplingConfig() if where == "target" else CONSTRAINED,
            max_new_tokens=24,
            seed=seed,
            verifier=verifier,
        )
        list(made)
        made.trace().save(tmp_path / "run.json.gz")
        trace = Trace.load(tmp_path / "run.json.gz")
        assert trace == made.trace()
        again = rejudge_trace(trace, verifier)
        assert again.first_difference is None and all(round.recorded for round in again.rounds)
        for round, judged in zip(trace.rounds, again.rounds, strict=True):
            assert (judged.accepted, judged.outcome) == (round.accepted, round.outcome)
            assert judged.token == round.token
            for row, position in enumerate(round.positions):
                place = inspect_position(trace, round.number, row + 1)
                assert explain.verdict(place)
                removed |= {*position.table.target_removed, *position.table.draft_removed}
                states.add(place.state)
                for token in position.table.ids:
                    told = [chain(trace, round, row, token, model) for model in ("target", "draft")]
                    assert all(
                        c is None or c.probability == pytest.approx(c.recorded, abs=1e-9) for c in told
                    )
        if where != "draft":
            assert trace.output_ids[:2] == (1, 4) and not {0, 3, 25} & {*trace.output_ids}
    assert {"forced", "min new tokens", "grammar", "banned"} <= removed
    assert {"accepted", "rejected", "discarded"} <= states


def test_a_wrong_rule_judges_a_constrained_run_otherwise():
    """Drafts that the text may not contain are rejected by the exact rule, and by no lenient one."""
    made = DecodingRun(
        table_pair(27, 1, eos=[26]),
        [0, 1],
        sampling=CONSTRAINED,
        draft_sampling=SamplingConfig(),
        max_new_tokens=24,
    )
    list(made)
    lenient = get_fault("always-accept").verifier
    assert rejudge_trace(made.trace(), lenient).first_difference is not None
