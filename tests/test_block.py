"""Block verification: exact by enumeration, never shorter than the token rule, and its mutants die."""

import json
from itertools import product

import numpy as np
import pytest
from branching import enumerate_law
from reruns import rerun
from tables import TableModel, TablePair, joint_law, table_pair
from test_exactness_martingale import markov_pair, trace_of

from specviz.__main__ import main
from specviz.cli import options
from specviz.decoding.block import BLOCK, verify_whole_block, weigh
from specviz.decoding.codec import TraceError, dumps, loads
from specviz.decoding.faults import FAULTS, starter
from specviz.decoding.randomness import accepts
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.verify import VerifyError, verify_block
from specviz.exactness.continuations import EndToEnd
from specviz.exactness.evidence import ALTERNATIVES, emitted, leak_test, log_factors
from specviz.reading.explain import verdict
from specviz.reading.explain_numbers import formula, residual_line, what_if
from specviz.reading.inspect import inspect_position
from specviz.reading.prose import number as number_of
from specviz.reading.prose import plain
from specviz.reading.rejudge import NotRecorded, rejudge
from specviz.recipe import Recipe, from_link, to_link
from specviz.ui.components.timeline import payload

PROMPT = (0, 1, 0)
WRONG = ["block-residual", "block-stops-early", "block-token-acceptance"]
P, Q = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])


def engine_law(rule, pair, m=3, k=2, **settings):
    """The exact distribution of the first m tokens."""

    def program(randomness):
        run = starter(rule)(pair, PROMPT, k=k, max_new_tokens=m, randomness=randomness, **settings)
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    return enumerate_law(program)


def distance(law, other):
    return sum(abs(law.get(x, 0.0) - other.get(x, 0.0)) for x in {*law, *other}) / 2


@pytest.mark.parametrize("k, seed", [(1, 1), (2, 1), (2, 5), pytest.param(3, 1, marks=pytest.mark.slow)])
def test_the_output_follows_the_target_by_enumeration(k, seed):
    pair = table_pair(3, seed)
    assert distance(engine_law(BLOCK, pair, m=k + 1, k=k), joint_law(pair.target, PROMPT, k + 1)) < 1e-12


@pytest.mark.parametrize(
    "settings",
    [
        {"drafter": "ngram"},
        {"sampling": SamplingConfig(0.6, repetition_penalty=1.4), "draft_sampling": SamplingConfig(1.5)},
        {"sampling": SamplingConfig(top_k=2), "draft_sampling": SamplingConfig(1.0)},
        {"sampling": SamplingConfig(1.0), "draft_sampling": SamplingConfig(top_k=1)},
        {"sampling": SamplingConfig(0.0)},
    ],
    ids=str,
)
def test_with_every_drafter_and_control_it_gives_what_the_token_rule_gives(settings):
    pair = table_pair(3, 3)
    assert distance(engine_law(BLOCK, pair, **settings), engine_law("exact", pair, **settings)) < 1e-12


def test_texts_end_as_under_the_token_rule():
    pair = table_pair(3, 5, eos=[2])
    assert distance(engine_law(BLOCK, pair, k=3), engine_law("exact", pair, k=3)) < 1e-12
    law = engine_law(BLOCK, pair, k=3, stop=["ab"])
    assert distance(law, engine_law("exact", pair, k=3, stop=["ab"])) < 1e-12


def accepted_on_average(verifier, p, q, k):
    def program(randomness):
        drafts = [randomness.draft(row, q) for row in range(k)]
        return verifier(np.tile(p, (k + 1, 1)), np.tile(q, (k, 1)), drafts, randomness).accepted

    return sum(n * mass for n, mass in enumerate_law(program).items())


def test_golden_value_of_two_symbols():
    assert accepted_on_average(verify_block, P, Q, 2) == pytest.approx(10 / 9, abs=1e-12)
    assert accepted_on_average(verify_whole_block, P, Q, 2) == pytest.approx(11 / 9, abs=1e-12)


@pytest.mark.slow
def test_it_never_keeps_fewer_than_the_token_rule_on_average():
    better = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p, q = rng.dirichlet(np.full(3, 0.7), 2)
        token, block = (accepted_on_average(rule, p, q, 3) for rule in (verify_block, verify_whole_block))
        assert block >= token - 1e-12
        better += block > token + 1e-3
        pair = TablePair(TableModel(3, seed), TableModel(3, seed + 99))
        counts = []
        for rule in ("exact", BLOCK):

            def program(randomness, rule=rule, pair=pair):
                run = starter(rule)(pair, PROMPT, k=3, max_new_tokens=8, randomness=randomness)
                return run.step().accepted

            counts.append(sum(n * mass for n, mass in enumerate_law(program).items()))
        assert counts[1] >= counts[0] - 1e-12
    assert better > 6


def test_one_draft_token_is_judged_as_by_the_token_rule():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    prefix = weigh(np.stack([p, p]), q[None], [2])[0]
    assert prefix.weight == prefix.passes == pytest.approx(0.4)
    assert accepted_on_average(verify_whole_block, p, q, 1) == pytest.approx(0.7)


@pytest.mark.parametrize("name", WRONG)
def test_its_mutants_die(name):
    worst = max(
        distance(engine_law(name, pair), joint_law(pair.target, PROMPT, 3))
        for pair in (table_pair(3, seed) for seed in (1, 2))
    )
    assert worst > 1e-3
    assert FAULTS[name].kind == "law" and not FAULTS[name].one_position


class Given:
    def __init__(self, us):
        self.us = us

    def accept(self, row, p, q):
        return accepts(self.us[row], p, q)

    def correct(self, weights):
        self.weights = weights
        return int(np.argmax(weights))


def test_the_longest_beginning_that_passes_is_kept():
    drafts = [0, 1, 1]
    p, q = np.tile(P, (4, 1)), np.tile(Q, (3, 1))
    first, second, third = weigh(p, q, drafts)
    assert (first.weight, second.weight, third.weight) == pytest.approx((0.5, 1.0, 1.0))
    given = Given([0.99, 0.99, 0.0])
    verdict = verify_whole_block(p, q, drafts, given)
    assert (verdict.accepted, verdict.outcome) == (3, "bonus")  # the first two fail by themselves
    # h of the first beginning: Z = max(0, 1/6 − 2/3) + max(0, 1/3 − 1/3) = 0, it is never the end
    assert first.passes == 0.0


def test_the_correction_comes_from_the_scaled_residual():
    p, q = np.tile([0.2, 0.3, 0.5], (3, 1)), np.tile([0.5, 0.4, 0.1], (2, 1))
    given = Given([0.0, 0.99])
    verdict = verify_whole_block(p, q, [0, 0], given)
    assert verdict.accepted == 1 and verdict.prefixes[0].weight == pytest.approx(0.4)
    assert given.weights == pytest.approx(np.maximum(0.4 * p[0] - q[0], 0.0))
    none = Given([0.999, 0.999])
    assert verify_whole_block(p, q, [0, 0], none).accepted == 0
    assert none.weights == pytest.approx(np.maximum(p[0] - q[0], 0.0))


def test_equal_models_keep_everything_and_p_zero_nothing():
    p = np.tile([0.2, 0.3, 0.5], (3, 1))
    for drafts in product(range(3), repeat=2):
        assert verify_whole_block(p, p[:2], drafts, Given([0.999999] * 2)).accepted == 2
    q = np.tile([0.5, 0.25, 0.25], (2, 1))
    zero = np.tile([0.0, 0.5, 0.5], (3, 1))
    assert verify_whole_block(zero, q, [0, 1], Given([0.0, 0.0])).accepted == 0
    with pytest.raises(VerifyError, match="draft model, position 2"):
        verify_whole_block(p, np.tile([0.0, 0.5, 0.5], (2, 1)), [1, 0], Given([0.5, 0.5]))


@pytest.mark.parametrize("settings", [{}, {"drafter": "ngram"}, {"sampling": SamplingConfig(0.7)}], ids=str)
def test_the_evidence_on_the_run_is_a_martingale_under_this_rule_too(settings):
    """By enumeration: the mean of every alternative over all paths is 1."""
    pair = table_pair(3, 3)
    factors = []

    def program(randomness):
        run = starter(BLOCK)(pair, PROMPT, k=2, max_new_tokens=3, randomness=randomness, **settings)
        list(run)
        factors.append(np.exp(sum(log_factors(t) for r in run.rounds for t in emitted(r))))
        return len(factors)

    law = enumerate_law(program)
    mean = sum(mass * factors[key - 1] for key, mass in law.items())
    assert mean == pytest.approx(np.ones(len(ALTERNATIVES)), abs=1e-12)


def test_under_its_mutants_the_evidence_gains():
    pair, gains = table_pair(3, 3), []

    def program(randomness):
        run = starter("block-stops-early")(pair, PROMPT, k=2, max_new_tokens=3, randomness=randomness)
        list(run)
        gains.append(np.exp(sum(log_factors(t) for r in run.rounds for t in emitted(r))))
        return len(gains)

    mean = sum(mass * gains[key - 1] for key, mass in enumerate_law(program).items())
    assert np.abs(mean - 1.0).max() > 1e-3


def test_a_run_records_what_decided():
    trace = trace_of(markov_pair(), starter(BLOCK), tokens=60, seed=1)
    assert {r.verifier for r in trace.rounds} == {BLOCK}
    for round in trace.rounds:
        drafted = round.positions[: round.k]
        passing = [i for i, x in enumerate(drafted, 1) if x.u < x.prefix_passes]
        assert round.accepted == max(passing, default=0)
        weight = 1.0
        for x in drafted:
            weight = min(1.0, weight * x.p / x.q)
            assert x.prefix_weight == pytest.approx(weight, abs=1e-12)
        assert round.positions[round.k].prefix_weight is None
    assert loads(dumps(trace)) == trace
    assert leak_test([trace]).ok
    text = dumps(trace).decode().replace('"prefix_passes":', '"something":')
    with pytest.raises(TraceError, match="prefix_passes is missing"):
        loads(text.encode())


def test_the_recipe_the_command_line_and_the_audit_choose_it(monkeypatch, capsys):
    pair = table_pair(6, 1)
    run = Recipe(rule=BLOCK, k=3, max_tokens=12).start(pair, prompt=[0, 1])
    list(run)
    assert {r.verifier for r in run.rounds} == {BLOCK}
    assert from_link(to_link(Recipe(rule=BLOCK))).rule == BLOCK
    again = rerun(pair, run.trace())
    list(again)
    assert again.tokens == run.tokens and again.verifier is verify_whole_block
    monkeypatch.setattr(options, "load", lambda args: pair)
    common = ["--prompt", "ab", "-k", "3", "--temperature", "1", "--max-new-tokens", "25"]
    assert main(["trace", *common, "--rule", BLOCK]) == 0
    assert "rule block" in capsys.readouterr().out
    assert main(["trace", *common, "--rule", "nonsense"]) == 1
    checks = ["exact", *common, "--verifier", BLOCK, "--draws", "2000", "--continuations", "400", "--json"]
    assert main(checks) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verifier"] == BLOCK and report["checks"]["end_to_end"]["ok"]


@pytest.mark.slow
def test_whole_continuations_agree_and_catch_the_mutants():
    pair = table_pair(4, seed=5)
    honest = EndToEnd(pair, PROMPT, verifier=verify_whole_block, k=3, length=4)
    honest.advance(1500)
    assert honest.check().ok
    faulty = EndToEnd(pair, PROMPT, fault=FAULTS["block-stops-early"], k=3, length=4)
    faulty.advance(1500)
    assert not faulty.check().agrees


@pytest.fixture(scope="module")
def blocks():
    """A run judged by blocks, with rejections and a bonus."""
    return trace_of(markov_pair(closeness=0.4), starter(BLOCK), tokens=80, seed=3)


def said(trace, number, position):
    return plain(verdict(inspect_position(trace, number, position)), lambda id: f"‹{id}›")


def test_what_is_said_of_a_round_is_the_block_rules_story(blocks):
    seen = set()
    for round in blocks.rounds:
        for position in range(1, round.k + 2):
            place = inspect_position(blocks, round.number, position)
            text, steps = said(blocks, round.number, position), " ".join(formula(place))
            seen.add(place.state)
            assert "the rule “" not in text and "Never judged" not in text
            if position <= round.k:
                row = round.positions[position - 1]
                passes = row.u < row.prefix_passes
                assert ("it passes" if passes else "it does not pass") in text
                assert f"h = {number_of(row.prefix_passes, 3)}" in text
                assert ("passes" if passes else "fails") in steps and "min(1, p/q)" not in steps
                assert place.would_accept == passes
                if round.accepted:
                    assert f"has {round.accepted} of {round.k} tokens" in text
            elif place.state == "corrected":
                assert "max(0, r·p − q)" in text and "r·p − q" in residual_line(place)
    assert seen == {"accepted", "rejected", "discarded", "corrected", "bonus"}


def test_the_share_of_a_correction_is_that_of_the_scaled_residual(blocks):
    weights = []
    for round in blocks.rounds:
        if round.outcome == "corrected":
            place = inspect_position(blocks, round.number, round.k + 1)
            row = round.positions[round.accepted]
            r = round.positions[round.accepted - 1].prefix_weight if round.accepted else 1.0
            left = [max(0.0, r * p - q) for p, q in zip(row.table.p, row.table.q, strict=True)]
            if row.rest.count == 0:  # the table is the vocabulary
                expected = left[row.table.ids.index(round.token)] / sum(left)
                assert place.added_probability == pytest.approx(expected, abs=1e-9)
                weights.append(r)
            drawn = payload(blocks)["rounds"]["share"][round.number - 1]
            assert drawn == pytest.approx(place.added_probability, abs=1e-4)
    assert min(weights) < 1.0


def test_judged_again_it_is_compared_with_what_was_recorded(blocks):
    for round in blocks.rounds:
        assert rejudge(round).recorded and rejudge(round, verify_whole_block).accepted == round.accepted
        nothing = rejudge(round, accept_us=dict.fromkeys(range(round.k), 1.0 - 1e-16))
        full = [i for i, x in enumerate(round.positions[: round.k], 1) if x.prefix_passes == 1.0]
        assert nothing.accepted == max(full, default=0)
        if not nothing.recorded:
            assert nothing.token is None
        token_rule = rejudge(round, verify_block)
        assert token_rule.accepted <= round.k
    moved = next(r for r in blocks.rounds if r.accepted == 0 and r.positions[0].prefix_passes > 0.0)
    place = inspect_position(blocks, moved.number, 1)
    text = plain(what_if(place, rejudge(moved, accept_us={0: 0.0}), 0.0), str)
    assert "longest beginning that passes would have 1 of" in text
    exact = trace_of(markov_pair(), tokens=20, seed=1)
    with pytest.raises(NotRecorded, match="another rule"):
        rejudge(exact.rounds[0], verify_whole_block)
