"""Effective distributions: the controls, their order, and refusals."""

import numpy as np
import pytest

from specviz.decoding.sampling import REMOVED, NonFiniteLogits, SamplingConfig, effective_probs

LOGITS = np.array([[2.0, 1.0, 0.0, -1.0]])


def probs(sampling, logits=LOGITS, prefix=(), **kwargs):
    return effective_probs(logits, [prefix] * len(logits), sampling, **kwargs).probs


def softmax(z):
    e = np.exp(np.asarray(z, dtype=np.float64) - np.max(z))
    return e / e.sum()


def test_the_defaults_are_the_models_own_distribution():
    assert probs(SamplingConfig())[0] == pytest.approx(softmax(LOGITS[0]), abs=1e-15)


def test_normalisation_is_float64_whatever_the_logits_are():
    logits = np.random.default_rng(0).normal(0, 5, (3, 50_000)).astype(np.float32)
    result = effective_probs(logits, [()] * 3, SamplingConfig())
    assert result.probs.dtype == np.float64
    assert np.abs(result.probs.sum(axis=1) - 1).max() < 1e-12
    chosen = np.exp(logits[:, 7].astype(np.float64) - result.logsumexp)
    assert chosen == pytest.approx(result.probs[:, 7], rel=1e-12)


def test_temperature_divides_the_logits():
    assert probs(SamplingConfig(temperature=0.5))[0] == pytest.approx(softmax(2 * LOGITS[0]))


def test_temperature_zero_is_one_hot_with_the_lowest_id_on_ties():
    logits = np.array([[1.0, 3.0, 3.0], [0.0, 0.0, 0.0]])
    assert probs(SamplingConfig(temperature=0.0), logits).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_filters_say_what_they_removed():
    result = effective_probs(LOGITS, [()], SamplingConfig(top_k=3, min_p=0.2, banned=(0,)))
    reasons = [REMOVED[code] for code in result.removed[0]]
    # banned leaves 1, 2, 3; top-k 3 keeps them (and would drop the banned one); min-p drops the last
    assert reasons == ["banned", "", "", "min-p"]
    assert result.probs[0] == pytest.approx([0, *softmax([1.0, 0.0]), 0])


def test_top_k_top_p_and_min_p():
    p = softmax(LOGITS[0])
    assert probs(SamplingConfig(top_k=2))[0] == pytest.approx([*softmax([2.0, 1.0]), 0, 0])
    assert p[0] < 0.8 < p[0] + p[1]
    assert probs(SamplingConfig(top_p=0.8))[0] == pytest.approx([*softmax([2.0, 1.0]), 0, 0])
    assert p[2] < 0.2 * p[0] < p[1]
    assert probs(SamplingConfig(min_p=0.2))[0] == pytest.approx([*softmax([2.0, 1.0]), 0, 0])


def test_the_penalty_depends_on_each_rows_own_prefix():
    logits = np.tile(LOGITS, (3, 1))
    result = effective_probs(logits, [(3,), (3, 0), (3, 0, 1)], SamplingConfig(repetition_penalty=2.0))
    expected = [[2, 1, 0, -2], [1, 1, 0, -2], [1, 0.5, 0, -2]]
    for row, scores in zip(result.probs, expected, strict=True):
        assert row == pytest.approx(softmax(scores))


def test_the_penalty_moves_the_greedy_choice():
    assert probs(SamplingConfig(0.0, repetition_penalty=3.0), prefix=(0,)).argmax() == 1


def test_tokens_outside_the_vocabulary_have_no_probability():
    logits = np.array([[9.0, 1.0, np.nan, 0.0]])  # what is not available is not looked at
    available = np.array([1, 3])
    result = effective_probs(logits, [()], SamplingConfig(), available)
    assert result.probs[0] == pytest.approx([0, *softmax([1.0, 0.0])[:1], 0, softmax([1.0, 0.0])[1]])
    assert [REMOVED[c] for c in result.removed[0]] == ["vocabulary", "", "vocabulary", ""]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_refused_with_their_row(bad):
    logits = np.tile(LOGITS, (3, 1))
    logits[2, 1] = bad
    with pytest.raises(NonFiniteLogits) as caught:
        probs(SamplingConfig(), logits)
    assert caught.value.row == 2


def test_banning_everything_is_refused():
    with pytest.raises(ValueError, match="controls leave no token"):
        probs(SamplingConfig(banned=(0, 1, 2, 3)))


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"min_p": 1.5},
        {"repetition_penalty": 0.0},
        {"banned": (-1,)},
    ],
)
def test_controls_out_of_range_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        SamplingConfig(**settings)


def test_the_controls_agree_with_generates_own_chain():
    """transformers' processors in the order `generate` builds them."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        )
    )
    config = GenerationConfig(
        do_sample=True, temperature=0.8, top_k=12, top_p=0.9, min_p=0.05, repetition_penalty=1.3
    )
    chain = model._get_logits_processor(config, device="cpu")
    logits = torch.from_numpy(np.random.default_rng(1).normal(0, 2, (1, 60)))
    prefix = [5, 9, 9, 30]
    theirs = torch.softmax(chain(torch.tensor([prefix]), logits.clone()), -1)[0].numpy()
    ours = probs(SamplingConfig(0.8, 12, 0.9, 0.05, 1.3), logits.numpy(), prefix)[0]
    assert ours == pytest.approx(theirs, abs=1e-12)
    assert 0 < (ours > 0).sum() < 13


def hf_filtered(scores, sampling):
    """The same filters by transformers' warpers."""
    import torch
    from transformers.generation import logits_process as hf

    tensor = torch.from_numpy(scores.astype(np.float64))
    if sampling.temperature != 1.0:
        tensor = hf.TemperatureLogitsWarper(sampling.temperature)(None, tensor)
    if sampling.top_k:
        tensor = hf.TopKLogitsWarper(sampling.top_k)(None, tensor)
    if sampling.top_p < 1.0:
        tensor = hf.TopPLogitsWarper(sampling.top_p)(None, tensor)
    if sampling.min_p:
        tensor = hf.MinPLogitsWarper(sampling.min_p)(None, tensor)
    return torch.softmax(tensor, -1).numpy()


FILTERS = [
    SamplingConfig(0.7, top_p=0.9),
    SamplingConfig(1.0, top_p=0.05),
    SamplingConfig(2.0, top_p=0.999),
    SamplingConfig(1.3, top_p=0.9999999),
    SamplingConfig(0.8, top_k=50),
    SamplingConfig(1.0, top_k=1),
    SamplingConfig(1.0, top_k=10**6),
    SamplingConfig(1.0, min_p=0.05),
    SamplingConfig(0.9, top_k=200, top_p=0.8),
    SamplingConfig(0.9, top_k=200, top_p=0.95, min_p=0.02),
]


@pytest.mark.parametrize("sampling", FILTERS, ids=str)
@pytest.mark.parametrize(
    "vocab_size, spread", [(5, 1.0), (3000, 0.1), (30_000, 0.0), (30_000, 0.5), (30_000, 3.0)]
)
def test_filters_keep_what_transformers_keeps_without_sorting_the_vocabulary(sampling, vocab_size, spread):
    """Peaked, flat and quite level rows: the usual border, the sure one, and none."""
    logits = np.random.default_rng(vocab_size).normal(0.0, spread, (2, vocab_size)).astype(np.float32)
    found = effective_probs(logits, [[], []], sampling)
    wanted = hf_filtered(logits, sampling)
    if spread:
        assert ((found.probs > 0) == (wanted > 0)).all()
        np.testing.assert_allclose(found.probs, wanted, rtol=1e-9, atol=0.0)
    else:  # rounding decides about the last of equal tokens, and the order they were sorted in about which
        assert (np.abs((found.probs > 0).sum(axis=1) - (wanted > 0).sum(axis=1)) <= 1).all()
    assert (found.removed > 0).sum() == (found.probs == 0).sum()


def test_logits_that_are_equal_at_the_border_of_top_k_are_all_kept():
    logits = np.array([[3.0, 2.0, 2.0, 2.0, 1.0] + [0.0] * 500], dtype=np.float32)
    assert (effective_probs(logits, [[]], SamplingConfig(top_k=2)).probs > 0).sum() == 4


def test_what_was_banned_is_not_said_to_be_filtered():
    logits = np.random.default_rng(1).normal(0.0, 2.0, (1, 300)).astype(np.float32)
    banned = (int(logits.argmax()), 7)
    for sampling in (SamplingConfig(top_p=0.5, banned=banned), SamplingConfig(top_k=299, banned=banned)):
        found = effective_probs(logits, [[]], sampling)
        assert [REMOVED[c] for c in found.removed[0, list(banned)]] == ["banned"] * 2
        assert found.probs[0, list(banned)].sum() == 0.0 and found.probs.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "sampling", [*FILTERS, SamplingConfig(0.7, banned=(1, 2)), SamplingConfig(repetition_penalty=1.3)]
)
def test_logarithms_are_those_of_the_probabilities(sampling):
    logits = np.random.default_rng(3).normal(0.0, 3.0, (2, 4000)).astype(np.float32)
    found = effective_probs(logits, [[1], [1, 2]], sampling, np.arange(3990))
    held = found.probs > 0
    np.testing.assert_allclose(found.log_probs[held], np.log(found.probs[held]), rtol=1e-12, atol=1e-12)
    assert np.isfinite(found.log_probs).all()
