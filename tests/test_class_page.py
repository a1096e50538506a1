"""A class as pages: a presenter and viewers, each in a session of his own."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.lessons import library
from specviz.ui.classroom import rooms
from specviz.ui.classroom.rooms import ShownRun, ShownSlide

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def no_classes():
    rooms._rooms.clear()
    rooms._ended.clear()
    yield
    rooms._rooms.clear()
    rooms._ended.clear()


def session(page="", **query):
    at = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    at.query_params.update(query)
    at.run()
    if page:
        at.switch_page(f"pages/{page}.py").run()
    assert not at.exception
    return at


def present(**query):
    """A presenter of a run: two clicks, the first of which opens a popover."""
    at = session(**{"run": "story", "sel": "1.2", **query})
    at.button(key="class-start").click().run()
    assert not at.exception
    (room,) = rooms._rooms.values()
    return at, room


def follow(room):
    return session("class", room=room.code)


def shown(at):
    """What the timeline on a viewer's page is told."""
    (timeline,) = [e for e in at.get("bidi_component") if e.key == "class-timeline"]
    return json.loads(timeline.proto.json)


def told(at):
    return str([e.proto.json for e in at.get("bidi_component") if e.key == "class-inspector-told"])


def words(at):
    return " ".join(m.value for m in (*at.markdown, *at.caption, *at.info, *at.warning))


def test_viewers_follow_the_presenters_run_and_selection():
    presenter, room = present()
    assert room.shown == ShownRun("story", (1, 2))
    viewers = [follow(room) for _ in range(2)]
    for viewer in viewers:
        assert shown(viewer)["push"]["selected"] == [1, 2]
        assert "position 2" in told(viewer)
    assert room.viewers() == 2
    presenter.query_params["sel"] = "3.1"
    presenter.run()
    for viewer in viewers:
        viewer.run()
        assert shown(viewer)["push"]["selected"] == [3, 1]
        assert "Round 3" in told(viewer)
    presenter.query_params["run"] = "hot"
    presenter.query_params["sel"] = "1.1"
    presenter.run()
    before = shown(viewers[0])["trace"]
    assert shown(viewers[0].run())["trace"] != before


def test_a_viewer_looks_at_another_token_until_the_presenter_goes_on():
    presenter, room = present()
    viewer = follow(room)
    viewer.session_state["_class_own"] = (room.shown, (2, 1))
    viewer.run()
    assert shown(viewer)["push"]["selected"] == [2, 1]
    assert room.shown.select == (1, 2)  # nobody else sees that
    presenter.query_params["sel"] = "1.3"
    presenter.run()
    assert shown(viewer.run())["push"]["selected"] == [1, 3]


def test_a_viewer_has_nothing_that_changes_the_run():
    _, room = present()
    viewer = follow(room)
    assert not [b.label for b in viewer.button] and not viewer.slider and not viewer.number_input
    assert "story" not in str(dict(viewer.query_params))


def test_a_poll_is_asked_answered_counted_and_revealed():
    presenter, room = present()
    presenter.button(key="class-ask").click().run()
    assert not presenter.exception
    assert "1" in presenter.query_params["lock"] and room.shown.covered
    first, second = follow(room), follow(room)
    assert not [e for e in first.get("bidi_component") if e.key == "class-timeline"]
    right = room.poll.answer
    first.button(key=f"class-answer-{right}").click().run()
    second.button(key="class-answer-2").click().run()
    second.button(key=f"class-answer-{right}").click().run()  # another answer instead
    assert room.poll.tally().counts[right] == 2 == room.poll.tally().total
    assert "What the class said" not in words(first)
    presenter.run()
    assert "2 answers" in words(presenter)
    presenter.button(key="class-reveal").click().run()
    assert 1 in room.shown.revealed
    first.run()
    assert "What the class said" in words(first) and not first.button
    assert "Round 1" in told(first)  # the verdict, in words
    assert shown(first)["push"]["revealed"] == [1]
    presenter.query_params["sel"] = "2.1"
    presenter.run()
    first.run()
    assert "What the class said" not in words(first)
    assert told(first) == "[]", "round 2 is still covered"


def test_a_reload_of_the_presenters_page_changes_nothing_for_the_class(monkeypatch):
    from specviz.ui.classroom import presenting
    from specviz.ui.rounds import workbench

    presenter, room = present(sel="2.1")
    presenter.button(key="class-ask").click().run()
    presenter.button(key="class-reveal").click().run()
    before, version = room.shown, room.version
    assert before.revealed == {1, 2}
    # Here a session is a browser; a reload is another session of the same one.
    monkeypatch.setattr(presenting, "owner", lambda: room.owner)
    again = session(run="story", sel="2.1", lock="1")
    assert workbench.presenting is presenting
    assert (room.shown, room.version) == (before, version)
    assert [b for b in again.button if b.key == "class-end"]


def test_asking_about_what_is_no_draft_token_says_what_to_do():
    presenter, room = present(sel="none")
    presenter.button(key="class-ask").click().run()
    assert room.poll is None and "Select a draft token" in words(presenter)
    assert "lock" not in presenter.query_params


def test_verdicts_that_are_covered_are_covered_for_all():
    presenter, room = present()
    presenter.button(key="class-cover").click().run()
    viewer = follow(room)
    assert shown(viewer)["covered"] and told(viewer) == "[]"
    assert "kept" not in words(viewer)
    presenter.button(key="class-cover").click().run()
    assert not shown(viewer.run())["covered"]


def test_the_class_ends_for_everybody():
    presenter, room = present()
    viewer = follow(room)
    presenter.button(key="class-end").click().run()
    assert not rooms._rooms and not [b for b in presenter.button if b.key == "class-end"]
    viewer.run()
    assert not viewer.exception and "has ended" in words(viewer)
    assert not [e for e in viewer.get("bidi_component") if e.key == "class-timeline"]


@pytest.mark.parametrize("code", ["<img src=x onerror=alert(1)>", "ABC234", "?", "a" * 5000, "**x**"])
def test_a_link_to_no_class_says_so_and_lets_one_join(code):
    at = session("class", room=code)
    assert not at.exception and "There is no class with this code" in words(at)
    assert code not in words(at) or code == "?"
    assert at.text_input(key="class-code")


def test_a_code_is_typed_in():
    _, room = present()
    at = session("class")
    at.text_input(key="class-code").set_value(f"{room.code[:3].lower()} {room.code[3:]}")
    at.button(key="class-enter").click().run()
    assert room.code in at.query_params["room"] and f"Class {room.code}" in words(at)


def test_a_full_server_says_so(monkeypatch):
    monkeypatch.setattr(rooms, "ROOMS", 0)
    at = session(run="story")
    at.button(key="class-start").click().run()
    assert "no more classes" in " ".join(e.value for e in at.error)


def test_a_run_that_the_server_dropped_is_named_as_such():
    rooms.start("teacher", ShownRun("gone-run", (1, 1)))
    (room,) = rooms._rooms.values()
    viewer = follow(room)
    assert "not on the server any more" in words(viewer)


@pytest.mark.slow
def test_a_lecture_is_followed_slide_by_slide_and_its_questions_are_polls():
    at = session("class")
    at.selectbox(key="class-lesson").set_value("residual").run()
    at.button(key="class-start").click().run()
    (room,) = rooms._rooms.values()
    assert room.shown == ShownSlide("residual", "learner", 0)
    lesson = library.lesson("residual")
    lecture = session("class", lecture="residual", reading="learner", at="0")
    # Another session is another browser here: it is no presenter, and changes nothing.
    lecture.button(key="lecture-next").click().run()
    assert room.shown.at == 0
    at.query_params.update({"lecture": "residual", "reading": "learner", "at": "0"})
    at.run()
    viewer = follow(room)
    assert lesson.objectives[0] in words(viewer)
    at.button(key="lecture-next").click().run()
    assert room.shown.at == 1 and room.poll.options == lesson.predict.options
    viewer.run()
    assert lesson.predict.why not in words(viewer)
    viewer.button(key=f"class-answer-{lesson.predict.answer}").click().run()
    assert room.poll.tally().total == 1
    at.button(key="lecture-next").click().run()
    assert not room.poll.open
    assert lesson.predict.why in words(viewer.run()) and not viewer.button
    at.button(key="lecture-next").click().run()
    assert room.poll is None


@pytest.mark.slow
@pytest.mark.parametrize("level", ["learner", "engineer"])
def test_every_slide_of_some_lessons_can_be_drawn(level):
    from specviz.ui.classroom.slides import slides

    for key in ("five-steps", "trees", "who-does-what"):
        at = session("class", lecture=key, reading=level)
        for number in range(len(slides(library.lesson(key), level))):
            at.query_params["at"] = str(number)
            at.run()
            assert not at.exception, (key, number)


@pytest.mark.parametrize("query", [{"lecture": "<b>"}, {"lecture": "accept", "at": "x", "reading": "y"}])
def test_hostile_links_to_a_lecture_do_no_harm(query):
    at = session("class", **query)
    assert not at.exception and "<b>" not in words(at)


def test_hostile_token_texts_stay_text_on_a_viewers_page(monkeypatch):
    from stories import HOSTILE, story

    from specviz.ui.state import runs

    entry = runs.Entry("mine", "title", "live", story(texts=HOSTILE))
    monkeypatch.setattr(runs, "entry_by_name", lambda name: entry)
    rooms.start("teacher", ShownRun("mine", (1, 1)))
    (room,) = rooms._rooms.values()
    from specviz.ui.classroom.presenting import poll_about

    viewer = follow(room)
    assert "<script" not in words(viewer)
    rooms.ask("teacher", poll_about("mine", entry.trace, (1, 1)))
    viewer.run()
    assert not viewer.exception
    outside = [part for m in viewer.markdown for part in m.value.split("`")[::2]]
    assert not any("<" in part or "javascript" in part for part in outside)
