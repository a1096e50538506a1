"""The Rounds page in a real browser."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTLED = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"


@pytest.fixture(scope="module")
def app(serve_module):
    return serve_module(ROOT / "app.py")


@pytest.fixture(scope="module")
def serve_module(serve):
    return serve


def test_a_cold_deep_link_goes_through_the_frame(serve, open_page):
    """The first request of a fresh server is a page's own address, with a recipe and a selection."""
    url = serve(ROOT / "app.py")
    page = open_page(f"{url}/rounds?run=copying&sel=1.2")
    page.get_by_role("button", name="Play").wait_for()
    assert page.title() == "SpecViz"
    page.wait_for_url(lambda url: "run=copying" in url and "sel=1.2" in url)
    page.get_by_text("Round 1 · position 2").first.wait_for()
    assert page.get_by_test_id("stSidebarNav").count() == 0


def test_the_first_screen_is_a_recorded_run(app, open_page):
    page = open_page(app)
    page.get_by_text("· recorded run").wait_for()
    assert page.get_by_role("gridcell").count() or page.get_by_text("rejected").count()


@pytest.mark.pair
@pytest.mark.slow
def test_run_shows_accepted_and_rejected_tokens_and_survives_a_reload(app, open_page):
    page = open_page(f"{app}/?seed=1&max_tokens=10")
    page.get_by_role("button", name="Run", exact=True).click()
    # Loading the pair may include fetching it.
    page.get_by_text("live run").wait_for(timeout=180_000)
    page.locator(".st-key-run_toggle", has_text="Run").wait_for(timeout=300_000)
    timeline = page.locator(".st-key-timeline")
    timeline.get_by_text("accepted").first.wait_for()
    timeline.get_by_text("rejected").first.wait_for()
    page.wait_for_url("**run=*")
    address = page.url
    page.reload()
    page.get_by_text("live run").wait_for()
    page.wait_for_url(address)


# Clicks places of the timeline, [round, column] each, so far apart that each is sent to the server; resolves
# to the heading of the inspector right after each click, and to all that it said while the answers came.
CLICK_AND_LOOK = """async (places) => {
  const roots = (part) => [...document.querySelectorAll(`.st-key-${part} *`)].map((e) => e.shadowRoot)
    .filter(Boolean);
  const rows = roots('timeline')[0].querySelectorAll('.row');
  const told = roots('inspector-told')[0];
  const heading = () => told.querySelector('h5').textContent;
  const at_once = [], later = [];
  for (const [row, column] of places) {
    rows[row - 1].querySelectorAll('.cell')[column - 1].click();
    at_once.push(heading());
    await new Promise((done) => setTimeout(done, 20));
  }
  const watch = new MutationObserver(() => later.push(heading()));
  watch.observe(told, { subtree: true, childList: true, characterData: true });
  await new Promise((done) => setTimeout(done, 2500));
  watch.disconnect();
  return [at_once, later];
}"""


def test_a_selected_place_is_shown_before_the_server_answers(app, open_page):
    """Nothing can have come from the server within one script: the browser knew these places."""
    page = open_page(f"{app}/?run=long&sel=1.1")
    page.get_by_text("Round 1 · position 1").first.wait_for()
    page.wait_for_function("globalThis.specvizAhead?.places['2,2']")
    at_once, later = page.evaluate(CLICK_AND_LOOK, [[1, 3], [2, 2]])
    assert at_once[0].startswith("Round 1 · position 3") and at_once[1].startswith("Round 2 · position 2")
    # What the server says of the first place, when the second is selected, is not shown any more.
    assert all(heading.startswith("Round 2 · position 2") for heading in later), later
    page.get_by_text("Page of round 2").wait_for()
    page.wait_for_url("**sel=2.2*")
    # What is clicked here goes with the page to others.
    page.get_by_test_id("stTopNavLink").filter(has_text="Exactness").click()
    page.wait_for_url("**/exactness?*sel=2.2*")


def test_the_inspector_follows_the_playback_and_tells_no_more_than_its_stage(app, open_page):
    page = open_page(f"{app}/?run=capital&sel=2.1")
    page.get_by_text("Round 2 · position 1").first.wait_for()
    page.wait_for_function("globalThis.specvizAhead?.places['2,2']")
    told = page.locator(".st-key-inspector-told")
    heading, badge, target = told.locator("h5"), told.locator(".badge"), told.locator(".bars .target").last
    onward = page.get_by_role("button", name="One stage on")
    onward.click()
    onward.click()
    told.get_by_text("Round 2 · position 2").wait_for()
    assert not badge.is_visible() and not target.is_visible(), "the draft has proposed, nobody has judged"
    for _ in range(3):
        page.keyboard.press("ArrowRight")  # the playback has been entered
    told.get_by_text("Round 2 · position 1").wait_for()
    target.wait_for()  # it rises: one pass has given p
    assert not badge.is_visible(), "and judged nothing yet"
    page.keyboard.press("r")
    page.wait_for_function("() => /[?&]sel=2[.]/.test(location.search)")
    assert badge.is_visible()
    page.locator(".st-key-timeline").get_by_label("Speed of the playback").select_option("4")
    page.locator(".st-key-timeline").get_by_role("button", name="Play").click()
    told.get_by_text("Round 3 · position 1").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url("**sel=3.*")
    assert heading.inner_text().startswith("Round 3") and badge.is_visible()


def test_nothing_covered_is_known_ahead(app, open_page):
    page = open_page(f"{app}/?run=long&sel=1.1&lock=1")
    page.get_by_text("Round 1 is covered").wait_for()
    page.get_by_role("button", name="reveal round 1", exact=True).click()
    page.get_by_text("Round 1 · position 1").first.wait_for()
    page.wait_for_function(SETTLED)
    assert page.evaluate("globalThis.specvizAhead ?? null") is None
    # The panel of round 1 is there and could be told about round 2, which is covered still.
    page.locator(".st-key-timeline .row").nth(1).locator(".cell").first.click()
    page.get_by_text("Round 2 is covered").wait_for()
    assert page.locator(".st-key-inspector-told").count() == 0


def test_the_bars_are_saved_as_a_png_and_change_their_scale(app, open_page):
    page = open_page(f"{app}/?run=long&sel=1.1")
    told = page.locator(".st-key-inspector-told")
    told.get_by_role("img").first.wait_for()
    with page.expect_download() as download:
        told.get_by_role("button", name="PNG").click()
    assert download.value.suggested_filename == "round-1-position-1.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    before = told.locator("svg").inner_html()
    log = told.get_by_role("button", name="Log scale")
    log.click()
    assert log.get_attribute("aria-pressed") == "true" and told.locator("svg").inner_html() != before
    page.reload()
    told.get_by_role("button", name="Log scale", pressed=True).wait_for()


def test_a_recording_is_one_step_for_the_back_button(app, open_page):
    page = open_page(app)
    page.get_by_text("Rounds in all their parts").first.wait_for()
    page.wait_for_function(SETTLED)
    before = page.evaluate("history.length")
    page.get_by_role("button", name="First look").click()
    page.get_by_role("radio", name="Copying").check(force=True)
    page.wait_for_url("**temperature=0.3*")
    page.get_by_role("button", name="Copying").wait_for()
    page.get_by_text("temperature 0.3").wait_for()
    assert page.evaluate("history.length") == before + 1
    page.go_back()
    page.get_by_role("button", name="First look").wait_for()
    page.get_by_text("temperature 0.7").wait_for()
    page.go_forward()
    page.wait_for_url("**run=copying*")
    page.get_by_text("temperature 0.3").wait_for()


def test_the_same_place_of_another_run_can_be_selected(app, open_page):
    """Streamlit tells the server nothing about a value that it was told before, in whatever run."""
    page = open_page(f"{app}/?run=story&sel=1.1")
    page.locator(".st-key-timeline .row").nth(3).wait_for()
    page.wait_for_function(SETTLED)
    place = page.locator(".st-key-timeline .row").nth(3).locator(".cell").first
    place.click()
    page.wait_for_url("**sel=4.1*")
    page.get_by_role("button", name="Story").click()
    page.get_by_role("radio", name="Copying").check(force=True)
    page.wait_for_url("**run=copying*")
    page.keyboard.press("Escape")  # an open menu closes when the mouse goes down, and what is below moves
    page.get_by_role("radio", name="Copying").wait_for(state="detached")
    page.get_by_text("Round 1 · position 1").first.wait_for()  # drawn after the timeline
    page.wait_for_function(SETTLED)
    page.wait_for_url(lambda url: "sel=4.1" not in url)
    place.click()
    page.wait_for_url("**sel=4.1*")
    page.get_by_text("Round 4 · position 1").first.wait_for()


def test_a_change_leaves_the_open_settings_open(app, open_page):
    page = open_page(app)
    page.get_by_text("Settings:").click()
    page.get_by_text("Sampling, limits, models").click()
    topk = page.get_by_role("spinbutton", name="Top-k")
    topk.fill("7")
    topk.press("Enter")
    page.wait_for_url("**top_k=7*")
    page.wait_for_function(SETTLED)
    page.wait_for_timeout(500)
    assert topk.is_visible() and topk.input_value() == "7"


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_open_settings_have_the_whole_width(app, open_page, width):
    page = open_page(app, width=width)
    page.get_by_text("Settings:").click()
    seed = page.get_by_role("spinbutton", name="Seed")
    seed.wait_for()
    panel = page.locator(".st-key-settings-open").bounding_box()
    assert panel["width"] > 0.85 * width
    assert seed.bounding_box()["width"] > 40
