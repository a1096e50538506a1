"""Properties that hold for every input of a kind: inputs are made up, a fixed number of them each time."""

import gzip
import json
import math
import random
import time

import numpy as np
import pytest
from branching import enumerate_law
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table_pair

from specviz.decoding import codec
from specviz.decoding.codec import TraceError
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.decoding.trace import Trace
from specviz.decoding.verify import verify_block
from specviz.diagnosis import logs
from specviz.reading.html_export import run_html
from specviz.reading.metrics import metrics
from specviz.recipe import Recipe, from_link, limits, to_link
from specviz.tokens import visible

FUZZ_SECONDS = 8  # of the trace reader, every time the tests run
settings.register_profile(
    "specviz", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("specviz")

text = st.text(max_size=40)
number = st.one_of(
    st.floats(), st.integers(), st.sampled_from(["nan", "-inf", "1e999", "", " 7 ", "٣", "0x1", "1_0"]), text
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([*Recipe.__dataclass_fields__, "sel", "x"]), number.map(str)))
def test_any_link_is_a_recipe_within_its_limits(parameters):
    recipe = from_link(parameters)
    for name in ("k", "temperature", "top_p", "seed", "max_tokens", "draft_min_p"):
        low, high = limits(name)
        assert math.isfinite(getattr(recipe, name)) and low <= getattr(recipe, name) <= high
    assert from_link(to_link(recipe)) == recipe  # and the address it is written to means the same


controls = st.builds(
    SamplingConfig,
    temperature=st.one_of(st.just(0.0), st.floats(0.01, 5.0)),
    top_k=st.integers(0, 9),
    top_p=st.floats(0.01, 1.0),
    min_p=st.floats(0.0, 1.0),
    repetition_penalty=st.floats(0.3, 3.0),
)


@settings(max_examples=50)
@given(
    controls,
    st.lists(st.floats(-80, 80), min_size=7, max_size=7),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
)
def test_effective_probabilities_are_a_distribution_whatever_the_controls(sampling, logits, prefix):
    probs = effective_probs(np.array([logits]), [prefix], sampling).probs[0]
    assert abs(probs.sum() - 1.0) < 1e-9 and (probs >= 0).all()
    if sampling.temperature == 0.0:
        assert probs.max() == 1.0
    if sampling.top_k:
        ties = np.unique(probs[probs > 0]).size
        assert (probs > 0).sum() <= sampling.top_k or ties < (probs > 0).sum()


masses = (
    st.lists(st.integers(0, 5), min_size=3, max_size=3)
    .filter(any)
    .map(lambda weights: np.array(weights) / sum(weights))
)


@settings(max_examples=60)
@given(st.lists(masses, min_size=3, max_size=3), st.lists(masses, min_size=2, max_size=2))
def test_the_rule_gives_the_targets_distribution_for_any_rows(p, q):
    """K = 2; zeros on either side, equal rows and disjoint ones included."""
    target, draft = np.array(p), np.array(q)

    def block(randomness):
        tokens = [randomness.draft(row, draft[row]) for row in range(2)]
        verdict = verify_block(target, draft, tokens, randomness)
        return (*tokens[: verdict.accepted], verdict.token)[:1]

    law = enumerate_law(block)
    found = np.array([law.get((token,), 0.0) for token in range(3)])
    np.testing.assert_allclose(found, target[0], atol=1e-12)


@settings(max_examples=25)
@given(
    st.integers(0, 6),
    st.integers(1, 20),
    st.integers(0, 2**31 - 1),
    controls,
    st.sampled_from(["model", "ngram:1-2"]),
)
def test_any_run_survives_its_file(k, tokens, seed, sampling, drafter):
    run = DecodingRun(
        table_pair(7), "abacab", drafter=drafter, k=k, max_new_tokens=tokens, seed=seed, sampling=sampling
    )
    list(run)
    trace = run.trace()
    assert codec.loads(codec.dumps(trace)) == trace
    assert metrics(trace.rounds).emitted == tokens


@given(
    st.lists(
        text | st.sampled_from(["SpecDecoding metrics: ", "accept rate: ", "draft acceptance = ", "{", "nan"])
    )
)
def test_any_text_is_a_log_that_is_read_or_listed(parts):
    lines = "\n".join(parts)
    read = logs.read(lines)
    assert isinstance(read, logs.Log)


@pytest.mark.slow
def test_the_trace_reader_refuses_or_reads_whatever_it_is_given():
    """Bytes flipped, cut and repeated for a bounded time: a clear error, or a trace that can be shown."""
    run = DecodingRun(table_pair(7), "abacab", k=3, max_new_tokens=10, seed=3)
    list(run)
    plain = codec.dumps(run.trace(), compress=False)
    packed = codec.dumps(run.trace(), compress=True)
    dice = random.Random(20261130)
    until, tried, read = time.monotonic() + FUZZ_SECONDS, 0, 0
    while time.monotonic() < until:
        tried += 1
        content = _changed(bytearray(dice.choice([plain, plain, packed])), dice)
        try:
            trace = codec.loads(content)
        except TraceError:
            continue
        read += 1
        assert isinstance(trace, Trace)
        run_html(trace, visible)
        assert codec.loads(codec.dumps(trace)) == trace
    assert tried > 100 and read < tried


def _changed(content, dice):
    """One to three mutations of a file."""
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(content))
        kind = dice.randrange(5)
        if kind == 0:
            content[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del content[at : at + dice.randint(1, 40)]
        elif kind == 2:
            content[at:at] = content[at : at + dice.randint(1, 200)]
        elif kind == 3:
            content[at:at] = dice.choice([b"null", b"-1", b"1e999", b"[]", b"{}", b'"', b"9" * 30, b"NaN"])
        else:
            other = dice.randrange(len(content))
            content[at], content[other] = content[other], content[at]
        if not content:
            return b""
    return bytes(content)


def test_values_of_a_file_are_changed_one_by_one_and_none_crashes():
    """Every leaf of a trace becomes each of some odd values."""
    run = DecodingRun(table_pair(5), "abc", k=2, max_new_tokens=2, seed=1)
    list(run)
    data = json.loads(codec.dumps(run.trace(), compress=False))
    accepted = 0
    for holder, key in list(_leaves(data)):
        kept = holder[key]
        for odd in (None, -1, 2**70, 1e308, "", "x", [], {}, True):
            holder[key] = odd
            try:
                trace = codec.loads(gzip.compress(json.dumps(data).encode(), 1))
            except TraceError:
                continue
            accepted += 1
            run_html(trace, visible)
        holder[key] = kept
    assert accepted  # free texts may be anything


def _leaves(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        if isinstance(part, (dict, list)) and part:
            yield from _leaves(part)
        else:
            yield value, key
