"""The lessons as a page: every topic at both levels, without a model, and nothing before a guess."""

import re
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.lessons import library, pictures

ROOT = Path(__file__).parent.parent
KEYS = [lesson.key for lesson in library.lessons()]


def learn(**query):
    at = AppTest.from_file(ROOT / "app.py", default_timeout=30)
    at.query_params.update(query)
    at.run()
    at.switch_page("pages/learn.py")
    return at.run()


def reveal(at, key):
    return at.button(key=f"reveal-{key}").click().run()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["learner", "engineer"])
@pytest.mark.parametrize("key", KEYS)
def test_every_lesson_shows_its_text_its_widget_and_its_takeaway(key, level):
    at = learn(topic=key)
    at.segmented_control(key="level").set_value(level).run()
    lesson = library.lesson(key)
    assert not at.exception
    assert lesson.texts[level] not in [m.value for m in at.markdown]  # predict first
    reveal(at, key)
    assert not at.exception
    assert lesson.texts[level] in [m.value for m in at.markdown]
    assert lesson.takeaway in [i.value for i in at.info]
    drawn = str([e.proto for e in at.get("bidi_component")])
    assert all(pictures.picture(name).alt[:30] in drawn for name in lesson.pictures)
    shown = [c.value for c in at.code]
    assert (level == "engineer" and bool(lesson.cell)) == (bool(lesson.cell) and lesson.cell.code in shown)
    assert any(lesson.objectives[0] in m.value for m in at.markdown)
    components = len(at.get("bidi_component")) - 1  # without the browser's memory
    assert len(at.get("plotly_chart")) + len(at.dataframe) + len(at.table) + components >= 1


def test_a_prediction_is_judged():
    lesson = library.lesson("accept")
    for guess in range(len(lesson.predict.options)):
        at = learn(topic="accept")
        at.radio(key="guess-accept").set_value(guess).run()
        reveal(at, "accept")
        shown = at.success if guess == lesson.predict.answer else at.warning
        assert lesson.predict.why in [s.value for s in shown]


def test_done_goes_on_and_is_counted():
    at = reveal(learn(topic="five-steps"), "five-steps")
    at.button(key="finish").click().run()
    assert at.selectbox(key="topic").value == "accept"
    assert at.session_state["learning-memory"]["done"] == ["five-steps"]


def test_hidden_answers_stay_covered():
    at = learn(topic="accept", answers="hidden")
    assert not [b for b in at.button if b.key == "reveal-accept"]
    assert library.lesson("accept").predict.why not in [e.value for e in (*at.info, *at.success, *at.warning)]


def test_an_unknown_topic_is_the_first():
    assert learn(topic="<script>").selectbox(key="topic").value == KEYS[0]


def test_junk_in_the_browsers_memory_is_ignored():
    from specviz.ui.components import memory
    from specviz.ui.learn import lessons

    for junk in ("x", {"a": 1}, [1, None, "no-such-lesson"], None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "recall", lambda name, junk=junk: junk)
            assert lessons.done() == set()


@pytest.mark.slow
def test_the_lessons_do_not_import_torch():
    import subprocess

    code = (
        "from streamlit.testing.v1 import AppTest; from pathlib import Path; import sys;"
        "at = AppTest.from_file(Path('app.py').resolve(), default_timeout=60);"
        "at.run(); at.switch_page('pages/learn.py').run(); assert not at.exception;"
        "at.switch_page('pages/practice.py').run(); assert not at.exception;"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip().endswith("[]")


@pytest.mark.slow
def test_the_lessons_look_at_a_run_of_ones_own(monkeypatch):
    from specviz import traces
    from specviz.ui.learn.widgets_runs import WIDGETS, WITHOUT_RUN
    from specviz.ui.state import runs

    assert set(WIDGETS) == set(KEYS)
    entry = runs.Entry("mine", "An open story", "live", traces.load("story"))
    monkeypatch.setattr(runs, "mine", lambda: [entry])
    for key in sorted(set(KEYS) - set(WITHOUT_RUN)):
        at = reveal(learn(topic=key), key)
        at.selectbox(key="lesson-run").set_value("mine").run()
        assert not at.exception, key
        assert any(f"seed {entry.trace.seed}" in m.value and "T = 1" in m.value for m in at.markdown)


@pytest.mark.slow
def test_a_run_with_hostile_text_stays_text(monkeypatch):
    from stories import HOSTILE, story

    from specviz.ui.learn.widgets_runs import WITHOUT_RUN
    from specviz.ui.state import runs

    entry = runs.Entry("mine", "**hostile** <b>", "file", story(40, texts=HOSTILE, seed=5))
    monkeypatch.setattr(runs, "mine", lambda: [entry])
    for key in sorted(set(KEYS) - set(WITHOUT_RUN)):
        at = reveal(learn(topic=key), key)
        at.selectbox(key="lesson-run").set_value("mine").run()
        assert not at.exception, key
        for element in (*at.markdown, *at.caption):
            outside = re.sub(r"(`+).*?\1", "", element.value)
            assert "<img" not in outside and "<script" not in outside, element.value
