"""A class without a page: rooms and who may change them, counting, slides."""

from itertools import pairwise

import pytest

from specviz import traces
from specviz.lessons import library
from specviz.ui.classroom import presenting, rooms
from specviz.ui.classroom.link import qr
from specviz.ui.classroom.polls import VOTERS, Poll
from specviz.ui.classroom.rooms import ShownRun, ShownSlide
from specviz.ui.classroom.slides import ROOM, slides


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A server without classes, and a clock to set."""
    now = [1000.0]
    monkeypatch.setattr(rooms, "monotonic", lambda: now[0])
    rooms._rooms.clear()
    rooms._ended.clear()
    yield now
    rooms._rooms.clear()
    rooms._ended.clear()


STORY = ShownRun("story", (1, 1))


def test_a_class_is_found_by_its_code_however_it_is_typed():
    room = rooms.start("teacher", STORY)
    assert rooms.CODE.fullmatch(room.code)
    code = room.code.lower()
    assert rooms.room(f" {code[:3]}-{code[3:]}\n") is room
    assert not set(room.code) & set("01OIL")


@pytest.mark.parametrize(
    "text",
    ["", "ABC", "ABCDEFG", "ABC0EF", "<script>", "../../etc", "A" * 10**6, "ÀBCDEF", "ABC\0EF", "%00%00"],
)
def test_what_cannot_be_a_code_is_none(text):
    rooms.start("teacher", STORY)
    assert rooms.room(text) is None and not rooms.ended(text) and rooms.spelled(text) == ""


def test_nobody_can_change_another_ones_class():
    first = rooms.start("first", STORY)
    second = rooms.start("second", ShownSlide("accept", "learner", 0))
    assert first is not second
    version = first.version
    rooms.show("second", ShownRun("hot", None))
    rooms.ask("second", Poll(("hot",), ("a", "b"), 0))
    rooms.reveal("second")
    rooms.end("second")
    rooms.show("nobody", ShownRun("hot", None))
    rooms.end("nobody")
    assert (first.shown, first.poll, first.version) == (STORY, None, version)
    assert rooms.room(first.code) is first and rooms.room(second.code) is None


def test_starting_again_goes_on_with_the_same_class():
    room = rooms.start("teacher", STORY)
    assert rooms.start("teacher", ShownRun("hot", None)) is room
    assert room.shown == ShownRun("hot", None)
    assert rooms.start("teacher") is room and room.shown == ShownRun("hot", None)


def test_viewers_look_again_only_when_something_has_changed():
    room = rooms.start("teacher", STORY)
    before = room.version
    rooms.show("teacher", STORY)
    room.look("a")
    assert room.version == before
    rooms.show("teacher", ShownRun("story", (1, 2)))
    assert room.version > before


def test_the_server_holds_a_bounded_number_of_classes(clock):
    for i in range(rooms.ROOMS):
        rooms.start(f"teacher {i}", STORY)
    with pytest.raises(rooms.Full):
        rooms.start("one too many", STORY)
    assert rooms.start("teacher 3") is not None  # has one already
    rooms.end("teacher 0")
    rooms.start("one too many", STORY)


def test_a_class_ends_when_its_presenter_stays_away(clock):
    room = rooms.start("teacher", STORY)
    clock[0] += rooms.AWAY - 1
    assert rooms.presented("teacher") is room  # a sign of life
    clock[0] += rooms.AWAY - 1
    assert rooms.room(room.code) is room
    clock[0] += 2
    assert rooms.room(room.code) is None and rooms.ended(room.code)
    assert room.shown is None


def test_ended_codes_are_remembered_up_to_a_bound():
    for i in range(rooms.ENDED + 5):
        rooms.start(f"teacher {i}", STORY)
        rooms.end(f"teacher {i}")
    assert len(rooms._ended) == rooms.ENDED and not rooms._rooms


def test_viewers_are_counted_while_they_look(clock):
    room = rooms.start("teacher", STORY)
    for i in range(30):
        room.look(f"viewer {i}")
    room.look("viewer 0")
    assert room.viewers() == 30
    clock[0] += rooms.LOOKING + 1
    room.look("viewer 7")
    assert room.viewers() == 1
    for i in range(2 * rooms.VIEWERS):
        room.look(f"other {i}")
    assert len(room._viewers) == rooms.VIEWERS


def test_answers_are_counted_once_a_browser_and_can_be_changed():
    poll = Poll(("story", 1, 1), ("accepted", "rejected", "not judged any more"), 1)
    assert poll.tally().total == 0 and poll.tally().share(0) == 0.0
    assert all(poll.vote(f"v{i}", i % 2) for i in range(10))
    assert poll.vote("v0", 1) and poll.said("v0") == 1
    assert not poll.vote("v0", 3) and not poll.vote("v0", -1)
    assert poll.tally().counts == (4, 6, 0) and poll.tally().total == 10
    assert poll.tally().share(1) == pytest.approx(0.6)


def test_a_closed_poll_keeps_the_counts_and_forgets_who_said_what():
    poll = Poll((), ("a", "b"), 0)
    poll.vote("anna", 0)
    poll.close()
    assert not poll.vote("bert", 1) and poll.tally().counts == (1, 0)
    assert "anna" not in repr(poll) and poll.said("anna") is None
    poll.close()
    assert poll.tally().total == 1


def test_a_poll_keeps_a_bounded_number_of_answers():
    poll = Poll((), ("a", "b"), 0)
    assert sum(poll.vote(str(i), 0) for i in range(2 * VOTERS)) == VOTERS
    assert poll.vote("3", 1)  # who has answered can still change it


def test_the_presenter_is_not_asked_and_an_open_poll_outlives_a_look_elsewhere():
    room = rooms.start("teacher", STORY)
    assert not room.vote("anna", 0)  # nothing is asked
    rooms.ask("teacher", Poll(("story", 1, 1), ("a", "b"), 0))
    assert not room.vote("teacher", 0) and room.vote("anna", 0)
    rooms.show("teacher", ShownRun("story", (2, 1)))
    assert room.poll is not None and room.poll.open
    rooms.show("teacher", STORY)
    rooms.reveal("teacher")
    assert room.poll is not None and not room.poll.open
    rooms.show("teacher", ShownRun("story", (2, 1)))
    assert room.poll is None


def test_a_poll_asks_about_a_draft_token_and_knows_its_verdict():
    trace = traces.load("story")
    seen = set()
    for round in trace.rounds:
        for position in range(1, round.k + 1):
            poll = presenting.poll_about("story", trace, (round.number, position))
            assert poll is not None and poll.about == ("story", round.number, position)
            assert presenting.VERDICTS[poll.answer] == round.positions[position - 1].state
            seen.add(poll.answer)
        assert presenting.poll_about("story", trace, (round.number, round.k + 1)) is None
    assert seen == {0, 1, 2}
    for nowhere in (None, (0, 1), (10**6, 1), (1, 0), (1, 99)):
        assert presenting.poll_about("story", trace, nowhere) is None


@pytest.mark.parametrize("level", ["learner", "engineer"])
@pytest.mark.parametrize("lesson", library.lessons(), ids=lambda x: x.key)
def test_slides_hold_the_whole_lesson_one_thing_at_a_time(lesson, level):
    made = slides(lesson, level)
    texts = [slide.text for slide in made if slide.kind == "text"]
    words = "".join("\n\n".join(texts).split())
    assert words == "".join(lesson.texts[level].split())
    assert all(len(text) <= 3 * ROOM for text in texts), max(map(len, texts))
    assert [s.text for s in made if s.kind == "picture"] == list(lesson.pictures)
    asked = [s.choice for s in made if s.kind in ("question", "check")]
    assert asked == [lesson.predict, *lesson.questions]
    for before, after in pairwise(made):
        assert (before.kind in ("question", "check")) == (after.kind in ("answer", "solution"))
        if before.kind in ("question", "check"):
            assert after.choice is before.choice  # nothing is answered before it is asked
    assert made[0].kind == "title" and str(lesson.minutes) in made[0].text
    assert lesson.objectives[-1] in made[0].text and made[-1].text == lesson.takeaway
    assert any(s.kind == "code" for s in made) == (
        level == "engineer" and bool(lesson.pseudocode or lesson.cell)
    )


def test_the_link_is_a_qr_code_that_stays_readable_in_the_dark():
    picture = qr("http://localhost:8501/class?room=ABC234")
    from xml.etree import ElementTree

    root = ElementTree.fromstring(picture.svg)
    assert root.get("viewBox") and root.get("aria-label") == picture.alt
    assert "#fff" in picture.svg and "#000" in picture.svg
