"""Imports go one way, and what opens a trace stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Rooms on one floor may not import each other unless they are named here.
FLOORS: list[set[str]] = [
    {"decoding", "tokens", "settings"},
    {"models", "recipe", "traces"},
    {"reading"},
    {"diagnosis", "exactness", "overlap", "speed", "training"},
    {"lessons"},
    {"ui", "cli"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
OUTSIDE = {"__init__", "__main__"}  # the package's face, and what starts the commands
FORBIDDEN_IN_DECODING = {"streamlit", "plotly", "pandas"}
FORBIDDEN_BELOW_UI = {"streamlit", "plotly"}


def imports(path):
    """Every module that a file may import, whichever way it is written."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from specviz import ui` names a module behind "import" as well.
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in (
            "import_module",
            "__import__",
        ):
            yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant))


def room(path):
    return path.relative_to(ROOT / "specviz").with_suffix("").parts[0]


def faults(path, own):
    """The imports of a file in room `own` that go up, or where they must not."""
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "specviz" and len(parts) > 1 and FLOOR.get(parts[1], -1) > FLOOR[own]:
            yield name
        if parts[:2] == ["specviz", "ui"] and own == "cli":
            yield name
        if parts[0] in ("pages", "app", "tests"):
            yield name
        if parts[0] in (FORBIDDEN_IN_DECODING if own == "decoding" else ()):
            yield name
        # What a visitor without a browser sends and gets is described by Streamlit's messages alone.
        speaks = own == "cli" and parts[:2] == ["streamlit", "proto"]
        if parts[0] in (FORBIDDEN_BELOW_UI if own != "ui" and not speaks else ()):
            yield name


FILES = sorted((ROOT / "specviz").rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_imports_from_a_room_above_it(path):
    if room(path) not in OUTSIDE:
        assert not list(faults(path, room(path)))


def test_every_room_has_its_floor():
    assert {room(path) for path in FILES} - OUTSIDE == set(FLOOR) - {"drafts"}


@pytest.mark.parametrize(
    "line",
    [
        "from specviz import ui",
        "from specviz import ui as hidden",
        "import specviz.ui.shell",
        "from specviz.ui import state",
        "from ..ui import state",
        "from .. import ui",
        "import importlib; importlib.import_module('specviz.ui')",
        "import streamlit",
        "def f():\n    from streamlit import text",
    ],
)
def test_every_way_of_importing_is_seen(line, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "specviz" / "exactness" / "noise.py"
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert list(faults(path, "exactness"))


@pytest.mark.parametrize(
    "module",
    ["specviz.decoding.codec", "specviz.decoding.verify", "specviz.reading.metrics"],
)
def test_opening_a_trace_does_not_import_torch(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
