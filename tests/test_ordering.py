"""The ordering exercise: judged by the fewest lines to move, with a reason for each."""

from itertools import combinations, pairwise, permutations

import pytest

from specviz.decoding.run import DecodingRun
from specviz.lessons import ordering
from specviz.lessons.ordering import STEPS, grade, longest_increasing, steps


def brute_force_length(values):
    for size in range(len(values), 0, -1):
        for chosen in combinations(values, size):
            if all(a < b for a, b in pairwise(chosen)):
                return size
    return 0


@pytest.mark.parametrize("values", [p for n in range(6) for p in permutations(range(n))])
def test_longest_increasing_subsequence(values):
    found = longest_increasing(values)
    chosen = [values[i] for i in found]
    assert found == sorted(found) and chosen == sorted(chosen)
    assert len(found) == brute_force_length(values)


@pytest.mark.parametrize("order", list(permutations(range(5))))
def test_the_fewest_lines_are_marked_and_each_reason_fits_the_order_given(order):
    lines = [steps()[i] for i in order]
    verdict = grade(lines, steps())
    assert len(verdict.moves) == 5 - brute_force_length(order)
    assert verdict.right == (list(order) == [0, 1, 2, 3, 4])
    given = [line.key for line in lines]
    for move in verdict.moves:
        assert move.key in (move.first, move.second)
        assert STEPS.index(move.first) < STEPS.index(move.second)
        assert given.index(move.first) > given.index(move.second)  # this very pair is the wrong way round
        assert move.why == ordering.REASONS[(move.first, move.second)]


def test_every_pair_has_a_reason_of_its_own():
    assert set(ordering.REASONS) == set(combinations(STEPS, 2))
    assert len(set(ordering.REASONS.values())) == 10


def test_a_distractor_left_in_and_a_step_left_out_are_named():
    wrong = ordering.distractors(2, seed=1)
    everything = (*steps(), *wrong)
    verdict = grade([*steps()[:2], wrong[0], *steps()[2:4]], everything)
    assert verdict.moves == () and verdict.extra == (wrong[0].key,) and verdict.missing == ("commit",)
    assert not verdict.right
    assert grade(steps(), everything).right


@pytest.mark.parametrize("seed", range(30))
def test_the_exercise_never_starts_solved_and_repeats_by_seed(seed):
    lines = (*steps(), *ordering.distractors(seed % 4, seed))
    mixed = ordering.shuffled(lines, seed)
    assert sorted(line.key for line in mixed) == sorted(line.key for line in lines)
    assert grade([line for line in mixed if line.rank is not None], lines).moves
    assert mixed == ordering.shuffled(lines, seed)
    assert len({line.key for line in lines}) == len(lines)


def test_lines_of_a_round_tell_what_happened_in_order():
    from tables import table_pair

    seen = set()
    for round in DecodingRun(table_pair(6), "abcab", k=3, max_new_tokens=60, seed=1):
        lines = ordering.from_round(round, lambda token: f"<{token}>")
        judged = [line for line in lines if line.key.startswith("judge-")]
        assert [line.rank for line in lines] == list(range(len(lines)))
        assert len(judged) == min(round.k, round.accepted + 1)
        assert (
            f"<{round.token}>" in lines[-2].text
            and round.outcome.replace("corrected", "correction") in lines[-2].text
        )
        assert str(round.target_cache.kept) in lines[-1].text
        verdict = grade(list(reversed(lines)), lines)
        assert len(verdict.moves) == len(lines) - 1 and all(move.why for move in verdict.moves)
        seen.add(round.outcome)
    assert seen == {"corrected", "bonus"}
