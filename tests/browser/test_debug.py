"""The Debug page by keyboard alone, in a real Chromium: choose, open the round, come back."""

import re
from pathlib import Path

import pytest

from specviz.diagnosis import recorded, where
from specviz.diagnosis.causes import CAUSE

ROOT = Path(__file__).parents[2]
SETTLED = """document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-stale=true]')"""


@pytest.fixture(scope="module")
def app(serve):
    return serve(ROOT / "app.py")


@pytest.fixture
def debug(app, open_page):
    page = open_page(f"{app}/debug?audit=eagle", color_scheme="dark")
    page.locator("[class*=st-key-debug-lines] .cell").first.wait_for()
    page.wait_for_function(SETTLED)
    return page


def choose_second_line(page, table):
    page.locator(f".st-key-{table} canvas").first.focus()  # on the first line
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")


def follow(page, link):
    page.locator(f".st-key-{link} a").focus()
    page.keyboard.press("Enter")


def test_a_rejection_is_found_opened_and_come_back_to_by_keys(debug):
    from playwright.sync_api import expect

    report = recorded.load("eagle")
    cause = [share.key for share in report.causes if share.rejections or share.lost][1]
    found = where.rejections(report.frames)
    found = found[found["cause"] == cause].sort_values(["lost", "beta"], ascending=[False, True])
    first = found.iloc[0]
    choose_second_line(debug, "debug-causes")
    chosen = debug.locator("[data-testid=stText]").filter(has_text=re.compile(f"^{CAUSE[cause].title}$"))
    expect(chosen).to_have_count(1)
    debug.wait_for_function(SETTLED)
    said = debug.locator(".st-key-debug-one")
    expect(said).to_contain_text(f"Prompt {first['prompt']}, round {first['round']}, position")
    follow(debug, "debug-open-round")
    debug.wait_for_url(re.compile(rf"/\?.*sel={first['round']}\.{first['position']}(&|$)"))
    debug.locator("[data-testid=stApp]").get_by_text("From a file, made on").wait_for()
    debug.go_back()
    debug.wait_for_url(re.compile(r"/debug\?.*audit=eagle"))
    expect(chosen).to_have_count(1)
    expect(said).to_contain_text(f"Prompt {first['prompt']}, round {first['round']}, position")


def test_a_token_of_a_text_is_chosen_by_keys_and_its_number_moves_it(debug):
    from playwright.sync_api import expect

    text = debug.locator("[class*=st-key-debug-lines]")
    number = debug.locator(".st-key-debug-token input")
    text.get_by_role("group").focus()
    for _ in range(3):
        debug.keyboard.press("ArrowRight")
    expect(number).to_have_value("4")
    expect(text.locator(".place")).to_contain_text("Token 4 of")
    debug.wait_for_function(SETTLED)
    number.fill("7")
    number.press("Enter")
    expect(text.locator(".place")).to_contain_text("Token 7 of")
    expect(text.locator("th.token.now")).to_have_attribute("data-i", "6")
    debug.wait_for_function(SETTLED)
    text.get_by_role("group").focus()
    debug.keyboard.press("Home")
    expect(number).to_have_value("1")


def test_on_a_phone_nothing_is_wider_than_the_page(app, open_page):
    page = open_page(f"{app}/debug", width=390, height=840, color_scheme="dark")
    page.locator("[class*=st-key-debug-lines] .cell").first.wait_for()
    page.wait_for_function(SETTLED)
    assert page.evaluate(
        "(() => { const main = document.querySelector('[data-testid=stMain]');"
        " return main.scrollWidth <= main.clientWidth; })()"
    )
