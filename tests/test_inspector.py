"""The inspector's panel under Streamlit's AppTest."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hostile import HOSTILE
from streamlit.testing.v1 import AppTest
from tables import TableModel, TablePair, table_pair

from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import TokenText
from specviz.reading.explain import verdict
from specviz.reading.inspect import inspect_position
from specviz.reading.prose import name, plain, sentence, strong
from specviz.tokens import visible
from specviz.ui.shell.markup import code, markdown


def page():
    import streamlit as st

    from specviz.ui.rounds.inspector import inspector

    inspector(st.session_state.trace, *st.session_state.place, key="panel", run="this run")


class HostilePair(TablePair):
    def token_text(self, token):
        return TokenText(HOSTILE[token].encode())


def trace_of(pair=None, **options):
    run = DecodingRun(pair or table_pair(40, 2), [0, 1, 2], k=3, max_new_tokens=40, seed=3, **options)
    for _ in run:
        pass
    return run.trace()


def opened(trace, place, **state):
    app = AppTest.from_function(page)
    app.session_state.trace = trace
    app.session_state.place = place
    for key, value in state.items():
        app.session_state[key] = value
    app.run()
    assert not app.exception
    return app


def every_place(app, rounds):
    """The app at each place of the first rounds, one after another."""
    for round in app.session_state.trace.rounds[:rounds]:
        for position in range(1, round.k + 2):
            app.session_state.place = (round.number, position)
            app.run()
            assert not app.exception
            yield inspect_position(app.session_state.trace, round.number, position)


def find(trace, state, test=lambda place: True):
    for round in trace.rounds:
        for position in range(1, round.k + 2):
            place = inspect_position(trace, round.number, position)
            if place.state == state and test(place):
                return place
    raise AssertionError(f"no {state} token")


def drawn(app):
    """The blocks that the components draw, by component."""
    found = [json.loads(element.proto.json) for element in app.get("bidi_component")]
    return {data.get("key", "").removeprefix("panel-"): data["blocks"] for data in found}


def words(app):
    """All that the panel says."""
    told = []
    for block in (each for content in drawn(app).values() for each in content):
        told += [block.get("text", ""), block.get("token", ""), *block.get("lines", ())]
        told.append("".join(text for _, text in block.get("parts", ())))
    return "\n".join([*told, *(element.value for element in (*app.markdown, *app.caption, *app.code))])


@pytest.mark.parametrize("state", ["accepted", "rejected", "discarded", "corrected", "bonus"])
def test_every_state_has_its_sentence_and_its_charts(state):
    trace = trace_of(table_pair(5, 2))
    place = find(trace, state)
    app = opened(trace, (place.round.number, place.position))
    said = plain(verdict(place), lambda token: visible(place.text(token)))
    content = drawn(app)
    assert said in words(app)
    assert content["told"][0]["state"] == state
    pictures = [block for blocks in content.values() for block in blocks if "alt" in block]
    assert [block["block"] for block in pictures] == ["bars", *["bands"] * (1 if state == "bonus" else 2)]
    assert all(block["alt"] for block in pictures)
    assert len(app.slider) == (state not in ("bonus", "discarded"))
    assert f"Round {place.round.number} · position {place.position}" in words(app)


@pytest.mark.parametrize(
    "options",
    [
        {"sampling": SamplingConfig(temperature=0.0)},
        {"sampling": SamplingConfig(temperature=0.7, top_k=4, repetition_penalty=1.3)},
        {"drafter": "ngram"},
    ],
)
def test_every_place_of_other_runs_renders(options):
    trace = trace_of(table_pair(6, 2), **options)
    app = opened(trace, (1, 1), **{"panel-chain": True, "panel-table": True})
    for place in every_place(app, 3):
        assert len(app.dataframe) == 2
        assert f"Round {place.round.number} · position {place.position}" in words(app)


def test_moving_the_coin_shows_what_would_have_happened_and_back():
    trace = trace_of(table_pair(5, 2))
    place = find(trace, "rejected", lambda p: p.row.p > 0.0 and p.position < 3)
    app = opened(trace, (place.round.number, place.position))
    assert "What if" not in words(app)
    app.slider[0].set_value(0.0).run()
    assert not app.exception
    text = words(app)
    assert "What if" in text and "not what happened" in text
    assert f"position {place.position} would be **accepted**" in re.sub(r"\\", "", text)
    app.button[0].click().run()
    assert "not what happened" not in words(app)


def test_the_coin_of_another_place_starts_where_it_fell():
    trace = trace_of(table_pair(5, 2))
    place = find(trace, "rejected")
    app = opened(trace, (place.round.number, place.position))
    app.slider[0].set_value(0.5).run()
    other = find(trace, "accepted", lambda p: p.round is not place.round)
    app.session_state.place = (other.round.number, other.position)
    app.run()
    assert app.slider[0].value == other.row.u


def test_a_trace_without_uniforms_offers_no_coin():
    trace = trace_of()
    rounds = tuple(
        replace(r, correct_u=None, positions=tuple(replace(p, u=None) for p in r.positions))
        for r in trace.rounds
    )
    trace = replace(trace, rounds=rounds)
    place = find(trace, "rejected")
    app = opened(trace, (place.round.number, place.position))
    assert not app.slider and "The random number fell" not in words(app)


def test_a_round_that_cannot_be_judged_again_says_so():
    trace = trace_of()
    # Its second draft token would have to be judged, and what judged it is not known.
    found = next(r for r in trace.rounds if r.k > 1 and 0 < r.positions[1].p < r.positions[1].q)
    rows = (found.positions[0], *(replace(row, u=None) for row in found.positions[1:]))
    rounds = tuple(replace(r, positions=rows) if r is found else r for r in trace.rounds)
    app = opened(replace(trace, rounds=rounds), (found.number, 1))
    app.slider[0].set_value(0.0).run()
    said = "cannot be judged again: the accept uniform of position 2 was not recorded"
    assert any(said in t.value for t in app.text)


def test_the_notation_switch_swaps_the_letters():
    trace = trace_of()
    place = find(trace, "rejected")
    app = opened(trace, (place.round.number, place.position))
    assert "min(1, p/q)" in words(app)
    app.get("button_group")[0].set_value("chen").run()
    assert not app.exception
    assert "min(1, q/p)" in words(app) and "max(0, q − p)" in words(app)


def test_expanders_hold_the_chain_and_all_numbers():
    trace = trace_of()
    place = find(trace, "rejected")
    closed = opened(trace, (place.round.number, place.position))
    assert not closed.dataframe
    app = opened(trace, (place.round.number, place.position), **{"panel-chain": True, "panel-table": True})
    chain, table = (frame.value for frame in app.dataframe)
    assert list(chain.columns) == ["step", "target p", "draft q"]
    assert float(chain["target p"].iloc[-1]) == pytest.approx(place.row.p, rel=1e-3)
    assert float(chain["draft q"].iloc[-1]) == pytest.approx(place.row.q, rel=1e-3)
    assert len(table) == len(place.candidates) + 1
    row = table[table["id"] == place.row.token].iloc[0]
    assert (row["p"], row["q"], row["rank by p"]) == (place.row.p, place.row.q, place.row.p_rank)
    assert row["p/q"] == pytest.approx(place.row.p / place.row.q)
    assert table["p"].sum() == pytest.approx(1.0)


def test_hostile_tokens_stand_in_code_spans_only():
    v = len(HOSTILE)
    trace = trace_of(HostilePair(TableModel(v, salt=1), TableModel(v, salt=2)))
    app = opened(trace, (1, 1), **{"panel-chain": True, "panel-table": True})
    seen = 0
    for place in every_place(app, 3):
        shown = {visible(place.text(t)) for t in (place.token, place.row.token) if t is not None}
        ours = [
            text
            for block in drawn(app)["told"]
            for kind, text in block.get("parts", ())
            if kind not in ("token", "name")
        ]
        for text in shown - {"\\"}:  # our own words are escaped with it
            assert all(text not in outside_code(element.value) for element in app.markdown)
            assert all(text not in element.value for element in app.caption)
            assert all(text not in part for part in ours if len(text) > 2)
            seen += text in drawn(app)["told"][0]["token"]
    assert seen


def test_what_is_told_ahead_is_what_the_panel_draws():
    trace = trace_of()

    def both():
        import streamlit as st

        from specviz.ui.rounds.inspector import inspector, tell_ahead

        inspector(st.session_state.trace, *st.session_state.place, key="panel", run="this run")
        tell_ahead(
            st.session_state.trace, [st.session_state.place[0]], "leviathan", key="panel", run="this run"
        )

    app = AppTest.from_function(both)
    app.session_state.trace = trace
    for number in (1, len(trace.rounds)):
        round = trace.rounds[number - 1]
        for position in range(1, round.k + 2):
            app.session_state.place = number, position
            app.run()
            assert not app.exception
            found = [json.loads(element.proto.json) for element in app.get("bidi_component")]
            told = [data for data in found if "places" in data]
            places = {
                place: content for data in told for place, content in json.loads(data["places"]).items()
            }
            assert {data["run"] for data in told} == {"this run"}
            ahead = places[f"{number},{position}"]
            for data in found:
                if "key" in data:
                    assert ahead[data["key"]] == data["blocks"] and data["place"] == f"{number},{position}"
            near = {
                f"{r.number},{i}"
                for r in trace.rounds
                for i in range(1, r.k + 2)
                if abs(r.number - number) < 4
            }
            assert near <= set(places)


def outside_code(source):
    """Markdown without its code spans, by the rule of CommonMark."""
    out, at = [], 0
    for opening in re.finditer(r"(?<!`)`+(?!`)", source):
        if opening.start() < at:
            continue
        closing = re.compile(rf"(?<!`){opening.group()}(?!`)").search(source, opening.end())
        if closing is None:
            continue
        out.append(source[at : opening.start()])
        at = closing.end()
    return "".join(out) + source[at:]


@pytest.mark.parametrize(
    "text", [*HOSTILE, "`", "``", "```", "` a", "a `", " ``` ", "`$x$`", "a\nb", "\u2028x"]
)
def test_code_spans_hold_any_text(text):
    source = f"The draft drew {code(text)} and more"
    assert outside_code(source) == "The draft drew  and more"
    assert "\n" not in source


def test_our_own_words_cannot_become_markup():
    source = markdown(sentence("1. *a* $b$ [c](d) :red[e] ", strong("x_y_z"), name("`rule` $1$")), str)
    assert r"1\. \*a\* \$b\$ \[c\]\(d\) \:red\[e\] **x\_y\_z**" in source
    assert "rule" not in outside_code(source)


def test_nothing_here_needs_torch():
    modules = "specviz.ui.rounds.inspector, specviz.reading.html_export"
    script = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
