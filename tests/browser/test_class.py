"""A class in a real Chromium: a presenter and two viewers, each with a browser profile of his own."""

import re
from pathlib import Path

import pytest

from .conftest import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def app(serve):
    return serve(ROOT / "app.py")


@pytest.fixture
def visitor(browser):
    """Opens a page as somebody else: ``visitor(url, width=…)``."""
    contexts = []

    def open_page(url, width=1300, height=900):
        context = browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()


def place(page, words):
    """Waits until the panel beside the timeline says where it is."""
    page.locator("h5", has_text=words).first.wait_for()


def test_two_viewers_follow_are_asked_and_are_let_go(app, visitor):
    presenter = visitor(f"{app}/?run=story&sel=1.1")
    presenter.locator(".timeline .row .cell").first.wait_for()
    presenter.get_by_role("button", name="Class", exact=True).click()
    presenter.get_by_role("button", name="Start a class").click()  # two clicks
    dialog = presenter.get_by_role("dialog")
    code = dialog.locator("h1").inner_text().replace(" ", "")
    dialog.get_by_text(f"/class?room={code}").wait_for()
    dialog.get_by_role("img", name="QR code").wait_for()
    presenter.keyboard.press("Escape")
    dialog.wait_for(state="detached")

    by_link = visitor(f"{app}/class?room={code.lower()}", width=390)
    by_code = visitor(f"{app}/class")
    by_code.get_by_label("Join a class").fill(f"{code[:3]} {code[3:]}")
    by_code.keyboard.press("Enter")
    viewers = (by_link, by_code)
    for viewer in viewers:
        place(viewer, "Round 1")
        assert viewer.get_by_role("button", name="Run", exact=True).count() == 0
    presenter.get_by_text("2 looking on").wait_for()

    presenter.locator(".timeline .row").nth(2).locator(".cell").first.click()
    for viewer in viewers:
        place(viewer, "Round 3")
    assert by_link.evaluate("document.documentElement.scrollWidth") <= 390

    presenter.get_by_role("button", name="Ask the class").click()
    by_link.get_by_role("button", name="rejected").click()
    by_code.get_by_role("button", name="accepted").click()
    by_code.get_by_role("button", name="rejected").click()
    presenter.get_by_text("rejected: 2 (100%)").wait_for()
    presenter.get_by_role("button", name="Reveal", exact=True).click()
    for viewer in viewers:
        viewer.get_by_text("What the class said (2 answers)").wait_for()
        place(viewer, "Round 3")

    presenter.reload()  # it is the same presenter
    presenter.get_by_role("button", name="End the class").wait_for()
    by_code.goto(f"{app}/learn")
    by_code.go_back()
    place(by_code, "Round 3")
    presenter.get_by_role("button", name="End the class").click()
    for viewer in viewers:
        viewer.get_by_text("This class has ended").wait_for()
        viewer.locator(".timeline").wait_for(state="detached")
    presenter.get_by_role("button", name="End the class").wait_for(state="detached")


def test_a_lecture_is_moved_by_keys_alone_and_left(app, visitor):
    page = visitor(f"{app}/class?lecture=residual")
    page.get_by_role("heading", name="4. The residual").wait_for()
    page.get_by_test_id("stHeader").wait_for(state="hidden")
    page.get_by_text("1 of 13", exact=True).wait_for()
    hears = page.locator("[data-keys=heard]")
    hears.wait_for(state="attached")
    for key, at in (("ArrowRight", 2), ("PageDown", 3), ("ArrowLeft", 2), ("End", 13), ("Home", 1), (" ", 2)):
        page.keyboard.press(key)
        page.get_by_text(f"{at} of 13", exact=True).wait_for()
    page.wait_for_url(re.compile("at=1"))
    page.reload()
    page.get_by_text("2 of 13", exact=True).wait_for()
    page.go_back()
    page.get_by_text("1 of 13", exact=True).wait_for()
    hears.wait_for(state="attached")
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile("/learn.*topic=residual"))
    page.get_by_role("heading", name="4. The residual").wait_for()
