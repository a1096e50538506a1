"""Runs that go on while their page is reloaded, left, gone back from, stopped, or open twice."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tables import BranchingTable, TablePair

from specviz.recipe import Recipe
from specviz.tokens import visible

from .conftest import PATIENCE

ROOT = Path(__file__).parents[2]
SETTLED = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"


@pytest.fixture(scope="module")
def app(serve):
    folders = (Path(__file__).parent / "slow_models", ROOT, ROOT / "tests")
    return serve(ROOT / "app.py", PYTHONPATH=os.pathsep.join(map(str, folders)))


def button(page, label):
    return page.locator(".st-key-run_toggle").get_by_role("button", name=re.compile(f"{label}$"))


def rounds(page):
    return page.locator(".st-key-timeline .row").count()


def at_least(page, count):
    """Until the timeline has so many rounds."""
    page.locator(".st-key-timeline .row").nth(count - 1).wait_for()


def begin(open_page, app, seed, tokens=48):
    page = open_page(f"{app}/?prompt=abcabc&max_tokens={tokens}&seed={seed}")
    button(page, "Run").click()
    button(page, "Stop").wait_for()
    at_least(page, 2)
    return page


def ends(page):
    """The rounds of the run when it is over; the button is there before the timeline is drawn."""
    button(page, "Run").wait_for()
    at_least(page, 1)
    page.wait_for_function(SETTLED)
    return rounds(page)


def test_a_reload_in_mid_run_finds_it_going_on(app, open_page):
    page = begin(open_page, app, 1)
    address = page.url
    page.reload()
    button(page, "Stop").wait_for()
    page.wait_for_url(address)
    assert ends(page) > 5


def test_back_leaves_the_run_going_and_forward_finds_it(app, open_page):
    page = open_page(f"{app}/?run=capital&prompt=abcabc&max_tokens=60&seed=2")
    button(page, "Run").click()
    button(page, "Stop").wait_for()
    page.wait_for_url(lambda url: "run=capital" not in url)
    address = page.url
    page.go_back()
    page.wait_for_url(lambda url: "run=capital" in url)
    button(page, "Run").wait_for()
    page.go_forward()
    page.wait_for_url(address)
    page.get_by_text("Made here").first.wait_for()  # the recording has a Run and rounds of its own
    at_least(page, 8)
    assert ends(page) > 8


def test_stop_answers_and_resume_goes_on_in_the_same_run(app, open_page):
    page = begin(open_page, app, 3)
    address = page.url
    button(page, "Stop").click()
    button(page, "Resume").wait_for()
    made = rounds(page)
    page.wait_for_timeout(1000)
    assert rounds(page) == made
    button(page, "Resume").click()
    page.wait_for_url(address)
    assert ends(page) > made


def test_a_run_goes_on_while_another_page_is_open(app, open_page):
    page = begin(open_page, app, 4, tokens=40)
    page.get_by_test_id("stTopNavLink").filter(has_text="Learn").click()
    page.get_by_text("Predict first").first.wait_for()
    page.wait_for_timeout(4000)
    page.get_by_test_id("stTopNavLink").filter(has_text="Rounds").click()
    assert ends(page) > 5


def test_closing_the_tab_does_not_end_the_run(app, browser):
    """Within a minute its owner may be back, in another tab of the same browser."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(PATIENCE)
    try:
        context.new_page().goto(app)  # keeps the browser's cookie; it looks at another run
        page = context.new_page()
        page.goto(f"{app}/?prompt=abcabc&max_tokens=40&seed=6")
        button(page, "Run").click()
        button(page, "Stop").wait_for()
        at_least(page, 2)
        address = page.url
        page.close()
        page = context.new_page()
        page.goto(address)
        at_least(page, 4)
        assert ends(page) > 5
        page.get_by_text("Made here").first.wait_for()
    finally:
        context.close()


def test_a_run_longer_than_a_burst_is_branched_and_finishes_as_a_branch(app, open_page):
    page = begin(open_page, app, 7, tokens=40)
    parent = page.url
    assert ends(page) > 5
    page.get_by_role("button", name="Branch from here").click()
    page.get_by_role("button", name="Start the branch").click()
    page.wait_for_url(lambda url: url != parent)
    page.get_by_text("Branched at round").first.wait_for()
    assert ends(page) > 5
    page.get_by_text("Branched at round").first.wait_for()


def test_two_tabs_on_one_run_see_the_same_and_either_stops_it(app, open_page):
    one = begin(open_page, app, 5, tokens=400)
    two = open_page(one.url)
    button(two, "Stop").wait_for()
    button(two, "Stop").click()
    for page in (one, two):
        button(page, "Resume").wait_for()
    assert rounds(one) == rounds(two) > 1
    assert not one.locator("[data-testid=stStatusWidget] button").is_visible()


def test_a_round_with_a_tree_shows_the_path_that_was_kept_and_a_click_explains_it(app, open_page):
    """The server's tables again, here, so that it is known which candidates are kept."""
    models = (BranchingTable(6, salt=salt, context_length=500) for salt in (2, 1002))
    pair = TablePair(*models)
    pair.encode = lambda prompt, chat: [ord(c) % 6 for c in prompt]
    made = list(Recipe(prompt="abcabc", tree="3-2", max_tokens=24, seed=1).start(pair))
    # A whole path is kept, and another candidate was refused before one of its tokens.
    number, round = next((r.number, r) for r in made if r.accepted == 2 and r.tree[0].state == "refused")
    page = open_page(f"{app}/?prompt=abcabc&tree=3-2&max_tokens=24&seed=1")
    button(page, "Run").click()
    assert ends(page) == len(made)
    row = page.locator(f".st-key-timeline .row:nth-child({number + 1})")
    expect(row).to_have_class(re.compile(r"\btree\b"))
    kept = [node.token for node in round.tree if node.state == "kept"]
    for place, token in enumerate(kept):
        cell = row.locator(".cell").nth(place)
        expect(cell.locator(".word")).to_have_text("accepted")
        expect(cell.locator(".token")).to_have_text(visible(pair.token_text(token)))
    # Under the path stand the others at its places: three candidates first, then two behind the kept one.
    expect(row.locator(".twigs").nth(0).locator(".twig")).to_have_count(2)
    expect(row.locator(".twigs").nth(1).locator(".twig")).to_have_count(1)
    refused = [visible(pair.token_text(node.token)) for node in round.tree[:3] if node.state == "refused"]
    expect(row.locator(".twigs").nth(0).locator(".twig.rejected")).to_contain_text(refused)
    row.locator(".cell").nth(0).click()
    page.wait_for_url(re.compile(rf"[?&]sel={number}\.1\b"))
    told = page.locator(".st-key-inspector-told")
    expect(told).to_contain_text("3 candidates at this position")
    expect(told).to_contain_text("kept")
    expect(told).to_contain_text("refused")
