"""A real server and a real Chromium for the browser tests."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 90_000  # milliseconds that a busy machine of two cores gets for any answer
# The client probes these below the address of every page: see "not found" as the answer, not an error.
HARMLESS = ("_stcore/health", "_stcore/host-config")


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    """Chromium. Where it is missing the tests are skipped, but fail in CI."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        reason = "no Chromium: install one, for instance with `apt install chromium`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser) -> Iterator[Callable]:
    """Opens pages: ``open_page(url, width=…, color_scheme=…)``. Errors in their consoles fail the test."""
    pages, errors = [], []

    def open_page(url: str, *, width: int = 1440, height: int = 1000, **options):
        page = browser.new_page(viewport={"width": width, "height": height}, **options)
        page.set_default_timeout(PATIENCE)
        pages.append(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: _collect(message, errors))
        page.goto(url)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert not errors, errors


def _collect(message, errors: list[str]) -> None:
    harmless = any(part in message.location.get("url", "") for part in HARMLESS)
    if message.type == "error" and not harmless:
        errors.append(f"{message.text} ({message.location.get('url', '')})")


@pytest.fixture(scope="session")
def serve(tmp_path_factory) -> Iterator[Callable[..., str]]:
    """Starts Streamlit servers: ``serve(script)`` gives the address.

    `script` is the path of a script, or its source. Servers run in the repository, for its theme, and
    end with the tests.
    """
    servers: list[subprocess.Popen] = []

    def serve(script: str | Path, **environment: str) -> str:
        if isinstance(script, str):
            folder = tmp_path_factory.mktemp("app")
            (folder / "script.py").write_text(script, encoding="utf-8")
            script = folder / "script.py"
        port = _free_port()
        log = tmp_path_factory.mktemp("server") / "log"
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
        with log.open("wb") as output:
            server = subprocess.Popen(
                [*command, "--server.headless", "true", "--server.address", "127.0.0.1"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": paths, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        servers.append(server)
        _wait(f"http://127.0.0.1:{port}/_stcore/health", server, log)
        return f"http://127.0.0.1:{port}"

    yield serve
    for server in servers:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait(url: str, server: subprocess.Popen, log: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            with urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text(errors='replace')}")
