"""Runs: stop rules, caches, interruption, resumption, broken models."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from drafts import table_drafts
from tables import TableModel, TablePair, table_pair

from specviz.decoding import cache as caches
from specviz.decoding import codec
from specviz.decoding.faults import FAULTS
from specviz.decoding.run import DecodingRun, RunError
from specviz.decoding.sampling import SamplingConfig

PROMPT = (0, 1, 0, 2, 0, 1)


def make_run(pair=None, **settings):
    return DecodingRun(
        pair or table_pair(4, 1), PROMPT, **{"k": 3, "max_new_tokens": 30, "seed": 5, **settings}
    )


@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("limit", [1, 2, 3, 17])
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_the_limit_is_met_exactly_and_every_round_commits(k, limit, drafter):
    run = make_run(k=k, max_new_tokens=limit, drafter=drafter)
    rounds = list(run)
    assert run.emitted == limit == sum(len(r.committed) for r in rounds)
    assert all(r.committed for r in rounds)
    assert run.finish == rounds[-1].finish == "length"


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    first, again, other = (make_run(seed=s) for s in (5, 5, 6))
    for run in (first, again, other):
        list(run)
    assert first.tokens == again.tokens != other.tokens


@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_after_each_round_the_caches_hold_a_prefix_of_the_committed_tokens(drafter):
    run = make_run(drafter=drafter, max_new_tokens=58)
    full = rejected = 0
    for round in run:
        committed = len(run.tokens)
        assert run.target_cache.layers[0].tokens == run.tokens[: committed - 1]
        assert round.target_cache.kept == committed - 1
        assert round.target_cache.fed == (len(PROMPT) if round.number == 1 else 1) + round.k
        if drafter == "model" and round.k:
            held = run.drafter.cache.layers[0].tokens
            missing = 2 if round.accepted == round.k else 1
            assert held == run.tokens[: committed - missing]
            assert round.draft_cache.kept == len(held)
            full += missing == 2
            rejected += missing == 1
    if drafter == "model":
        assert full and rejected  # both ways were taken


def test_the_draft_is_fed_two_tokens_after_a_full_acceptance_and_one_after_a_rejection():
    run = make_run(max_new_tokens=40)
    rounds = list(run)
    seen = set()
    for before, after in pairwise(rounds):
        if after.k:
            fed = after.draft_cache.fed - (after.k - 1)
            assert fed == (2 if before.accepted == before.k else 1)
            seen.add(fed)
    assert seen == {1, 2}


def test_eos_inside_an_accepted_block_cuts_the_rest():
    pair = TablePair(*(TableModel(4, salt=3) for _ in range(2)))  # equal: everything is accepted
    free = make_run(pair, max_new_tokens=20)
    first = next(iter(free))
    pair.eos_ids = frozenset([first.draft_tokens[1]])
    run = make_run(pair, max_new_tokens=20)
    cut = run.step()
    end = cut.draft_tokens.index(next(iter(pair.eos_ids))) + 1
    assert cut.accepted == 3 and cut.finish == "eos"  # verified ...
    assert cut.committed == cut.draft_tokens[:end]  # ... and emitted differ
    assert caches.length(run.target_cache) == len(run.tokens) - 1
    with pytest.raises(RuntimeError, match="finished"):
        run.step()


def test_a_stop_string_that_spans_tokens_and_rounds_ends_the_text_there():
    free = make_run(max_new_tokens=30)
    list(free)
    text = "".join("abcd"[t] for t in free.tokens[len(PROMPT) :])
    stop = text[7:10]
    end = text.index(stop) + len(stop)
    run = make_run(max_new_tokens=30, stop=[stop, "zzz"])
    list(run)
    assert run.finish == "stop"
    assert "".join("abcd"[t] for t in run.tokens[len(PROMPT) :]) == text[:end]


def test_a_stop_string_in_the_prompt_does_not_end_the_text():
    prompt = "".join("abcd"[t] for t in PROMPT)
    run = make_run(stop=[prompt], max_new_tokens=3)
    list(run)
    assert run.finish == "length"


def test_the_context_limit_ends_the_run_without_feeding_beyond_it():
    pair = TablePair(TableModel(4, salt=1, context_length=12), TableModel(4, salt=2, context_length=9))
    run = make_run(pair, max_new_tokens=30)
    rounds = list(run)
    assert run.finish == "context"
    assert len(run.tokens) == 13  # twelve fed, and the token after them
    assert all(r.target_cache.before + r.target_cache.fed <= 12 for r in rounds)
    assert all(r.draft_cache.before + r.draft_cache.fed <= 9 for r in rounds)


class Breaks(TableModel):
    """Fails in the n-th pass: with an exception, or with a NaN."""

    def __init__(self, *args, at, how, **kwargs):
        super().__init__(*args, **kwargs)
        self.at, self.how = at, how

    def forward(self, tokens, cache, rows, features=False):
        output = super().forward(tokens, cache, rows, features)
        self.at -= 1
        if self.at == 0:
            if self.how == "nan":
                output.logits[-1, 0] = np.nan
            else:
                raise self.how
        return output


@pytest.mark.parametrize("model", ["target", "draft"])
@pytest.mark.parametrize("at", [1, 3, 5])
def test_an_interrupted_step_has_not_happened_and_can_be_repeated(model, at):
    reference = make_run()
    list(reference)
    pair = table_pair(4, 1)
    whole = getattr(pair, model)
    setattr(pair, model, Breaks(4, salt=whole.salt, at=at, how=KeyboardInterrupt()))
    run = make_run(pair)
    with pytest.raises(KeyboardInterrupt):
        list(run)
    done = len(run.rounds)
    assert run.tokens == reference.tokens[: len(run.tokens)]
    assert run.target_cache.layers[0].tokens == run.tokens[:-1][: caches.length(run.target_cache)]
    assert run.drafter.cache.layers[0].tokens == run.tokens[:-1][: caches.length(run.drafter.cache)]
    list(run)
    assert len(run.rounds) > done
    assert run.tokens == reference.tokens
    assert [r.positions for r in run.rounds] == [r.positions for r in reference.rounds]


@pytest.mark.parametrize("model, at", [("target", 3), ("draft", 5)])
def test_nan_stops_the_run_with_model_round_and_position(model, at):
    pair = table_pair(4, 1)
    setattr(pair, model, Breaks(4, salt=getattr(pair, model).salt, name=model, at=at, how="nan"))
    run = make_run(pair)
    with pytest.raises(RunError, match=rf"{model} {model}, round \d+, position \d+: the logits contain nan"):
        list(run)
    trace = run.trace()
    assert "nan" in trace.error
    assert len(trace.rounds) == len(run.rounds) >= 1  # what was done before stays usable
    assert run.tokens[len(PROMPT) :] == list(trace.output_ids)


def test_banning_every_token_is_a_clear_error():
    run = make_run(sampling=SamplingConfig(banned=(0, 1, 2, 3)))
    with pytest.raises(RunError, match=r"round 1.*controls leave no token"):
        run.step()


@pytest.mark.parametrize(
    "start", [DecodingRun, FAULTS["argmax-draft"].start, FAULTS["draft-cache-hole"].start]
)
@pytest.mark.parametrize("kind", ["model", "early-exit", "medusa", "eagle", "ngram"])
def test_a_copy_of_a_live_run_goes_on_by_itself(start, kind):
    pair = table_drafts(5, seed=3)
    run = start(pair, PROMPT, drafter=kind, k=3, max_new_tokens=24, seed=5)
    run.step(), run.step()
    copied = deepcopy(run)
    assert copied.pair is run.pair and copied.rounds == run.rounds and copied.rounds is not run.rounds
    list(run)
    assert len(copied.rounds) == 2 and caches.length(copied.target_cache) == len(copied.tokens) - 1
    list(copied)
    assert copied.tokens == run.tokens
    assert [r.positions for r in copied.rounds] == [r.positions for r in run.rounds]


def test_a_temperature_that_would_only_overflow_is_refused():
    for temperature in (1e-308, 1e-6, -1.0, 101.0, float("nan")):
        with pytest.raises(ValueError, match=r"temperature must be 0 \(greedy\) or 0.00001 … 100"):
            SamplingConfig(temperature)
    for round in make_run(sampling=SamplingConfig(1e-5)):
        assert all(0.0 <= row.p_entropy < 1e-6 for row in round.positions)


def test_k_may_change_between_rounds():
    run = make_run(max_new_tokens=40)
    run.step()
    run.k = 1
    assert run.step().k == 1
    run.k = 5
    assert run.step().k == 5


def test_a_run_without_a_draft_model_names_the_way_out():
    pair = TablePair(TableModel(4))
    with pytest.raises(ValueError, match="no draft model"):
        make_run(pair)
    list(make_run(pair, drafter="ngram"))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"k": -1}, "k must be"),
        ({"k": 2000}, "k must be 0 … 1000"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_new_tokens": 10_000_001}, "max_new_tokens must be 1 … 10,000,000"),
        ({"stop": [""]}, "stop string"),
        ({"stop": ["a\ud800"]}, "half of a surrogate pair"),
        ({"drafter": "oracle"}, "unknown drafter"),
        ({"seed": -3}, "seed"),
    ],
)
def test_arguments_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make_run(**settings)


def test_empty_and_overlong_prompts_are_refused():
    with pytest.raises(ValueError, match="no tokens"):
        DecodingRun(table_pair(4), "")
    with pytest.raises(ValueError, match="at most 64"):
        DecodingRun(table_pair(4), "ab" * 40)
    with pytest.raises(ValueError, match="at most 1,000,000 characters"):
        DecodingRun(table_pair(4), "ab" * 500_001)


@pytest.mark.parametrize("prompt", ["ab\ud800", "\udfffab"])
def test_a_prompt_with_half_a_character_is_refused(prompt):
    with pytest.raises(ValueError, match="half of a surrogate pair, which is no character: remove it"):
        DecodingRun(table_pair(4), prompt)


@pytest.mark.parametrize("token", [4, 10**6, -1])
def test_ids_outside_the_vocabulary_are_refused(token):
    with pytest.raises(ValueError, match=rf"token id {token}; ids go from 0 to 3"):
        DecodingRun(table_pair(4), [0, token])


def test_the_largest_values_that_are_taken_can_be_saved_and_loaded():
    run = make_run(k=1000, max_new_tokens=10_000_000, seed=2**64 - 1)
    run.step()
    assert codec.loads(codec.dumps(run.trace(), compress=True)) == run.trace()


class TestNgram:
    def propose(self, prefix, k=4, special=(), **sizes):
        from specviz.decoding.drafters.ngram import NgramDrafter

        drafter = NgramDrafter(table_pair(6, special=special), SamplingConfig(), **sizes)
        proposal = drafter.propose(prefix, k, None)
        assert proposal.probs.shape == (len(proposal.tokens), 6)
        assert all(
            row[token] == 1.0 == row.sum() for token, row in zip(proposal.tokens, proposal.probs, strict=True)
        )
        return proposal.tokens

    def test_the_longest_suffix_wins(self):
        assert self.propose([0, 1, 2, 9 % 6, 1, 4, 5, 0, 1], k=1) == [2]
        assert self.propose([0, 1, 2, 3, 1, 4, 5, 0, 1], k=2, largest=1) == [4, 5]

    def test_among_equal_matches_the_most_recent_wins(self):
        assert self.propose([1, 2, 1, 3, 1], k=1) == [3]

    def test_no_match_proposes_nothing(self):
        assert self.propose([0, 1, 2]) == []
        assert self.propose([0]) == []

    def test_it_stops_before_a_control_token(self):
        assert self.propose([1, 2, 5, 3, 1], special=[5]) == [2]

    def test_a_match_followed_only_by_a_control_token_does_not_hide_a_usable_one(self):
        assert self.propose([1, 3, 4, 1, 5, 2, 1], special=[5]) == [3, 4, 1]

    def test_sizes_are_checked(self):
        with pytest.raises(ValueError, match="n-gram sizes"):
            self.propose([0], smallest=3, largest=2)
