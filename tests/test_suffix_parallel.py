"""What the suffix and the parallel drafter propose. The contract of all drafters is in test_drafters.py."""

from collections import Counter

import numpy as np
import pytest
from branching import enumerate_law
from drafts import KINDS, llama_drafts, table_drafts
from tables import TableModel, TablePair, table_pair, total_variation
from test_drafters import PROMPT, plain_law
from tiny import tiny_pair

from specviz.decoding.block import verify_whole_block
from specviz.decoding.drafters import make_drafter
from specviz.decoding.drafters.suffix import LIKELY, SuffixDrafter
from specviz.decoding.randomness import ChosenDrafts, SeededRandomness
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.exactness.cache_check import checked
from specviz.models.language_model import gap
from specviz.reading import explain
from specviz.reading.inspect import inspect_position
from specviz.reading.prose import plain


def suffixed(text, k=8, vocab_size=12, earlier=(), longest=None, special=()):
    pair = table_pair(vocab_size, special=special)
    more = {} if longest is None else {"longest": longest}
    drafter = SuffixDrafter(pair, SamplingConfig(), earlier=earlier, **more)
    return drafter.propose(text, k, SeededRandomness(0).round(1))


def by_hand(texts, text, k, longest=24):
    """The same by trying every place and every length."""
    places, matched = [], 0
    for size in range(min(longest, len(text)), 0, -1):
        places = [
            (other, end)
            for other in [*texts, text]
            for end in range(size, len(other) + (other is not text))
            if list(other[end - size : end]) == list(text[-size:])
        ]
        if places:
            matched = size
            break
    out, share, all_places = [], 1.0, len(places)
    while len(out) < min(k, matched):
        following = [
            other[end + len(out)] if end + len(out) < len(other) else -1
            for other, end in places
            if end + len(out) < len(other) or other is not text
        ]
        if not following:
            break
        counts = Counter(following)
        token = next(t for t in reversed(following) if counts[t] == max(counts.values()))
        share *= counts[token] / all_places
        if token == -1 or share < LIKELY:
            break
        places = [
            (other, end)
            for other, end in places
            if end + len(out) < len(other) and other[end + len(out)] == token
        ]
        all_places = len(places)
        out.append(token)
    return out


def test_the_longest_match_is_continued_by_what_followed_most_often():
    assert suffixed([1, 2, 3, 9, 1, 2, 4, 1, 2, 3, 5, 7, 1, 2]).tokens == [3, 5]  # 5 is the later
    assert suffixed([1, 2, 3, 1, 2, 3, 1, 2, 4, 1, 2]).tokens == [3, 1]  # 3 twice, 4 once; two matched
    assert suffixed([1, 2, 3]).tokens == []


def test_k_varies_with_the_match():
    text = list(range(1, 11))
    for size in range(1, 6):
        found = suffixed([*text, 0, *text[:size]])
        assert found.tokens == text[size : 2 * size] and not found.drawn
        assert (found.probs.sum(1) == 1).all() and found.probs.max(1).tolist() == [1.0] * size
    assert suffixed([*text, 0, *text[:5]], k=2).tokens == [6, 7]
    assert suffixed([*text, 0, *text[:5]], longest=3).tokens == [6, 7, 8]


def test_earlier_answers_are_searched_and_no_match_reaches_across_two():
    assert suffixed([1, 2], earlier=[[5, 1, 2, 7, 8]]).tokens == [7, 8]
    assert suffixed([1, 2], earlier=[[5, 1], [2, 7, 8]]).tokens == [7]  # one token matches: 2
    assert suffixed([3, 1], earlier=[[5, 1]]).tokens == []


def test_control_tokens_are_not_copied():
    assert suffixed([1, 2, 3, 4, 11, 1, 2, 3], special=(4,)).tokens == []
    assert suffixed([1, 2, 3, 11, 4, 1, 2, 3], special=(4,)).tokens == [11]


def test_any_text_is_continued_as_by_hand():
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(150):
        ids = int(rng.integers(2, 5))
        text = rng.integers(0, ids, int(rng.integers(1, 40))).tolist()
        earlier = [
            rng.integers(0, ids, int(rng.integers(1, 20))).tolist() for _ in range(int(rng.integers(0, 3)))
        ]
        found = suffixed(text, k=6, earlier=earlier).tokens
        assert found == by_hand(earlier, text, 6), (text, earlier)
        seen.add(len(found))
    assert len(seen) > 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_law_under_block_verification_is_the_targets(kind):
    pair = table_drafts(3, seed=6)

    def program(randomness):
        run = DecodingRun(
            pair,
            PROMPT,
            drafter=kind,
            k=2,
            max_new_tokens=4,
            randomness=randomness,
            verifier=verify_whole_block,
        )
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    assert total_variation(enumerate_law(program), plain_law(pair, 4)) < 1e-12


@pytest.mark.parametrize("kind", ["model", "parallel", "medusa", "eagle", "mtp"])
def test_a_greedy_draft_is_one_hot_and_exact(kind):
    pair = table_drafts(3, seed=6)
    run = DecodingRun(
        pair, PROMPT, drafter=kind, k=2, max_new_tokens=12, draft_sampling=SamplingConfig(0.0), seed=3
    )
    while run.finish is None:
        run.step()
        assert set(np.unique(run.recent.draft_probs)) <= {0.0, 1.0}

    def program(randomness):
        made = DecodingRun(
            pair,
            PROMPT,
            drafter=kind,
            k=2,
            max_new_tokens=3,
            draft_sampling=SamplingConfig(0.0),
            randomness=randomness,
        )
        list(made)
        return tuple(made.tokens[len(PROMPT) :])

    assert total_variation(enumerate_law(program), plain_law(pair, 3)) < 1e-12


class TestParallel:
    def test_q_does_not_see_the_drafts_before_it(self):
        pair = llama_drafts(6)
        blocks = []
        for tokens in ((1, 2, 3, 4), (5, 0, 5, 0)):
            drafter = make_drafter("parallel", pair, SamplingConfig())
            forced = ChosenDrafts(lambda row, _, tokens=tokens: tokens[row])
            blocks.append(drafter.propose(list(PROMPT), 4, forced))
        np.testing.assert_array_equal(blocks[0].probs, blocks[1].probs)
        assert blocks[0].tokens != blocks[1].tokens

    def test_it_makes_one_pass_a_block_with_gaps_behind_the_text(self):
        model = TableModel(6, salt=3)
        model.gap = 5
        pair = TablePair(TableModel(6, salt=1), model)
        drafter = make_drafter("parallel", pair, SamplingConfig())
        assert drafter.trained and drafter.gap == 5
        found = drafter.propose([1, 2], 3, SeededRandomness(1).round(1))
        assert model.passes == [4]
        for row in range(3):
            np.testing.assert_allclose(found.probs[row], model.probs([1, 2, *[5] * row]), atol=1e-12)
        drafter.observe([1, 2, found.tokens[0]], None)
        assert drafter.cache.layers[0].tokens == [1, 2]

    def test_the_gap_is_the_one_that_the_config_names(self):
        class Config:
            pard_token = 7

        assert gap(Config()) == 7 and gap(object()) is None
        drafter = make_drafter("parallel", tiny_pair(), SamplingConfig())
        assert not drafter.trained and drafter.gap in (0, 1)

    def test_its_caches_are_right_for_every_k(self):
        for k in range(1, 9):
            run = DecodingRun(llama_drafts(6), PROMPT, drafter="parallel", k=k, max_new_tokens=8, seed=k)
            for _, found in checked(run):
                assert all(check.ok for check in found), [check.sentence for check in found]

    def test_the_inspector_says_that_a_draft_was_blind(self):
        run = DecodingRun(table_drafts(4), PROMPT, drafter="parallel", k=3, max_new_tokens=20, seed=2)
        list(run)
        trace = run.trace()
        said = {
            row: plain(explain.verdict(inspect_position(trace, round.number, row)), str)
            for round in trace.rounds
            for row in range(1, round.k + 1)
            if row <= round.accepted + 1
        }
        assert "without having seen the drafts before it" in said[2]
        assert "without having seen" not in said[1]
