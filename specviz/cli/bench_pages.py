"""Benchmarks that need a browser: the first page, and a click on a long run."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from statistics import median, quantiles
from typing import Any
from urllib.request import urlopen

from specviz.decoding import codec
from specviz.recipe import Recipe
from specviz.traces import STORY

ROOT = Path(__file__).parents[2]
CLICKS = 50
ROUNDS = 200
# Clicks a cell; resolves to the milliseconds until the inspector names the place, and until its last change
# within a second, each up to the frame behind it.
CLICK = """([row, column]) => new Promise((resolve) => {
  const host = document.querySelector('.st-key-timeline [data-testid="stBidiComponentRegular"]')
    || [...document.querySelectorAll('.st-key-timeline *')].find((e) => e.shadowRoot);
  const cell = (host.shadowRoot || host).querySelectorAll('.row')[row].querySelectorAll('.cell')[column];
  const panel = document.querySelector('.st-key-inspector-panel');
  const wanted = `Round ${row + 1} · position ${column + 1}`;
  let named = 0, last = 0;
  const began = performance.now();
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const look = async () => {
    last = performance.now() - began;
    if (named || !panel.innerText.includes(wanted)) return;
    named = -1;
    await frame();
    named = performance.now() - began;
  };
  const watch = new MutationObserver(look);
  watch.observe(panel, { subtree: true, childList: true, characterData: true, attributes: true });
  cell.click();
  setTimeout(() => { watch.disconnect(); resolve([named, last]); }, 1200);
})"""


def first_page(args: Any) -> dict[str, str]:
    """From a server that answers to a recorded run on the screen."""
    with _browser() as browser, _server() as url:
        times = []
        for _ in range(3):
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
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
    named, painted = [], []
    with tempfile.TemporaryDirectory() as folder, _browser() as browser, _server() as url:
        path = Path(folder) / "long.json.gz"
        codec.save(run.trace(), path)
        page = browser.new_page(viewport={"width": 1440, "height": 1400})
        page.goto(url)
        page.get_by_text("Save and open").click(timeout=120_000)
        page.locator("input[type=file]").set_input_files(path)
        page.get_by_text(f"{ROUNDS} rounds", exact=False).first.wait_for(timeout=120_000)
        page.locator(".st-key-timeline .cell").first.click()
        page.locator(".st-key-inspector-panel").wait_for()
        page.wait_for_timeout(3000)
        for i in range(CLICKS):
            first, last = page.evaluate(CLICK, [i % 8, (i * 3 + 1) % 4])
            named.append(first)
            painted.append(last)
    return {
        "clicks, rounds": f"{CLICKS}, {ROUNDS}",
        "inspector names the place, median / p95": _spread([x for x in named if x > 0]),
        "last change of the inspector, median / p95": _spread(painted),
    }


def _spread(times: list[float]) -> str:
    return f"{median(times):.0f} / {quantiles(times, n=20)[-1]:.0f} ms ({len(times)} measured)"


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    chromium = which("chromium") or which("chromium-browser") or which("google-chrome")
    if chromium is None:
        raise ValueError("this benchmark needs Chromium")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@contextmanager
def _server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.address", "127.0.0.1"]
    server = subprocess.Popen(
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
        yield url
    finally:
        server.terminate()
        server.wait()
