"""An axe scan of every page, light and dark: nothing serious or critical."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("", "?run=long&sel=1.2", "exactness", "drafters", "learn", "practice")


@pytest.fixture(scope="module")
def app(serve):
    return serve(ROOT / "app.py")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_nothing_serious(app, open_page, path, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(f"{app}/{path}", color_scheme=scheme)
    page.locator("[data-testid=stMainBlockContainer]").wait_for(timeout=60_000)
    # Streamlit dims what is about to be drawn again: scan when the script has ended.
    page.wait_for_function(
        "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
    )
    page.wait_for_function("!document.querySelector('[data-stale=true]')")
    page.wait_for_timeout(500)  # the last transition
    found = Axe().run(page).response["violations"]
    serious = [
        (v["id"], [(n["target"], n.get("failureSummary", "")[:200]) for n in v["nodes"][:4]])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
    assert not serious
