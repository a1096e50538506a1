"""The evidence of a run: a martingale under exactness, growing under faults."""

from dataclasses import replace
from math import exp, inf, log

import numpy as np
import pytest
from branching import enumerate_law
from tables import TableModel, TablePair, table_pair

from specviz.decoding.faults import FAULTS
from specviz.decoding.randomness import SeededRandomness
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.verify import verify_block
from specviz.exactness.evidence import (
    ALTERNATIVES,
    Emitted,
    emitted,
    estimated_leak,
    leak_test,
    log_factors,
)

PROMPT = (0, 1)


def markov_pair(v=8, scale=1.2, seed=0, closeness=0.0):
    """Laws that depend on the last token only: cheap enough for a thousand runs."""
    rng = np.random.default_rng(seed)
    target, draft = rng.normal(0.0, scale, (2, v, v))
    draft = closeness * target + (1.0 - closeness) * draft
    return TablePair(
        TableModel(v, law=lambda h: target[h[-1]], context_length=10**6),
        TableModel(v, law=lambda h: draft[h[-1]], context_length=10**6),
    )


def trace_of(pair, start=DecodingRun, tokens=200, **settings):
    run = start(pair, PROMPT, **{"k": 4, "max_new_tokens": tokens, **settings})
    list(run)
    return run.trace()


@pytest.mark.parametrize("drafter", ["model", "ngram"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"sampling": SamplingConfig(0.6, repetition_penalty=1.4)}, {"eos": [2]}, {"m": 3, "k": 1}],
)
def test_every_alternative_is_a_martingale_by_enumeration(drafter, settings):
    """The mean of every alternative over all paths of the engine is 1, cut texts included."""
    settings = dict(settings)
    pair = table_pair(3, seed=3, eos=settings.pop("eos", ()))
    m, k = settings.pop("m", 3), settings.pop("k", 2)
    factors = {}

    def program(randomness):
        run = DecodingRun(
            pair, (0, 1, 0), drafter=drafter, k=k, max_new_tokens=m, randomness=randomness, **settings
        )
        list(run)
        trace = run.trace()
        logs = sum(log_factors(token) for round in trace.rounds for token in emitted(round))
        key = (trace.output_ids, tuple(r.accepted for r in trace.rounds), len(factors))
        factors[key] = np.exp(logs)
        return key

    law = enumerate_law(program)
    mean = sum(mass * factors[key] for key, mass in law.items())
    assert mean == pytest.approx(np.ones(len(ALTERNATIVES)), abs=1e-12)


def test_under_a_fault_some_alternative_gains_by_enumeration():
    pair = table_pair(3, seed=3)

    def mean(name):
        gains = []

        def program(randomness):
            run = FAULTS[name].start(pair, (0, 1, 0), k=2, max_new_tokens=3, randomness=randomness)
            list(run)
            logs = sum(log_factors(t) for r in run.rounds for t in emitted(r))
            gains.append((randomness, logs))
            return len(gains)

        law = enumerate_law(program)
        return sum(mass * gains[key - 1][1] for key, mass in law.items())  # expected log growth

    assert mean("always-accept").max() > 0.05
    assert mean("argmax-only").max() > 0.003


def test_the_evidence_multiplies_and_averages():
    pair = markov_pair()
    trace = trace_of(pair, tokens=30, seed=1)
    test = leak_test([trace])
    assert test.tokens == 30 == test.run_ends[-1]
    wealth = np.ones(len(ALTERNATIVES))
    for step, token in enumerate(t for r in trace.rounds for t in emitted(r)):
        leaks = [
            (1 - c + c * token.q / token.p) if token.q is not None else 1.0
            for c in (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)
        ]
        wealth *= [*leaks, token.p**-0.5 / token.root_sum, token.p**0.5 / token.sesqui_sum]
        assert exp(test.log_evidence[step]) == pytest.approx(wealth.mean())
    assert test.ok and test.evidence == pytest.approx(wealth.mean())
    assert "After 30 tokens" in test.sentence and "at most 1 of 20 runs" in test.sentence


def test_the_probabilities_are_those_of_the_emitted_tokens():
    pair = markov_pair()
    trace = trace_of(pair, tokens=60, seed=1)
    text, checked = list(PROMPT), set()
    for round in trace.rounds:
        for row, token in enumerate(emitted(round)):
            p, q = pair.target.probs(text), pair.draft.probs(text)
            assert token.p == pytest.approx(p[round.committed[row]])
            assert token.root_sum == pytest.approx(np.sqrt(p).sum())
            assert token.sesqui_sum == pytest.approx((p**1.5).sum())
            kind = "accepted" if row < round.accepted else round.outcome
            checked.add(kind)
            if kind == "bonus":
                assert token.q is None
            else:
                assert token.q == pytest.approx(q[round.committed[row]])
            text.append(round.committed[row])
    assert checked == {"accepted", "corrected", "bonus"}


CROSSING = ["always-accept", "correction-from-p", "ratio-inverted", "softmax-of-residual", "lenience=0.5"]


@pytest.mark.parametrize("name", CROSSING)
def test_faults_cross_the_threshold(name):
    test = leak_test([trace_of(markov_pair(), FAULTS[name].start, tokens=700, seed=2)])
    assert not test.ok and "passed 20" in test.sentence


def test_the_same_runs_by_the_exact_rule_stay_below():
    assert leak_test([trace_of(markov_pair(), tokens=1500, seed=2)]).ok


@pytest.mark.parametrize("power, alternative", [(0.5, "flattened"), (1.5, "sharpened")])
def test_a_verifier_with_another_temperature_crosses_too(power, alternative):
    def verify(target_probs, draft_probs, draft_tokens, randomness):
        powers = target_probs**power
        return verify_block(powers / powers.sum(axis=1, keepdims=True), draft_probs, draft_tokens, randomness)

    test = leak_test([trace_of(markov_pair(), tokens=400, seed=2, verifier=verify)])
    assert not test.ok
    assert int(np.argmax(test.log_alternatives)) == ALTERNATIVES.index(alternative)


def crossings(pair, rule, runs, tokens=200, k=6):
    """How many of these runs pass 20: the rule on bare rows, without caches and records."""
    rows = [{x: model.probs((x,)) for x in range(8)} for model in (pair.target, pair.draft)]
    p, q = (np.stack([rows_of[x] for x in range(8)]) for rows_of in rows)
    roots, sesquis = np.sqrt(p).sum(axis=1), (p**1.5).sum(axis=1)
    crossed = 0
    for seed in range(runs):
        text, logs, highest, number = [PROMPT[-1]], np.zeros(len(ALTERNATIVES)), -inf, 0
        while len(text) <= tokens:
            number += 1
            randomness = SeededRandomness(seed).round(number)
            block = text[-1:]
            for row in range(k):
                block.append(randomness.draft(row, q[block[-1]]))
            verdict = rule(p[block], q[block[:-1]], block[1:], randomness)
            committed = [*block[1 : verdict.accepted + 1], verdict.token]
            for row, token in enumerate(committed):
                before = text[-1]
                beside = None if row == k else q[before, token]
                logs = logs + log_factors(Emitted(p[before, token], beside, roots[before], sesquis[before]))
                highest = max(highest, log(np.exp(logs).mean()))
                text.append(token)
        crossed += highest > log(20.0)
    return crossed


@pytest.mark.slow
def test_honest_runs_cross_in_at_most_one_of_twenty():
    """1,000 honest runs of 200 tokens, and 50 under a fault."""
    pair = markov_pair(closeness=0.6)
    assert crossings(pair, verify_block, 1000) <= 50
    assert crossings(pair, FAULTS["always-accept"].verifier, 50) >= 25


def test_the_estimated_leak_covers_the_truth():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(6), 2)
    for leak in (0.0, 0.3, 1.0):
        covered = 0
        for _ in range(100):
            tokens = rng.choice(6, 400, p=(1 - leak) * p + leak * q)
            best, low, high = estimated_leak([Emitted(p[t], q[t], 1.0, 1.0) for t in tokens])
            assert 0.0 <= low <= best <= high <= 1.0
            covered += low <= leak <= high
        assert covered >= 90


def test_a_leak_is_estimated_on_a_run():
    honest = leak_test([trace_of(markov_pair(), tokens=1500, seed=3)])
    leaky = leak_test([trace_of(markov_pair(), FAULTS["always-accept"].start, tokens=1500, seed=3)])
    assert honest.leak_low == 0.0 and honest.leak_high < 0.15
    assert leaky.leak == pytest.approx(1.0, abs=0.05)


def test_runs_are_joined_and_a_seed_counts_once():
    pair = markov_pair()
    first, second = trace_of(pair, tokens=40, seed=1), trace_of(pair, tokens=30, seed=2)
    test = leak_test([first, second, first])
    assert test.run_ends == (40, 70) and test.left_out == (2,)
    assert test.log_evidence[:40] == leak_test([first]).log_evidence
    alone = np.array(leak_test([second]).log_alternatives)
    joint = np.array(test.log_alternatives) - np.array(leak_test([first]).log_alternatives)
    assert joint == pytest.approx(alone)


def test_without_tokens_nothing_is_claimed():
    test = leak_test([])
    assert test.evidence == 1.0 and test.ok and test.leak is None and "yet" in test.sentence


def test_a_token_that_exact_decoding_never_emits_is_final():
    assert log_factors(Emitted(0.0, 0.3, 1.0, 1.0))[0] == inf
    trace = trace_of(markov_pair(), tokens=20, seed=1)
    first = trace.rounds[0]
    changed = replace(first.positions[0], p=0.0)
    number = next(r.number for r in trace.rounds if r.accepted)
    rounds = list(trace.rounds)
    hit = rounds[number - 1]
    changed = replace(hit.positions[0], p=0.0)
    rounds[number - 1] = replace(hit, positions=(changed, *hit.positions[1:]))
    test = leak_test([replace(trace, rounds=tuple(rounds))])
    assert not test.ok and np.isfinite(test.log_evidence).all()
    assert test.leak > 0.0


def test_it_says_how_much_it_could_see():
    """Nearly equal pairs: the line stays low whatever the rule does, and says so."""
    near, far = markov_pair(closeness=0.99), markov_pair()
    start = FAULTS["always-accept"].start
    blind = leak_test([trace_of(near, start, tokens=300, seed=4)])
    assert blind.ok and blind.apart < 0.02 and blind.tokens_to_catch > 3000
    assert "says little here" in blind.reach and blind.reach in blind.sentence
    same = leak_test([trace_of(markov_pair(closeness=1.0), start, tokens=50, seed=4)])
    assert same.tokens_to_catch is None and "no leak of this draft" in same.reach
    seen = leak_test([trace_of(far, tokens=1500, seed=2)])
    assert seen.tokens_to_catch < 100 and "says little" not in seen.reach
    crossed = [leak_test([trace_of(far, start, tokens=300, seed=s)]).crossed_at for s in range(10)]
    assert seen.tokens_to_catch / 4 < np.median(crossed) < 2 * seen.tokens_to_catch
    assert leak_test([trace_of(far, tokens=20, k=0)]).reach == ""


def test_greedy_runs_give_no_evidence():
    for drafter in ("model", "ngram"):
        trace = trace_of(markov_pair(), tokens=60, sampling=SamplingConfig(0.0), drafter=drafter)
        test = leak_test([trace])
        assert test.ok and test.highest <= 1.0 + 1e-12


def test_the_threshold_is_twenty():
    trace = trace_of(markov_pair(), FAULTS["always-accept"].start, tokens=400, seed=2)
    test = leak_test([trace])
    before = test.log_evidence[: test.crossed_at - 1]
    assert max(before) <= log(20.0) < test.log_evidence[test.crossed_at - 1]
