"""The contract that every kind of drafter keeps, on tables and on the modules of real pairs."""

import copy
from itertools import product

import numpy as np
import pytest
import torch
from branching import enumerate_law
from drafts import KINDS, double_llama, llama_drafts, table_drafts
from tables import joint_law, total_variation
from transformers import AutoModelForCausalLM, Gemma2Config, GPT2Config, Qwen2Config

from specviz.decoding import cache as caches
from specviz.decoding.drafters import COPYING, DRAFTERS, DraftUnavailable, make_drafter
from specviz.decoding.randomness import ChosenDrafts, SeededRandomness, inverse_cdf
from specviz.decoding.run import DecodingRun, RunError
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.models import causal
from specviz.models.language_model import TransformersModel
from specviz.models.target_drafts import EarlyExit

PROMPT = (0, 1, 0, 2, 0, 1)  # has repeated n-grams, so that prompt lookup proposes


def make_run(pair, kind, **settings):
    return DecodingRun(pair, PROMPT, drafter=kind, **{"k": 3, "max_new_tokens": 24, "seed": 5, **settings})


def law_of(pair, kind, m, ks=(2,), prompt=PROMPT, **settings):
    """The exact law of m tokens; the draft lengths `ks` take turns."""

    def program(randomness):
        run = DecodingRun(pair, prompt, drafter=kind, max_new_tokens=m, randomness=randomness, **settings)
        while run.finish is None:
            run.k = ks[len(run.rounds) % len(ks)]
            run.step()
        return tuple(run.tokens[len(prompt) :])

    return enumerate_law(program)


def plain_law(pair, m, sampling=None, prompt=PROMPT):
    """The target's joint law of m tokens, by uncached passes."""
    law = {}
    for tokens in product(range(pair.vocab_size), repeat=m):
        text = [*prompt, *tokens]
        logits = pair.target.forward(text, pair.target.new_cache(), m + 1).logits[:m]
        prefixes = [text[: len(prompt) + i] for i in range(m)]
        rows = effective_probs(logits, prefixes, sampling or SamplingConfig()).probs
        law[tokens] = float(np.prod(rows[np.arange(m), list(tokens)]))
    return law


def test_every_kind_is_under_this_contract():
    assert set(KINDS) == set(DRAFTERS)


@pytest.mark.slow
@pytest.mark.parametrize("ks", [(0,), (1,), (2,), (3,), (2, 0), (0, 3, 1)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_law_is_the_targets_on_tables(kind, ks):
    vocab_size = 2 if 3 in ks else 3
    prompt = [token % vocab_size for token in PROMPT]
    pair = table_drafts(vocab_size)
    law = law_of(pair, kind, 4, ks, prompt)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert total_variation(law, joint_law(pair.target, prompt, 4)) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_is_the_targets_on_a_llama(kind):
    pair = llama_drafts()
    assert total_variation(law_of(pair, kind, 3), plain_law(pair, 3)) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_under_controls_that_differ_between_draft_and_target(kind):
    pair = table_drafts(3, seed=4)
    for target, draft in (
        (SamplingConfig(0.7, 2, 0.95, 0.05, 1.3), SamplingConfig(0.7, 2, 0.95, 0.05, 1.3)),
        (SamplingConfig(0.6, repetition_penalty=1.7), SamplingConfig()),
        (SamplingConfig(), SamplingConfig(0.0)),
        (SamplingConfig(), SamplingConfig(top_k=1, temperature=1.3)),
    ):
        law = law_of(pair, kind, 3, sampling=target, draft_sampling=draft)
        assert total_variation(law, plain_law(pair, 3, target)) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("make", [table_drafts, llama_drafts])
@pytest.mark.parametrize("kind", KINDS)
def test_a_trimmed_draft_vocabulary_keeps_the_law_and_shows(kind, make):
    trimmed = {"available": np.array([0, 2])} if make is table_drafts else {"ids": [0, 2]}
    pair = make(3, **trimmed)
    assert total_variation(law_of(pair, kind, 3), plain_law(pair, 3)) < 1e-12
    run = make_run(pair, kind)
    rounds = list(run)
    if kind in ("medusa", "eagle", "mtp"):
        row = next(position for r in rounds for position in r.positions[:-1])
        assert row.table.q[row.table.ids.index(1)] == 0.0
        assert row.table.draft_removed[row.table.ids.index(1)] == "vocabulary"


@pytest.mark.parametrize("make", [table_drafts, llama_drafts])
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_output_is_the_targets_greedy_output(kind, make):
    pair = make(5, seed=9)
    plain = list(PROMPT)
    for _ in range(16):
        logits = pair.target.forward(plain, pair.target.new_cache(), 1).logits
        plain.append(int(logits[0].argmax()))
    for k in range(1, 9):
        run = make_run(pair, kind, k=k, sampling=SamplingConfig(0.0), max_new_tokens=16)
        list(run)
        assert run.tokens == plain


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_proposes_and_is_accepted_and_rejected_somewhere(kind):
    """Else the tests above would say little."""
    rounds = list(make_run(table_drafts(3), kind, max_new_tokens=50))
    assert {r.outcome for r in rounds if r.k} == {"corrected", "bonus"}
    assert any(r.accepted for r in rounds)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k, limit", list(product([0, 1, 5], [1, 2, 17])))
def test_the_limit_is_met_exactly_with_any_draft_length(kind, k, limit):
    run = make_run(table_drafts(4), kind, k=k, max_new_tokens=limit)
    rounds = list(run)
    assert run.emitted == limit == sum(len(r.committed) for r in rounds)
    assert all(r.committed and r.k <= k for r in rounds)


@pytest.mark.parametrize("kind", KINDS)
def test_eos_a_stop_string_and_the_context_end_the_text(kind):
    free = make_run(table_drafts(4), kind, max_new_tokens=30)
    list(free)
    out = free.tokens[len(PROMPT) :]
    text = "".join("abcd"[t] for t in out)

    run = make_run(table_drafts(4, eos=[out[9]]), kind, max_new_tokens=30)
    list(run)
    emitted = run.tokens[len(PROMPT) :]
    assert run.finish == "eos" and emitted.index(out[9]) == len(emitted) - 1
    if kind not in (
        *COPYING,
        "parallel",
        "combined",
    ):  # what may be copied, and what stands for a gap, have changed
        assert emitted == out[: out.index(out[9]) + 1]

    run = make_run(table_drafts(4), kind, max_new_tokens=30, stop=[text[7:10]])
    list(run)
    assert run.finish == "stop" and run.tokens[len(PROMPT) :] == out[: text.index(text[7:10]) + 3]

    run = make_run(table_drafts(4, context_length=12), kind, max_new_tokens=30)
    rounds = list(run)
    assert run.finish == "context" and len(run.tokens) == 13
    steps = [step for r in rounds for step in (r.target_cache, r.draft_cache) if step]
    assert all(step.before + step.fed <= 12 for step in steps)


@pytest.mark.parametrize("make", [table_drafts, llama_drafts])
@pytest.mark.parametrize("kind", KINDS)
def test_cache_records_follow_on_from_each_other_and_agree_with_the_caches(kind, make):
    run = make_run(make(4), kind, max_new_tokens=30)
    kept = 0
    for round in run:
        assert round.target_cache.kept == caches.length(run.target_cache) == len(run.tokens) - 1
        if run.drafter.cache is None:
            assert round.draft_cache is None
            continue
        assert round.draft_cache.before == kept
        kept = round.draft_cache.kept
        assert kept == caches.length(run.drafter.cache) < len(run.tokens)


def test_the_eagle_cache_holds_the_targets_features_only():
    pair = table_drafts(4)
    run = make_run(pair, "eagle", max_new_tokens=40)
    full = 0
    for round in run:
        full += round.outcome == "bonus" and round.k > 0
        for i, (token, before) in enumerate(run.drafter.cache.layers[0].tokens):
            real = pair.target.feature(run.tokens[:i]) if i else pair.eagle.no_feature
            assert token == run.tokens[i]
            assert before == tuple(np.round(real, 9))
    assert full


@pytest.mark.parametrize("make", [table_drafts, llama_drafts])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_proposed_hangs_on_the_committed_text_alone(kind, make):
    """A fresh drafter that is shown the text, and the target's features of it, has the same q."""
    pair = make(4)
    run = make_run(pair, kind, max_new_tokens=40)
    compared = 0
    while run.finish is None:
        text = list(run.tokens)
        round = run.step()
        if not round.k:
            continue
        fresh = make_drafter(kind, pair, run.draft_sampling)
        shown = pair.target.forward(text, pair.target.new_cache(), 1, features=True).features
        fresh.observe(text, shown[:-1] if fresh.wants_features else None)
        drawn = ChosenDrafts(lambda row, weights, tokens=round.draft_tokens: tokens[row])
        again = fresh.propose(text, round.k, drawn)
        assert tuple(again.tokens) == round.draft_tokens
        np.testing.assert_allclose(again.probs, run.recent.draft_probs, atol=1e-6)
        compared += 1
    assert compared > 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_copied_run_goes_on_by_itself(kind):
    reference = make_run(table_drafts(4), kind)
    list(reference)
    run = make_run(table_drafts(4), kind)
    run.step()
    run.step()
    branch = copy.deepcopy(run)
    list(run)
    assert len(branch.rounds) == 2
    list(branch)
    assert run.tokens == branch.tokens == reference.tokens


@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_one_pair_do_not_disturb_each_other(kind):
    pair = llama_drafts(4)
    alone = [make_run(pair, kind, seed=seed) for seed in (1, 2)]
    for run in alone:
        list(run)
    turns = [make_run(pair, kind, seed=seed) for seed in (1, 2)]
    while any(run.finish is None for run in turns):
        for run in turns:
            if run.finish is None:
                run.step()
    assert [run.tokens for run in turns] == [run.tokens for run in alone]


@pytest.mark.parametrize("make", [table_drafts, llama_drafts])
@pytest.mark.parametrize("kind", KINDS)
def test_a_drawn_token_is_the_one_its_uniform_selects_from_the_reported_q(kind, make):
    run = make_run(make(5), kind)
    seen = 0
    while run.finish is None:
        round = run.step()
        for i, position in enumerate(round.positions[:-1]):
            q = run.recent.draft_probs[i]
            assert q.sum() == pytest.approx(1.0, abs=1e-9)
            u = SeededRandomness(run.seed).round(round.number).draft_u(i)
            assert position.token == (int(q.argmax()) if q.max() == 1.0 else inverse_cdf(q, u))
            seen += 1
    assert seen


PARTS = {
    "model": "draft",
    "parallel": "draft",
    "combined": "draft",
    "early-exit": "early exit",
    "medusa": "medusa",
    "eagle": "eagle",
    "mtp": "mtp",
}


class _Fails:
    """A part of a pair whose n-th pass is interrupted after it has written to the cache."""

    def __init__(self, inner, at):
        self._inner, self._left = inner, at

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def forward(self, *args, **kwargs):
        output = self._inner.forward(*args, **kwargs)
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt
        return output


@pytest.mark.parametrize("at", [1, 2, 4, 7])
@pytest.mark.parametrize("where", ["target", "draft"])
@pytest.mark.parametrize("make", [table_drafts, llama_drafts])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_step_has_not_happened_and_can_be_repeated(kind, make, where, at):
    reference = make_run(make(4), kind)
    list(reference)
    pair = make(4)
    if where == "target":
        pair.target = _Fails(pair.target, at)
    elif kind in COPYING:
        return
    elif kind == "early-exit":
        whole = pair.early_exit(None)
        pair._exit_early = lambda layers: _Fails(whole, at)
    else:
        setattr(pair, PARTS[kind], _Fails(getattr(pair, PARTS[kind]), at))
    run = make_run(pair, kind)
    with pytest.raises(KeyboardInterrupt):
        list(run)
    assert caches.length(run.target_cache) <= len(run.tokens) - 1
    if run.drafter.cache is not None:
        assert caches.length(run.drafter.cache) <= len(run.tokens) - 1
    list(run)
    assert run.tokens == reference.tokens
    assert [r.draft_tokens for r in run.rounds] == [r.draft_tokens for r in reference.rounds]


@pytest.mark.parametrize("kind", ["medusa", "eagle", "mtp"])
def test_a_broken_draft_stops_the_run_with_its_name(kind):
    pair = table_drafts(4)
    part = getattr(pair, kind)
    whole = part.forward

    def broken(*args):
        output = whole(*args)
        logits = output if kind == "medusa" else output.logits
        logits[-1, 0] = np.nan
        return output

    part.forward = broken
    name = part.info().name
    with pytest.raises(RunError, match=rf"draft {name}, round 2, position \d: the logits contain nan"):
        list(make_run(pair, kind))


@pytest.mark.parametrize("kind", ["model", "parallel", "medusa", "eagle", "mtp", "combined"])
def test_a_kind_that_the_pair_lacks_is_refused_with_a_way_out(kind):
    pair = table_drafts(4)
    setattr(pair, PARTS[kind], None)
    with pytest.raises(DraftUnavailable, match="another drafter"):
        make_run(pair, kind)


def test_the_trace_names_the_model_that_drafted():
    pair = table_drafts(4)
    for kind, name in (
        ("model", "draft"),
        ("early-exit", "first layers"),
        ("medusa", "heads"),
        ("eagle", "eagle"),
        ("parallel", "draft"),
        ("combined", "draft"),
        ("mtp", "eagle"),
    ):
        assert make_run(pair, kind).trace().pair.draft.name == name
    for kind in COPYING:
        assert make_run(pair, kind).trace().pair.draft is None


class TestSettings:
    def test_they_follow_the_kind_and_stay_in_its_name(self):
        pair = table_drafts(4)
        ngram = make_drafter("ngram:2-5", pair, SamplingConfig())
        assert (ngram.smallest, ngram.largest, ngram.kind) == (2, 5, "ngram:2-5")
        assert make_drafter("ngram:1-4", pair, SamplingConfig()).kind == "ngram"
        early = make_drafter("early-exit:1", llama_drafts(4), SamplingConfig())
        assert early.kind == "early-exit:1" and early.info.layers == 1

    @pytest.mark.parametrize(
        "kind",
        [
            "ngram:2",
            "ngram:x-y",
            "suffix:x",
            "combined:x",
            "combined:combined",
            "early-exit:all",
            "model:3",
            "eagle:",
            "oracle",
        ],
    )
    def test_others_are_refused(self, kind):
        with pytest.raises(ValueError, match=r"not understood|unknown drafter"):
            make_drafter(kind, table_drafts(4), SamplingConfig())

    @pytest.mark.parametrize("layers", [0, 3, -1])
    def test_an_exit_that_is_none_is_refused(self, layers):
        with pytest.raises(ValueError, match=r"3 layers: exit after 1 … 2"):
            EarlyExit(TransformersModel(double_llama(4, 1), "target", 4), layers)


class TestEarlyExit:
    @pytest.fixture
    def target(self):
        return TransformersModel(double_llama(6, 1), "target", 6)

    def test_it_is_the_first_layers_the_norm_and_the_head(self, target):
        tokens = list(PROMPT)
        for layers in (1, 2):
            states = target.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states[layers]
            expected = target.model.lm_head(target.model.model.norm(states))[0].detach().numpy()
            early = EarlyExit(target, layers)
            np.testing.assert_allclose(
                early.forward(tokens, early.new_cache(), 6).logits, expected, atol=1e-6
            )

    @pytest.mark.parametrize("config", [GPT2Config, Qwen2Config, Gemma2Config])
    def test_other_architectures_are_cut_alike(self, config):
        shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2}
        sizes = {**shape, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 6, "pad_token_id": None}
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model = AutoModelForCausalLM.from_config(config(**sizes)).double().eval()
        target = TransformersModel(model, "target", 6)
        early = EarlyExit(target, 2)
        seen = model(torch.tensor([list(PROMPT)]), output_hidden_states=True).hidden_states[2]
        norm = getattr(model.base_model, "norm", None) or model.base_model.ln_f
        expected = model.get_output_embeddings()(norm(seen))[0].detach().numpy()
        if cap := getattr(model.config, "final_logit_softcapping", None):
            expected = cap * np.tanh(expected / cap)
        cache = early.new_cache()
        early.forward(PROMPT[:4], cache, 1)
        np.testing.assert_allclose(early.forward(PROMPT[4:], cache, 2).logits, expected[4:], atol=1e-6)

    def test_its_weights_are_the_targets_own(self, target):
        own = {weight.data_ptr() for weight in target.model.parameters()}
        assert all(weight.data_ptr() in own for weight in EarlyExit(target, 2).model.parameters())

    @pytest.mark.parametrize("fails", [False, True])
    def test_the_target_and_its_config_stay_as_they_were(self, target, fails, monkeypatch):
        config = copy.deepcopy(target.model.config.to_dict())
        modules = [(name, id(module)) for name, module in target.model.named_modules()]
        weights = {name: weight.clone() for name, weight in target.model.state_dict().items()}
        training = [module.training for module in target.model.modules()]
        before = target.forward(list(PROMPT), target.new_cache(), 6).logits
        if fails:
            monkeypatch.setattr(causal, "shortened", lambda *args: 1 / 0)
            with pytest.raises(ValueError, match="cannot end after 2"):
                EarlyExit(target, 2)
        else:
            early = EarlyExit(target, 2)
            early.forward(list(PROMPT), early.new_cache(), 1)
            with pytest.raises(ValueError, match="cannot be fed token id 99"):
                early.forward([99], early.new_cache(), 1)
        assert target.model.config.to_dict() == config
        assert [(name, id(module)) for name, module in target.model.named_modules()] == modules
        assert [module.training for module in target.model.modules()] == training
        assert all(torch.equal(weights[n], w) for n, w in target.model.state_dict().items())
        np.testing.assert_array_equal(target.forward(list(PROMPT), target.new_cache(), 6).logits, before)


@pytest.mark.slow
@pytest.mark.pair
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mtp"])  # it brings no such module
def test_every_kind_drafts_for_the_built_in_target(kind, built_in_pair):
    """Greedy: the text is the target's own, draft tokens are accepted, and the trace names the draft."""
    prompt = "List five tips for a better night's sleep."
    settings = {"k": 4, "sampling": SamplingConfig(0.0), "max_new_tokens": 32, "chat": True}
    run = DecodingRun(built_in_pair, prompt, drafter=kind, **settings)
    rounds = list(run)
    assert sum(round.accepted for round in rounds) > 0
    target = built_in_pair.target
    logits = target.forward(run.tokens, target.new_cache(), len(run.tokens)).logits
    for i in range(len(run.prompt_ids), len(run.tokens)):
        row = logits[i - 1]
        assert row[run.tokens[i]] > row.max() - target.tolerance
    assert run.trace().drafter == kind
