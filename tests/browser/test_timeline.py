"""The timeline in a real Chromium: playback, selection, keys, hostile text, long and growing traces."""

import re
from pathlib import Path

import pytest
from stories import HOSTILE, PROMPT, story

from specviz.reading import prose
from specviz.ui.components.script import script
from specviz.ui.components.timeline import payload

COMPONENTS = Path(__file__).parents[2] / "specviz" / "ui" / "components"

APP = """
import streamlit as st
from stories import HOSTILE, cut_story, first, long_story, story
from specviz.ui.components.timeline import timeline

state, kind = st.session_state, st.query_params.get("kind", "story")
state.setdefault("selection", (1, 1) if "pinned" in st.query_params else None)


@st.cache_resource
def trace(kind):
    if kind == "hostile":
        return story(120, texts=HOSTILE, seed=5)
    if kind == "live":
        return story(200)
    if kind == "long":
        return long_story(10_000)
    kinds = {"cut": cut_story, "lookup": lambda: story(60, drafter="ngram"), "wide": lambda: story(60, k=16)}
    return kinds.get(kind, story)()


def keep(selection):
    state.selection = selection


def show(trace, **options):
    shown = timeline(trace, selected=state.selection, key="timeline", on_select=keep, **options)
    st.text(f"selected: {shown.selected}, revealed: {sorted(shown.revealed)}")


def rounds():
    st.text_input("Prompt", key="prompt")
    if kind == "live":
        grow()
    else:
        show(trace(kind), covered=kind == "covered", notation=st.query_params.get("notation", "leviathan"))


@st.fragment(run_every=0.4)
def grow():
    whole = trace("live")
    state.made = min(state.get("made", 3) + 1, len(whole.rounds))
    show(first(whole, state.made), live=True)


def other():
    st.text("another page")


pages = [st.Page(rounds, default=True), st.Page(other)]
st.set_page_config(layout="wide")
st.navigation(pages, position="top").run()
"""


@pytest.fixture(scope="session")
def address(serve):
    return serve(APP)


@pytest.fixture
def show(open_page, address):
    """Opens the page with one of its traces and waits until the timeline stands."""

    def show(kind: str = "story", **options):
        page = open_page(f"{address}/?kind={kind}", **options)
        page.wait_for_selector(".timeline .row")
        return page

    return show


@pytest.fixture(scope="module")
def trace():
    return story()


def said(page) -> str:
    return page.locator(".said").inner_text()


def cell(page, number: int, position: int):
    return page.locator(f".row:nth-child({number + 1}) .cell").nth(position - 1)


def name_of(cell) -> str:
    """The accessible name: the cell's only content that is not hidden from screen readers."""
    assert cell.locator("> :not([aria-hidden])").count() == 1
    return cell.locator("> .name").text_content()


FOCUSED = "document.activeElement.shadowRoot.activeElement.querySelector('.name').textContent"


def views(page, number: int) -> list[str]:
    """The words on the cells of a round; "" where a cell is not there yet."""
    row = page.locator(f".row:nth-child({number + 1}) .cell")
    return [c.locator(".word").text_content() if c.is_visible() else "" for c in row.all()]


def wait_selected(page, selection) -> None:
    page.get_by_text(f"selected: {selection},").wait_for()


def wait_for_rows(page, count: int) -> None:
    page.locator(".row").nth(count - 1).wait_for()


def words(round) -> list[str]:
    return [row.state for row in round.positions[: round.k]] + [round.outcome]


def test_cells_say_what_the_trace_says(show, trace):
    page = show()
    for round in trace.rounds[:4]:
        assert views(page, round.number) == words(round)
    first = trace.rounds[0].positions[0]
    name = name_of(cell(page, 1, 1))
    assert re.fullmatch(r"round 1, position 1, ‘[^’]+’, \w+: p \S+, q \S+, u \S+", name)
    assert f"p {prose.number(first.p)}, q {prose.number(first.q)}, u {prose.number(first.u)}" in name


def test_a_round_is_played_by_keyboard_alone(show, trace):
    page, round = show(), trace.rounds[0]
    k, accepted = round.k, round.accepted
    assert 0 < accepted < k - 1, "the story should begin with a round that rejects in its middle"
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Pause").is_visible()
    page.keyboard.press("Space")
    page.keyboard.press("Home")
    forward = [(said(page), views(page, 1))]
    for _ in range(k + 1 + accepted + 1 + 2 - 1):
        page.keyboard.press("ArrowRight")
        forward.append((said(page), views(page, 1)))

    drafts, (passed, scored), *rest = forward[:k], *forward[k:]
    for i, (text, view) in enumerate(drafts):
        assert text.startswith("The draft proposes") and "drawn from q" in text
        assert view == ["proposed"] * (i + 1) + [""] * (k - i)
    assert passed.startswith("One pass of the target") and scored == ["proposed"] * k + [""]
    for i, (text, view) in enumerate(rest[:accepted]):
        assert "is accepted" in text
        assert view == ["accepted"] * (i + 1) + ["proposed"] * (k - i - 1) + [""]
    (rejected, after), (corrected, full), (caches, _) = rest[accepted:]
    assert "is rejected: u = " in rejected and "discarded" in rejected
    assert after == [*words(round)[:k], ""]
    assert "is drawn from the residual max(0, p − q)" in corrected and full == words(round)
    cache = round.target_cache
    assert caches.startswith("Caches cut") and f"target {cache.before + cache.fed} → {cache.kept}" in caches

    page.keyboard.press("ArrowRight")
    assert page.locator(".where").inner_text().startswith("Round 2 · step 1")
    for expected in reversed(forward):
        page.keyboard.press("ArrowLeft")
        assert (said(page), views(page, 1)) == expected
    page.keyboard.press("Escape")
    assert views(page, 2) == words(trace.rounds[1])


def test_playing_goes_on_by_itself_and_stops_at_the_end(show, trace):
    page = show()
    page.get_by_label("Speed of the playback").select_option("4")
    page.get_by_role("button", name="Play").click()
    page.get_by_text(re.compile("^Round 2 · step")).wait_for()
    assert views(page, 1) == words(trace.rounds[0])
    page.keyboard.press("ArrowLeft")  # a step by hand stops it
    page.get_by_role("button", name="Play").click()
    page.keyboard.press("End")
    page.get_by_role("button", name="Play").wait_for()
    assert views(page, len(trace.rounds)) == words(trace.rounds[-1])


def test_the_text_grows_with_the_playback(show, trace):
    page = show()
    visible = "els => els.filter(e => getComputedStyle(e).visibility === 'visible').length"
    committed = page.locator(".text .t")
    page.keyboard.press("Space")
    page.keyboard.press("Space")
    assert committed.evaluate_all(visible) == 0
    page.keyboard.press("r")
    assert committed.evaluate_all(visible) == trace.rounds[0].accepted
    page.keyboard.press("ArrowRight")
    assert committed.evaluate_all(visible) == len(trace.rounds[0].committed)
    page.keyboard.press("Escape")
    assert committed.evaluate_all(visible) == len(trace.output_ids)


def test_a_click_pins_and_escape_lets_go(show):
    page = show()
    cell(page, 2, 2).click()
    assert page.locator(".cell.pinned").count() == 1
    assert page.locator(".row.chosen .number").inner_text() == "2"
    wait_selected(page, "(2, 2)")
    assert page.locator(".where").inner_text() == "Round 2 · position 2"
    page.keyboard.press("Escape")
    assert page.locator(".pinned").count() == 0
    wait_selected(page, None)


def test_selecting_sends_no_trace_again(open_page, address):
    frames = []
    page = open_page("about:blank")
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: frames.append(len(data))))
    page.goto(f"{address}/?kind=long")
    page.wait_for_selector(".timeline .row")
    page.wait_for_timeout(500)
    assert max(frames) > 500_000
    frames.clear()
    cell(page, 2, 2).click()
    wait_selected(page, "(2, 2)")
    assert sum(frames) < 20_000


def test_hover_previews_and_leaves_the_selection_alone(show, trace):
    page = show()
    cell(page, 2, 1).click()
    cell(page, 1, 1).hover()
    tip = page.locator(".tip")
    tip.wait_for()
    assert "round 1 · position 1" in tip.inner_text()
    assert prose.number(trace.rounds[0].positions[0].p) in tip.inner_text()
    assert page.locator(".text .t.hot").count() == 1
    assert page.locator(".where").inner_text() == "Round 2 · position 1"
    page.locator(".controls").hover()
    tip.wait_for(state="hidden")


def test_a_token_of_the_text_selects_its_cell(show, trace):
    page = show()
    page.locator(".text .t").nth(trace.rounds[0].accepted).click()
    wait_selected(page, (1, trace.rounds[0].k + 1))
    assert page.locator(".cell.pinned .word").inner_text() == trace.rounds[0].outcome


def test_r_goes_from_rejection_to_rejection_and_round_again(show, trace):
    page = show()
    expected = [(r.number, r.accepted + 1) for r in trace.rounds if r.accepted < r.k]
    assert len(expected) > 2
    for place in [*expected, expected[0]]:
        page.keyboard.press("r")
        wait_selected(page, place)
        assert page.locator(".cell.pinned .word").inner_text() == "rejected"


def test_arrows_walk_through_the_tokens_and_the_focus_goes_along(show, trace):
    page, k = show(), trace.rounds[0].k
    for i in range(k + 1):
        page.keyboard.press("ArrowRight")
        assert page.evaluate(FOCUSED).startswith(f"round 1, position {i + 1},")
    page.keyboard.press("ArrowRight")
    wait_selected(page, (2, 1))
    page.keyboard.press("End")
    wait_selected(page, (trace.rounds[-1].number, trace.rounds[-1].k + 1))
    page.keyboard.press("ArrowUp")
    wait_selected(page, (trace.rounds[-2].number, trace.rounds[-2].k + 1))
    page.keyboard.press("Home")
    wait_selected(page, (1, 1))
    assert page.locator(".cell[tabindex='0']").count() == 1


def test_keys_are_left_alone_while_somebody_types(show):
    page = show()
    box = page.get_by_label("Prompt")
    box.click()
    page.keyboard.type("r ? ")
    assert box.input_value() == "r ? "
    assert not page.locator(".help").is_visible()
    assert page.get_by_role("button", name="Play").is_visible()
    assert page.locator(".pinned").count() == 0


def test_question_mark_lists_the_keys(show):
    page = show()
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys of the timeline").is_visible()
    page.keyboard.press("r")
    assert page.locator(".pinned").count() == 0
    page.keyboard.press("Escape")
    assert not page.locator(".help").is_visible()


def test_the_selection_survives_another_page_and_a_rerun(show):
    page = show()
    cell(page, 3, 2).click()
    wait_selected(page, "(3, 2)")
    page.get_by_role("link", name="other").click()
    page.get_by_text("another page").wait_for()
    page.get_by_role("link", name="rounds").click()
    page.wait_for_selector(".cell.pinned")
    assert page.locator(".where").inner_text() == "Round 3 · position 2"


def test_hostile_text_is_text(show):
    page = show("hostile")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    inside = page.locator(".timeline")
    assert inside.locator("img, script, a, style").count() == 0
    shown = page.locator(".text").inner_text()
    for text in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[10]):
        assert text in shown
    assert "\u202e" not in page.locator(".timeline").evaluate("e => e.textContent")
    assert page.locator(".chip.control", has_text="U+202E").count() > 0
    assert page.locator(".chip.byte").count() > 0
    assert page.locator(".cell .times", has_text="×16").count() > 0
    for other in page.locator(".cell").all()[:10]:
        other.hover()
    assert page.evaluate("window.hacked") is None


def test_a_character_of_several_tokens_is_whole_and_gives_its_tokens_in_turn(show):
    page, trace = show("hostile"), story(120, texts=HOSTILE, seed=5)
    data = payload(trace)
    group = next(i for i, size in enumerate(data["groups"]) if size > 1 and i >= len(PROMPT))
    node = page.locator(".text .line > span").nth(group)
    assert node.inner_text() == "".join(data["merged"][group][1::2])
    seen = set()
    for _ in range(data["groups"][group]):
        node.click()
        seen.add(page.locator(".where").inner_text())
    assert len(seen) == data["groups"][group]


def test_growing_keeps_focus_selection_and_rows(show):
    page = show("live")
    cell(page, 2, 1).click()
    wait_selected(page, "(2, 1)")
    page.locator(".row").first.evaluate("row => row.mine = true")
    before = page.locator(".row").count()
    wait_for_rows(page, before + 3)
    assert page.locator(".row").first.evaluate("row => row.mine")
    assert name_of(page.locator(".cell.pinned")).startswith("round 2, position 1")
    focus = page.evaluate(FOCUSED)
    assert focus.startswith("round 2, position 1")
    assert page.locator(".live").is_visible()


def test_growing_follows_the_newest_unless_something_is_pinned(show):
    page = show("live", height=700)
    rest = "e => e.scrollHeight - e.scrollTop - e.clientHeight"
    scroller = page.locator(".scroller")
    wait_for_rows(page, 12)
    assert scroller.evaluate(rest) < 20
    # The browser tells of a scroll a frame later; a row that comes in between must not win.
    scroller.evaluate("e => { e.scrollTop = 0; e.dispatchEvent(new Event('scroll')); }")
    before = page.locator(".row").count()
    wait_for_rows(page, before + 2)
    assert scroller.evaluate("e => e.scrollTop") == 0


def test_a_live_run_is_followed_though_a_page_has_pinned_its_first_token(open_page, address):
    page = open_page(f"{address}/?kind=live&pinned=1", height=900)
    page.wait_for_selector(".timeline .cell.pinned")
    wait_for_rows(page, 12)
    rest = "e => e.scrollHeight - e.scrollTop - e.clientHeight"
    assert page.locator(".scroller").evaluate(rest) < 20
    assert page.locator(".text").evaluate(rest) < 20
    last = page.locator(".row").last.bounding_box()
    assert last["y"] + last["height"] <= 900, (
        "the newest round is on the screen, not only at the end of a list"
    )


def test_ten_thousand_tokens_open_and_are_all_reachable(show):
    page = show("long")
    rows = page.locator(".row").count()
    assert rows > 3000
    assert page.locator(".cell").count() < 400, "only rows near the visible ones are drawn"
    assert page.get_by_role("grid").get_attribute("aria-rowcount") == str(rows + 1)
    cell(page, 5, 1).click()
    wait_selected(page, "(5, 1)")
    page.keyboard.press("End")
    page.wait_for_selector(f".row:nth-child({rows + 1}) .cell.pinned")
    assert page.locator(f".row:nth-child({rows + 1})").is_visible()
    page.locator(".scroller").evaluate("e => e.scrollTop = e.scrollHeight / 2")
    page.wait_for_selector(f".row:nth-child({rows // 2}) .cell")
    assert page.locator(".cell").count() < 600


def test_verified_tokens_behind_the_end_are_marked(show):
    page = show("cut")
    last = page.locator(".row").last
    assert last.locator(".cell.cut").count() >= 2
    assert "ends: end of text" in last.locator(".result").inner_text()
    assert "not emitted" in name_of(last.locator(".cell.cut").first)


@pytest.mark.parametrize("width", [390, 1024])
def test_what_ends_a_round_is_in_sight_however_long_the_draft(show, width):
    page = show("wide", width=width)
    right = page.locator(".grid, [role=grid]").first.evaluate("e => e.getBoundingClientRect().right")
    for row in (0, 2):
        box = page.locator(".row").nth(row).locator(".outcome").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= min(right, width) + 1


def test_rounds_without_a_draft_and_with_fewer_drafts(show):
    page = show("lookup")
    empty = page.locator(".row", has_text="nothing drafted").first
    assert empty.locator(".cell").count() == 1
    assert "no draft" in empty.locator(".result").inner_text()
    outcome = page.locator(".row").evaluate_all(
        "rows => rows.map(r => r.querySelector('.cell.outcome')).filter(Boolean).map(c => c.style.gridColumn)"
    )
    assert len(set(outcome)) == 1, "the corrected or bonus token keeps its column, whatever K is"


def test_covered_rounds_tell_nothing_until_revealed(show, trace):
    page = show("covered")
    k = trace.rounds[0].k
    assert views(page, 1) == ["proposed"] * k + ["covered"]
    assert page.locator(".bar b").locator("visible=true").count() == 1, "only the one of the legend"
    assert page.locator(".text .t").count() == 0
    assert "mean" not in page.locator("h2").last.inner_text().lower()
    page.get_by_role("button", name="reveal round 1", exact=True).click()
    assert views(page, 1) == words(trace.rounds[0])
    assert page.locator(".text .t").count() == len(trace.rounds[0].committed)
    page.get_by_text("revealed: [1]").wait_for()
    assert views(page, 2)[-1] == "covered"


def test_playback_waits_at_a_covered_round(show):
    page = show("covered")
    page.get_by_label("Speed of the playback").select_option("4")
    page.locator(".card").last.click(position={"x": 5, "y": 5})
    page.keyboard.press("Space")
    page.get_by_text("Which will it keep?").wait_for()
    page.get_by_role("button", name="Play").wait_for()
    assert page.locator(".where").inner_text().startswith("Round 1")


def test_the_other_notation_swaps_the_letters(open_page, address):
    page = open_page(f"{address}/?notation=chen")
    page.wait_for_selector(".timeline .row")
    page.keyboard.press("r")
    assert "q/p" in said(page)
    assert page.locator(".said .target").count() == 1


def test_motion_is_reduced_when_asked_for(show):
    page = show(reduced_motion="reduce")
    page.keyboard.press("Space")
    page.keyboard.press("Space")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    moving = "els => els.filter(e => getComputedStyle(e).animationName !== 'none').length"
    assert page.locator(".row.pass .box").is_visible()
    assert page.locator(".timeline *").evaluate_all(moving) == 0


def test_a_tap_pins(browser, address):
    context = browser.new_context(has_touch=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(f"{address}/")
    page.wait_for_selector(".timeline .row")
    cell(page, 1, 2).tap()
    wait_selected(page, "(1, 2)")
    page.get_by_role("button", name="Unpin").tap()
    wait_selected(page, None)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_followed(show, scheme):
    page = show(color_scheme=scheme)
    assert ("dark" in page.locator(".timeline").get_attribute("class").split()) == (scheme == "dark")


def test_numbers_are_written_as_everywhere_else(open_page):
    page = open_page("about:blank")
    values = [0, 1, 0.5, 0.34, 0.098, 0.05, 0.0094, 0.00031, 6.1e-5, 1.234e-12, 0.996, 0.99996, 0.1, 0.075]
    pairs = [(0.12345, 0.12349), (0.5, 0.7), (0.99991, 0.9999), (1e-7, 1.01e-7), (0.001, 0.9)]
    source = script(COMPONENTS / "shared" / "numbers.js") + "\nexport { number, apart };"
    result = page.evaluate(
        """async ([source, values, pairs]) => {
          const made = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
          const { number, apart } = await import(made);
          return [values.map((x) => number(x)), pairs.map(([a, b]) => apart(a, b))];
        }""",
        [source, values, pairs],
    )
    assert result[0] == [prose.number(value) for value in values]
    assert [tuple(pair) for pair in result[1]] == [prose.apart(a, b) for a, b in pairs]
