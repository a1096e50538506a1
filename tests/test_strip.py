"""β along a text: compared with uncached passes, with the drafters' own proposals and with random walks."""

from math import isnan

import numpy as np
import pytest
from drafts import KINDS, llama_drafts, table_drafts
from tables import TableModel, TablePair

from specviz import overlap as strips
from specviz.decoding.drafters import make_drafter
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.overlap import LONGEST, Measurement, Strip, formula_tokens, leading, walk_tokens

TEXT = [0, 1, 2, 0, 1, 1, 2, 0, 1, 2, 2, 0, 1, 0, 2, 1, 2, 0, 1, 2, 0]
CONTROLS = SamplingConfig(temperature=0.8, top_k=3, repetition_penalty=1.2)


def measure(pair, tokens=TEXT, **kwargs):
    work = Measurement(pair, tokens, **kwargs)
    while not work.done:
        work.advance()
    return work.result()


def by_kind(measured):
    return {strip.kind: strip for strip in measured.strips}


def law(model, prefix, sampling):
    """The effective law after `prefix`, by an uncached pass."""
    logits = model.forward(list(prefix), model.new_cache(), 1).logits
    return effective_probs(logits, [prefix], sampling, model.available).probs[0]


class Whole(TablePair):
    """A target that cannot be cut, so that it has no early exit."""

    def early_exit(self, layers):
        raise ValueError("one layer cannot be cut")


class Text:
    """Randomness that drafts the text."""

    def __init__(self, following):
        self.following = following

    def draft(self, row, weights):
        return self.following[row]


def proposal(kind, pair, prefix, following, k, sampling):
    """What a fresh drafter would draft after `prefix`, led along `following`."""
    drafter = make_drafter(kind, pair, sampling)
    features = None
    if drafter.wants_features:
        output = pair.target.forward(list(prefix), pair.target.new_cache(), 1, True)
        features = output.features[: len(prefix) - 1]
    drafter.observe(list(prefix), features)
    return drafter.propose(list(prefix), min(k, len(following)), Text(following))


@pytest.mark.parametrize("make", [table_drafts, llama_drafts])
@pytest.mark.parametrize("sampling", [SamplingConfig(), CONTROLS, SamplingConfig(temperature=0.0)])
def test_language_models_and_first_drafts_are_those_of_uncached_passes(make, sampling):
    pair = make(6)
    found = by_kind(measure(pair, sampling=sampling))
    assert list(found) == list(KINDS)
    models = {"model": pair.draft, "early-exit": pair.early_exit(None)}
    for i in range(1, len(TEXT)):
        p = law(pair.target, TEXT[:i], sampling)
        for kind, model in models.items():
            direct = np.minimum(p, law(model, TEXT[:i], sampling)).sum()
            assert found[kind].first[i - 1] == pytest.approx(direct, abs=1e-6)
        for kind in ("ngram", "medusa", "eagle"):
            rows = proposal(kind, pair, TEXT[:i], TEXT[i:], 1, sampling).probs
            if len(rows):
                assert found[kind].first[i - 1] == pytest.approx(np.minimum(p, rows[0]).sum(), abs=1e-6)
            else:
                assert isnan(found[kind].first[i - 1])


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_further_tokens_of_a_block_have_the_laws_of_a_block_led_along_the_text(kind):
    pair = llama_drafts(6)
    found = by_kind(measure(pair))[kind]
    assert len(found.beta) == (3 if kind == "medusa" else strips.DEPTH)
    for i in range(2, len(TEXT)):
        for depth, q in enumerate(proposal(kind, pair, TEXT[:i], TEXT[i:], 4, SamplingConfig()).probs):
            p = law(pair.target, TEXT[: i + depth], SamplingConfig())
            direct = np.minimum(p, q).sum()
            assert found.beta[depth][i + depth - 1] == pytest.approx(direct, abs=1e-6)


def test_prompt_lookup_has_the_targets_probability_of_what_it_would_copy():
    pair = table_drafts(3)
    found = by_kind(measure(pair))["ngram"]
    proposed = 0
    for i in range(1, len(TEXT)):
        tokens = make_drafter("ngram", pair, SamplingConfig()).propose(TEXT[:i], 1, None).tokens
        if tokens:
            proposed += 1
            assert found.first[i - 1] == pytest.approx(pair.target.probs(TEXT[:i])[tokens[0]])
            assert found.leading[i - 1] == ((tokens[0], 1.0),)
        else:
            assert isnan(found.first[i - 1]) and found.leading[i - 1] == ()
    assert 0 < proposed < len(TEXT) - 1
    assert found.coverage == pytest.approx(proposed / (len(TEXT) - 1))


@pytest.mark.parametrize("first", [2, 5, 18])
def test_context_is_read_and_not_measured(first):
    pair = llama_drafts(4)
    whole, part = measure(pair), measure(pair, first=first)
    assert part.first == first and len(part.leading) == len(TEXT) - first
    for a, b in zip(whole.strips, part.strips, strict=True):
        np.testing.assert_allclose(a.first[first - 1 :], b.first, atol=1e-6)


def test_chunks_do_not_matter(monkeypatch):
    whole = measure(llama_drafts(4))
    monkeypatch.setattr(strips, "CHUNK", 3)
    work = Measurement(llama_drafts(4), TEXT)
    work.advance()
    assert len(work.result().strips[0].first) == 3 and not work.done
    assert work.result().tokens == tuple(TEXT[:4])
    while not work.done:
        work.advance()
    for a, b in zip(whole.strips, work.result().strips, strict=True):
        np.testing.assert_allclose(a.beta, b.beta, atol=1e-6)
    assert work.result().leading[0][0][0] == whole.leading[0][0][0]


def test_a_trimmed_vocabulary_leaves_mass_outside():
    ids = [0, 2, 3]
    pair = llama_drafts(5, ids=ids)
    found = by_kind(measure(pair))
    for i in range(1, len(TEXT)):
        p = law(pair.target, TEXT[:i], SamplingConfig())
        outside = p.sum() - p[ids].sum()
        for kind in ("medusa", "eagle"):
            assert found[kind].outside[i - 1] == pytest.approx(outside, abs=1e-6)
            assert not found[kind].first[i - 1] > 1.0 - outside + 1e-9
            assert {token for token, _ in found[kind].leading[i - 1]} <= set(ids)
    assert not found["model"].outside.any()


def test_a_draft_that_is_the_target_agrees_everywhere():
    target = TableModel(5, salt=3)
    measured = measure(Whole(target, target))
    strip, lookup, suffix, parallel, _ = measured.strips
    np.testing.assert_allclose(strip.first, 1.0)
    assert measured.agreement(strip) == 1.0
    assert max(measured.agreement(other) for other in (lookup, suffix)) < 1.0
    np.testing.assert_allclose(parallel.first, 1.0)
    assert parallel.mean(1) < 1.0  # behind a gap it is another model
    assert walk_tokens(strip, 4) == pytest.approx(5.0)
    assert formula_tokens(strip, 4) == pytest.approx(5.0)
    assert set(measured.missing) == {"early-exit", "medusa", "eagle", "mtp"}
    assert all(measured.missing.values())


def test_a_text_is_cut_to_what_fits():
    tokens = [i % 3 for i in range(LONGEST + 50)]
    assert Measurement(Whole(TableModel(context_length=9999)), tokens).total == LONGEST - 1
    assert Measurement(Whole(TableModel(context_length=40)), tokens).total == 39
    for tokens, first in (([0], 1), ([0, 1, 2], 3), ([0, 1], 0)):
        with pytest.raises(ValueError, match="nothing to measure"):
            Measurement(table_drafts(3), tokens, first=first)


def test_leading_tokens_come_in_order_and_without_zeros():
    assert leading(np.array([0.1, 0.4, 0.1, 0.4, 0.0]), 3) == ((1, 0.4), (3, 0.4), (0, 0.1))
    assert leading(np.array([0.0, 1.0, 0.0]), 3) == ((1, 1.0),)


def made(beta, endless=True):
    beta = np.atleast_2d(np.array(beta, dtype=float))
    n = beta.shape[1]
    return Strip("made", beta, endless, ((),) * n, np.zeros(n))


def test_where_all_positions_are_alike_the_walk_is_the_formula():
    for alpha, k, expected in ((0.7, 1, 1.7), (0.7, 4, 2.7731), (0.7, 8, 3.19882), (0.0, 3, 1.0)):
        strip = made([alpha] * 30)
        assert walk_tokens(strip, k) == pytest.approx(expected, abs=1e-4)
        assert formula_tokens(strip, k) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize("endless", [True, False])
def test_the_walk_is_the_mean_of_random_walks(k, endless):
    rng = np.random.default_rng(4)
    beta = rng.random((2, 40))
    beta[0][[3, 17, 18]] = np.nan
    strip = made(beta, endless)
    rounds = tokens = 0
    for _ in range(6000):
        start = 0
        while start <= 40 - k:
            length = 0
            while length < (k if endless else min(k, 2)):
                b = beta[min(length, 1)][start + length]
                if isnan(b) or rng.random() >= b:
                    break
                length += 1
            rounds += 1
            tokens += length + 1
            start += length + 1
    assert walk_tokens(strip, k) == pytest.approx(tokens / rounds, abs=0.015)


def test_a_walk_needs_k_positions():
    assert walk_tokens(made([0.5] * 3), 4) is None
    assert walk_tokens(made([0.5] * 4), 4) == pytest.approx(formula_tokens(made([0.5] * 4), 4))


def test_no_proposal_counts_as_nothing_accepted():
    strip = made([0.8, np.nan, 0.4, np.nan])
    assert strip.mean() == pytest.approx(0.3)
    assert strip.coverage == 0.5
    assert formula_tokens(strip, 1) == pytest.approx(1.3)


@pytest.mark.slow
@pytest.mark.pair
def test_the_built_in_target_has_a_strip_for_every_drafter(built_in_pair):
    tokens = built_in_pair.encode("The capital of France is Paris, and the", False)
    found = by_kind(measure(built_in_pair, tokens, first=2))
    assert set(found) == set(KINDS) - {"mtp"}  # a module that this target does not bring along
    p = law(built_in_pair.target, tokens[:-1], SamplingConfig())
    q = law(built_in_pair.draft, tokens[:-1], SamplingConfig())
    assert found["model"].first[-1] == pytest.approx(np.minimum(p, q).sum(), abs=1e-4)
    for kind in ("model", "medusa", "eagle"):
        assert 0.0 < found[kind].outside.mean() < 1.0
    assert not found["early-exit"].outside.any()
