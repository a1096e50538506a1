"""The Speed page under the app test runner: recorded figures first, then measured ones as they come."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from tiny import tiny_pair
from waiting import finish, kept

from specviz.decoding.run import DecodingRun
from specviz.speed import files, verdict
from specviz.speed.files import RECORDED
from specviz.speed.presets import PRESETS
from specviz.speed.sweep import Plan, Sweep
from specviz.ui.speed import look, maps, roofline, table, work
from specviz.ui.state import jobs, pairs

ROOT = Path(__file__).parent.parent


@pytest.fixture
def tiny(monkeypatch):
    pair = tiny_pair()
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    return pair


@pytest.fixture(scope="module")
def swept():
    """A finished measurement of the tiny pair."""
    sweep = Sweep(tiny_pair(), Plan(k=2, prompts=("abcabcabc",), tokens=8, turns=1))
    while sweep.done < sweep.total:
        sweep.step()
    sweep.let_go()
    return sweep


def open_page(**parameters):
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params.update(parameters)
    app.run()
    return app.switch_page("pages/speed.py").run()


def texts(app):
    of = ("text", "markdown", "caption", "warning", "info", "error")
    said = [element.value for kind in of for element in getattr(app, kind)]
    return "\n".join([*said, *(element.body for element in app.html if hasattr(element, "body"))])


def small(app):
    """A measurement that is soon over."""
    app.text_area(key="speed-own").set_value("abcabcabc")
    app.slider(key="speed-turns").set_value(1)
    app.toggle(key="speed-grid").set_value(False)
    app.number_input(key="speed-k").set_value(2)
    return app.run()


def test_what_was_recorded_is_shown_first_and_says_where_it_comes_from():
    app = open_page()
    assert not app.exception
    said, found = texts(app), files.recorded("greedy")
    assert app.selectbox(key="speed-shown").value == "greedy"
    assert "recorded" in said and "made on another machine" in said
    for fact in (found.machine.processor, found.machine.torch, found.machine.date[:10], found.setting.pair):
        assert fact in said
    for card in (
        "A round, to scale",
        "Cost of a pass",
        "Speed-up by K",
        "Which draft would pay",
        "Why: the roofline of this machine",
        "Calculator",
        "Drafters",
    ):
        assert f"## {card}" in said
    assert len(app.get("plotly_chart")) == 7


@pytest.mark.parametrize("kind", ["ngram", "early-exit"])
def test_the_verdict_is_in_words_when_it_wins_and_when_it_loses(kind):
    found = files.recorded("greedy")
    app = open_page()
    app.selectbox(key="speed-drafter").set_value(kind).run()
    assert not app.exception
    said, run = texts(app), found.run(kind, 4)
    scale = verdict.scale(run, found.plain)
    assert verdict.headline(found.speedup(run)) in said
    assert verdict.reason(scale) in said and verdict.wanted(scale, 4) in said
    assert ("loses" in verdict.headline(found.speedup(run))) == (kind == "early-exit")


def test_what_is_drawn_agrees_with_the_verdict():
    """The speed in words is that of the bars: time for the same tokens."""
    for name in RECORDED:
        found = files.recorded(name)
        for kind in found.drafters:
            for run in found.fixed(kind):
                assert verdict.scale(run, found.plain).speedup == pytest.approx(found.speedup(run))


def test_a_k_that_was_not_run_is_predicted_and_says_so():
    app = open_page()
    app.number_input(key="speed-k").set_value(5).run()
    said = texts(app)
    told = files.recorded("greedy").predicted("model", 5)
    assert "K = 5 was not run" in said and f"{told:.2f}×" in said and "predicted" in said
    app.number_input(key="speed-k").set_value(16).run()
    assert not app.exception and "K = 16 was not run" in texts(app)


@pytest.mark.slow
def test_a_measurement_runs_as_a_job_and_is_shown_as_measured_here(tiny):
    app = small(open_page())
    app.button(key="speed-measure").click().run()
    app = finish(app)
    app.run()
    assert not app.exception
    job = kept(app, "speed")
    assert job.done and job.sweep.pair is None  # holds no model
    assert app.selectbox(key="speed-shown").value == work.HERE
    said = texts(app)
    assert "measured here" in said and "`abcabcabc`" not in said  # one text has no figures of its own
    assert job.report.setting.texts == ("abcabcabc",)
    # The recorded ones are a choice away.
    app.selectbox(key="speed-shown").set_value("greedy").run()
    assert not app.exception and "made on another machine" in texts(app)


@pytest.mark.slow
def test_a_stopped_measurement_shows_what_it_has_and_goes_on(tiny):
    app = small(open_page())
    app.button(key="speed-measure").click().run()
    finish(app)
    whole = kept(app, "speed")
    job = jobs._kept[app.session_state["_owner"], "speed"] = work.Measuring(whole.needs[0], whole.plan)
    while job.sweep is None or job.sweep.done < 3:
        job.turn(tiny)
    app.run()
    assert not app.exception
    assert app.button(key="speed-measure").label == "Go on"
    said = texts(app)
    assert "Stopped after 3 of" in said and "No run has been measured yet" in said
    passes = job.report.passes
    app.button(key="speed-measure").click().run()
    app = finish(app)
    assert kept(app, "speed") is job and job.done and job.report.passes is passes


@pytest.mark.slow
def test_a_measurement_outlives_the_pair_that_had_to_go(tiny, swept):
    job = work.Measuring(work.Recipe(), Plan(k=2, prompts=("abc",), tokens=6, turns=1, grid=False))
    while job.sweep is None or job.sweep.done < 3:
        job.turn(tiny)
    for tell in pairs.shelf().on_drop:
        tell(tiny)
    assert job.sweep.pair is None and job.sweep.bench is None and job.report.passes
    again = tiny_pair()
    while not job.done:
        job.turn(again)
    assert job.report.plain is not None


@pytest.mark.slow
def test_what_broke_off_says_why_and_can_go_on(tiny, monkeypatch):
    app = small(open_page())
    with monkeypatch.context() as broken:
        broken.setattr(DecodingRun, "step", lambda run: 1 / 0)
        app.button(key="speed-measure").click().run()
        app = finish(app)
    assert "The measurement broke off" in texts(app)
    assert app.button(key="speed-measure").label == "Go on"
    app.button(key="speed-measure").click().run()
    app = finish(app)
    assert not app.exception and kept(app, "speed").done


def test_a_drafter_that_the_pair_lacks_is_refused_in_words(tiny):
    app = small(open_page())
    app.selectbox(key="speed-drafter").set_value("eagle").run()
    app.button(key="speed-measure").click().run()
    app = finish(app)
    assert not app.exception and "has no drafter 'eagle'" in texts(app)


def test_presets_are_labelled_estimates_with_formula_and_source():
    app = open_page()
    for preset in PRESETS:
        app.segmented_control(key="speed-preset").set_value(preset.name).run()
        said = texts(app)
        assert not app.exception
        assert "**Estimated**, not measured" in said and preset.source in said and "bytes / bandwidth" in said
        assert app.slider(key="speed-c").value == pytest.approx(preset.c, abs=0.006)
        assert app.slider(key="speed-alpha").value == preset.alpha
    # More room for a small draft of a large target, less in a batch.
    one, batch, large, _ = PRESETS
    assert large.c < one.c and batch.v(4) >= one.v(4)


def test_names_of_texts_and_of_models_are_data(swept):
    hostile = "<img src=x onerror=alert(1)>"
    app = open_page()
    report = swept.report
    two = [replace(run, by_text=(*run.by_text, 1.0)) if run.k else run for run in report.runs]
    setting = replace(report.setting, texts=(hostile, "**b**"), pair=hostile)
    swept_job = work.Measuring(work.Recipe(), Plan())
    swept_job.sweep = type("Done", (), {})()
    swept_job.sweep.report = replace(report, setting=setting, runs=two)
    swept_job.sweep.done = swept_job.sweep.total = 1
    jobs._kept[app.session_state["_owner"], "speed"] = swept_job
    app.session_state["_speed_fresh"] = True
    app.session_state["speed-k"] = 2
    app.run()
    assert not app.exception
    assert "`**b**`" in texts(app)
    assert hostile not in table.html(swept_job.report, [("model", swept_job.report.run("model", 2))])


def test_the_map_puts_every_drafter_where_its_tokens_a_round_say():
    found = files.recorded("greedy")
    best = maps.Best(found)
    assert best(0.8, 0.05) > best(0.5, 0.05) > best(0.5, 0.3)
    figure = maps.chart_map(found)
    points = figure.data[-1]
    assert len(points.x) == len(found.drafters)
    assert sum("you are here" in text for text in points.text) == 1
    assert found.kept(found.setting.drafter) in list(points.x)


def test_a_batch_has_its_own_v(swept):
    report = swept.report
    assert [p.batch for p in report.grid]
    found = roofline.by_batch(report, 0)
    assert next(iter(found)) == "Batch" and "1" in found
    assert roofline.batch_v(report, 0, 1) > 0 and roofline.batch_v(report, 0, 1000) is None
    assert "In every batch" in roofline.sentence(report, 0) or "From batch" in roofline.sentence(report, 0)


def test_the_files_hold_the_report(swept):
    assert files.from_json(files.to_json(swept.report)) == swept.report
    assert json.loads(files.to_json(swept.report))["machine"]["torch"]


def test_the_table_has_every_drafter_and_the_best_k():
    found = files.recorded("greedy")
    rows = [(kind, table.shown(found, kind)) for kind in found.drafters]
    html = table.html(found, rows)
    for kind in found.drafters:
        assert look.name(kind) in html and verdict.of_drafter(found, kind) in html
    assert html.count("<tr") == 1 + len(rows) and html.count('class="here"') == 1


def test_beside_a_recording_stands_the_other_one():
    app = open_page()
    assert "## With hot, open texts" in texts(app)
    app.selectbox(key="speed-shown").set_value("hot").run()
    assert not app.exception and "## With greedy texts" in texts(app)
