"""Learn and Practice in a real Chromium: a lesson, what the browser remembers, the projector."""

import re
from pathlib import Path

import pytest

from .conftest import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(serve):
    return serve(ROOT / "app.py")


@pytest.fixture
def context(browser):
    """A browser profile: what one reader's browser remembers."""
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


def test_a_lesson_is_predicted_revealed_done_and_remembered(server, context):
    page = context.new_page()
    page.goto(f"{server}/learn?topic=accept")  # the first request of this server: a deep link
    page.get_by_role("heading", name="3. Accept with min(1, p/q)").wait_for()
    page.get_by_text("0 of 24 lessons done").wait_for()
    assert page.get_by_text("Takeaway").count() == 0
    page.get_by_role("radio", name="0.4").check(force=True)
    page.get_by_role("button", name="Check and reveal").click()
    page.get_by_text("Right: 0.4").wait_for()
    page.get_by_text("Takeaway").wait_for()
    page.get_by_role("button", name="Done. Next").click()
    page.get_by_role("heading", name="4. The residual").wait_for()
    page.get_by_text("1 of 24 lessons done").wait_for()
    page.wait_for_url(re.compile("topic=residual"))
    again = context.new_page()  # another session of the same browser
    again.goto(f"{server}/learn?topic=bonus")
    again.get_by_text("1 of 24 lessons done").wait_for()


def test_nothing_but_the_progress_is_stored(server, context):
    page = context.new_page()
    page.goto(f"{server}/practice?practice=cards")
    page.get_by_role("button", name="Show the answer").click()
    page.get_by_role("button", name="Knew it").click()
    page.get_by_text("55 of 56 cards").wait_for()
    page.wait_for_function("() => (localStorage.getItem('specviz.learning') ?? '').includes('card-boxes')")
    stored = page.evaluate("() => JSON.parse(localStorage.getItem('specviz.learning'))")
    assert set(stored) <= {"done", "card-boxes", "best-streaks", "level"}
    page.reload()
    page.get_by_text("55 of 56 cards").wait_for()


def test_broken_storage_does_no_harm(server, context):
    context.add_init_script("localStorage.setItem('specviz.learning', '{broken')")
    page = context.new_page()
    page.goto(f"{server}/practice?practice=cards")
    page.get_by_text("56 of 56 cards").wait_for()


def test_a_covered_link_has_no_answers(server, context):
    page = context.new_page()
    page.goto(f"{server}/practice?practice=check&topic=cost&exercise=3&answers=hidden")
    page.get_by_text("0 of").first.wait_for()
    assert page.get_by_role("button", name="Check", exact=True).count() == 0


def test_the_projector_makes_everything_larger(server, context):
    page = context.new_page()
    page.goto(f"{server}/learn?topic=accept&projector=true")
    heading = page.get_by_role("heading", name="3. Accept")
    heading.wait_for()
    page.wait_for_function("() => getComputedStyle(document.documentElement).fontSize === '23px'")
    large = heading.bounding_box()["height"]
    page.locator("label", has_text="Projector").first.click()
    page.wait_for_function("() => getComputedStyle(document.documentElement).fontSize !== '23px'")
    assert large > 1.3 * heading.bounding_box()["height"]


def test_dragging_works_in_the_projector_view(server, context):
    page = context.new_page()
    page.goto(f"{server}/practice?practice=order&exercise=3&projector=true")
    lines = page.locator(".kept .line")
    lines.first.wait_for()
    page.wait_for_function("() => getComputedStyle(document.documentElement).fontSize === '23px'")
    last = lines.last.get_attribute("data-key")
    box, top = lines.last.locator(".handle").bounding_box(), lines.first.bounding_box()
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 8, top["y"] + 4, steps=6)
    page.mouse.up()
    assert lines.first.get_attribute("data-key") == last


def test_an_order_is_checked_and_the_fewest_lines_are_marked(server, context):
    page = context.new_page()
    page.goto(f"{server}/practice?practice=order&exercise=3")
    page.locator(".line").first.wait_for()
    page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_text("to move", exact=False).first.wait_for()
    marked = page.locator(".line.wrong").count()
    assert 1 <= marked <= 4
    page.get_by_role("button", name="Show the order").click()
    first = page.locator(".kept .words").first
    first.get_by_text("The draft writes K tokens").wait_for()
    page.locator(".line.wrong").first.wait_for(state="detached")  # marks are about the order that was checked
    page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_text("Every line stands where it must.").wait_for()


def test_a_tour_leads_through_the_real_pages(server, context):
    page = context.new_page()
    page.goto(f"{server}/learn?topic=accept")
    page.get_by_role("button", name="Guided tours").click()
    page.get_by_role("link", name="A first look at a round").click()
    titles = ["kept", "rejected", "Thrown away", "correction comes", "perfect", "Your turn"]
    for i, title in enumerate(titles):
        page.get_by_text(f"A first look at a round, {i + 1} of 6").wait_for()
        page.locator(".st-key-tour").get_by_text(title).first.wait_for()
        page.wait_for_url(re.compile(f"step={i}\\b"))
        if i < 5:
            page.locator(".timeline").wait_for()
            page.wait_for_url(re.compile("sel="))
            page.get_by_role("button", name="Next", exact=True).click()
    page.locator(".ordering").wait_for()
    page.get_by_role("button", name="End", exact=True).click()
    page.get_by_text("A first look at a round").wait_for(state="detached")
    page.wait_for_url(lambda url: "tour=" not in url)
