"""Guided tours: every step leads to a page that is there, with a selection that the run has."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz import traces
from specviz.lessons import library
from specviz.lessons.tours import SELECTIONS, place, tours
from specviz.reading.inspect import inspect_position
from specviz.ui.practice import sections
from specviz.ui.shell import tour

ROOT = Path(__file__).parent.parent
STEPS = [(t, i) for t in tours() for i in range(len(t.steps))]


def test_selections_are_what_they_say():
    trace = traces.load("capital")
    for what in SELECTIONS:
        assert inspect_position(trace, *place(trace, what)).state == what


def test_a_run_without_such_a_place_says_so():
    with pytest.raises(ValueError, match="bonus"):
        place(traces.load("nothing-to-copy"), "bonus")
    with pytest.raises(ValueError, match="rejected"):
        place(traces.load("equal"), "rejected")


@pytest.mark.slow
@pytest.mark.parametrize("guide, at", STEPS, ids=lambda v: getattr(v, "key", str(v)))
def test_every_step_leads_somewhere(guide, at):
    step = guide.steps[at]
    assert (ROOT / tour.PAGES[step.page]).exists()
    assert step.page not in ("rounds", "exactness") or step.run in {r.name for r in traces.RECORDINGS}
    assert step.page != "learn" or step.topic in {lesson.key for lesson in library.lessons()}
    assert step.page != "practice" or step.practice in sections.SECTIONS
    app = AppTest.from_file(ROOT / "app.py", default_timeout=30)
    app.query_params.update(tour.parameters(guide, at))
    app.run()
    assert not app.exception
    assert step.text in [m.value for m in app.markdown]  # above whatever page is open
    if step.page != "rounds":
        app.switch_page(tour.PAGES[step.page]).run()
        assert not app.exception


def test_without_a_tour_there_is_no_guide():
    at = AppTest.from_file(ROOT / "app.py", default_timeout=30)
    at.query_params.update({"tour": "no-such-tour", "step": "-5"})
    at.run()
    assert not at.exception and not [b for b in at.button if b.key == "tour-end"]
