"""Pictures show the numbers of the place, and token text is data in them."""

from functools import cache
from itertools import pairwise

import pytest
from hostile import HOSTILE
from tables import TableModel, TablePair, table_pair

from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import TokenText
from specviz.reading.cache_cells import cache_strips
from specviz.reading.inspect import inspect_position, telling
from specviz.reading.prose import number
from specviz.tokens import visible
from specviz.ui.rounds import gauges
from specviz.ui.rounds.bars import LABEL, distributions
from specviz.ui.shell import palette


class HostilePair(TablePair):
    def token_text(self, token):
        return TokenText(HOSTILE[token].encode())


@cache
def trace_of(vocab_size=40, sampling=None, hostile=False, k=3):
    pair = table_pair(vocab_size, 2)
    if hostile:
        pair = HostilePair(TableModel(len(HOSTILE), salt=1), TableModel(len(HOSTILE), salt=2))
    run = DecodingRun(pair, [0, 1, 2], k=k, sampling=sampling or SamplingConfig(), max_new_tokens=40, seed=3)
    for _ in run:
        pass
    return run.trace()


def places(trace):
    for round in trace.rounds:
        for position in range(1, round.k + 2):
            yield inspect_position(trace, round.number, position)


def first(trace, state):
    return next(p for p in places(trace) if p.state == state)


def shower(place):
    return lambda token: visible(place.text(token))


def test_bars_are_the_numbers_of_the_place():
    trace = trace_of()
    for place in places(trace):
        picture = distributions(place, shower(place))
        shown, others = telling(place)
        columns = [*shown, others]
        assert [c.p for c in picture.columns] == [c.p for c in columns]
        assert picture.alt and str(place.round.number) in picture.file
        if place.row.token is None:
            assert [kind for kind, _ in picture.legend] == ["target"]
            assert {(c.q, c.overlap, c.residual) for c in picture.columns} == {(None, None, None)}
            assert picture.residual_top is None
            continue
        assert [kind for kind, _ in picture.legend] == ["target", "draft", "overlap"]
        assert [c.q for c in picture.columns] == [c.q for c in columns]
        assert [c.overlap for c in picture.columns] == [c.overlap for c in columns]
        assert sum(c.overlap for c in picture.columns) == pytest.approx(place.row.beta)
        assert [c.residual for c in picture.columns] == [c.residual for c in columns]
        assert number(place.row.beta) in picture.legend[2][1]


def test_the_drawn_and_the_corrected_token_are_marked():
    trace = trace_of()
    place = first(trace, "rejected")
    columns = distributions(place, shower(place)).columns
    shown, _ = telling(place)
    drawn = [c.token for c in shown].index(place.row.token)
    corrected = [c.token for c in shown].index(place.added)
    assert (columns[drawn].note, columns[drawn].kind) == ("✗ rejected", "rejected")
    assert (columns[corrected].note, columns[corrected].kind) == ("↻ corrected", "corrected")
    assert {c.kind for i, c in enumerate(columns) if i not in (drawn, corrected)} == {""}


def test_filtered_tokens_are_dimmed_and_say_why():
    trace = trace_of(sampling=SamplingConfig(temperature=0.8, top_k=5))
    place = first(trace, "rejected")
    columns = distributions(place, shower(place)).columns
    shown, _ = telling(place)
    seen = 0
    for column, c in zip(columns, shown, strict=False):
        if c.target_removed and c.token not in (place.row.token, place.added):
            assert (column.kind, column.note) == ("removed", "top-k")
            seen += 1
        if c.target_removed:
            assert "p = 0: top-k took it out" in column.hint
    assert seen


def test_both_scales_hold_every_bar():
    for place in places(trace_of()):
        picture = distributions(place, shower(place))
        linear, log = picture.scales
        shown, others = telling(place)
        smallest = min(v for c in (*shown, others) for v in (c.p, c.q) if v)
        assert (linear.name, linear.low, log.name, log.top) == ("linear", 0.0, "log", 1.0)
        assert 0.0 < log.low < smallest
        assert linear.top > max(v for c in shown for v in (c.p, c.q or 0.0))
        for scale in (linear, log):
            values = [value for value, _ in scale.ticks]
            assert 2 <= len(values) <= 6 and min(values) >= scale.low and max(values) <= scale.top


def test_bars_of_all_others_that_leave_the_scale_carry_their_number():
    place = next(p for p in places(trace_of(500)) if telling(p)[1].p > 3 * max(c.p for c in telling(p)[0]))
    picture = distributions(place, shower(place))
    others = telling(place)[1]
    assert picture.scales[0].top < others.p
    assert picture.columns[-1].p_over == number(others.p)
    assert not any(c.p_over or c.q_over or c.residual_over for c in picture.columns[:-1])
    small = first(trace_of(9), "rejected")
    picture = distributions(small, shower(small))
    assert picture.scales[0].top > max(c.p for c in small.candidates)
    assert not any(c.p_over or c.q_over or c.residual_over for c in picture.columns)


def test_the_notation_swaps_the_letters():
    place = first(trace_of(), "rejected")
    picture = distributions(place, shower(place), "chen")
    assert [name for _, name in picture.legend[:2]] == ["target q", "draft p"]
    assert "max(0, q − p)" in picture.residual_title
    assert "target's q" in picture.alt


def test_sentences_hold_the_numbers():
    place = first(trace_of(), "rejected")
    text = distributions(place, shower(place)).alt
    for value in (place.row.beta, place.row.tv, place.row.residual_mass, max(c.p for c in place.candidates)):
        assert number(value) in text
    assert gauges.describe_gauge(place, place.row.u).endswith("rejected.")
    assert gauges.describe_gauge(place, 0.0).endswith("kept.")


def test_the_gauge_is_filled_to_the_accept_probability():
    place = next(p for p in places(trace_of()) if p.row.p and p.row.p < p.row.q)
    keep = place.row.accept_probability
    band = gauges.gauge_band(place, 0.25)
    assert [box[:3] for box in band.boxes] == [("kept", 0.0, keep), ("refused", keep, 1.0 - keep)]
    assert band.marks == ((0.25, "u = 0.25"),)
    assert (keep, number(keep)) in band.ticks
    certain = next(p for p in places(trace_of()) if p.row.p and p.row.p >= p.row.q)
    assert gauges.gauge_band(certain, 0.25).boxes[0][:4] == ("kept", 0.0, 1.0, "always kept")


def test_cache_cells_are_those_of_the_strips():
    trace = trace_of()
    place = first(trace, "rejected")
    strips = cache_strips(trace, place.round)
    for strip in strips:
        band = gauges.cache_band(strip, shower(place))
        assert [box[0] for box in band.boxes] == [kind for kind, _ in strip.cells]
        assert [box[3] for box in band.boxes] == [shower(place)(token) for _, token in strip.cells]
        ends = [box[1] for box in band.boxes]
        assert all(b - a >= 1.0 for a, b in pairwise(ends))  # no cell lies on another
    assert str(strips[0].kept) in gauges.describe_caches(strips)


@pytest.mark.parametrize("text", [*HOSTILE, "&", "<", ">", "$a$"])
def test_escaped_text_holds_nothing_that_plotly_reads(text):
    safe = palette.escaped(text)
    assert not set("<>$") & set(safe)
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&#36;", "$"), ("&amp;", "&")):
        safe = safe.replace(entity, character)
    assert safe == text


def test_names_of_tokens_are_cut_and_their_hints_are_whole():
    trace = trace_of(hostile=True)
    for place in places(trace):
        for column, c in zip(distributions(place, shower(place)).columns, telling(place)[0], strict=False):
            text = visible(place.text(c.token))
            assert column.hint[0] == text
            assert column.name == text if len(text) <= LABEL else column.name == text[: LABEL - 1] + "…"
