"""The token rule and block verification on the same drafts: exact expectations, and what they say."""

from math import inf

import numpy as np
import pytest
from branching import enumerate_law
from tables import table_pair
from test_exactness_martingale import markov_pair, trace_of

from specviz.decoding.block import BLOCK
from specviz.decoding.faults import starter
from specviz.reading.two_rules import compare, expected


@pytest.mark.parametrize("rule, which", [("exact", 0), (BLOCK, 1)])
def test_the_expectation_is_that_of_the_engine_by_enumeration(rule, which):
    pair, known = table_pair(3, 3), []

    def program(randomness):
        run = starter(rule)(pair, (0, 1, 0), k=3, max_new_tokens=8, randomness=randomness)
        round = run.step()
        known.append((round.accepted, expected(round)[which]))
        return len(known)

    law = enumerate_law(program)
    kept, computed = (sum(mass * known[key - 1][i] for key, mass in law.items()) for i in (0, 1))
    assert kept == pytest.approx(computed, abs=1e-12)


def test_block_verification_never_keeps_less_of_any_block():
    traces = [trace_of(markov_pair(closeness=0.4), tokens=120, seed=seed) for seed in range(4)]
    for trace in traces:
        for round in trace.rounds:
            token, block = expected(round)
            assert 0.0 <= token <= block <= round.k
    found = compare(trace.rounds for trace in traces)
    assert found.groups == 4 and found.low <= found.gain <= found.high and found.gain > 0.0
    assert found.token == pytest.approx(
        np.mean([expected(r)[0] for t in traces for r in t.rounds if r.k]), abs=1e-12
    )
    assert f"{found.block:.3f}" in found.sentence and "95%" in found.sentence


def test_one_text_has_no_interval_and_none_no_comparison():
    trace = trace_of(markov_pair(), tokens=20, seed=1)
    found = compare([trace.rounds])
    assert (found.low, found.high) == (-inf, inf) and "95%" not in found.sentence
    assert compare([trace_of(markov_pair(), tokens=5, k=0).rounds]) is None and compare([]) is None
