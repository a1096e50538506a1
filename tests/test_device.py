"""A round on the model's device: the same rounds as on the host, and what it copies and waits for."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from drafts import llama_drafts
from elsewhere import Elsewhere, move, same, timeless
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.decoding import codec
from specviz.decoding.block import verify_whole_block
from specviz.decoding.device import laws, rules
from specviz.decoding.device.transfer import Ids
from specviz.decoding.grammar import Grammar
from specviz.decoding.randomness import SeededRandomness, inverse_cdf
from specviz.decoding.run import DecodingRun, RunError
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.decoding.verify import verify_block

KINDS = ("model", "ngram", "suffix", "early-exit", "medusa", "eagle", "parallel", "combined")
PROMPT = (5, 17, 33, 9, 5, 17)
CONTROLS = [
    SamplingConfig(),
    SamplingConfig(0.7, top_k=9),
    SamplingConfig(1.3, top_p=0.8),
    SamplingConfig(0.9, min_p=0.1),
    SamplingConfig(1.1, top_k=20, top_p=0.7, min_p=0.05, repetition_penalty=1.4, banned=(3, 60)),
    SamplingConfig(0.0),
    SamplingConfig(0.0, repetition_penalty=1.4, banned=(3,)),
]


LETTERS = Grammar("regex", "[a-z]{2,9}(ab|c)*")
CONSTRAINTS = {
    "bias": SamplingConfig(0.8, bias=((7, 3.0), (9, -2.5), (61, 5.0))),
    "forced": SamplingConfig(forced=(5, 9, 33)),
    "least": SamplingConfig(min_new_tokens=7),
    "grammar": SamplingConfig(grammar=LETTERS),
    "greedy grammar": SamplingConfig(0.0, grammar=LETTERS),
    "all": SamplingConfig(
        1.2, 30, 0.9, 0.01, 1.3, (3, 4), ((7, 2.0),), (5, 9), 6, Grammar("regex", "[a-z]{2,40}")
    ),
}


@pytest.fixture(scope="module")
def ending():
    """Texts can end, as grammars need, and tokens below 26 are letters."""
    return llama_drafts(64, ids=(0, *range(2, 61)), eos=[60])


@pytest.fixture(scope="module")
def pair():
    return llama_drafts(64, ids=tuple(range(2, 61)))


def both(pair, **more):
    settings = {"k": 4, "max_new_tokens": 24, "seed": 7, **more}
    return [DecodingRun(pair, PROMPT, on_device=there, **settings) for there in (False, True)]


@pytest.mark.slow
@pytest.mark.parametrize("sampling", CONTROLS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_rounds_are_those_of_the_host(pair, kind, sampling):
    here, there = both(pair, drafter=kind, sampling=sampling)
    assert here.stage is None and there.stage is not None
    for one, other in zip(here, there, strict=True):
        assert same(timeless(one), timeless(other))
        assert there.recent.target_probs == pytest.approx(here.recent.target_probs, rel=1e-12, abs=1e-300)
        assert there.recent.draft_probs == pytest.approx(here.recent.draft_probs, rel=1e-12, abs=1e-300)
        assert other.draft_seconds > 0.0 and other.verify_seconds > 0.0
    assert here.tokens == there.tokens
    assert codec.loads(codec.dumps(there.trace())) == there.trace()


@pytest.mark.parametrize("kind", KINDS)
def test_block_verification_too(pair, kind):
    here, there = both(pair, drafter=kind, verifier=verify_whole_block, max_new_tokens=40)
    for one, other in zip(here, there, strict=True):
        assert same(timeless(one), timeless(other))


def test_own_controls_of_the_draft_and_no_draft_at_all(pair):
    for more in ({"draft_sampling": SamplingConfig(0.0)}, {"draft_sampling": CONTROLS[2]}, {"k": 0}):
        here, there = both(pair, **more)
        for one, other in zip(here, there, strict=True):
            assert same(timeless(one), timeless(other))


@pytest.mark.parametrize("available", [None, np.array([0, 2, 3, 5, 8, 9])])
@pytest.mark.parametrize("sampling", CONTROLS, ids=str)
def test_distributions_are_those_of_the_host(sampling, available):
    """Bit by bit but for the order of sums; equal scores, of which filters keep some, included."""
    random = np.random.default_rng(4)
    smooth = random.normal(0.0, 3.0, (3, 70)).astype(np.float32)
    coarse = np.round(smooth)  # many equal scores
    for logits in (smooth, coarse):
        prefixes = [[1, 2], [1, 2, 69], [1, 2, 69, 5]]
        here = effective_probs(logits, prefixes, sampling, available)
        ids = None if available is None else Ids(available, torch.from_numpy(available))
        found = laws.effective_probs(torch.from_numpy(logits), prefixes, sampling, ids)
        assert found.probs.numpy() == pytest.approx(here.probs, rel=1e-14, abs=0.0)
        assert found.logsumexp.numpy() == pytest.approx(here.logsumexp, rel=1e-14, nan_ok=True)
        if here.removed is None:
            assert found.removed is None
        else:
            assert (found.removed.numpy() == here.removed).all()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.floats(0.0, 1.0, exclude_max=True))
@settings(max_examples=150, deadline=None)
def test_draws_are_those_of_the_host(weights, u):
    """Whole weights, so that sums are exact and the borders the same."""
    weights = np.array([1.0, *weights])
    found = rules.draw(torch.from_numpy(weights), torch.tensor([u], dtype=torch.float64))
    assert int(found) == inverse_cdf(weights, u)


@pytest.mark.parametrize("rule", list(rules.RULES), ids=lambda rule: rule.__name__)
def test_verdicts_are_those_of_the_host(rule):
    """Over random, equal, opposed and one-hot rows, each with many rounds of uniforms."""
    random = np.random.default_rng(6)
    outcomes = set()
    for number in range(400):
        k, width = int(random.integers(0, 5)), 6
        p, q = random.dirichlet(np.full(width, 0.5), k + 1), random.dirichlet(np.full(width, 0.5), k)
        if number % 4 == 1:
            q = p[:k].copy()
        elif number % 4 == 2:
            p = np.eye(width)[random.integers(width, size=k + 1)]
        tokens = [int(random.choice(width, p=row)) for row in q]
        here = rule(p, q, tokens, SeededRandomness(9).round(number))
        uniforms = rules.Uniforms(SeededRandomness(9).round(number), k, torch.device("cpu"))
        found = rules.RULES[rule](torch.from_numpy(p), torch.from_numpy(q), tokens, uniforms)
        assert (int(found.kept), int(found.token), bool(found.empty)) == (
            here.accepted,
            here.token,
            here.residual_empty,
        )
        if here.prefixes:
            assert found.weights.numpy() == pytest.approx([prefix.weight for prefix in here.prefixes])
            assert found.passes.numpy() == pytest.approx([prefix.passes for prefix in here.prefixes])
        outcomes.add((here.outcome, here.accepted))
    assert len(outcomes) >= 8


class Broken:
    """Logits of a model with something wrong in one row of one round."""

    def __init__(self, model, value, call):
        self.model, self.value, self.call, self.calls = model, value, call, 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def _spoil(self, logits):
        self.calls += 1
        if self.calls == self.call:
            logits[-1, 11] = self.value
        return logits

    def forward(self, *args, **kwargs):
        output = self.model.forward(*args, **kwargs)
        return replace(output, logits=self._spoil(output.logits.copy()))

    def forward_there(self, *args, **kwargs):
        output = self.model.forward_there(*args, **kwargs)
        with torch.inference_mode():
            return replace(output, logits=self._spoil(output.logits.clone()))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(("which", "call"), [("target", 2), ("draft", 6)])
def test_logits_that_are_not_finite_stop_the_run_and_name_the_place(pair, monkeypatch, which, call, value):
    said = []
    for there in (False, True):
        broken = Broken(getattr(pair, which), value, call)
        with monkeypatch.context() as patch:
            patch.setattr(pair, which, broken)
            run = DecodingRun(pair, PROMPT, k=3, max_new_tokens=20, seed=2, on_device=there)
            with pytest.raises(RunError) as caught:
                list(run)
        said.append((str(caught.value), len(run.rounds), run.tokens))
    assert said[0][1:] == said[1][1:]
    assert said[0][0].replace("the logits contain", "") == said[1][0].replace("the logits contain", "")
    assert "round 2, position" in said[1][0]


@pytest.mark.parametrize(
    ("kind", "where"),
    [("model", "both"), ("model", "target"), ("model", "draft"), ("suffix", "both"), ("medusa", "both")],
)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_are_those_of_the_host(ending, name, kind, where):
    constrained, free = CONSTRAINTS[name], SamplingConfig(1.1)
    here, there = both(
        ending,
        drafter=kind,
        sampling=free if where == "draft" else constrained,
        draft_sampling=free if where == "target" else constrained,
    )
    assert here.stage is None and there.stage is not None
    for one, other in zip(here, there, strict=True):
        assert same(timeless(one), timeless(other))
    assert here.tokens == there.tokens and sum(round.k for round in here.rounds) > 0


def test_a_draft_that_the_controls_leave_nothing_ends_its_block_there_too(ending):
    """It has no token 1, which is forced third."""
    sampling = SamplingConfig(forced=(5, 9, 1, 7))
    here, there = both(ending, drafter="medusa", sampling=sampling, max_new_tokens=8)
    for one, other in zip(here, there, strict=True):
        assert same(timeless(one), timeless(other))
    assert there.tokens[len(PROMPT) :][:4] == [5, 9, 1, 7]


def test_a_vocabulary_that_is_banned_as_a_whole_stops_the_run(pair):
    run = both(pair, sampling=SamplingConfig(banned=tuple(range(64))), draft_sampling=SamplingConfig())[1]
    with pytest.raises(RunError, match=r"target.*the controls leave no token"):
        run.step()
    assert run.tokens == list(PROMPT)


def test_whoever_looks_at_rows_on_the_host_gets_them_there(pair):
    """Wrong engines, other scorers, draws and records."""
    from specviz.decoding.faults import get_fault
    from specviz.decoding.record import outline

    for more in (
        {"score": effective_probs},
        {"draft_score": effective_probs},
        {"randomness": SeededRandomness(1)},
        {"record": outline},
        {"change_drafter": lambda drafter, sampling: drafter},
    ):
        assert DecodingRun(pair, PROMPT, on_device=True, **more).stage is None
    assert get_fault("no-stop").start(pair, PROMPT).stage is None
    with pytest.raises(ValueError, match="on the host"):
        get_fault("no-stop").start(pair, PROMPT, on_device=True)


def test_the_token_rule_is_the_default_one_on_the_device_too(pair):
    run = DecodingRun(pair, PROMPT, on_device=True)
    assert run.stage.verifier is rules.verify_tokens and run.verifier is verify_block


@pytest.mark.parametrize(
    ("kind", "rule", "sampling"),
    [
        ("model", verify_block, CONTROLS[4]),
        ("model", verify_whole_block, CONTROLS[0]),
        ("ngram", verify_block, CONTROLS[1]),
        ("early-exit", verify_block, CONTROLS[3]),
        ("medusa", verify_block, CONTROLS[5]),
        ("eagle", verify_block, CONTROLS[2]),
    ],
)
def test_a_round_comes_to_the_host_in_one_copy_and_waits_for_nothing_else(kind, rule, sampling):
    """On a device that is not the CPU and counts: models, draws, judgement, record and rolling back."""
    here = llama_drafts(64, ids=tuple(range(2, 61)))
    there = move(llama_drafts(64, ids=tuple(range(2, 61))))
    settings = {"drafter": kind, "k": 3, "max_new_tokens": 7, "seed": 3, "sampling": sampling}
    host = DecodingRun(here, PROMPT, verifier=rule, **settings)
    with Elsewhere() as device:
        run = DecodingRun(there, PROMPT, verifier=rule, on_device=True, **settings)
        for expected in host:
            device.clear()
            assert same(timeless(run.step()), timeless(expected))
            assert device.down == 1 and device.waits == []
            # The uniforms, each model's tokens known here, and the ids of a penalty's prefixes or of bans.
            own = 2 * expected.k + 1 if sampling.repetition_penalty != 1.0 else 0
            bans = expected.k + 1 + expected.k if sampling.banned else 0
            if expected.number > 1:  # in its first pass a cache makes its layers
                assert device.up <= 5 + own + bans
                assert device.up == 3 or not expected.k or (kind, sampling) != ("model", CONTROLS[0])
    assert len(run.rounds) > 2 and run.finish == host.finish and run.tokens == host.tokens


@pytest.mark.parametrize(
    ("name", "where"),
    [("bias", "both"), ("all", "both"), ("grammar", "target")],
)
def test_constraints_go_up_and_no_row_comes_down(name, where):
    """Bans, bias, forced tokens and a least number of tokens cost nothing that is waited for. A grammar is
    followed on the host, so each drafted token comes over, alone."""
    controls = {"target": SamplingConfig(), "draft": SamplingConfig()}
    controls |= {model: CONSTRAINTS[name] for model in controls if where in (model, "both")}
    sampling, draft_sampling = controls.values()
    here, there = (llama_drafts(64, ids=(0, *range(2, 61)), eos=[60]) for _ in range(2))
    settings = {
        "k": 3,
        "max_new_tokens": 5,
        "seed": 3,
        "sampling": sampling,
        "draft_sampling": draft_sampling,
    }
    host = DecodingRun(here, PROMPT, **settings)
    move(there)
    with Elsewhere() as device:
        run = DecodingRun(there, PROMPT, on_device=True, **settings)
        for expected in host:
            device.clear()
            assert same(timeless(run.step()), timeless(expected))
            assert device.down == 1 + (expected.k if CONSTRAINTS[name].grammar else 0)
            assert device.waits == []
            # Plain rounds take 3; bias two and what is removed one for each of K + 1 passes.
            more = (len(controls) if where == "both" else 1) * (expected.k + 1) * 3
            assert expected.number == 1 or device.up <= 5 + expected.k + more
    assert run.finish == host.finish and run.tokens == host.tokens and len(run.rounds) > 1


@pytest.mark.parametrize(
    ("target", "draft", "state", "said"),
    [
        ("cpu", "cpu", "fine", "on the CPU"),
        ("cuda", "cuda:0", "fine", "one copy a round"),
        ("cuda:1", "cuda:1", "fine", "one copy a round"),
        ("cuda", "cpu", "handled", "two devices"),
        ("mps", "mps", "handled", "no float64"),
    ],
)
def test_the_report_on_a_pair_says_where_rows_are_judged(target, draft, state, said):
    from specviz.models.report import _rows
    from specviz.models.sources import Place

    line = _rows(*(Place(device, "float32", "") for device in (target, draft)))
    assert line.state == state and said in line.text


def test_the_counting_device_counts():
    with Elsewhere() as device:
        values = torch.arange(4.0).to(device.device)
        assert (device.up, device.down, device.waits) == (1, 0, [])
        values.cpu()
        values.double().to("cpu")
        assert device.down == 2
        float(values[0])
        bool(values.any())
        values.nonzero()
        _ = values[values > 1.0]
        assert len(device.waits) == 4
        for refused in (values.numpy, values.tolist, lambda: values + torch.ones(4)):
            with pytest.raises((RuntimeError, TypeError)):
                refused()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("kind", KINDS)
def test_on_cuda_a_round_waits_once(kind, monkeypatch):
    """CUDA itself says when something waits: every wait but that of the one copy is an error."""
    from specviz.decoding.device import record

    here = llama_drafts(64, ids=tuple(range(2, 61)))
    there = move(llama_drafts(64, ids=tuple(range(2, 61))), torch.device("cuda", 0))
    host = DecodingRun(here, PROMPT, drafter=kind, k=3, max_new_tokens=14, seed=3)
    run = DecodingRun(there, PROMPT, drafter=kind, k=3, max_new_tokens=14, seed=3)
    assert run.stage is not None
    brought = []

    def bring(columns):
        torch.cuda.set_sync_debug_mode("default")
        try:
            brought.append(len(columns))
            return plain(columns)
        finally:
            torch.cuda.set_sync_debug_mode("error")

    plain = record.bring
    monkeypatch.setattr(record, "bring", bring)
    run.step()  # what libraries do once may wait
    next(iter(host))
    try:
        torch.cuda.set_sync_debug_mode("error")
        for expected in host:
            made = run.step()
            assert made.committed == expected.committed and made.draft_seconds >= 0.0
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(brought) == len(run.rounds)
