"""The Exactness page in a real browser."""

import re
from pathlib import Path

import pytest

from specviz import traces
from specviz.tokens import visible

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def app(serve):
    return serve(ROOT / "app.py")


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def test_a_cold_link_shows_the_position_and_the_fault_it_names(serve, open_page):
    page = open_page(f"{serve(ROOT / 'app.py')}/exactness?run=story&sel=2.1&fault=ratio-inverted")
    page.get_by_text("control: ratio upside down").wait_for()
    page.get_by_text("✓ agrees with p").first.wait_for()
    page.get_by_text("✓ caught").first.wait_for()
    story = traces.load("story")
    before = visible(story.tokens[story.rounds[0].committed[-1]])  # the text before position 1 of round 2
    page.get_by_text(before).first.wait_for()
    assert page.get_by_role("radio", name="Ratio upside down").is_checked()


def test_the_run_and_the_position_come_along_from_the_rounds_page_and_back(app, open_page):
    page = open_page(f"{app}/?run=story&sel=2.1")
    page.get_by_text("Speculative decoding, round by round").first.wait_for()
    page.get_by_test_id("stTopNavLink").filter(has_text="Exactness").click()
    page.get_by_text("1 arithmetic").wait_for()
    page.wait_for_url(lambda url: "run=story" in url and "sel=2.1" in url)
    page.get_by_test_id("stTopNavLink").filter(has_text="Rounds").first.click()
    page.get_by_text("Speculative decoding, round by round").first.wait_for()
    page.wait_for_url(re.compile("run=story"))
    page.get_by_text("Round 2 · position 1").first.wait_for()


def test_a_page_that_is_opened_again_is_as_it_was_left(app, open_page):
    page = open_page(f"{app}/exactness?run=story&sel=2.1&fault=ratio-inverted&draws=10%2C000%2C000")
    page.get_by_text("control: ratio upside down").wait_for()
    page.get_by_test_id("stTopNavLink").filter(has_text="Learn").click()
    page.get_by_text("Reading level").wait_for()
    assert "fault" not in page.url
    page.get_by_test_id("stTopNavLink").filter(has_text="Exactness").click()
    page.get_by_text("control: ratio upside down").wait_for()
    page.wait_for_url(re.compile("fault=ratio-inverted"))
    page.wait_for_url(lambda url: "run=story" in url and "sel=2.1" in url)
    assert page.get_by_role("combobox", name="Draws").input_value() == "10,000,000"


def test_draws_run_live_and_stop_answers(app, open_page):
    page = open_page(f"{app}/exactness?run=capital&sel=6.1&draws=10%2C000%2C000")
    page.get_by_text("1,000 draws so far").wait_for()
    button(page, "Draw").click()
    # Streamlit's own toolbar has a Stop too, which would leave the page half drawn.
    ours = page.locator(".st-key-draw_toggle")
    # At once: a real click waits until nothing moves, and by then a fast machine has drawn them all.
    ours.get_by_role("button", name="Stop").first.dispatch_event("click")
    button(page, "Continue").or_(button(page, "Draw")).wait_for()
    drawn = page.locator(".st-key-card-sampling").get_by_text("draws so far").inner_text()
    assert int(drawn.split()[0].replace(",", "")) > 1000
    page.get_by_text("✓ agrees with p").first.wait_for()


CONTRAST = """(button) => {
  const light = (css) => {
    const canvas = document.createElement('canvas').getContext('2d');
    canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
    const part = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(part);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let behind = button;  // the first that is not transparent
  const clear = (e) => ['transparent', 'rgba(0, 0, 0, 0)'].includes(getComputedStyle(e).backgroundColor);
  while (clear(behind) && behind.parentElement) behind = behind.parentElement;
  const [a, b] = [getComputedStyle(button).color, getComputedStyle(behind).backgroundColor].map(light);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_button_that_cannot_be_pressed_can_be_read(app, open_page, scheme):
    page = open_page(f"{app}/exactness?run=capital&sel=6.1&draws=1%2C000", color_scheme=scheme)
    draw = page.locator(".st-key-draw_toggle button").first
    draw.wait_for()
    page.get_by_text("1,000 draws so far").wait_for()
    assert draw.is_disabled() and draw.evaluate(CONTRAST) >= 4.5


def test_a_fault_is_chosen_with_the_keyboard_and_stands_in_the_address(app, open_page):
    page = open_page(f"{app}/exactness?run=capital&sel=6.1")
    first = page.get_by_role("radio", name="Correction drawn from p")
    first.wait_for()
    first.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_url(re.compile("fault=correction-argmax"))
    page.get_by_text("After a rejection it takes the target's most likely token").wait_for()


def test_every_chart_has_a_name(app, open_page):
    page = open_page(f"{app}/exactness?run=capital&sel=6.1")
    page.get_by_text("1 arithmetic").wait_for()
    page.locator(".js-plotly-plot").nth(4).wait_for()
    assert page.get_by_label("Bars of kept and corrected mass against p").count() >= 2
