"""Caches against uncached passes: right with a correct engine, wrong from the very row with a faulty one."""

from types import SimpleNamespace

import pytest
import torch
from drafts import llama_drafts
from reruns import rerun
from tables import TableModel, TablePair, table_pair
from tiny import tiny_gpt2_pair, tiny_pair

from specviz.decoding import cache as caches
from specviz.decoding.faults import FAULTS
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.exactness import cache_check
from specviz.exactness.cache_check import check_caches, checked, expected_draft_length
from specviz.models import language_model
from specviz.models.errors import LoadError

PROMPT = (0, 1, 0, 2, 0, 1)
BOOKKEEPING = {
    "draft-cache-hole": "draft",
    "draft-cache-cut-too-far": "draft",
    "target-cache-cut-too-far": "target",
    "target-cache-keeps-rejected": "target",
}


@pytest.fixture(scope="module")
def llamas():
    return tiny_pair()


def pairs(llamas):
    return {"tables": (table_pair(6, 1), PROMPT), "llamas": (llamas, "the cat sat on the")}


@pytest.mark.parametrize("kind", ["tables", "llamas"])
@pytest.mark.parametrize("drafter", ["model", "ngram", "early-exit:1"])
@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_a_correct_engines_caches_are_right_after_every_round(kind, drafter, temperature, llamas):
    pair, prompt = pairs(llamas)[kind]
    if kind == "tables" and drafter.startswith("early-exit"):
        pytest.skip("tables have no layers")
    sampling = SamplingConfig(temperature)
    run = DecodingRun(pair, prompt, drafter=drafter, k=3, max_new_tokens=40, seed=4, sampling=sampling)
    assert all(check.ok for check in check_caches(run))  # nothing cached, nothing expected
    roles, outcomes = set(), set()
    for round, results in checked(run):
        outcomes.add(round.outcome)
        for check in results:
            assert check.ok, check.sentence
            assert check.claimed == check.held == check.expected
            assert check.logit_diff is not None and check.logit_diff <= check.tolerance
            assert len(check.row_diffs) == (check.held if kind == "llamas" else 0)
            assert "right" in check.sentence
            roles.add(check.role)
    assert roles == ({"target"} if drafter == "ngram" else {"target", "draft"})
    if temperature:
        assert outcomes == {"bonus", "corrected"} or drafter == "ngram"


@pytest.mark.parametrize("kind", ["tables", "llamas"])
@pytest.mark.parametrize("name", BOOKKEEPING)
def test_bookkeeping_faults_turn_red_at_the_row_where_they_begin(name, kind, llamas):
    pair, prompt = pairs(llamas)[kind]
    if name == "draft-cache-hole" and kind == "llamas":
        pair = tiny_pair(draft_seed=1)  # equal models: only a full acceptance makes the hole
    run = FAULTS[name].start(pair, prompt, k=2, max_new_tokens=40, seed=4)
    spoilt = None
    for round, results in checked(run):
        for check in results:
            if check.role != BOOKKEEPING[name]:
                assert check.ok
            elif spoilt is None and not check.ok:
                spoilt = round, check
                assert "wrong" in check.sentence
            elif spoilt is not None:
                assert not check.ok  # it never heals
    assert spoilt is not None
    round, check = spoilt
    assert check.held != check.expected
    if "cut-too-far" in name:  # the lost row is only missing until something is fed behind it
        assert round.outcome == "corrected" and check.first_bad is None
    if name == "target-cache-keeps-rejected":
        assert round.outcome == "corrected"
        assert check.first_bad == check.expected  # the rejected token stands where the correction should


@pytest.mark.parametrize("kind", ["tables", "llamas"])
def test_a_single_wrong_entry_is_found(kind, llamas):
    pair, prompt = pairs(llamas)[kind]
    run = DecodingRun(pair, prompt, k=3, max_new_tokens=30, seed=4)
    list(run)
    row = 7
    assert len(run.tokens) > 20
    if kind == "tables":
        run.target_cache.layers[0].tokens[row] = (run.tokens[row] + 1) % 6
    else:
        layer = run.target_cache.layers[1]
        layer.values = layer.values.clone()
        layer.values[0, 0, row] += 0.5
    target, draft = check_caches(run)
    assert not target.ok and target.first_bad == row and target.lengths_ok
    assert f"first wrong row is {row + 1}" in target.sentence
    assert draft.ok


def test_a_cache_of_the_wrong_length_is_found(llamas):
    run = DecodingRun(llamas, "the cat", k=3, max_new_tokens=20, seed=4)
    list(run)
    caches.keep(run.target_cache, len(run.tokens) - 3)
    target = check_caches(run)[0]
    assert not target.ok and not target.lengths_ok and target.first_bad is None


def test_checking_changes_nothing(llamas):
    for start in (DecodingRun, FAULTS["target-cache-keeps-rejected"].start):
        plain, watched = (start(llamas, "the cat", k=3, max_new_tokens=30, seed=4) for _ in range(2))
        list(plain)
        assert [r for r, _ in checked(watched)]
        assert plain.tokens == watched.tokens


def test_the_expected_length_follows_blocks_limits_and_pauses():
    twins = TablePair(*(TableModel(6, salt=3) for _ in range(2)))
    run = DecodingRun(twins, PROMPT, k=3, max_new_tokens=13, seed=1)
    for round in run:
        assert round.accepted == round.k
        run.k = (3, 0, 0, 2, 5)[round.number % 5]
        held = caches.length(run.drafter.cache)
        assert held == expected_draft_length(run.rounds, True) <= len(run.tokens) - 1
        assert all(check.ok for check in check_caches(run))


@pytest.mark.parametrize("name", [None, "target-cache-cut-too-far", "lenience=0.5"])
def test_a_trace_is_run_again(name, llamas):
    start = DecodingRun if name is None else FAULTS[name].start
    run = start(llamas, "the cat", k=3, max_new_tokens=25, seed=8, sampling=SamplingConfig(0.8))
    list(run)
    again = rerun(llamas, run.trace())
    results = list(checked(again))
    assert again.tokens == run.tokens
    assert all(c.ok for _, checks in results for c in checks) == (name != "target-cache-cut-too-far")


@pytest.mark.slow
@pytest.mark.pair
def test_the_built_in_pair(built_in_pair):
    for drafter in ("model", "early-exit"):
        run = DecodingRun(
            built_in_pair, "The capital of France is", drafter=drafter, k=4, max_new_tokens=20, seed=1
        )
        for _, results in checked(run):
            assert all(check.ok for check in results), [c.sentence for c in results]
    run = FAULTS["draft-cache-hole"].start(
        built_in_pair, "The capital of France is", k=1, max_new_tokens=30, seed=1
    )
    assert not all(check.ok for _, results in checked(run) for check in results)


@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_a_run_to_the_end_of_learnt_positions_is_audited(drafter):
    """GPT-2 has no position for the last committed token: nobody may feed it, the audit included."""
    pair = tiny_gpt2_pair(context_length=24)
    run = DecodingRun(pair, "the cat sat", drafter=drafter, k=3, max_new_tokens=60, seed=1)
    results = [check for _, checks in checked(run) for check in checks]
    assert run.finish == "context" and len(run.tokens) == 25
    assert all(check.ok for check in results)
    assert results[-1].row_diffs and max(results[-1].row_diffs) <= results[-1].row_tolerance


def test_a_wrong_row_shows_at_the_end_of_the_context_too():
    pair = tiny_gpt2_pair(context_length=24)
    run = DecodingRun(pair, "the cat sat", drafter="ngram", k=3, max_new_tokens=60, seed=1)
    list(run)
    layer = run.target_cache.layers[0]
    layer.keys = layer.keys.clone()
    layer.keys[:, :, 7] += 0.5
    assert check_caches(run)[0].first_bad == 7


def test_a_dtype_whose_rounding_is_unknown_is_refused(monkeypatch):
    monkeypatch.delitem(language_model.TOLERANCE, "float32")
    with pytest.raises(LoadError, match="loaded as float32"):
        tiny_pair()


def test_cached_rows_are_compared_on_the_host():
    """Apple's devices refuse float64."""

    class OnDevice:
        dtype = torch.float32

        def __init__(self, values):
            self.values = values

        def __getitem__(self, key):
            return OnDevice(self.values[key])

        def double(self):
            raise TypeError("no float64 on this device")

        def cpu(self):
            return self.values

    class Model:
        def new_cache(self):
            return SimpleNamespace(layers=[SimpleNamespace(keys=OnDevice(ones), values=OnDevice(ones))])

        def forward(self, tokens, cache, rows):
            pass

    ones = torch.ones(1, 2, 5, 3)
    worst, tolerance = cache_check._row_diffs(Model(), Model().new_cache(), range(5))
    assert worst.tolist() == [0.0] * 5 and tolerance > 0.0


@pytest.mark.parametrize("kind", ["eagle", "mtp", "parallel"])
def test_drafts_on_features_and_with_gaps_are_compared_row_by_row(kind):
    pair = llama_drafts(6)
    run = DecodingRun(pair, [0, 1, 2, 3], drafter=kind, k=3, max_new_tokens=20, seed=4)
    seen = 0
    for _, results in checked(run):
        (draft,) = (check for check in results if check.role == "draft")
        assert draft.ok, draft.sentence
        seen += len(draft.row_diffs)
    assert seen > 20
    layer = run.drafter.cache.layers[0]
    layer.keys = layer.keys.clone()
    layer.keys[:, :, 5] += 0.3
    (draft,) = (check for check in check_caches(run) if check.role == "draft")
    assert not draft.ok and draft.first_bad == 5


def test_a_draft_on_features_that_keeps_its_own_is_found():
    """Mutant: the rows made from predicted features stay."""
    run = DecodingRun(llama_drafts(6), [0, 1, 2, 3], drafter="eagle", k=3, max_new_tokens=30, seed=4)
    own = run.drafter.observe

    def keeping(committed, features):
        run.drafter.exact = len(committed) - 1
        own(committed, features)

    run.drafter.observe = keeping
    assert any(not check.ok for _, results in checked(run) for check in results if check.role == "draft")
