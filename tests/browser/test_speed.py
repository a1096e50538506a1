"""The Speed page in a real Chromium: charts are drawn, a choice changes the verdict, and it fits."""

from pathlib import Path

import pytest

from specviz.speed import files, verdict

ROOT = Path(__file__).parents[2]
CHARTS = "document.querySelectorAll('.stPlotlyChart .main-svg').length >= 7"


@pytest.fixture(scope="module")
def app(serve):
    return serve(ROOT / "app.py")


def test_the_recorded_verdict_is_drawn_and_follows_the_drafter(app, open_page):
    page = open_page(f"{app}/speed")
    found = files.recorded("greedy")
    runs = {run.drafter: run for run in found.runs if run.k == 4 and not run.adaptive}
    said = {kind: verdict.headline(found.speedup(runs[kind])) for kind in ("model", "early-exit")}
    page.get_by_role("heading", name=said["model"]).wait_for()
    page.wait_for_function(CHARTS)
    # By keyboard alone: type a name into the list of drafters.
    box = page.get_by_role("combobox", name="Drafter", exact=False)
    box.focus()
    page.keyboard.type("early")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=said["early-exit"]).wait_for()
    assert "It would gain" in page.inner_text("body") or "no draft could gain" in page.inner_text("body")


@pytest.mark.parametrize("width", [1440, 768])
def test_it_fits_the_screen(app, open_page, width):
    page = open_page(f"{app}/speed", width=width)
    page.get_by_role("heading", name="Drafters").wait_for()
    page.wait_for_function(CHARTS)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".speed-table tbody tr").count() == len(files.recorded("greedy").drafters)
