"""What is seen without scrolling: timeline, inspector, the place a tour names; letters on a projector."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIZES = [(1440, 900), (1024, 768)]
# The smallest letters that are seen, through shadow roots and pictures, with the text that has them.
SMALLEST = """() => {
  let least = [Infinity, ''];
  const walk = (root) => root.querySelectorAll('*').forEach((e) => {
    if (e.shadowRoot) walk(e.shadowRoot);
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) return;
    if (!e.checkVisibility({ visibilityProperty: true })) return;
    const box = e.getBoundingClientRect(), svg = e.ownerSVGElement;
    if (box.width < 2 || box.height < 2) return; // for screen readers
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const size = parseFloat(getComputedStyle(e).fontSize) * scale;
    if (size > 0 && size < least[0]) least = [size, e.textContent.slice(0, 40)];
  });
  walk(document);
  return least;
}"""


@pytest.fixture(scope="module")
def app(serve):
    return serve(ROOT / "app.py")


def settled(page):
    """Waits until timeline and bars stand where they stay."""
    page.locator(".timeline .row .cell").first.wait_for()
    page.locator(".st-key-inspector-told svg").wait_for()
    page.wait_for_function(
        "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
    )
    page.wait_for_timeout(400)


def bottom(locator) -> float:
    box = locator.bounding_box()
    return box["y"] + box["height"]


@pytest.mark.parametrize("width, height", SIZES)
def test_timeline_and_inspector_are_seen_without_scrolling(app, open_page, width, height):
    page = open_page(app, width=width, height=height)
    settled(page)
    list_end = bottom(page.locator(".scroller"))
    assert list_end <= height
    rows = page.locator(".timeline .row").all()[:3]
    assert bottom(rows[0]) <= list_end, "a whole round"
    assert rows[1].bounding_box()["y"] + 60 <= list_end, "and the tokens of the next"
    assert page.get_by_role("button", name="Play").is_visible()
    names = page.locator(".st-key-inspector-told svg .name").first
    assert bottom(names) <= height, "the bars of p and q with the names of their tokens"
    assert page.get_by_role("heading", level=1).is_visible()
    for door in ("I have an interview", "I teach a class", "I debug a draft"):
        assert bottom(page.get_by_role("link", name=door)) < 140
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width, height", SIZES)
@pytest.mark.parametrize("step", range(4))
def test_the_place_that_a_tour_names_is_in_view(app, open_page, width, height, step):
    from specviz.lessons.tours import tours
    from specviz.ui.shell.tour import parameters

    tour = next(t for t in tours() if t.key == "first-look")
    query = "&".join(f"{name}={value}" for name, value in parameters(tour, step).items())
    page = open_page(f"{app}/?{query}", width=width, height=height)
    settled(page)
    pinned, scroller = page.locator(".cell.pinned"), page.locator(".scroller").bounding_box()
    box = pinned.bounding_box()
    assert (
        scroller["y"] <= box["y"] and box["y"] + box["height"] <= scroller["y"] + scroller["height"] <= height
    )
    assert page.locator(".st-key-inspector-told p").first.is_visible()
    assert page.get_by_text(tour.steps[step].title).first.is_visible()


def test_a_projector_stays_on_the_way_to_another_page_and_has_large_letters(app, open_page):
    page = open_page(f"{app}/learn?projector=true")
    page.wait_for_function("getComputedStyle(document.documentElement).fontSize === '23px'")
    page.get_by_test_id("stTopNavLink").filter(has_text="Rounds").first.click()
    settled(page)
    size, text = page.evaluate(SMALLEST)
    assert size >= 16, (size, text)


def test_phones_have_nothing_beyond_their_edge(app, open_page):
    page = open_page(app, width=390, height=844)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator(".st-key-inspector-told svg").scroll_into_view_if_needed()
    box = page.locator(".st-key-inspector-told svg").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    outcome = page.locator(".row .cell.outcome").first.bounding_box()
    assert outcome["x"] + outcome["width"] <= 390, "what a round adds is seen beside its drafts"
