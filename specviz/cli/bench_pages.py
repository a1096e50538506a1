"""Benchmarks that need a browser: the first page, and a click on a long run."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from shutil import which
from statistics import median, quantiles
from typing import Any
from urllib.request import urlopen

from specviz.decoding import codec
from specviz.recipe import Recipe
from specviz.traces import STORY

ROOT = Path(__file__).parents[2]
CLICKS = 50
JUMPS = 10
ROUNDS = 200
# Clicks a cell; resolves to the milliseconds until the heading, the bars and the caches of that place are
# painted, and until the last change in the inspector within a second, when its slider has followed.
CLICK = """([row, column]) => new Promise((resolve) => {
  const roots = (panel) => [...document.querySelectorAll(`.st-key-${panel} *`)].map((e) => e.shadowRoot)
    .filter(Boolean);
  const cell = roots('timeline')[0].querySelectorAll('.row')[row].querySelectorAll('.cell')[column];
  const panel = document.querySelector('.st-key-inspector-panel');
  const inner = [...roots('inspector-panel'), ...roots('inspector-caches')];
  const wanted = `Round ${row + 1} · position ${column + 1}`;
  let painted = 0, last = 0, began = 0;
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const look = async () => {
    last = performance.now() - began;
    if (painted || !inner.some((root) => root.querySelector('h5')?.textContent.includes(wanted))) return;
    painted = -1;
    await frame();
    painted = performance.now() - began;
  };
  const watch = new MutationObserver(look);
  const all = { subtree: true, childList: true, characterData: true, attributes: true };
  for (const root of [panel, ...inner]) watch.observe(root, all);
  began = performance.now();
  cell.click();
  setTimeout(() => { watch.disconnect(); resolve([painted, last]); }, 1200);
})"""
# Brings a row into view.
SHOW = """(row) => {
  const root = [...document.querySelectorAll('.st-key-timeline *')].map((e) => e.shadowRoot).find(Boolean);
  root.querySelectorAll('.row')[row].scrollIntoView({ block: 'nearest' });
}"""


def first_page(args: Any) -> dict[str, str]:
    """From a server that answers to a recorded run on the screen."""
    with browser() as chromium, _server() as url:
        times = []
        for _ in range(3):
            page = chromium.new_page(viewport={"width": 1440, "height": 1000})
            began = time.perf_counter()
            page.goto(url)
            page.get_by_text("recorded run", exact=False).first.wait_for(timeout=120_000)
            page.locator(".st-key-timeline").get_by_text("accepted").first.wait_for()
            times.append(time.perf_counter() - began)
            page.close()
    return {
        "first visit after the start": f"{times[0]:.2f} s",
        "later visits": f"{median(times[1:]):.2f} s",
    }


def click(args: Any) -> dict[str, str]:
    """From a click on a token of a long run to the inspector's new content."""
    from specviz.cli import options

    pair = options.load(args)
    options.end_progress_line()
    run = Recipe(prompt=STORY, temperature=1.0, max_tokens=1000).start(pair)
    run.pair.eos_ids = frozenset()
    while len(run.rounds) < ROUNDS:
        run.step()
    with tempfile.TemporaryDirectory() as folder, browser() as chromium, _server() as url:
        path = Path(folder) / "long.json.gz"
        codec.save(run.trace(), path)
        page = chromium.new_page(viewport={"width": 1440, "height": 1400})
        page.goto(url)
        page.get_by_text("Save and open").click(timeout=120_000)
        page.locator("input[type=file]").set_input_files(path)
        page.get_by_text(f"{ROUNDS} rounds", exact=False).first.wait_for(timeout=120_000)
        page.locator(".st-key-timeline .cell").first.click()
        page.locator(".st-key-inspector-panel").wait_for()
        page.wait_for_timeout(3000)
        places = Random(0)
        near = [page.evaluate(CLICK, [places.randrange(8), places.randrange(5)]) for _ in range(CLICKS)]
        far = []
        for _ in range(JUMPS):
            row = places.randrange(ROUNDS)
            page.evaluate(SHOW, row)
            page.wait_for_timeout(1000)
            far.append(page.evaluate(CLICK, [row, 0]))
    return {
        "rounds of the run": str(ROUNDS),
        "place painted, among the rows on screen, median / p95": _spread([first for first, _ in near]),
        "slider and buttons have followed, median / p95": _spread([last for _, last in near]),
        "place painted, a second after scrolling elsewhere, median / p95": _spread(
            [first for first, _ in far]
        ),
    }


def _spread(times: list[float]) -> str:
    return f"{median(times):.0f} / {quantiles(times, n=20)[-1]:.0f} ms ({len(times)} measured)"


@contextmanager
def browser() -> Iterator[Any]:
    """A Chromium without a window."""
    from playwright.sync_api import sync_playwright

    chromium = which("chromium") or which("chromium-browser") or which("google-chrome")
    if chromium is None:
        raise ValueError("this benchmark needs Chromium")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield made
        made.close()


@contextmanager
def _server() -> Iterator[str]:
    with server() as (url, _):
        yield url


@contextmanager
def server() -> Iterator[tuple[str, subprocess.Popen]]:
    """The app on a free port of this machine: its address, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.address", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "--server.port", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urlopen(f"{url}/_stcore/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url, process
    finally:
        process.terminate()
        process.wait()
