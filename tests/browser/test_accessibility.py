"""An axe scan of every page, light and dark: nothing serious or critical."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "",
    "?run=long&sel=1.2",
    "exactness",
    "debug",
    "speed",
    "drafters",
    "learn",
    "practice",
    "class",
    "class?lecture=accept",
)

SETTLED = """document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-stale=true]')"""


@pytest.fixture(scope="module")
def app(serve):
    return serve(ROOT / "app.py")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_nothing_serious(app, open_page, path, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(f"{app}/{path}", color_scheme=scheme)
    page.locator("[data-testid=stMainBlockContainer]").wait_for()
    page.wait_for_function(SETTLED)
    page.wait_for_timeout(500)  # components draw after the script
    for _ in range(5):
        serious = violations(Axe().run(page).response)
        if not serious:
            break
        # Streamlit dims what is about to be drawn again. What a reader meets stays as it is.
        page.wait_for_timeout(2000)
    assert not serious


def violations(response):
    """The serious and critical findings: rule, and the first places with what is wrong there."""
    return [
        (found["id"], [(node["target"], node.get("failureSummary", "")[:300]) for node in found["nodes"][:4]])
        for found in response["violations"]
        if found["impact"] in ("serious", "critical")
    ]
