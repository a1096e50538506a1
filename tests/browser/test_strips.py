"""The β strips in a real Chromium: what stands where, by pointer and by keys, in any width."""

import pytest

APP = """
from types import SimpleNamespace as Record
import numpy as np
from specviz.ui.components.strips import strips

TOKENS = ["The", "<img src=x onerror=alert(1)>", "\u202eright", *(f"word{i}" for i in range(60))]
n = len(TOKENS)
beta = np.linspace(0.0, 1.0, n)
strip = lambda kind, values: Record(kind=kind, first=values, outside=np.full(n, 0.125),
                                    leading=[() if b != b else ((i, 0.5),) for i, b in enumerate(values)])
strips(Record(tokens=tuple(range(n)), first=0, leading=[((i, 0.75),) for i in range(n)],
              strips=(strip("model", beta), strip("ngram", np.full(n, np.nan)))),
       TOKENS.__getitem__, str, "leviathan", "s")
"""


@pytest.fixture(scope="module")
def server(serve):
    return serve(APP)


@pytest.fixture
def strips(server, open_page):
    def show(**options):
        page = open_page(server, **options)
        page.locator(".cell").first.wait_for()
        return page

    return show


def test_every_token_has_its_beta_under_it(strips):
    page = strips()
    tokens = page.locator("th.token").all_inner_texts()
    assert len(tokens) == 63 and tokens[:2] == ["The", "<img src=x on…"]
    cells = page.locator(".cell").all()
    betas = [cell.inner_text() for cell in cells if "none" not in cell.get_attribute("class")]
    assert len(cells) == 126 and len(betas) == 63
    assert (betas[0], betas[31], betas[-1]) == (".00", ".50", "1")
    assert page.locator("img").count() == 0


def test_pointer_and_keys_show_the_leading_tokens(strips):
    page = strips()
    detail = page.locator(".detail")
    page.locator("th.token").nth(3).hover()
    assert detail.inner_text().startswith("Token 4 of 63 word0")
    page.mouse.move(0, 0)
    page.get_by_role("group").focus()
    page.keyboard.press("ArrowRight")
    assert detail.inner_text().startswith("Token 2 of 63 <img src=x onerror=alert(1)>")
    assert "p outside its vocabulary 0.12" in detail.inner_text()
    assert "proposes nothing here" in detail.inner_text()
    page.keyboard.press("End")
    assert detail.inner_text().startswith("Token 63 of 63")
    page.keyboard.press("ArrowRight")
    assert detail.inner_text().startswith("Token 63 of 63")
    page.keyboard.press("Home")
    assert detail.inner_text().startswith("Token 1 of 63 The")


def test_lines_break_to_fit(strips):
    wide, narrow = strips(width=1440), strips(width=480)
    assert narrow.locator(".lines table").count() > wide.locator(".lines table").count() > 1
    for page in (wide, narrow):
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
