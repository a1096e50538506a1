"""The Debug page under Streamlit's own test runner: recorded audits, logs, own audits."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from bad_drafts import SETTING, near, pair
from hostile import HOSTILE
from streamlit.testing.v1 import AppTest
from waiting import finish, kept

from specviz import settings
from specviz.decoding import codec
from specviz.diagnosis import recorded, where
from specviz.diagnosis.audit import trace_path
from specviz.diagnosis.plans import Outcome
from specviz.diagnosis.prompts import Prompt
from specviz.models.errors import LoadError
from specviz.ui.components import strips
from specviz.ui.debug import begin, charts, engines, helps, shown, texts, work
from specviz.ui.shell import markup as markup_of
from specviz.ui.state import jobs, keys, pairs

ROOT = Path(__file__).parent.parent
VLLM = (
    "SpecDecoding metrics: Mean acceptance length: 2.00, Accepted throughput: 1.00 tokens/s, "
    "Drafted throughput: 2.00 tokens/s, Accepted: 100 tokens, Drafted: 200 tokens, "
    "Per-position acceptance rate: 0.700, 0.300, Avg Draft acceptance rate: 50.0%"
)
SHORT = replace(SETTING, max_new_tokens=8, self_checks=0)
LLAMA = "slot print_timing: draft acceptance rate = 0.75000 (   75 accepted /   100 generated)"


def open_page(**parameters):
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.run()
    app.switch_page("pages/debug.py")
    app.query_params.update(parameters)
    return app.run()


def open_rounds(address):
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params.update(address)
    return app.run()


def links(app):
    """The addresses of the links to rounds."""
    found = [e.proto for e in app.get("page_link") if e.proto.label == "Open in Rounds"]
    return [dict(parse_qsl(proto.query_string)) for proto in found]


def markup(app):
    return "\n".join(e.value for kind in ("markdown", "caption", "info") for e in getattr(app, kind))


def figures(app, tab=0):
    return {m.label: m.value for m in app.tabs[tab].metric}


@pytest.fixture
def mine(monkeypatch, tmp_path):
    """Every pair is one of tables, and audits lie in a folder of the test."""
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    held = pair(near(0.8))
    monkeypatch.setattr(pairs, "load", lambda recipe, report: held)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", [audit.name for audit in recorded.RECORDED])
def test_recorded_audits_open_with_their_own_figures(name):
    app = open_page(audit=name)
    assert not app.exception
    report = recorded.load(name)
    assert figures(app)["Mean acceptance length"] == f"{report.mean_length[0]:.2f}"
    assert figures(app)["Draft acceptance rate"] == f"{report.rate[0]:.1%}"
    said = markup(app)
    assert f"### {report.headline}" in said and "Recorded audit of the built-in pair" in said
    for section in ("Causes", "Acceptance by position", "What would help", "Where", "Rejections"):
        assert f"#### {section}" in said


@pytest.mark.parametrize("name", [audit.name for audit in recorded.RECORDED])
def test_every_rejection_of_a_recorded_audit_lies_in_a_run_that_came_with_it(name):
    frames = recorded.load(name).frames
    tokens = frames["tokens"].sort_values(["prompt", "index"]).groupby("prompt")["token"]
    rejected = where.rejections(frames).groupby("prompt")[["round", "position", "token"]]
    for prompt, answer in tokens:
        trace = codec.load(trace_path(recorded.FOLDER / name, int(prompt)))
        assert trace.output_ids == tuple(answer)
        for number, position, token in rejected.get_group(prompt).itertuples(index=False):
            row = trace.rounds[number - 1].positions[position - 1]
            assert (row.state, row.token) == ("rejected", token)


def test_a_rejection_of_a_recorded_audit_opens_at_its_round_with_the_settings_of_its_run():
    app = open_page(audit="eagle")
    first = app.dataframe(key=keys.DEBUG_REJECTIONS).value.iloc[0]
    address = links(app)[0]
    assert address["run"] == f"audit-eagle-{first['Prompt']}"
    assert address["sel"] == f"{first['Round']}.{first['Position']}"
    rounds = open_rounds(address)  # in a session that has never seen the Debug page
    assert set(rounds.query_params) == set(address)  # nothing to add
    assert not rounds.exception and "From a file, made on" in markup(rounds)
    assert not any("settings changed" in m.value for m in rounds.markdown)
    shown = rounds.session_state
    assert (shown["drafter"], shown["dtype"]) == ("eagle", "float32")
    assert shown["seed"] == recorded.load("eagle").setting.seed + first["Prompt"]


@pytest.mark.parametrize(
    "name", ["audit-model-999", "audit-../../../etc-0", "audit--0", "audit-no-such-audit-1"]
)
def test_the_run_of_an_audit_that_is_not_here_is_no_error(name):
    rounds = open_rounds({"run": name})
    assert not rounds.exception and "From a file, made on" not in markup(rounds)


def test_a_token_of_a_text_leads_to_its_round(mine):
    prompts = [Prompt(i, text) for i, text in enumerate(("bob", "fog"))]
    job = work.begin(prompts, SHORT)
    while not job.done:
        job.turn(pairs.load(None, None))
    app = open_page(audit=job.name)
    report = shown.by_name(job.name).report
    app.session_state[keys.DEBUG_TEXT] = 1
    app.run()
    last = app.number_input(key=keys.DEBUG_TOKEN).max
    tokens = report.frames["tokens"]
    assert last == int((tokens["prompt"] == 1).sum())
    for number in (1, int(last)):
        app.number_input(key=keys.DEBUG_TOKEN).set_value(number).run()
        row = tokens[(tokens["prompt"] == 1) & (tokens["index"] == number - 1)].iloc[0]
        assert f"Round {row['round']}, position " in markup(app) and not app.exception
    trace = codec.load(trace_path(work.folder(job.name), 1))
    end = trace.rounds[-1]
    address = links(app)[-1]
    assert address["sel"] == f"{end.number}.{len(end.committed)}"
    rounds = open_rounds(address)
    assert not rounds.exception and "From a file, made on" in markup(rounds)


def test_marks_of_the_charts_choose_what_is_below(monkeypatch):
    state = {}
    monkeypatch.setattr("specviz.ui.debug.texts.st.session_state", state)
    report = recorded.load("model")
    texts.choose_emitted(report, None)
    assert not state
    tokens = report.frames["tokens"].sort_values(["prompt", "index"])
    texts.choose_emitted(report, [40])
    row = tokens.iloc[39]
    assert state == {keys.DEBUG_TEXT: row["prompt"], keys.DEBUG_TOKEN: row["index"] + 1}
    marks = charts.acceptance(report.curve).data
    assert [point[0] for point in marks[0]["customdata"]] == list(marks[0]["x"])
    found = strips.betas(["a", "b"], [("x", [0.1, float("nan")]), ("y", [0.3, 0.9])])["rows"]
    assert [row["beta"] for row in found[:2]] == [[100, None], [300, 900]]
    assert found[2] == {"name": "difference", "change": [200, None]}
    line = charts.line(report.checks["evidence"]["line"], 20.0).data[0]
    assert [point[0] for point in line["customdata"]] == list(line["x"])


def test_rejections_of_a_cell_are_those_at_its_tokens():
    report = recorded.load("model")
    found = where.rejections(report.frames)
    inside = found.merge(report.frames["tokens"][["prompt", "index"]], on=["prompt", "index"])
    for split in report.splits:
        parts = [where.of_cell(report.frames, found, split.title, cell.name) for cell in split.cells]
        assert sum(map(len, parts)) == len(inside)
        total = max(1, int(inside["lost"].sum()))
        for part, cell in zip(parts, split.cells, strict=True):
            assert part["lost"].sum() / total == pytest.approx(cell.lost, abs=1e-6)


def test_a_second_model_and_the_drafts_own_template_are_chosen_on_the_page(mine, monkeypatch):
    asked = []
    held, other = pair(near(0.8)), pair(near(0.95))
    monkeypatch.setattr(
        pairs, "load", lambda recipe, report: asked.append(recipe.draft) or (other if recipe.draft else held)
    )
    app = open_page()
    app.segmented_control(key=keys.DEBUG_SOURCE).set_value("Paste").run()
    app.text_area(key=keys.DEBUG_PASTED).set_value("bob\nfog")
    app.selectbox(key=keys.DEBUG_STYLE).set_value(begin.OWN)
    app.selectbox(key=keys.DEBUG_SECOND).set_value(begin.MODEL).run()
    app.text_input(key=keys.DEBUG_SECOND_MODEL).set_value("some/draft")
    app.number_input(key=keys.DEBUG_TOKENS).set_value(12).run()
    app.button(key=keys.DEBUG_RUN).click().run()
    finish(app)
    job = kept(app, work.NAME)
    assert not app.exception and job.done and job.failure is None, job.failure
    assert set(asked) == {"", "some/draft"} and job.audit.setting.draft_prompt == "own"
    report = shown.by_name(job.name).report
    assert report.alpha_second > report.alpha and "some/draft" in markup(app)


def outcome(mean, gain, speed, label="exact"):
    near = (gain - 0.01, gain + 0.01)
    return Outcome(mean, mean - 0.1, mean + 0.1, gain, *near, 4.0, speed, speed - 0.1, speed + 0.1, label)


def test_longer_rounds_are_not_taken_for_faster_ones(monkeypatch):
    now = outcome(1.8, 0.0, 1.1)
    found = [outcome(1.5, -0.3, 1.3), outcome(2.2, 0.4, 1.2), outcome(2.5, 0.7, 1.6, "bound")]
    said = helps._fastest(["K 1 instead of 4", "Two", "Full"], found, now)
    assert said.startswith("**Fastest by prediction: k 1 instead of 4**, 1.30× instead of 1.10×")
    assert helps._sentence("K 1 instead of 4", found[0], now).startswith("**No change here makes rounds")
    assert helps._fastest(["Much the same"], [outcome(1.8, 0.0, 1.11)], now) == ""


def test_the_fastest_change_of_a_recorded_audit_is_named():
    said = markup(open_page(audit="model"))
    texts = recorded.load("model").texts
    found = {o.title: texts.outcome(texts.plan([o])) for o in texts.options()}
    speeds = {title: o.speed for title, o in found.items() if o.speed and o.label != "bound"}
    best = max(speeds, key=speeds.get)
    named = f"**Fastest by prediction: {helps._in_sentence(best)}**, {speeds[best]:.2f}×"
    assert (named in said) == (speeds[best] >= (1 + helps.WORTH) * texts.outcome(texts.now).speed)


def test_another_recorded_audit_is_chosen_and_stands_in_the_address():
    app = open_page()
    before = figures(app)
    app.segmented_control(key=keys.DEBUG_AUDIT).set_value("eagle").run()
    assert not app.exception and app.query_params["audit"] == "eagle"
    assert figures(app) != before


@pytest.mark.parametrize("name", ["no-such-audit-here", "../../../etc", "<b>"])
def test_an_audit_that_is_not_here_is_said_to_be_gone(name):
    app = open_page(audit=name)
    assert not app.exception
    assert "not here any more" in markup(app)
    assert figures(app)["Mean acceptance length"]


def logs(app, text):
    app.text_area(key=keys.DEBUG_LOG).set_value(text).run()
    assert not app.exception
    return figures(app, 1)


def test_logs_of_engines_are_read():
    app = open_page(**{keys.DEBUG_VIEW: "Engine logs"})
    assert engines.EXAMPLE.count("\n") == 1  # a line, as the engine prints it
    assert figures(app, 1)["Accepted"] == "1,074" and "An invented example" in markup(app)
    found = logs(app, VLLM)
    assert (found["Accepted"], found["Drafted"], found["Rounds"]) == ("100", "200", "100")
    assert "An invented example" not in markup(app)
    found = logs(app, LLAMA)
    assert (found["Accepted"], found["Drafted"]) == ("75", "100") and "**llama.cpp**, 1 reading " in markup(
        app
    )


def test_constraints_are_chosen_on_the_page_and_kept_with_the_audit(mine, monkeypatch):
    begun = []
    monkeypatch.setattr(begin.work, "begin", lambda prompts, setting: begun.append(setting) or refuse())

    def refuse():
        raise ValueError("not here")

    app = open_page()
    typed = {"ban": '" Paris", 4', "bias": "7:-2", "grammar": "[a-z ]+"}
    for name, text in typed.items():
        kind = app.text_area if name == "grammar" else app.text_input
        kind(key=keys.of(keys.DEBUG_CONSTRAINT, name)).set_value(text)
    app.selectbox(key=keys.of(keys.DEBUG_CONSTRAINT, "grammar_kind")).set_value("regex")
    app.number_input(key=keys.of(keys.DEBUG_CONSTRAINT, "min_tokens")).set_value(3)
    app.run()
    app.button(key=keys.DEBUG_RUN).click().run()
    (setting,) = begun
    assert (setting.ban, setting.bias, setting.constrain) == ('" Paris", 4', "7:-2", "both")
    assert setting.sampling.min_new_tokens == 3 and setting.draft_sampling.grammar.text == "[a-z ]+"
    app.text_input(key=keys.of(keys.DEBUG_CONSTRAINT, "ban")).set_value("<b>").run()
    assert not app.exception and app.button(key=keys.DEBUG_RUN).disabled
    assert any("neither a token id nor a text" in text.value for text in app.text)


def test_what_was_typed_and_chosen_is_there_when_the_page_is_come_back_to():
    app = open_page(audit="eagle")
    app.text_input(key=keys.DEBUG_TARGET).set_value("some/target")
    app.text_area(key=keys.DEBUG_LOG).set_value(VLLM)
    app.segmented_control(key=keys.DEBUG_PLACE).set_value(2).run()
    app.number_input(key=keys.DEBUG_TOKEN).set_value(5).run()
    app.switch_page("pages/speed.py").run()
    app.switch_page("pages/debug.py").run()
    assert not app.exception
    assert app.text_input(key=keys.DEBUG_TARGET).value == "some/target"
    assert app.text_area(key=keys.DEBUG_LOG).value == VLLM
    assert app.segmented_control(key=keys.DEBUG_PLACE).value == 2
    assert app.number_input(key=keys.DEBUG_TOKEN).value == 5


def test_hostile_lines_of_a_log_stay_text():
    app = open_page(**{keys.DEBUG_VIEW: "Engine logs"})
    before = markup(app)
    logs(app, "\n".join(f"SpecDecoding metrics: {text}" for text in HOSTILE))
    after = markup(app)
    for text in HOSTILE:
        if len(text) > 2 and text not in before:
            assert text not in after
    assert any("<img src=x onerror=alert(1)>" in t.value for t in app.text)


@pytest.mark.slow
def test_an_own_audit_runs_to_its_end_and_is_shown(mine):
    app = open_page()
    app.segmented_control(key=keys.DEBUG_SOURCE).set_value("Paste").run()
    assert app.button(key=keys.DEBUG_RUN).disabled  # nothing to run yet
    app.text_area(key=keys.DEBUG_PASTED).set_value("bob\nfog\n<b>cab</b>")
    app.number_input(key=keys.DEBUG_TOKENS).set_value(12).run()
    app.button(key=keys.DEBUG_RUN).click().run()
    finish(app)
    assert not app.exception
    job = kept(app, work.NAME)
    assert job.done and job.failure is None, job.failure
    assert app.query_params["audit"] == job.name
    assert "2 prompts, " in markup(app) and "Recorded audit" not in markup(app)
    assert "1 prompt could not be measured" in [e.label for e in app.expander]  # "<" is no letter of the pair
    assert {p.name for p in work.folder(job.name).glob("*.parquet")} >= {
        "tokens.parquet",
        "positions.parquet",
    }
    other = open_page(audit=job.name)  # someone whom the address was given
    assert not other.exception and figures(other) == figures(app)


def test_ones_own_audits_are_compared_with_each_other(mine):
    app = open_page()
    app.segmented_control(key=keys.DEBUG_SOURCE).set_value("Paste").run()
    app.text_area(key=keys.DEBUG_PASTED).set_value("bob\nfog")
    names = []
    for tokens in (8, 12):
        app.number_input(key=keys.DEBUG_TOKENS).set_value(tokens).run()
        app.button(key=keys.DEBUG_RUN).click().run()
        finish(app)
        names.append(kept(app, work.NAME).name)
    assert app.segmented_control(key=keys.DEBUG_AUDIT).value == names[1]
    other = app.selectbox(key=keys.DEBUG_COMPARE)
    assert other.options[0] == "Your audit 1"
    other.set_value(names[0]).run()
    assert not app.exception and "over 2 prompts" in markup(app)


def test_an_audit_goes_on_after_a_restart(mine):
    prompts = [Prompt(i, text) for i, text in enumerate(("bob", "fog", "cab"))]
    job = work.begin(prompts, SHORT)
    for _ in range(500):
        if job.audit.done == 1:
            break
        job.turn(pairs.load(None, None))
    app = open_page(audit=job.name)
    assert not app.exception
    app.button(key=keys.DEBUG_GO_ON).click().run()
    finish(app)
    again = kept(app, work.NAME)
    assert again.name == job.name and again.done
    assert work.progress(job.name) == (3, 3)
    assert "3 prompts, " in markup(app)


def test_what_was_measured_before_a_stop_is_all_shown(mine, monkeypatch):
    monkeypatch.setattr(work, "PAUSE", 1e9)  # after its first writing it would write at the end only
    app = open_page()
    job = work.begin([Prompt(i, "bob") for i in range(4)], SHORT)
    held = pairs.load(None, None)
    job._wrote = 1e9
    while job.audit.done < 2:
        job.turn(held)
    assert not (work.folder(job.name) / "tokens.parquet").exists()
    jobs._kept[app.session_state["_owner"], work.NAME] = job
    app.query_params["audit"] = job.name
    app.run()
    assert not app.exception
    assert "2 prompts, " in markup(app) and "Stopped after 2 of 4 prompts." in markup(app)
    assert app.button(key=keys.DEBUG_GO_ON).label == "Go on (2 of 4)"


def test_a_pair_that_cannot_be_loaded_is_a_sentence(mine, monkeypatch):
    def load(recipe, report):
        raise LoadError("There is no **such** model")

    monkeypatch.setattr(pairs, "load", load)
    app = open_page()
    app.button(key=keys.DEBUG_RUN).click().run()
    finish(app)
    assert not app.exception
    assert any("There is no **such** model" in t.value for t in app.text)
    assert "Nothing has been measured yet" in markup(app)
    assert not app.text_input(key=keys.DEBUG_TARGET).disabled


def test_what_the_server_does_not_load_is_refused_before_anything_is_written(mine, monkeypatch):
    held = settings.Settings(pinned=True)
    monkeypatch.setattr("specviz.ui.state.guard.settings", lambda: held)
    app = open_page()
    app.text_input(key=keys.DEBUG_TARGET).set_value("someone/else").run()
    assert app.button(key=keys.DEBUG_RUN).disabled
    assert any("one pair of models only" in t.value for t in app.text)
    assert not work.audits().exists()


def test_a_group_of_the_prompts_file_is_no_markup(monkeypatch):
    said = f"By prompt group: worst at {HOSTILE[0]} ![i](http://x.example/y.png)."
    monkeypatch.setattr(where, "sentence", lambda splits: said)
    app = open_page()
    assert not app.exception
    assert said in [t.value for t in app.text] and said not in markup(app)


def test_sentences_of_ours_keep_their_signs():
    assert markup_of.plain("about $3: ~4") == "about \\$3\\: \\~4"


@pytest.mark.parametrize("name", ["![i](http://x.example/y.png)", "<b>bold</b>", ":red[x] `y` **z**"])
def test_the_name_of_a_second_draft_is_no_markup(monkeypatch, name):
    report = recorded.load("model")
    monkeypatch.setattr(report, "setting", replace(report.setting, second=name))
    monkeypatch.setattr(report.texts, "setting", report.setting)
    monkeypatch.setattr(helps, "WORTH", -1.0)
    app = open_page()
    assert not app.exception
    assert markup_of.plain(name) in markup(app) and name not in markup(app)
