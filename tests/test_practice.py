"""Practice: generated questions, forecasts of verdicts, spaced repetition, the Anki package."""

import io
import json
import sqlite3
import zipfile
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from specviz import traces
from specviz.decoding.randomness import accepts
from specviz.lessons import (
    anki,
    interview,
    library,
    numeric,
    ordering,
    progress,
    schedule,
    verdicts,
)
from specviz.ui.components import ordering as component
from specviz.ui.components.ordering import Order
from specviz.ui.practice import check as ui
from specviz.ui.practice import verdicts as game
from specviz.ui.shell import teaching


def test_there_are_at_least_forty_questions_over_all_topics():
    fixed = [(lesson.key, q) for lesson in library.lessons() for q in lesson.questions]
    topics = {key for key, _ in fixed} | {numeric.topic_of(kind) for kind in numeric.GENERATORS}
    assert len(fixed) + len(numeric.GENERATORS) >= 40
    assert topics == {lesson.key for lesson in library.lessons()}


@pytest.mark.parametrize("kind", list(numeric.GENERATORS))
def test_generated_questions_are_fresh_repeatable_and_solved(kind):
    made = [numeric.problem(kind, seed) for seed in range(60)]
    assert numeric.problem(kind, 7) == made[7]
    assert len({p.question for p in made}) > 20
    for p in made:
        assert np.isfinite(p.answer) and p.right(p.answer) and not p.right(p.answer + 2 * p.tolerance + 0.1)
        assert p.solution and p.topic in {lesson.key for lesson in library.lessons()}
        # The last figure of the solution that equals the answer stands in it, rounded.
        shown = " ".join(p.solution)
        assert any(f"{p.answer:.{d}f}" in shown for d in (0, 2, 3, 4)) or f"{p.answer:g}" in shown


@pytest.mark.parametrize("seed", range(40))
def test_answers_recomputed_from_the_question_alone(seed):
    """Independent arithmetic from the numbers that the question prints."""

    def columns(text):
        rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")][1:]
        return {name.strip(): (float(p), float(q)) for name, p, q in rows}

    def named(text):
        return text.rsplit("**", 2)[1]

    def beta(table):
        return sum(min(pq) for pq in table.values())

    p = numeric.problem("accept_probability", seed)
    a, b = columns(p.question)[named(p.question)]
    assert p.answer == pytest.approx(min(1, a / b))
    p = numeric.problem("overlap", seed)
    assert p.answer == pytest.approx(beta(columns(p.question)))
    p = numeric.problem("corrected_to", seed)
    table = columns(p.question)
    a, b = table[named(p.question)]
    assert p.answer == pytest.approx((a - b) / (1 - beta(table)))
    p = numeric.problem("wrong_correction", seed)
    table = columns(p.question)
    a, b = table[named(p.question)]
    assert p.answer == pytest.approx(min(a, b) + (1 - beta(table)) * a)
    p = numeric.problem("match_rate", seed)
    assert p.answer == pytest.approx(sum(a * b for a, b in columns(p.question).values()))
    p = numeric.problem("argmax_with_soft_q", seed)
    a, b = max(columns(p.question).values(), key=lambda pq: pq[1])
    assert p.answer == pytest.approx(min(1, a / b))
    p = numeric.problem("filtered", seed)
    table = columns(p.question)
    kept = sorted((a for a, _ in table.values()), reverse=True)[:2]
    a, b = table[named(p.question)]
    assert p.answer == pytest.approx(min(1, a / sum(kept) / b) if a in kept else 0)


@pytest.mark.parametrize("level", verdicts.LEVELS)
def test_tasks_come_from_the_run_and_their_probabilities_are_the_rules(level):
    trace = traces.load("capital")
    made = verdicts.tasks(trace, level, seed=3)
    assert made == verdicts.tasks(trace, level, seed=3) and made != verdicts.tasks(trace, level, seed=4)
    assert len(made) >= 10
    for task in made:
        row = trace.rounds[task.round - 1].positions[task.position - 1]
        kept = row.state == "accepted"
        assert kept == accepts(row.u, row.p, row.q)
        assert 0 <= task.probability <= 1
        if level < 3:
            assert task.happened == kept and task.probability == min(1, row.p / row.q)
            assert task.kind.startswith("kept") == kept
            assert ("certain" in task.kind) == (row.p >= row.q if kept else row.p == 0)
        else:
            assert task.about != row.token and task.happened == (
                not kept and trace.rounds[task.round - 1].token == task.about
            )


def test_level_three_is_the_law_of_the_emitted_token():
    """P(kept draft) and the probabilities of all corrections sum to 1."""
    for task in verdicts.tasks(traces.load("capital"), 3, 0):
        seen = task.inspection
        keep = min(1, seen.row.p / seen.row.q)
        others = sum(c.residual or 0 for c in seen.candidates) + (seen.rest.residual or 0)
        assert keep + (1 - keep) * others == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("truth", [0.0, 0.2, 0.5, 0.83, 1.0])
def test_the_score_is_proper(truth):
    forecasts = np.linspace(0, 1, 101)
    expected = [
        truth * verdicts.quadratic_score(f, True) + (1 - truth) * verdicts.quadratic_score(f, False)
        for f in forecasts
    ]
    assert forecasts[int(np.argmax(expected))] == pytest.approx(truth, abs=0.005)
    best = max(expected)
    for f, value in zip(forecasts, expected, strict=True):
        assert best - value == pytest.approx(verdicts.expected_loss(f, truth) - min(
            verdicts.expected_loss(g, truth) for g in forecasts), abs=1e-9)  # fmt: skip


def test_boxes():
    box, day, today = 0, 0, 700_000
    for rest in schedule.RESTS[1:]:
        box, day = schedule.answered(box, True, today)
        assert day == today + rest
    assert schedule.answered(box, True, today)[0] == len(schedule.RESTS) - 1
    assert schedule.answered(box, False, today) == (0, today)


def test_due_cards_are_overdue_ones_then_new_ones():
    cards = library.cards()[:4]
    boxes = {cards[0].key: (2, 105), cards[1].key: (1, 99), cards[2].key: (3, 100)}
    assert schedule.due(cards, boxes, 100) == [cards[1], cards[2], cards[3]]


@pytest.mark.parametrize(
    "junk",
    [None, [], "x", {"a": 1}, {"proof": [1]}, {"proof": [9, 5]}, {"proof": [True, 5]}, {"other": [1, 5]},
     {"proof": [1, -5]}, {"proof": ["1", 5]}, {"proof": [1, 5, 6]}],
)  # fmt: skip
def test_what_a_browser_remembers_is_checked(junk):
    assert schedule.boxes_from(junk, {"proof"}) == {}


def test_boxes_survive_json():
    boxes = {"proof": schedule.answered(1, True, 700_000)}
    assert schedule.boxes_from(json.loads(json.dumps(boxes)), {"proof"}) == boxes


def test_anki_package_holds_every_card_once(tmp_path):
    data = anki.package(library.cards())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extract("collection.anki2", tmp_path)
    with sqlite3.connect(tmp_path / "collection.anki2") as database:
        notes = database.execute("select guid, flds, tags from notes").fetchall()
    assert len(notes) == len(library.cards()) == len({guid for guid, _, _ in notes})
    for _, fields, _ in notes:
        assert len(fields.split("\x1f")) == len(anki.FIELDS)
    guids = {guid for guid, _, _ in notes}
    import genanki

    assert genanki.guid_for("specviz", "proof") in guids


def test_markup_in_a_card_is_escaped():
    assert anki._html("a < b & **c** $x_1$") == r"a &lt; b &amp; <b>c</b> \(x_1\)"


ROOT = Path(__file__).parent.parent


def practice(**query):
    at = AppTest.from_file(ROOT / "app.py", default_timeout=30)
    at.query_params.update(query)
    at.run()
    return at.switch_page("pages/practice.py").run()


def test_an_order_from_the_browser_is_graded_and_explained():
    at = practice(practice="order", exercise="3")
    assert not at.exception
    right = list(ordering.STEPS)
    wrong = [right[1], right[0], *right[2:]]
    for kept, moves in ((wrong, 1), (right, 0)):
        exercise = at.session_state["ordering-memory"]["exercise"]
        at.session_state["ordering"] = {"order": {"version": exercise, "kept": kept, "out": []}}
        at.session_state["ordering-memory"]["order"] = Order(tuple(kept), ())
        at.run()
        at.button(key="order-check").click().run()
        assert not at.exception
        if moves:
            assert at.warning[0].value and ordering.REASONS[("propose", "score")] in [
                m.value for m in at.markdown
            ]
        else:
            assert [s.value for s in at.success] == ["Every line stands where it must."]


@pytest.mark.parametrize(
    "value",
    [None, [], {}, {"version": "v", "kept": ["a"], "out": []},
     {"version": "x", "kept": ["a", "b"], "out": []},
     {"version": "v", "kept": ["a", "a"], "out": []}, {"version": "v", "kept": ["a", 1], "out": ["b"]},
     {"version": "v", "kept": "ab", "out": []}, {"version": "v", "kept": [["a"], "b"], "out": []}],
)  # fmt: skip
def test_an_order_that_is_none_is_not_believed(value):
    assert component._order(value, "v", {"a", "b"}) is None


def component_data(at):
    return json.loads(at.get("bidi_component")[0].proto.json)


def test_the_order_that_is_shown_has_the_mistakes_outside_and_no_old_marks():
    at = practice(practice="order", exercise="3")
    at.segmented_control(key="order-mistakes").set_value(3).run()
    at.button(key="order-check").click().run()
    assert component_data(at)["marks"]
    at.button(key="order-solve").click().run()
    data = component_data(at)
    assert data["order"] == list(ordering.STEPS) and data["marks"] is None
    assert len(data["out"]) == 3 and set(data["out"]) <= set(ordering.DISTRACTORS)
    at.button(key="order-check").click().run()
    assert [s.value for s in at.success] == ["Every line stands where it must."]
    assert set(component_data(at)["marks"].values()) == {""}


def test_only_a_line_at_its_place_is_marked_as_right():
    at = practice(practice="order", exercise="3")
    first, second, *rest = ordering.STEPS
    kept = [*rest, first, second]  # two lines have to move; the other three are in order, at wrong places
    at.session_state["ordering-memory"]["order"] = Order(tuple(kept), ())
    at.run()
    at.button(key="order-check").click().run()
    marks = component_data(at)["marks"]
    assert set(marks) == {first, second} and all(marks.values()), "nothing stands at its place"


def test_another_source_of_lines_leaves_mistakes_and_order_as_they_are():
    at = practice(practice="order", exercise="3")
    at.segmented_control(key="order-mistakes").set_value(2).run()
    kept = tuple(reversed(component_data(at)["order"]))
    at.session_state["ordering-memory"]["order"] = Order(kept, ())
    at.segmented_control(key="order-source").set_value("a real round").run()
    at.segmented_control(key="order-source").set_value("five steps").run()
    assert at.segmented_control(key="order-mistakes").value == 2
    assert component_data(at)["order"] == list(kept)


def test_an_order_with_lines_left_out_is_believed():
    assert component._order({"version": "v", "kept": ["b"], "out": ["a"]}, "v", {"a", "b"}) == Order(
        ("b",), ("a",)
    )


def test_a_real_round_can_be_put_in_order():
    at = practice(practice="order")
    at.segmented_control(key="order-source").set_value("a real round").run()
    assert not at.exception and at.selectbox(key="order-round").options


@pytest.mark.parametrize("level", verdicts.LEVELS)
def test_the_game_is_played_and_scored(level):
    at = practice(practice="verdict", exercise="5")
    if level > 1:
        at.segmented_control(key="verdict-level").set_value(level).run()
    task = verdicts.tasks(traces.load("capital"), level, 5)[0]
    if level == 1:
        at.radio(key="verdict-1-0").set_value(task.kind)
    else:
        at.slider(key=f"forecast-{level}-0").set_value(round(100 * task.probability))
    at.button(key="verdict-commit").click().run()
    assert not at.exception
    metrics = {m.label: m.value for m in at.metric}
    assert metrics["Answered"] == "1" and metrics["Streak"] == "1" and metrics["Best on this browser"] == "1"
    if level > 1:
        expected = verdicts.quadratic_score(round(100 * task.probability) / 100, task.happened)
        assert metrics["Mean score"] == f"{expected:.3f}"
    at.button(key="verdict-next").click().run()
    assert not at.exception and at.button(key="verdict-commit")


def test_what_happened_is_covered_until_the_answer():
    for level in verdicts.LEVELS:
        at = practice(practice="verdict", exercise="5")
        if level > 1:
            at.segmented_control(key="verdict-level").set_value(level).run()
        told = (*at.markdown, *at.metric, *at.caption)
        shown = " ".join(str(e.value) for e in told if e.value not in game.HELP.values())
        assert "rejected" not in shown and "accepted" not in shown and "corrected" not in shown


def test_a_card_is_answered_and_comes_back_later():
    at = practice(practice="cards")
    first = at.subheader[0].value
    assert library.cards()[0].short not in " ".join(m.value for m in at.markdown)
    at.button(key="card-show").click().run()
    assert library.cards()[0].short in " ".join(m.value for m in at.markdown)
    at.button(key="card-known").click().run()
    assert not at.exception and at.subheader[0].value != first
    box, day = at.session_state["learning-memory"]["card-boxes"][library.cards()[0].key]
    assert box == 1 and day == date.today().toordinal() + 1


def test_a_forgotten_card_stays_due():
    at = practice(practice="cards")
    at.button(key="card-show").click().run()
    at.button(key="card-again").click().run()
    assert at.session_state["learning-memory"]["card-boxes"][library.cards()[0].key][0] == 0
    assert f"{len(library.cards())} of" in at.caption[0].value


def test_again_does_not_bring_the_same_card_at_once():
    at = practice(practice="cards")
    asked = []
    for _ in range(5):
        asked.append(at.subheader[0].value)
        at.button(key="card-show").click().run()
        at.button(key="card-again").click().run()
    assert not at.exception and len(set(asked[:4])) == 4


def test_a_crammed_card_comes_back_until_it_is_known():
    at = practice(practice="cards", cards="cram")
    first = at.subheader[0].value
    for button in ("card-again", *["card-known"] * schedule.AGAIN_AFTER):
        at.button(key="card-show").click().run()
        at.button(key=button).click().run()
        if button == "card-again":
            assert at.subheader[0].value != first
    assert not at.exception and at.subheader[0].value == first
    assert "learning-memory" not in at.session_state, "the schedule stays as it is"


def test_cramming_ends_when_every_card_is_known():
    state, asked = schedule.Cram(("a", "b", "c")), []
    for known in (False, True, True, True, True):
        asked.append(state.queue[0])
        state = schedule.crammed(state, state.queue[0], known)
    assert asked == ["a", "b", "c", "a", "a"] and not state.queue and not state.missed


def test_check_answers_at_the_first_click_and_asks_for_an_answer_first():
    at = practice(practice="check", topic="accept", exercise="2")
    name, question = next(q for q in ui.pool("accept", 2) if isinstance(q[1], numeric.Problem))
    at.button(key=f"check-{name}-2").click().run()
    assert any("Answer first" in c.value for c in at.caption) and not at.warning
    at.number_input(key=f"answer-{name}-2").set_value(question.answer)
    at.button(key=f"check-{name}-2").click().run()
    assert not at.exception and len(at.success) == 1
    assert not any("Answer first" in c.value for c in at.caption)
    assert at.session_state["learning-memory"]["checks"] == {question.topic: [1, 0]}


@pytest.mark.slow
def test_every_block_of_the_plan_leads_somewhere_and_does_what_it_says():
    lessons = {lesson.key for lesson in library.lessons()}
    blocks = interview.plan()
    assert {block.day for block in blocks} == {1, 2}
    for block in blocks:
        topic = block.parameters.get("topic")
        assert topic in (None, "all") or topic in lessons
        at = AppTest.from_file(ROOT / "app.py", default_timeout=30)
        at.query_params.update(block.parameters)
        at.run()
        if block.page != "rounds":
            at.switch_page(f"pages/{block.page}.py").run()
        assert not at.exception
        if block.parameters.get("practice") == "order":
            assert at.segmented_control(key="order-mistakes").value == 3
        if "cards" in block.parameters:
            assert at.segmented_control(key="card-mode").value == "cram"
        if block.page == "learn":
            assert at.session_state["level"] == "engineer"
        if "interview" in block.parameters:
            part = at.segmented_control(key="interview-part")
            assert part.value == block.parameters["interview"]


def test_what_is_ticked_in_the_plan_is_remembered():
    at = practice(practice="interview")
    assert not at.exception and len(at.checkbox) == len(interview.plan())
    assert {b.what for b in interview.plan()} <= {
        m.value for m in at.markdown
    }  # not in a label, which is cut off
    at.checkbox(key="plan-tick-2").check().run()
    assert at.session_state["learning-memory"]["plan"] == [2]
    at.segmented_control(key="interview-part").set_value("weak").run()
    at.segmented_control(key="interview-part").set_value("plan").run()
    assert at.checkbox(key="plan-tick-2").value


@pytest.mark.parametrize("count", [3, 5, 8])
def test_an_interview_begins_with_easy_questions_and_repeats_no_topic(count):
    for seed in range(20):
        chosen = interview.questions(count, seed)
        assert chosen == interview.questions(count, seed) and len(chosen) == count
        assert [c.level for c in chosen] == sorted(c.level for c in chosen)
        assert len({c.topic for c in chosen}) == count
    weak = library.cards()[0].topic
    assert any(c.topic == weak for c in interview.questions(count, 0, [weak]))


def test_a_mock_interview_is_asked_compared_graded_and_summed_up():
    at = practice(practice="interview", interview="mock", exercise="1")
    at.segmented_control(key="mock-length").set_value(3).run()
    at.button(key="mock-begin").click().run()
    asked = interview.questions(3, 1)
    for i, (card, grade) in enumerate(zip(asked, (0, 2, 3), strict=True)):
        assert not at.exception and at.subheader[0].value == card.question
        assert card.solid not in " ".join(m.value for m in at.markdown), "covered until it is answered"
        at.button(key="mock-answered").click().run()
        assert card.solid in " ".join(m.value for m in at.markdown)
        assert len(at.checkbox) == len(card.bullets) and not any(c.value for c in at.checkbox)
        follow = card.follow_ups[i % len(card.follow_ups)]
        at.button(key="mock-show").click().run()
        assert follow.answer in [m.value for m in at.markdown]
        at.checkbox(key=f"mock-said-{i}-0").check().run()
        at.button(key=f"mock-grade-{grade}").click().run()
    assert not at.exception
    metrics = {m.label: m.value for m in at.metric}
    assert metrics["Mean grade, 0 to 3"] == "1.7" and metrics["Solid or better"] == "2 of 3"
    kept = at.session_state["learning-memory"]["mock"]
    assert {key: value[0] for key, value in kept.items()} == {
        card.key: grade for card, grade in zip(asked, (0, 2, 3), strict=True)
    }
    at.segmented_control(key="interview-part").set_value("weak").run()
    assert not at.exception
    shown = " ".join(m.value for m in at.markdown)
    assert asked[0].question in shown and asked[2].question not in shown
    at.segmented_control(key="interview-part").set_value("mock").run()
    at.button(key="mock-again").click().run()
    at.button(key="mock-begin").click().run()
    assert not at.exception and not any(c.value for c in at.checkbox)


def test_a_checklist_suggests_a_grade():
    bullets = ["a", "b", "c", "d"]
    assert [interview.held(bullets, range(n)) for n in range(5)] == [0, 1, 1, 2, 3]
    assert interview.held([], []) == 0


def test_weak_spots_begin_with_the_topic_missed_most():
    one, other = library.lessons()[0].key, library.lessons()[1].key
    data = {"checks": {one: [1, 1], other: [0, 4]}, "mock": "junk", "card-boxes": [1]}
    assert [(w.topic, w.missed, w.asked) for w in progress.weak_spots(data)] == [(other, 4, 4), (one, 1, 2)]
    assert progress.weak_spots({}) == []


def test_progress_survives_its_file_and_nothing_else_gets_in():
    lesson, card = library.lessons()[0].key, library.cards()[0].key
    data = {
        "done": [lesson],
        "level": "engineer",
        "card-boxes": {card: [2, 700_000]},
        "best-streaks": {"1": 4},
        "checks": {lesson: [3, 1]},
        "mock": {card: [2, 700_000]},
        "plan": [0, 3],
    }
    assert progress.imported(progress.exported(data).encode()) == data
    junk = {**dict.fromkeys(data, "<script>"), "other": 1}
    assert progress.imported(progress.exported(junk).encode()) == {}


@pytest.mark.parametrize(
    "content, what",
    [(b"{", "not JSON"), (b"[" * 60_000, "not JSON"), (b"[1]", "not a file"), (b"\xff", "not JSON"),
     (b" " * 70_000, "too large"), (b'{"format": "specviz-progress", "version": 9}', "version")],
)  # fmt: skip
def test_a_file_that_is_no_progress_is_refused(content, what):
    with pytest.raises(ValueError, match=what):
        progress.imported(content)


def test_progress_is_read_from_a_file_on_the_page():
    at = practice(practice="interview", interview="file")
    assert not at.exception
    saved = progress.exported({"plan": [1], "done": [library.lessons()[0].key]}).encode()
    at.file_uploader(key="progress-load").set_value(("progress.json", saved, "application/json")).run()
    assert not at.exception and "1 lesson done, 0 cards" in at.success[0].value
    assert at.session_state["learning-memory"]["plan"] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["all", *(lesson.key for lesson in library.lessons())])
def test_every_topic_can_be_checked(topic):
    at = practice(practice="check", topic=topic, exercise="2")
    assert not at.exception
    questions = ui.pool(topic, 2)
    assert len(questions) >= 2
    for name, question in questions:
        key = f"answer-{name}-2"
        if isinstance(question, numeric.Problem):
            at.number_input(key=key).set_value(question.answer)
        else:
            at.radio(key=key).set_value(question.answer)
        at.button(key=f"check-{name}-2").click().run()
    assert not at.exception
    assert len(at.success) == len(questions) and not at.warning


def test_a_wrong_answer_shows_the_solution():
    at = practice(practice="check", topic="accept", exercise="2")
    name, question = next(q for q in ui.pool("accept", 2) if isinstance(q[1], numeric.Problem))
    at.number_input(key=f"answer-{name}-2").set_value(question.answer + 1)
    at.button(key=f"check-{name}-2").click().run()
    assert question.solution[0] in at.warning[0].value


@pytest.mark.parametrize("section", ["order", "verdict", "cards", "check", "mock"])
def test_covered_answers_cannot_be_asked_for(section):
    asked = {"practice": "interview", "interview": "mock"} if section == "mock" else {"practice": section}
    at = practice(**asked, answers="hidden")
    assert not at.exception
    asking = ("order-check", "order-solve", "verdict-commit", "card-show", "mock-begin")
    assert not [b.key for b in at.button if b.key in asking or str(b.key).startswith("check-")]


@pytest.mark.parametrize(
    "text, value", [("7", 7), ("-1", 0), ("x", 0), ("", 0), ("9" * 9, 999_999), ("٣", 0)]
)
def test_numbers_of_an_address_are_clamped(text, value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teaching.st, "query_params", {"exercise": text})
        assert teaching.number("exercise") == value


def test_a_link_leads_to_the_same_exercise():
    link = teaching.address("https://host/base/learn?x=1", "practice", {"topic": "cost", "exercise": 4})
    assert link == "https://host/base/practice?topic=cost&exercise=4"
    assert ui.pool("cost", 4) == ui.pool("cost", 4) != ui.pool("cost", 5)
