"""Imports go one way, and what opens a trace stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ["decoding", "models", "training", "analysis", "lessons", "ui"]
FORBIDDEN_IN_DECODING = {"streamlit", "plotly", "pandas"}
FORBIDDEN_BELOW_UI = {"streamlit", "plotly"}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


FILES = sorted((ROOT / "specviz").rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_imports_from_a_layer_above_it(path):
    layer = path.relative_to(ROOT / "specviz").parts[0]
    names = list(imports(path))
    if layer not in LAYERS:
        return
    above = LAYERS[LAYERS.index(layer) + 1 :]
    for name in names:
        parts = name.split(".")
        assert not (parts[0] == "specviz" and len(parts) > 1 and parts[1] in above), (
            f"{path.name} imports {name}"
        )
        assert parts[0] != "pages"
        if layer == "decoding":
            assert parts[0] not in FORBIDDEN_IN_DECODING
        if layer != "ui":
            assert parts[0] not in FORBIDDEN_BELOW_UI


def test_the_layers_are_where_this_test_looks():
    assert {p.relative_to(ROOT / "specviz").parts[0] for p in FILES} >= {
        "decoding",
        "models",
        "analysis",
        "ui",
    }


@pytest.mark.parametrize(
    "module",
    ["specviz.decoding.codec", "specviz.decoding.verify", "specviz.analysis.metrics"],
)
def test_opening_a_trace_does_not_import_torch(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
