"""The server that `specviz app` starts: it says when it is ready, and ends in order."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from specviz.__main__ import main
from specviz.ui.shell.server import HEADERS, HEALTH, JsonLines

ROOT = Path(__file__).parent.parent


@contextmanager
def server(**variables):
    """A server with these variables in its environment; yields its port and process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "specviz", "app", "--port", str(port)],
        cwd=ROOT,
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield port, process
    finally:
        process.kill()
        process.wait()


def ask(port):
    """Status, answer and headers of the health address, once the server answers at all."""
    for _ in range(600):
        try:
            with urlopen(f"http://127.0.0.1:{port}{HEALTH}", timeout=5) as answer:
                return answer.status, json.loads(answer.read()), answer.headers
        except HTTPError as error:
            return error.code, json.loads(error.read()), error.headers
        except OSError:
            time.sleep(0.1)
    raise AssertionError("no answer")


@pytest.mark.slow
def test_it_is_healthy_carries_its_headers_and_ends_in_order(capsys):
    with server() as (port, process):
        status, said, headers = ask(port)
        assert (status, said["state"]) == (200, "ready")
        for name, value in HEADERS.items():
            assert headers[name.decode()] == value.decode()
        assert main(["health", "--port", str(port)]) == 0
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
        lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        assert [line["message"].partition(",")[0] for line in lines] == ["started", "stopped"]


@pytest.mark.slow
def test_a_pair_that_cannot_be_loaded_is_not_healthy(tmp_path, capsys):
    missing = str(tmp_path / "nothing here")
    with server(SPECVIZ_WARM_START="true", SPECVIZ_TARGET=missing) as (port, _):
        for _ in range(300):
            status, said, _ = ask(port)
            assert status == 503
            if said["state"] != "loading":
                break
            time.sleep(0.2)
        assert said["state"] == "failed" and missing in said["reason"]
        assert main(["health", "--port", str(port)]) == 1
        assert capsys.readouterr().out.startswith("failed: ")


def test_no_server_is_said(capsys):
    assert main(["health", "--port", "9"]) == 1
    assert "no server answers on port 9" in capsys.readouterr().err


def test_an_option_without_a_value_is_refused(capsys):
    assert main(["app", "--option", "server.port"]) == 1
    assert "NAME=VALUE" in capsys.readouterr().err


def test_a_log_line_is_one_json_object_whatever_it_says():
    record = logging.LogRecord("specviz", logging.INFO, "x.py", 1, "two\nlines %s", ('"quoted"',), None)
    line = JsonLines().format(record)
    assert "\n" not in line and json.loads(line)["message"] == 'two\nlines "quoted"'
