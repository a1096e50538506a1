"""The Rounds page under Streamlit's own test runner; no model is loaded unless a test says so."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from tables import table_pair
from waiting import finish

from specviz import traces
from specviz.decoding import codec
from specviz.recipe import Recipe, to_link
from specviz.speed import verdict
from specviz.speed.beside import against_plain
from specviz.ui.rounds.inspector import NOTATIONS
from specviz.ui.state import pairs, runs

ROOT = Path(__file__).parent.parent


def open_app(*opened, **parameters):
    """The app at an address, with the expanders and popovers of these keys open."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for key in opened:
        app.session_state[key] = True
    for name, value in parameters.items():
        app.query_params[name] = value
    return app.run()


def texts(app):
    kinds = ("text", "markdown", "caption", "warning", "info", "error")
    told = [element.value for kind in kinds for element in getattr(app, kind)]
    for element in app.get("bidi_component"):
        for block in json.loads(element.proto.json).get("blocks", ()):
            told.append(block.get("text", "") + "".join(text for _, text in block.get("parts", ())))
    return "\n".join(told)


def shown(app):
    """The name of the run in the address."""
    value = app.query_params["run"]
    return value[0] if isinstance(value, list) else value


@pytest.fixture
def table_pairs(monkeypatch):
    """The page's models are table models of 6 tokens, so that a run takes milliseconds."""
    pair = table_pair(6, seed=2)
    pair.encode = lambda prompt, chat: [ord(c) % 6 for c in prompt]
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    return pair


def test_the_first_screen_shows_a_recorded_run():
    app = open_app()
    assert not app.exception
    assert "recorded run" in texts(app)
    component = app.get("bidi_component")[0]
    assert "␣Paris" not in component.proto.json  # pieces, not display text
    assert "Paris" in component.proto.json
    assert "rejected" in texts(app)  # the inspector is open at the first place


@pytest.mark.slow
def test_the_first_screen_does_not_import_torch():
    code = (
        "import sys; from streamlit.testing.v1 import AppTest\n"
        "app = AppTest.from_file('app.py', default_timeout=60).run()\n"
        "assert not app.exception, app.exception\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("entry", traces.RECORDINGS, ids=lambda r: r.name)
def test_every_recording_opens(entry):
    app = open_app(run=entry.name)
    assert not app.exception
    assert entry.moral in texts(app)
    # A link that names only the run brings its settings along.
    assert {f.name: app.session_state[f.name] for f in fields(Recipe) if f.name in app.session_state} == {
        f.name: getattr(entry.recipe, f.name) for f in fields(Recipe) if f.name in app.session_state
    }
    assert app.session_state["drafter"] == entry.recipe.drafter
    assert "settings changed" not in texts(app)


def test_choosing_a_recording_sets_the_controls():
    app = open_app()
    app.radio(key="_recording").set_value("copying").run()
    assert app.session_state["drafter"] == "ngram"
    assert app.session_state["temperature"] == 0.3
    assert "list to copy" in texts(app)


@pytest.mark.parametrize("sel", ["0.1", "99.1", "1.9", "a.b", "-1.2", "1", "1.2.3", "9" * 40 + ".1", "<img>"])
def test_a_selection_that_does_not_exist_shows_none(sel):
    app = open_app(sel=sel)
    assert not app.exception
    assert "Choose a token" in texts(app)


def test_values_from_a_link_are_clamped():
    app = open_app(
        k="999", temperature="-4", seed="1e9999", top_p="nan", prompt="x" * 20_000, drafter="<script>"
    )
    assert not app.exception
    assert 0 <= app.session_state["k"] <= 16
    assert 0 <= app.session_state["temperature"] <= 2
    assert app.session_state["drafter"] == "model"
    assert app.session_state["prompt"] == Recipe().prompt  # not the beginning of another


def test_a_value_of_a_link_that_cannot_be_is_said_as_text():
    app = open_app(k="99", drafter="<b>x</b>", temperature="nan", seed="5", prompt="y" * 9000)
    said = " ".join(w.value for w in app.warning)
    assert "k = `99`" in said and "lies outside 0 … 16: `16` is used" in said
    assert (
        "drafter = `<b>x</b>`" in said
        and "temperature = `nan`" in said
        and "9,000 characters, and at most 8,000" in said
    )
    assert "seed" not in said
    app.number_input(key="k").set_value(3).run()
    assert not app.warning, "a change of the settings has answered it"


def test_a_prompt_that_no_link_holds_is_refused_and_the_old_one_is_not_run():
    app = open_app()
    app.text_area(key="prompt").set_value("z" * 9000).run()
    assert "9,000 characters" in " ".join(e.value for e in app.error)
    assert app.button(key="run_toggle").disabled and app.button(key="run_step").disabled
    assert "prompt" not in app.query_params
    app.text_area(key="prompt").set_value("short").run()
    assert not app.error and not app.button(key="run_toggle").disabled
    assert app.query_params["prompt"] in ("short", ["short"])


def test_run_makes_rounds_to_the_end(table_pairs):
    app = open_app(prompt="abcabc", max_tokens="24", seed="4")
    assert "have not been run here" in texts(app)
    app.button(key="run_toggle").click().run()
    finish(app)
    assert not app.exception
    assert "live run" in texts(app)
    assert len(runs.entry_by_name(shown(app)).trace.output_ids) == 24


def test_a_live_run_shows_what_was_found_of_its_pair(table_pairs, monkeypatch):
    from specviz.models.report import Line

    hostile = "[x](http://x) <b>"
    table_pairs.report = (Line("ids", "fine", "6 in common"), Line("widths", "handled", hostile))
    monkeypatch.setattr(pairs.shelf(), "get", lambda recipe: table_pairs)
    app = open_app(prompt="abcabc", max_tokens="6", seed="4")
    assert "things were looked at" not in texts(app)  # a recording has no pair here
    app.button(key="run_toggle").click().run()
    finish(app)
    assert "2 things were looked at before the first round; 1 difference is handled." in texts(app)
    told = [element.value for element in app.text]
    assert "✓ fine · ids: 6 in common" in told and f"• handled · widths: {hostile}" in told


def test_step_makes_one_round_and_the_run_goes_on_from_there(table_pairs):
    app = open_app(prompt="abcabc", max_tokens="24", seed="5")
    app.button(key="run_step").click().run()
    finish(app)
    name = shown(app)
    assert len(runs.entry_by_name(name).trace.rounds) == 1
    assert app.button(key="run_toggle").label == "Resume"
    app.button(key="run_step").click().run()
    finish(app)
    assert shown(app) == name
    assert len(runs.entry_by_name(name).trace.rounds) == 2
    app.button(key="run_toggle").click().run()
    finish(app)
    assert shown(app) == name
    assert runs.entry_by_name(name).run.finish == "length"


def test_changed_settings_start_a_new_run(table_pairs):
    app = open_app(prompt="abcabc", max_tokens="24", seed="6")
    app.button(key="run_step").click().run()
    finish(app)
    first = shown(app)
    app.number_input(key="k").set_value(2).run()
    assert "settings changed" in texts(app)
    app.button(key="run_step").click().run()
    finish(app)
    assert shown(app) != first


def test_a_run_that_fails_says_why_and_keeps_its_rounds(table_pairs):
    import numpy as np

    real = table_pairs.target.logits
    table_pairs.target.logits = lambda history: np.full(6, np.nan) if len(history) > 12 else real(history)
    app = open_app(prompt="abcabc", max_tokens="24", seed="7")
    app.button(key="run_toggle").click().run()
    finish(app)
    assert not app.exception
    assert "the logits contain nan" in texts(app)
    assert "live run" in texts(app)


@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_the_caches_of_a_live_run_can_be_audited(table_pairs, drafter):
    app = open_app(prompt="abcabc", max_tokens="12", drafter=drafter)
    app.button(key="run_toggle").click().run()
    finish(app)
    next(b for b in app.button if b.label == "Audit the caches").click().run()
    finish(app)
    assert not app.exception
    reports = [s.value for s in app.success]
    assert "17" in reports[0]
    assert len(reports) == (2 if drafter == "model" else 1)
    assert not app.error


def test_a_wrong_cache_is_reported(table_pairs):
    app = open_app(prompt="abcabc", max_tokens="12", seed="9")
    app.button(key="run_toggle").click().run()
    finish(app)
    run = runs.entry_by_name(shown(app)).run
    run.target_cache.layers[0].tokens[3] ^= 1
    next(b for b in app.button if b.label == "Audit the caches").click().run()
    finish(app)
    assert "target" in app.error[0].value.lower()


def test_branching_continues_from_a_place_with_another_token(table_pairs):
    app = open_app(prompt="abcabc", max_tokens="12", seed="8")
    app.button(key="run_toggle").click().run()
    finish(app)
    parent = runs.entry_by_name(shown(app))
    app.session_state["branch-open"] = True
    app.run()
    app.selectbox(key="branch_token").set_value(5).run()
    next(b for b in app.button if b.label == "Start the branch").click().run()
    finish(app)
    assert not app.exception
    child = runs.entry_by_name(shown(app))
    assert child.parent == (parent.name, 1, 1)
    assert child.trace.prompt_ids == (*parent.trace.prompt_ids, 5)
    assert len(child.trace.output_ids) == 12
    assert any("back to the run it left" in b.label for b in app.button)


def test_a_wrong_rule_is_announced(table_pairs):
    app = open_app(prompt="abcabc", max_tokens="12", rule="always-accept")
    app.button(key="run_toggle").click().run()
    finish(app)
    assert not app.exception
    assert "Not the exact engine" in app.error[0].proto.title
    trace = runs.entry_by_name(shown(app)).trace
    assert {r.verifier for r in trace.rounds} == {"always-accept"}
    assert all(r.accepted == r.k for r in trace.rounds)


def test_an_empty_prompt_is_a_clear_error(table_pairs):
    table_pairs.encode = lambda prompt, chat: []
    app = open_app(prompt="anything")
    app.button(key="run_toggle").click().run()
    finish(app)
    assert not app.exception
    assert "no tokens" in texts(app)


def test_controls_can_be_left_out_and_keep_their_values():
    app = open_app(hide="k,drafter,gallery,files", k="3")
    assert not app.exception
    assert "k" not in [n.key for n in app.number_input]
    assert not app.get("button_group") or app.get("button_group")[0].label != "Recorded runs"


def test_a_locked_page_keeps_the_answer_covered():
    app = open_app(lock="1")
    assert not app.exception
    assert "Round 1 is covered" in texts(app)
    assert "The draft drew" not in texts(app)
    assert "The draft drew" in texts(open_app())


def test_a_recorded_run_can_be_judged_by_another_rule():
    app = open_app("judge-open", run="capital")
    assert "Every round ends as it did" in texts(app)
    app.selectbox(key="judge").set_value("always-accept").run()
    assert not app.exception
    assert "Round 1 is the first to end differently" in texts(app)


def test_a_saved_trace_opens(tmp_path):
    app = open_app("files-open")
    content = codec.dumps(traces.load("greedy"))
    app.get("file_uploader")[0].upload("mine.json", content).run()
    assert not app.exception
    assert "opened from a file" in texts(app)


def test_a_file_that_is_no_trace_is_refused_with_the_reason():
    app = open_app("files-open")
    app.get("file_uploader")[0].upload("bad.json", b'{"format": "specviz-trace", "version": [9, 0]}').run()
    assert not app.exception
    assert "version 9.0" in texts(app)
    assert "recorded run" in texts(app)  # what was shown stays


def test_the_settings_of_a_trace_are_found_again_unless_the_controls_cannot_say_them():
    from dataclasses import replace

    from specviz.decoding.controls import SamplingConfig
    from specviz.ui.rounds.files import recipe_of

    for entry in traces.RECORDINGS:
        found = recipe_of(traces.load(entry.name))
        for name in ("prompt", "drafter", "k", "temperature", "seed", "draft", "own", "rule"):
            assert getattr(found, name) == getattr(entry.recipe, name)
    trace = traces.load("capital")
    for change in (
        {"k": 900},
        {"drafter": "<b>"},
        {"max_new_tokens": 10**6},
        {"stop": ("a", "b")},
        {"written": 2},  # a branch
        {"sampling": replace(trace.sampling, banned=(1,)), "draft_sampling": SamplingConfig(banned=(2,))},
    ):
        assert recipe_of(replace(trace, **change)) is None
    assert recipe_of(replace(trace, prompt="")).ids == ", ".join(map(str, trace.prompt_ids))
    free = SamplingConfig(0.7)
    bound = SamplingConfig(0.7, banned=(3, 4), bias=((5, -1.5),), forced=(6,), min_new_tokens=2)
    for target, draft, whose in ((bound, bound, "both"), (bound, free, "target"), (free, bound, "draft")):
        found = recipe_of(replace(trace, sampling=target, draft_sampling=draft, ignore_eos=True))
        assert (found.constrain, found.own, found.ignore_eos) == (whose, False, True)
        assert found.samplings(None) == (target, draft)


def test_recipes_survive_a_link():
    from specviz.recipe import from_link

    recipe = Recipe(
        prompt="a & b\n😀", k=7, temperature=1.25, own=True, draft_temperature=0.0, stop="\n", chat=True
    )
    assert from_link(to_link(recipe)) == recipe
    assert to_link(Recipe()) == {}


def test_the_timeline_keeps_its_place_when_a_run_starts_and_ends(monkeypatch):
    """In another place of the page the browser would build it anew, and show a selection of before."""

    def path(node, before=()):
        for i, child in getattr(node, "children", {}).items():
            if child.type == "bidi_component":
                return (*before, i)
            found = path(child, (*before, i))
            if found:
                return found
        return ()

    app = open_app(run="capital")
    resting = path(app.main)
    monkeypatch.setattr(runs, "going", lambda: True)
    app.run()
    assert not app.exception
    assert len(resting) > 2 and path(app.main) == resting


def test_judging_by_the_exact_rule_again_leaves_the_panel_open():
    app = open_app("judge-open", run="capital")
    app.selectbox(key="judge").set_value("always-accept").run()
    app.selectbox(key="judge").set_value("exact").run()
    assert not app.exception
    assert "Every round ends as it did" in texts(app)


def test_what_is_told_ahead_has_the_letters_of_the_link():
    app = open_app(run="capital", notation=NOTATIONS["chen"])
    found = [json.loads(element.proto.json) for element in app.get("bidi_component")]
    (told,) = [data for data in found if data.get("key") == "inspector-told"]
    places = {}
    for data in found:
        if "places" in data:
            assert data["run"] == told["run"]
            places |= json.loads(data["places"])
    assert places[told["place"]]["inspector-told"] == told["blocks"]
    (more,) = [data for data in found if data.get("key") == "inspector-more"]
    assert places[more["place"]]["inspector-more"] == more["blocks"]
    assert "min(1, q/p)" in json.dumps(more["blocks"])


def test_one_press_makes_the_draft_greedy():
    app = open_app(prompt="abcabc", temperature="1.0")
    assert not app.toggle(key="own").value
    app.button(key="greedy-draft").click().run()
    assert app.toggle(key="own").value and app.number_input(key="draft_temperature").value == 0.0
    assert app.button(key="greedy-draft").disabled
    assert app.number_input(key="temperature").value == 1.0
    app.toggle(key="own").set_value(False).run()
    assert not app.button(key="greedy-draft").disabled


def test_a_link_with_constraints_and_a_conversation_fills_the_controls_and_makes_that_run():
    recipe = Recipe(
        prompt="ab",
        chat=True,
        system='Say "x"',
        turns="a\n---\nb",
        template='{"enable_thinking": false}',
        bias='42: -5, " Paris": 2.5',
        ban="7",
        force="9",
        min_tokens=3,
        ignore_eos=True,
        grammar="[a-z]+",
        grammar_kind="regex",
        constrain="target",
        device="cpu",
        dtype="float32",
    )
    app = open_app(**to_link(recipe))
    assert not app.exception
    for name in ("system", "turns", "bias", "ban", "force", "grammar"):
        found = [w.value for w in (*app.text_area, *app.text_input) if w.key == name]
        assert found == [getattr(recipe, name)]
    assert app.query_params["bias"] in (recipe.bias, [recipe.bias])
    assert "11 set" in str([e.label for e in app.expander])


def test_settings_that_do_not_fit_are_said_and_cannot_be_run():
    app = open_app(prompt="a", system="<b>x</b>")
    assert "These settings do not fit together." in texts(app)
    assert "switch it on" in texts(app)
    assert next(b for b in app.button if b.key == "run_toggle").disabled
    hostile = open_app(prompt="a", ban="<img src=x>", device="/dev/null", dtype="int8")
    assert "which cannot be read" in texts(hostile)
    assert not hostile.exception


@pytest.mark.parametrize("name, gains", [("copying", "faster"), ("story", "slower")])
def test_the_speed_against_plain_decoding_stands_beside_the_other_figures(name, gains):
    scale = against_plain(traces.load(name))
    assert verdict.gains(scale.speedup) == gains
    app = open_app(run=name)
    assert not app.exception
    (figure,) = [m for m in app.metric if m.label == "Speed against plain decoding"]
    assert figure.value == f"{scale.speedup:.2f}×"
    said = "\n".join(m.value for m in app.markdown)
    assert f"{scale.speedup:.2f}× {'as fast as' if gains == 'faster' else 'the speed of'} plain" in said
    assert verdict.reason(scale) in said and (gains == "faster" or verdict.wanted(scale, 4) in said)
    assert any(link.proto.label == "Is it faster here, and why?" for link in app.get("page_link"))
