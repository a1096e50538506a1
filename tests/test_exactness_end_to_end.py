"""Whole continuations through the engine: exact with a correct one, caught with a faulty one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tables import TableModel, TablePair, joint_law, table_pair
from tiny import tiny_pair

from specviz.decoding import cache as caches
from specviz.decoding.faults import FAULTS
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.exactness import remembered
from specviz.exactness.continuations import Control, EndToEnd
from specviz.exactness.remembered import LookupPair, NotLookedUp, RememberingModel

PROMPT = (0, 1, 0)


def worked(n=2000, pair=None, prompt=PROMPT, **settings):
    test = EndToEnd(pair or table_pair(4, seed=5), prompt, **{"k": 2, "length": 3, **settings})
    test.advance(n)
    return test


@pytest.mark.parametrize("drafter", ["model", "ngram"])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_correct_engine_agrees_with_the_joint_law(drafter, length):
    test = worked(1000, length=length, drafter=drafter)
    test.recheck(10)
    check = test.check()
    assert check.ok and check.agrees and not check.too_few and not check.impossible
    assert check.continuations == 1000 and len(check.controls) == 10 and check.controls_agree
    assert "agrees with" in check.sentence and "10 of 10" in check.sentence
    assert check.rows_looked_up > check.rows_computed


def test_the_bars_are_the_exact_joint_law():
    pair = table_pair(4, seed=5)
    check = worked(pair=pair).check(shown=20)
    law = joint_law(pair.target, PROMPT, 3)
    assert len(check.bars) == 21
    for bar in check.bars[:-1]:
        assert bar.law == pytest.approx(law[bar.tokens], abs=1e-12)
    assert [b.law for b in check.bars[:-1]] == sorted(law.values(), reverse=True)[:20]
    for column in ("law", "share", "plain"):
        assert sum(getattr(b, column) for b in check.bars) == pytest.approx(1.0)
    assert sum(b.inside for b in check.bars) >= 17
    assert check.test.bins > sum(mass >= 1 / 400 for mass in law.values())  # and for beginnings


@pytest.mark.parametrize("smallest", [0.001, 0.02, 0.1, 0.9])
@pytest.mark.parametrize("eos", [[], [2]])
def test_cells_are_a_partition_with_the_right_masses(smallest, eos):
    pair = table_pair(4, seed=5, eos=eos)
    test = EndToEnd(pair, PROMPT, length=3)
    cells = test._law.cells(smallest)
    exact = {}
    for tokens, mass in joint_law(pair.target, PROMPT, 3).items():
        end = next((i + 1 for i, t in enumerate(tokens) if t in eos), 3)
        exact[tokens[:end]] = exact.get(tokens[:end], 0.0) + mass
    summed = dict.fromkeys(cells.masses, 0.0)
    for tokens, mass in exact.items():
        summed[cells.of(tokens)] += mass
        assert test._law.probability(tokens) == pytest.approx(mass)
        assert (tokens in cells.whole) == (mass >= smallest)
    assert summed == pytest.approx(cells.masses, abs=1e-12)
    sampled = test._law.sample(cells, 50_000, np.random.default_rng(1))
    assert sum(sampled.values()) == 50_000
    for cell, mass in summed.items():
        assert sampled[cell] / 50_000 == pytest.approx(mass, abs=0.01)


def test_beginnings_are_tested_where_whole_continuations_are_rare():
    pair = TablePair(TableModel(40, salt=1), TableModel(40, salt=2))
    check = worked(200, pair=pair).check()
    assert check.bars[-1].tokens is None and check.bars[-1].law > 0.8  # hardly any is likely
    assert check.test.degrees > 5 and check.ok
    assert not worked(200, pair=pair, fault=FAULTS["always-accept"]).check().ok


def test_what_is_seen_is_weighed_by_teacher_forcing():
    pair = table_pair(4, seed=5)
    test = worked(50, pair=pair)
    law = joint_law(pair.target, PROMPT, 3)
    assert test.check().seen_mass == pytest.approx(sum(law[t] for t in set(test._outcomes)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampling, draft",
    [
        (SamplingConfig(0.7), None),
        (SamplingConfig(1.0, top_k=2), SamplingConfig(1.5)),
        (SamplingConfig(0.8, repetition_penalty=1.7), None),
    ],
)
def test_the_controls_are_the_targets(sampling, draft):
    test = worked(1500, sampling=sampling, draft_sampling=draft)
    test.recheck(20)
    assert test.check().ok


CAUGHT = [
    "correction-from-p",
    "always-accept",
    "no-stop",
    "row-shifted",
    "argmax-draft",
    "one-stream",
    "target-cache-cut-too-far",
    "target-cache-keeps-rejected",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUGHT)
def test_faults_over_whole_continuations_are_caught(name):
    test = worked(3000, length=4, k=3, fault=FAULTS[name])
    test.recheck(20)
    check = test.check()
    assert not check.agrees and check.plain_test.p_value < 1e-4 and not check.ok
    assert check.controls_agree  # the fault is in the engine, not in the look-ups
    assert "contradicts" in check.sentence


@pytest.mark.slow
@pytest.mark.parametrize("name", ["accept-on-match", "draft-cache-hole", "draft-cache-cut-too-far"])
def test_exact_and_draft_side_variations_stay_green(name):
    test = worked(1500, length=4, k=3, fault=FAULTS[name])
    test.recheck(20)
    assert test.check().ok
    honest = worked(1500, length=4, k=3)
    if name == "accept-on-match":
        assert test.accepted / test.drafted < honest.accepted / honest.drafted - 0.1


def test_filters_that_the_target_ignores_are_impossible_texts():
    sampling = SamplingConfig(top_k=2)
    test = worked(400, sampling=sampling, fault=FAULTS["target-unfiltered"])
    check = test.check()
    assert check.impossible > 10 and not check.ok and "never writes" in check.sentence


def test_texts_end_at_eos_and_running_past_it_is_caught():
    pair = table_pair(4, seed=5, eos=[2])
    check = worked(1500, pair=pair).check(shown=10)
    assert check.ok
    assert any(len(b.tokens) < 3 and b.tokens[-1] == 2 for b in check.bars[:-1])
    past = worked(1500, pair=pair, fault=FAULTS["eos-ignored"]).check()
    assert past.impossible > 10 and not past.ok


@pytest.mark.slow
def test_p_values_are_uniform():
    """The continuations of 2,000 seeds in 40 groups of 50."""
    pair = TablePair(TableModel(3, salt=1), TableModel(3, salt=2))
    p_values = [worked(150, pair=pair, length=2, seed=150 * i).check().test.p_value for i in range(40)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.05


def test_advancing_in_parts_changes_nothing():
    whole, parts = worked(130), worked(1)
    for n in (60, 0, 69):
        parts.advance(n)
    # Only how often rows were looked up depends on which runs wait together.
    assert replace(whole.check(), rows_looked_up=0) == replace(parts.check(), rows_looked_up=0)
    assert parts.done == 130


def test_the_seed_of_a_continuation_repeats_it():
    pair = table_pair(4, seed=5)
    test = worked(30, pair=pair, seed=100)
    for i, tokens in enumerate(test._outcomes):
        run = DecodingRun(pair, PROMPT, k=2, max_new_tokens=3, seed=100 + i)
        list(run)
        assert tuple(run.tokens[len(PROMPT) :]) == tokens


def test_wrong_look_ups_show_in_the_controls():
    test = EndToEnd(table_pair(4, seed=5), PROMPT, k=2, length=3)
    learn = RememberingModel.learn

    def spoil(model, texts):
        learn(model, texts)
        for text, row in model._store.items():
            model._store[text] = row[:, ::-1]

    RememberingModel.learn = spoil
    try:
        test.advance(40)
    finally:
        RememberingModel.learn = learn
    test.recheck(40)
    check = test.check()
    assert not check.controls_agree and not check.ok
    wrong = next(c for c in check.controls if not c.same)
    assert isinstance(wrong, Control) and wrong.looked_up != wrong.straight
    assert f"{sum(c.same for c in check.controls)} of 40" in check.sentence


def test_too_few_continuations_are_no_test():
    check = worked(3).check()
    assert check.too_few and check.ok and "too few" in check.sentence


@pytest.mark.parametrize("length", [0, 5])
def test_lengths_out_of_range_are_refused(length):
    with pytest.raises(ValueError, match="1 to 4 tokens"):
        EndToEnd(table_pair(4), PROMPT, length=length)


def test_a_small_memory_is_enough(monkeypatch):
    monkeypatch.setattr(remembered, "STORE_BYTES", 0)  # the least there is: 64 rows
    pair = TablePair(TableModel(12, salt=1), TableModel(12, salt=2))
    test = worked(300, pair=pair)
    assert len(test._memory.target._store) <= 64
    test.recheck(10)
    assert test.check().ok


@pytest.fixture(scope="module")
def pair():
    return tiny_pair()


class TestTransformers:
    """The same on a real cache: batched passes behind a shared prompt."""

    @pytest.mark.parametrize("drafter", ["model", "early-exit:1"])
    def test_a_correct_engine_agrees(self, pair, drafter):
        test = worked(600, pair=pair, prompt="the cat", drafter=drafter, sampling=SamplingConfig(0.7))
        test.recheck(15)
        assert test.lookups
        check = test.check()
        assert check.ok and check.test.degrees > 3
        assert test._memory.target.passes < test._memory.target.rows / 4

    def test_batched_rows_are_those_of_single_passes(self, pair):
        model, prompt = pair.target, tuple(pair.encode("the cat", False))
        cache = model.new_cache()
        model.forward(prompt[:-1], cache, 1)
        endings = [(prompt[-1], a, b) for a, b in ((5, 6), (7, 5), (9, 9))]
        rows = model.after_each(endings, cache)
        assert caches.length(cache) == len(prompt) - 1
        for ending, row in zip(endings, rows, strict=True):
            single = model.forward((*prompt[:-1], *ending), model.new_cache(), 1).logits[0]
            np.testing.assert_allclose(row, single, atol=1e-4)

    def test_odd_texts_are_looked_up_too(self, pair):
        prompt = tuple(pair.encode("the cat", False))
        memory = RememberingModel(pair.target, pair.vocab_size, prompt)
        texts = [prompt, (*prompt, 5), (*prompt[1:], 5), (9,), (8,)]
        memory.learn(texts)
        for text in texts:
            single = pair.target.forward(text, pair.target.new_cache(), 1).logits[0]
            np.testing.assert_allclose(memory.row(text), single, atol=1e-4)


def test_a_remembering_model_asks_before_it_answers():
    pair = table_pair(4, seed=5)
    memory = LookupPair(pair, PROMPT)
    cache = memory.target.new_cache()
    with pytest.raises(NotLookedUp) as found:
        memory.target.forward([0, 1, 0, 2], cache, 2)
    assert found.value.texts == [(0, 1, 0), (0, 1, 0, 2)] and caches.length(cache) == 0
    found.value.model.learn(found.value.texts)
    output = memory.target.forward([0, 1, 0, 2], cache, 2)
    np.testing.assert_array_equal(output.logits[1], pair.target.logits([0, 1, 0, 2]))
    assert cache.tokens == [0, 1, 0, 2]
    caches.keep(cache, 3)
    with pytest.raises(NotLookedUp):
        memory.target.forward([3], cache, 1)
    with pytest.raises(ValueError, match="hidden states"):
        memory.target.forward([0], cache, 1, features=True)


@pytest.mark.pair
@pytest.mark.slow
def test_the_built_in_pair(built_in_pair):
    test = EndToEnd(built_in_pair, "The capital of France is", k=4, length=3, sampling=SamplingConfig(0.7))
    test.advance(400)
    test.recheck(3)
    check = test.check()
    assert check.ok and check.test.degrees > 3
