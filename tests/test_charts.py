"""Figures show the numbers of the place, and token text is data in them."""

from functools import cache
from itertools import pairwise

import pytest
from hostile import HOSTILE
from tables import TableModel, TablePair, table_pair

from specviz.analysis.caches import cache_strips
from specviz.analysis.inspect import inspect_position, telling
from specviz.analysis.prose import number
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import TokenText
from specviz.ui import charts, pictures
from specviz.ui.text import visible


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


def strings(value):
    """Every string in a figure."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)


def test_bars_are_the_numbers_of_the_place():
    trace = trace_of()
    for place in places(trace):
        figure = charts.distributions(place, shower(place))
        shown, others = telling(place)
        columns = [*shown, others]
        assert list(figure.data[0].y) == [c.p for c in columns]
        if place.row.token is None:
            assert len(figure.data) == 1
            continue
        p, q, overlap, residual = figure.data
        assert list(q.y) == [c.q for c in columns]
        assert list(overlap.y) == [c.overlap for c in columns]
        assert sum(overlap.y) == pytest.approx(place.row.beta)
        assert list(residual.y) == [c.residual for c in columns]
        assert len({len(bars.x) for bars in figure.data}) == 1
        assert (p.marker.color, q.marker.color) == ("#0072B2", "#CC79A7")
        assert number(place.row.beta) in overlap.name


def test_the_drawn_and_the_corrected_token_are_marked():
    trace = trace_of()
    place = first(trace, "rejected")
    figure = charts.distributions(place, shower(place))
    ticks = figure.layout.xaxis.ticktext
    shown, _ = telling(place)
    drawn = [c.token for c in shown].index(place.row.token)
    corrected = [c.token for c in shown].index(place.added)
    assert "✗ rejected" in ticks[drawn] and "↻ corrected" in ticks[corrected]
    colours = figure.data[3].marker.color
    assert colours[corrected] == charts.CORRECTED
    assert set(colours[:corrected] + colours[corrected + 1 :]) == {charts.RESIDUAL}


def test_filtered_tokens_are_dimmed_and_say_why():
    trace = trace_of(sampling=SamplingConfig(temperature=0.8, top_k=5))
    place = first(trace, "rejected")
    figure = charts.distributions(place, shower(place))
    shown, _ = telling(place)
    seen = 0
    for i, c in enumerate(shown):
        if c.target_removed and c.token not in (place.row.token, place.added):
            assert (
                charts.DIMMED in figure.layout.xaxis.ticktext[i]
                and "top-k" in figure.layout.xaxis.ticktext[i]
            )
            seen += 1
        if c.target_removed:
            assert "p = 0: top-k took it out" in figure.data[0].hovertext[i]
    assert seen


def test_log_scale_reaches_the_smallest_bar():
    place = first(trace_of(), "rejected")
    axis = charts.distributions(place, shower(place), log=True).layout.yaxis
    shown, others = telling(place)
    smallest = min(v for c in (*shown, others) for v in (c.p, c.q) if v)
    assert axis.type == "log" and 10 ** axis.range[0] <= smallest


def test_bars_of_all_others_that_leave_the_scale_carry_their_number():
    place = next(p for p in places(trace_of(500)) if telling(p)[1].p > 3 * max(c.p for c in telling(p)[0]))
    figure = charts.distributions(place, shower(place))
    others = telling(place)[1]
    assert figure.layout.yaxis.range[1] < others.p
    assert any(number(others.p) in note.text for note in figure.layout.annotations)
    small = first(trace_of(9), "rejected")
    assert charts.distributions(small, shower(small)).layout.yaxis.range[1] > max(
        c.p for c in small.candidates
    )


def test_the_notation_swaps_the_letters():
    place = first(trace_of(), "rejected")
    figure = charts.distributions(place, shower(place), "chen")
    assert [bars.name for bars in figure.data[:2]] == ["target q", "draft p"]
    assert any("max(0, q − p)" in note.text for note in figure.layout.annotations)
    assert "target's q" in charts.describe_distributions(place, shower(place), "chen")


def test_sentences_hold_the_numbers():
    place = first(trace_of(), "rejected")
    text = charts.describe_distributions(place, shower(place))
    for value in (place.row.beta, place.row.tv, place.row.residual_mass, max(c.p for c in place.candidates)):
        assert number(value) in text
    assert pictures.describe_gauge(place, place.row.u).endswith("rejected.")
    assert pictures.describe_gauge(place, 0.0).endswith("kept.")


def test_the_gauge_is_filled_to_the_accept_probability():
    place = next(p for p in places(trace_of()) if p.row.p and p.row.p < p.row.q)
    keep = place.row.accept_probability
    band = pictures.gauge_band(place, 0.25)
    assert [box[:3] for box in band.boxes] == [("kept", 0.0, keep), ("refused", keep, 1.0 - keep)]
    assert band.marks == ((0.25, "u = 0.25"),)
    assert (keep, number(keep)) in band.ticks
    certain = next(p for p in places(trace_of()) if p.row.p and p.row.p >= p.row.q)
    assert pictures.gauge_band(certain, 0.25).boxes[0][:4] == ("kept", 0.0, 1.0, "always kept")


def test_cache_cells_are_those_of_the_strips():
    trace = trace_of()
    place = first(trace, "rejected")
    strips = cache_strips(trace, place.round)
    for strip in strips:
        band = pictures.cache_band(strip, shower(place))
        assert [box[0] for box in band.boxes] == [kind for kind, _ in strip.cells]
        assert [box[3] for box in band.boxes] == [shower(place)(token) for _, token in strip.cells]
        ends = [box[1] for box in band.boxes]
        assert all(b - a >= 1.0 for a, b in pairwise(ends))  # no cell lies on another
    assert str(strips[0].kept) in pictures.describe_caches(strips)


@pytest.mark.parametrize("text", [*HOSTILE, "&", "<", ">", "$a$"])
def test_escaped_text_holds_nothing_that_plotly_reads(text):
    safe = charts.escaped(text)
    assert not set("<>$") & set(safe)
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&#36;", "$"), ("&amp;", "&")):
        safe = safe.replace(entity, character)
    assert safe == text


def test_hostile_tokens_stay_text_in_figures():
    trace = trace_of(hostile=True)
    tags = (
        "<b>",
        "</b>",
        "<br>",
        "</span>",
        *(f'<span style="color:{c}">' for c in charts.STATE_COLOURS.values()),
    )
    for place in places(trace):
        figure = charts.distributions(place, shower(place))
        for text in strings(figure.to_plotly_json()):
            for tag in tags:
                text = text.replace(tag, "")
            assert not set("<>$") & set(text), text


def test_long_labels_are_cut():
    assert len(charts.label("x" * 300)) == charts.LABEL
