"""Shared fixtures: the built-in pair, loaded once, and a tiny random pair made in memory; and which tests
run first."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def pytest_addoption(parser):
    parser.addoption(
        "--first",
        default="",
        metavar="FILES",
        help="changed files, comma-separated: tests that import what lies in their folders run before others",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    rooms = {room for name in config.getoption("--first").split(",") if name and (room := _room(name))}
    if rooms:
        items.sort(key=lambda item: not rooms & _rooms_of(item.path))


def _room(name):
    """The module or folder of the package that a file belongs to, or the test file itself."""
    parts = Path(name).with_suffix("").parts
    if parts[:1] == ("specviz",) and len(parts) > 1:
        return ".".join(parts[1:3] if parts[1] == "ui" else parts[1:2])
    return parts[-1] if parts[:1] == ("tests",) else ""


def _rooms_of(path, known={}):  # noqa: B006 read once a file
    if path not in known:
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"specviz[./]((?:ui[./])?\w+)|from specviz import (\w+)", text)
        known[path] = {(one or other).replace("/", ".") for one, other in found} | {path.stem}
    return known[path]


@pytest.fixture(scope="session")
def built_in_pair():
    """The real pair, fetched on first use, in the dtype of the recorded runs."""
    from specviz.models import load_pair

    return load_pair("built-in", dtype="float32")


@pytest.fixture(scope="session")
def tiny_llama_pair():
    """Two random Llamas with 2 layers, 64 ids and different weights."""
    from tiny import tiny_pair

    return tiny_pair()
