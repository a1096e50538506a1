"""The ordering exercise in a real Chromium: by mouse, by keys alone, by touch; focus and announcements."""

import pytest

from specviz.lessons.ordering import DISTRACTORS, STEPS, TEXTS

APP = """
import streamlit as st
from specviz.lessons import ordering as exercise
from specviz.ui.components.ordering import ordering

query = st.query_params
mistakes = int(query.get("mistakes", 0))
lines = tuple(reversed((*exercise.steps(), *exercise.distractors(mistakes, 1))))
if "hostile" in query:
    lines = tuple(exercise.Line(f"h{i}", text, i) for i, text in enumerate(
        ["<img src=x onerror=alert(1)>", "**bold** $x$ :red[y]", "\u202eright to left"]))
order = ordering(lines, exercise=query.get("name", "one"), key="o", bin=mistakes > 0,
                 marks={"score": "belongs elsewhere"} if "marks" in query else None, locked="locked" in query)
st.text("kept: " + " ".join(order.kept))
st.text("out: " + " ".join(order.out))
"""

SCORE = f"Move up: {TEXTS['score']}"


@pytest.fixture(scope="module")
def server(serve):
    return serve(APP)


@pytest.fixture
def ordering(server, open_page):
    def show(query="", **options):
        page = open_page(f"{server}/?{query}", **options)
        page.locator(".line").first.wait_for()
        page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').wait_for()
        return page

    return show


def texts(page):
    return page.locator(".kept .words").all_inner_texts()


def hears(page, kept, out=()):
    """Waits until the server has heard this order."""
    page.get_by_text("kept: " + " ".join(kept), exact=True).wait_for()
    page.get_by_text(("out: " + " ".join(out)).strip(), exact=True).wait_for()


def said(page):
    return page.locator(".said").inner_text()


def focused(page):
    """The label of the focused element, through shadow roots."""
    return page.evaluate(
        "() => { let e = document.activeElement; while (e?.shadowRoot) e = e.shadowRoot.activeElement;"
        " return e?.getAttribute('aria-label') ?? e?.tagName }"
    )


def line(page, key):
    return page.locator(f'.line[data-key="{key}"]')


def test_solved_with_the_keyboard_alone(ordering):
    page = ordering()
    assert texts(page) == [TEXTS[k] for k in reversed(STEPS)]
    for _ in range(40):
        page.keyboard.press("Tab")
        if TEXTS["commit"] in (focused(page) or ""):
            break
    order = list(reversed(STEPS))
    for place, key in enumerate(STEPS):
        while order.index(key) > place:
            while key_of(page) != key:
                page.keyboard.press(
                    "ArrowDown" if order.index(key) > order.index(key_of(page)) else "ArrowUp"
                )
            page.keyboard.press("Alt+ArrowUp")
            i = order.index(key)
            order[i - 1], order[i] = order[i], order[i - 1]
            moved = TEXTS[key]
            assert moved in focused(page)  # never lost
            assert said(page) == f"{TEXTS[key]}: moved to position {i} of 5"
    hears(page, STEPS)
    assert texts(page) == [TEXTS[k] for k in STEPS]
    assert moved in focused(page)  # not by the server's answer either


def key_of(page):
    return page.evaluate(
        "() => { let e = document.activeElement; while (e?.shadowRoot) e = e.shadowRoot.activeElement;"
        " return e?.closest?.('.line')?.dataset.key }"
    )


def test_dragged_with_the_mouse(ordering):
    page = ordering()
    handle, target = line(page, "propose").locator(".handle"), line(page, "commit")
    box, top = handle.bounding_box(), target.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, (box["y"] + top["y"]) / 2, steps=5)
    page.mouse.move(box["x"] + 5, top["y"] + 2, steps=5)
    page.mouse.up()
    hears(page, ("propose", "commit", "added", "judge", "score"))
    assert TEXTS["propose"] in focused(page)
    assert said(page) == f"{TEXTS['propose']}: moved to position 1 of 5"


def test_escape_takes_a_drag_back(ordering):
    page = ordering()
    box = line(page, "propose").locator(".handle").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, line(page, "commit").bounding_box()["y"] + 2, steps=5)
    assert texts(page)[0] == TEXTS["propose"]
    page.keyboard.press("Escape")
    assert texts(page) == [TEXTS[k] for k in reversed(STEPS)]
    page.mouse.up()
    hears(page, tuple(reversed(STEPS)))


def test_moved_with_buttons_and_the_focus_stays_at_the_end_too(ordering):
    page = ordering()
    button = page.get_by_role("button", name=SCORE)
    for place in (3, 2, 1):
        button.click()
        assert said(page) == f"{TEXTS['score']}: moved to position {place} of 5"
        assert focused(page) == SCORE
    assert button.get_attribute("aria-disabled") == "true"
    button.click(force=True)
    assert said(page) == f"{TEXTS['score']}: already first"
    assert focused(page) == SCORE
    hears(page, ("score", "commit", "added", "judge", "propose"))


def test_by_touch(ordering, browser, server):
    context = browser.new_context(viewport={"width": 400, "height": 900}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{server}/")
    page.locator(".line").first.wait_for()
    page.get_by_role("button", name=SCORE).tap()
    hears(page, ("commit", "added", "score", "judge", "propose"))
    box, top = line(page, "propose").locator(".handle").bounding_box(), line(page, "commit").bounding_box()
    touch = context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def send(kind, y=None):
        points = [] if y is None else [{"x": x, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    send("touchStart", y)
    for i in range(1, 9):
        send("touchMove", y + (top["y"] + 2 - y) * i / 8)
    send("touchEnd")
    hears(page, ("propose", "commit", "added", "score", "judge"))
    context.close()


def test_lines_that_do_not_belong_are_put_below_the_border_and_back(ordering):
    page = ordering("mistakes=1")
    (wrong,) = [k for k in DISTRACTORS if line(page, k).count()]
    line(page, wrong).locator(".handle").focus()
    for _ in range(6):
        page.keyboard.press("Alt+ArrowDown")
    assert said(page) == f"{DISTRACTORS[wrong][0]}: left out"
    hears(page, tuple(reversed(STEPS)), (wrong,))
    page.keyboard.press("Alt+ArrowDown")
    assert said(page).endswith("already last")
    page.keyboard.press("Alt+ArrowUp")
    hears(page, (*reversed(STEPS), wrong))
    assert DISTRACTORS[wrong][0] in focused(page)


def test_marks_are_words_and_not_colour_alone(ordering):
    page = ordering("marks=1")
    assert line(page, "score").locator(".mark").inner_text() == "belongs elsewhere"
    assert line(page, "commit").locator(".mark").is_hidden()


def test_a_locked_exercise_stays(ordering):
    page = ordering("locked=1")
    page.get_by_role("button", name=SCORE).click(force=True)
    line(page, "score").locator(".handle").focus()
    page.keyboard.press("Alt+ArrowUp")
    assert texts(page) == [TEXTS[k] for k in reversed(STEPS)]


def test_hostile_text_is_text(ordering):
    page = ordering("hostile=1")
    assert page.locator(".line img, .line b, .line strong").count() == 0
    assert texts(page)[0] == "<img src=x onerror=alert(1)>"
