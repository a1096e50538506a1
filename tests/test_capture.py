"""Captured runs of transformers: their tokens, p, q and verdicts, and a `generate` that notices nothing."""

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import VOCAB, letter_tokenizer, llama
from transformers.generation.utils import GenerationMixin

import specviz
from specviz.decoding import codec
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.verify import verify_block
from specviz.diagnosis.capture import WATCHED, CaptureError
from specviz.diagnosis.report import Report
from specviz.models.language_model import TransformersModel
from specviz.models.pair import LoadedPair
from specviz.reading.explain import verdict
from specviz.reading.inspect import inspect_position
from specviz.reading.logit_steps import chain
from specviz.reading.rejudge import NotRecorded, rejudge, rejudge_trace

ROOT = Path(__file__).parent.parent
PROMPT = torch.tensor([[0, *range(5, 17), *range(5, 9)]])
TOKENIZER = letter_tokenizer()


@pytest.fixture(scope="module")
def models():
    target, draft = llama(1), llama(1)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(5)
        for weight in draft.parameters():  # near the target, so that some drafts are kept
            weight.add_(0.05 * torch.randn_like(weight))
    draft.generation_config.num_assistant_tokens = 4
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    return target, draft


def generate(models, seed=3, lookup=False, **settings):
    target, draft = models
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": 40, **settings}
    settings |= {"prompt_lookup_num_tokens": 4} if lookup else {"assistant_model": draft}
    torch.manual_seed(seed)
    output = target.generate(PROMPT, attention_mask=torch.ones_like(PROMPT), pad_token_id=1, **settings)
    return output[0].tolist(), torch.get_rng_state()


CASES = {
    "sampled": {},
    "cool, top-k 20": {"temperature": 0.7, "top_k": 20},
    "cool, top-p .9": {"temperature": 0.7, "top_p": 0.9},
    "repetition penalty, min-p": {"repetition_penalty": 1.3, "min_p": 0.02},
    "greedy": {"do_sample": False},
    "lookup, sampled": {"lookup": True, "temperature": 0.5},
    "lookup, greedy": {"lookup": True, "do_sample": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_generate_returns_the_same_and_the_trace_has_its_tokens(models, name):
    settings = CASES[name]
    kept = 0
    for seed in (3, 4, 5):
        alone, state = generate(models, seed, **settings)
        with specviz.capture(TOKENIZER) as trace:
            watched, state_watched = generate(models, seed, **settings)
        assert watched == alone and torch.equal(state, state_watched)
        assert [*trace.prompt_ids, *trace.output_ids] == alone
        assert bool(trace.notes) == name.startswith("cool") and trace.finish in ("length", "eos")
        assert codec.loads(codec.dumps(trace.last)) == trace.last
        kept += sum(r.accepted for r in trace.rounds)
    assert kept > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "lookup, sampled"])
def test_the_exact_rule_judges_every_captured_round_the_same(models, name):
    with specviz.capture(TOKENIZER) as trace:
        generate(models, **CASES[name])
    again = rejudge_trace(trace.last, verify_block)
    assert again.first_difference is None and again.accepted == sum(r.accepted for r in trace.rounds)


class Replayed:
    """The draws that a captured round says were made: drafts as chosen, its uniforms, its token."""

    def __init__(self, rounds):
        self.rounds = rounds

    def round(self, number) -> RoundRandomness:
        self.now = self.rounds[number - 1]
        return self

    def draft(self, row, weights):
        return self.now.draft_tokens[row]

    def accept(self, row, p, q):
        u = self.now.positions[row].u
        return p >= q if u is None else u * q < p

    def correct(self, weights):
        return self.now.token

    def draft_u(self, row):
        return None

    def accept_u(self, row):
        return self.now.positions[row].u

    def correct_u(self):
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sampled", "cool, top-k 20", "repetition penalty, min-p", "greedy"])
def test_our_engine_has_the_same_tokens_p_and_q(models, name):
    with specviz.capture(TOKENIZER) as trace:
        generate(models, **CASES[name])
    target, draft = (TransformersModel(m, n, len(VOCAB)) for m, n in zip(models, "ab", strict=True))
    run = DecodingRun(
        LoadedPair("tiny", target, draft, TOKENIZER),
        trace.prompt_ids,
        k=4,
        sampling=trace.sampling,
        max_new_tokens=40,
        randomness=Replayed(trace.rounds),
    )
    run.drafter.sampling = trace.draft_sampling
    ours = []
    for round in trace.rounds:
        run.k = round.k  # transformers' draft stops behind an end of text
        ours.append(run.step())
    assert run.trace().output_ids == trace.output_ids and run.finish == trace.finish
    for mine, theirs in zip(ours, trace.rounds, strict=True):
        assert mine.draft_tokens == theirs.draft_tokens and mine.accepted == theirs.accepted
        assert mine.target_cache == theirs.target_cache
        for a, b in zip(mine.positions, theirs.positions, strict=True):
            assert (a.state, a.token) == (b.state, b.token)
            near = dict(zip(a.table.ids, zip(a.table.p, a.table.q, strict=True), strict=True))
            for id, p, q in zip(b.table.ids, b.table.p, b.table.q, strict=True):
                assert (p, q) == pytest.approx(near.get(id, (p, q)), abs=1e-5)
            assert a.beta is None or a.beta == pytest.approx(b.beta, abs=1e-5)


@pytest.mark.slow
def test_controls_that_transformers_applies_twice_are_found(models):
    with specviz.capture(TOKENIZER) as trace:
        generate(models, temperature=0.7, top_k=20)
    assert trace.draft_sampling == SamplingConfig(0.7 * 0.7, 20) and trace.sampling == SamplingConfig(0.7, 20)
    assert "drafted at temperature 0.49 where 0.7" in trace.notes[0] and len(trace.notes) == 1
    with specviz.capture(TOKENIZER) as trace:
        generate(models, temperature=0.7, top_p=0.9)
    assert "each once, shaped q." in trace.notes[1]


@pytest.mark.slow
def test_uniforms_are_where_they_decide(models):
    with specviz.capture(TOKENIZER) as trace:
        generate(models)
    judged = [row for r in trace.rounds for row in r.positions if row.state in ("accepted", "rejected")]
    assert all((row.u * row.q < row.p) == (row.state == "accepted") for row in judged)
    us = [row.u for r in trace.rounds for row in r.positions[:-1]]
    assert len(set(us)) == len(us)
    with specviz.capture(TOKENIZER) as lookup:
        for seed in range(8):
            generate(models, seed, lookup=True, temperature=0.5)
    unsure = [r for t in lookup.traces for r in t.rounds if any(0 < row.p < 1 for row in r.positions[:-1])]
    with pytest.raises(NotRecorded, match="accept uniform"):
        rejudge(unsure[0])


def test_every_place_of_a_captured_run_can_be_inspected(models):
    with specviz.capture(TOKENIZER) as trace:
        generate(models, top_k=10, no_repeat_ngram_size=2, max_new_tokens=20)
    assert "shaped p and q" in trace.notes[0] and len(trace.notes) == 1
    for round in trace.rounds:
        for position in range(1, round.accepted + 2):
            found = inspect_position(trace.last, round.number, position)
            assert verdict(found)
            for model in ("target", "draft"):
                # Where the controls that are named do not explain p, no steps are shown that end elsewhere.
                steps = chain(trace.last, round, position - 1, found.token or round.token, model)
                assert steps is None or steps.probability == pytest.approx(steps.recorded, rel=1e-6)


def test_an_exception_leaves_everything_as_it_was_and_the_rounds_before_it(models):
    before = {name: getattr(GenerationMixin, name) for name in WATCHED}

    def broken(ids, scores, **_):
        if ids.shape[1] > 30:
            raise RuntimeError("stop")
        return torch.zeros(1, dtype=torch.bool)

    with pytest.raises(RuntimeError, match="stop"), specviz.capture(TOKENIZER) as trace:
        generate(models, stopping_criteria=[broken])
    assert {name: getattr(GenerationMixin, name) for name in WATCHED} == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in models)
    assert trace.rounds and "stop" in trace.error and trace.finish is None
    codec.loads(codec.dumps(trace.last))


def test_two_runs_two_traces_and_none_says_why(models):
    with specviz.capture() as trace:
        generate(models, 1)
        generate(models, 2, max_new_tokens=8)
        models[0].generate(PROMPT, max_new_tokens=4, do_sample=False, pad_token_id=1)
    assert [len(t.output_ids) <= most for t, most in zip(trace.traces, (40, 8), strict=True)] == [True, True]
    assert trace.rounds == trace.traces[1].rounds and trace.tokens[5].data == b" 5"
    with specviz.capture() as nothing:
        pass
    with pytest.raises(CaptureError, match="assistant_model="):
        nothing.save("x.json")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        nothing.nonsense  # noqa: B018


def test_other_threads_and_inner_captures(models):
    with specviz.capture(TOKENIZER) as outer:
        thread = threading.Thread(target=generate, args=(models,))
        thread.start()
        thread.join()
        assert not outer.traces
        with specviz.capture(TOKENIZER) as inner:
            generate(models, max_new_tokens=6)
    assert inner.traces == outer.traces and len(inner.traces) == 1


def test_what_weighs_the_draft_in_is_found_by_the_exact_rule(models):
    with specviz.capture(TOKENIZER) as trace:
        for seed in range(4):
            generate(models, seed, assistant_ensemble_weight=0.3)
    assert "trades exactness" in trace.notes[0]
    assert any(rejudge(r, verify_block).accepted < r.accepted for t in trace.traces for r in t.rounds)


def test_a_captured_run_can_be_audited(models, tmp_path):
    with specviz.capture(TOKENIZER) as trace:
        for seed in range(3):
            generate(models, seed)
    state = torch.get_rng_state()
    rows = trace.audit(tmp_path)
    assert torch.equal(state, torch.get_rng_state())
    report = Report.of(tmp_path)
    assert rows["rounds"] == report.totals["rounds"] == sum(len(t.rounds) for t in trace.traces)
    assert report.totals["accepted"] == sum(r.accepted for t in trace.traces for r in t.rounds)
    positions = report.frames["positions"]
    assert (positions.loc[positions["state"] == "rejected", "cause"] != "").all() and not report.scored
    tokens = report.frames["tokens"]
    logs = [v for t in trace.traces for r in t.rounds for v in r.log_probs]
    assert np.allclose(np.log(tokens["p"]), logs, atol=1e-4)
    with specviz.capture(TOKENIZER) as other:
        generate(models)
        generate(models, temperature=0.5)
    with pytest.raises(CaptureError, match="differ in models"):
        other.audit(tmp_path / "b")


def test_early_exit_is_captured_too(models):
    target, _ = models
    with specviz.capture(TOKENIZER) as trace:
        torch.manual_seed(1)
        output = target.generate(
            PROMPT, assistant_early_exit=1, do_sample=True, top_k=0, max_new_tokens=24, pad_token_id=1
        )
    assert [*trace.prompt_ids, *trace.output_ids] == output[0].tolist() and trace.drafter == "early-exit"
    assert rejudge_trace(trace.last, verify_block).first_difference is None


def texts(app):
    kinds = (app.text, app.markdown, app.caption, app.info, app.error)
    return "\n".join(element.value for kind in kinds for element in kind)


def test_the_app_opens_a_captured_run(models):
    from streamlit.testing.v1 import AppTest

    with specviz.capture(TOKENIZER) as trace:
        generate(models, temperature=0.7, top_p=0.9)
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.session_state["files-open"] = True
    app.run().get("file_uploader")[0].upload("captured.json", codec.dumps(trace.last)).run()
    assert not app.exception
    assert "opened from a file" in texts(app)
    app.session_state["judge-open"] = True
    app.run()
    assert not app.exception
    assert "Every round ends as it did" in texts(app)


def test_the_controls_of_a_trace_are_those_of_generate(models):
    with specviz.capture(TOKENIZER) as trace:
        generate(models, temperature=0.7, top_k=20, top_p=0.9, suppress_tokens=[7], max_new_tokens=6)
    assert trace.sampling == SamplingConfig(0.7, 20, 0.9, banned=(7,))
    assert 7 not in trace.output_ids
    assert (trace.drafter, trace.k, trace.max_new_tokens) == ("model", 4, 6)
