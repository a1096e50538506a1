"""Figures that flatter are named: a text that repeats itself, a draft whose context is full."""

from dataclasses import replace

import pytest
from tables import TableModel, TablePair, table_pair

from specviz.cli.trace import _foot, _summary
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.reading.html_export import run_html
from specviz.reading.notes import Silence, distinct_share, notes, silence
from specviz.tokens import visible


def trace_of(pair, prompt="ab", **more):
    run = DecodingRun(pair, prompt, **{"k": 3, "max_new_tokens": 40, "seed": 1, **more})
    list(run)
    return run.trace()


def test_distinct_4_grams():
    assert distinct_share(tuple(range(24))) == 1.0
    assert distinct_share((1, 2) * 20) == pytest.approx(2 / 37)
    assert distinct_share((1,) * 23) is None


def loop(history):
    return [0.0, 9.0, 0.0] if history[-1] == 0 else [9.0, 0.0, 0.0]


def test_a_loop_is_named_beside_its_figures():
    """Greedy prompt lookup on a loop: mean length near K + 1, rate 1.0, and nothing said so."""
    pair = TablePair(TableModel(law=loop), TableModel(law=loop))
    trace = trace_of(pair, drafter="ngram", sampling=SamplingConfig(0.0))
    (note,) = notes(trace)
    assert "repeats itself (distinct 4-grams 0.05)" in note
    assert f"note: {note}" in _foot(trace, None) and _summary(trace)["notes"] == (note,)


def test_a_varied_text_has_no_note():
    trace = trace_of(table_pair(seed=3, vocab_size=8))
    assert notes(trace) == () and _summary(trace)["draft_context_full"] is None


def test_rounds_beyond_the_drafts_context_are_counted():
    """Before: 42 of 46 rounds drafted nothing, and the rate said 1.00 without a word."""
    pair = TablePair(
        TableModel(8, salt=1, name="target"), TableModel(8, salt=2, name="draft", context_length=12)
    )
    trace = trace_of(pair)
    # The last round has room for one token only, and none to draft, whatever the context.
    silent = sum(round.k == 0 for round in trace.rounds[:-1])
    first = next(round.start for round in trace.rounds if round.k == 0) + 1
    assert silent > 10
    (note,) = notes(trace)
    assert note.startswith(
        f"In {silent} of {len(trace.rounds)} rounds the draft proposed nothing, from token {first} on"
    )
    assert silence(trace) == Silence(first, silent)
    assert f"draft's context full from token {first} on · {silent} rounds" in _foot(trace, None)
    assert _summary(trace)["draft_context_full"] == {"first": first, "rounds": silent}
    assert f"from token {first}" in run_html(trace, visible)
    assert notes(replace(trace, drafter="ngram")) == ()  # which often finds nothing
    assert silence(replace(trace, drafter="ngram")) is None


def test_the_end_of_a_text_is_no_full_context():
    assert notes(trace_of(table_pair(8), max_new_tokens=5)) == ()
