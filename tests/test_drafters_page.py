"""The Drafters page under Streamlit's own test runner, with tiny random models that have every draft."""

from pathlib import Path

import pytest
from drafts import llama_drafts
from hostile import HOSTILE
from streamlit.testing.v1 import AppTest
from tables import table_pair
from waiting import finish, kept

from specviz.decoding.trace import TokenText
from specviz.overlap import Measurement
from specviz.recipe import Recipe
from specviz.ui.components import strips
from specviz.ui.drafters import charts, compare, kinds, overlap
from specviz.ui.drafters.overlap import Along, Wish
from specviz.ui.state import jobs, pairs, runs

ROOT = Path(__file__).parent.parent


@pytest.fixture
def tiny(monkeypatch):
    """The page's pair has a vocabulary of 6 and random weights."""
    pair = llama_drafts(6)
    pair.encode = lambda prompt, chat: [ord(c) % 6 for c in prompt][:40]
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    return pair


def open_page(**parameters):
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params.update(parameters)
    app.run()
    return app.switch_page("pages/drafters.py").run()


def texts(app):
    of = ("text", "markdown", "caption", "warning", "info", "error")
    return "\n".join(element.value for kind in of for element in getattr(app, kind))


def column(app, number, name):
    return dict(zip(app.table[number].value["Drafter"], app.table[number].value[name], strict=True))


def test_without_a_model_the_page_says_what_it_would_do_and_what_the_kinds_are():
    app = open_page()
    assert not app.exception
    said = texts(app)
    assert "**Measure** loads the models" in said and "**Run all**" in said
    for kind in kinds.KINDS:
        assert kind.law in said


def test_measuring_shows_a_strip_and_figures_for_each_drafter(tiny):
    app = open_page()
    app.text_area(key="strip_text").set_value("abcabcabdfeabca").run()
    assert app.selectbox(key="strip_source").value == overlap.OWN
    app.button(key="strip-toggle").click().run()
    finish(app)
    assert not app.exception
    job = kept(app, "strip")
    work = Measurement(tiny, job.measured.tokens, first=overlap.CONTEXT)
    while not work.done:
        work.advance()
    means = {overlap.title(strip.kind): f"{strip.mean():.3f}" for strip in work.result().strips}
    assert column(app, 0, "Mean β") == means and len(means) == len(kinds.KINDS)
    assert len(app.get("bidi_component")) == 1
    assert "On 13 positions" in texts(app)


def test_what_a_run_wrote_is_measured_with_its_prompt_as_context(tiny, monkeypatch):
    app = open_page()
    app.selectbox(key="strip_source").set_value("capital").run()
    entry = runs.entry_by_name("capital")
    monkeypatch.setattr(tiny, "vocab_size", 6)
    wish = Wish("", tuple(i % 6 for i in entry.trace.prompt_ids + entry.trace.output_ids), 5, 1.0)
    job = Along(wish, Recipe())
    while not job.done:
        job.turn(tiny)
    assert job.measured.first == 5 and job.total == len(wish.tokens) - 5
    assert "its prompt is context" in texts(app)


def test_a_stopped_measurement_keeps_what_it_has(tiny):
    app = open_page()
    job = Along(Wish("abcd" * 9, (), 2, 1.0), Recipe())
    job.turn(tiny)
    jobs._kept[app.session_state["_owner"], "strip"] = job
    app.run()
    assert not job.done
    assert "Stopped after 8 of 34 positions" in texts(app)
    assert "text or temperature changed" in texts(app)


def test_nothing_to_measure_is_said(tiny):
    app = open_page()
    app.text_area(key="strip_text").set_value("ab").run()
    app.button(key="strip-toggle").click().run()
    finish(app)
    assert not app.exception and "nothing to measure" in texts(app)
    app.text_area(key="strip_text").set_value("   ").run()
    assert app.button(key="strip-toggle").disabled


def test_the_same_prompt_is_run_by_every_drafter_and_each_run_can_be_opened(tiny):
    app = open_page()
    app.text_area(key="same_prompt").set_value("abcabc")
    app.number_input(key="same_tokens").set_value(10).run()
    app.button(key="same-toggle").click().run()
    finish(app)
    assert not app.exception
    rounds = column(app, 0, "Rounds")
    assert rounds["No drafter"] == "10"
    assert list(rounds) == ["No drafter", *(compare.title(kind.name) for kind in kinds.KINDS)]
    job = kept(app, "same")
    own = {
        entry.name: entry
        for entry in (runs.entry_by_name(name) for name in runs.shelf().mine[app.session_state["_owner"]])
    }
    for kind, entry in job.entries.items():
        assert own[entry.name] is entry
        assert len(entry.trace.output_ids) == 10
        assert entry.trace.drafter == ("ngram" if kind == compare.PLAIN else kind)
        assert entry.recipe.seed == 0 and entry.recipe.prompt == "abcabc"
    links = [str(link.proto) for link in app.get("page_link")]
    assert len(links) == 1 + len(kinds.KINDS)
    assert all(any(name in link for link in links) for name in own)


def test_at_temperature_0_all_write_the_same(tiny):
    app = open_page()
    app.number_input(key="same_temperature").set_value(0.0)
    app.number_input(key="same_tokens").set_value(12).run()
    app.button(key="same-toggle").click().run()
    finish(app)
    assert "All of them wrote the same 12 tokens" in texts(app)


def test_a_pair_without_every_draft_says_which_are_missing(monkeypatch):
    pair = table_pair(6)
    pair.encode = lambda prompt, chat: [ord(c) % 6 for c in prompt][:40]

    def early_exit(layers):
        raise ValueError("a table has no layers")

    pair.early_exit = early_exit
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    app = open_page()
    app.number_input(key="same_tokens").set_value(6).run()
    app.button(key="strip-toggle").click().run()
    finish(app)
    app.button(key="same-toggle").click().run()
    finish(app)
    assert not app.exception
    said = texts(app)
    assert "a table has no layers" in said
    assert "Not to be had with this target: Medusa heads" in said and "Did not run: EAGLE" in said
    had = ["Small model", "Prompt lookup", "Suffix decoding", "Parallel draft", "Suffix, else the draft"]
    assert list(column(app, 0, "Drafter")) == had
    assert list(column(app, 1, "Drafter")) == ["No drafter", *had]


def test_a_button_of_a_kind_puts_its_prompt_into_the_comparison():
    app = open_page()
    app.button(key="try-ngram-0").click().run()
    assert not app.exception
    assert app.session_state["same_prompt"] == kinds.COPY.prompt
    assert app.session_state["same_temperature"] == kinds.COPY.temperature
    assert app.session_state["view"] == "Same prompt"


def test_token_text_reaches_the_browser_as_data(tiny):
    hostile = dict(enumerate(HOSTILE[:6]))
    tiny.token_text = lambda token: TokenText(str(hostile[token]).encode())
    job = Along(Wish("abcdefabcdef", (), 2, 1.0), Recipe())
    while not job.done:
        job.turn(tiny)
    sent = strips.payload(job.measured, job.show, overlap.name, "leviathan")
    assert len(sent["tokens"]) == 10 and all(len(row["beta"]) == 10 for row in sent["rows"])
    assert sent["tokens"][0] == job.show(job.measured.tokens[2])
    assert [row["name"] for row in sent["rows"]] == [overlap.name(kind.name) for kind in kinds.KINDS]
    for row, strip in zip(sent["rows"], job.measured.strips, strict=True):
        for shown, beta in zip(row["beta"], strip.first.tolist(), strict=True):
            assert shown is None if beta != beta else shown == pytest.approx(1000 * beta, abs=0.5)
    assert "innerHTML" not in (ROOT / "specviz/ui/components/strips/strips.js").read_text()


def test_the_charts_show_what_was_measured(tiny):
    job = Along(Wish("abcabcabdfea", (), 2, 1.0), Recipe())
    while not job.done:
        job.turn(tiny)
    measured = job.measured.strips
    figure = charts.tokens_by_k(measured, overlap.name)
    assert len(figure.data) == 2 * len(measured)
    assert figure.data[0].y[3] == pytest.approx(overlap.walk_tokens(measured[0], 4))
    assert figure.data[1].y[3] == pytest.approx(overlap.formula_tokens(measured[0], 4))
    assert f"small model {figure.data[0].y[0]:.2f}" in charts.describe_tokens(measured, overlap.name)
    bars = charts.rates_by_position({"model": (0.5, 0.25), "eagle": (0.75,)}, overlap.name)
    assert [tuple(bar.y) for bar in bars.data] == [(0.5, 0.25), (0.75,)]
