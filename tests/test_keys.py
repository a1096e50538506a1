"""Every key of the session state is named in one file, and no two names mean the same key."""

import ast
from pathlib import Path

import pytest

from specviz.ui.state import keys

ROOT = Path(__file__).parent.parent
FILES = [*(ROOT / "specviz/ui").rglob("*.py"), *(ROOT / "pages").glob("*.py"), ROOT / "app.py"]
HOME = ROOT / "specviz/ui/state/keys.py"
PARAMETERS = {"key", "widget"}  # of our own functions, that name a widget


def is_state(node):
    return ast.unparse(node).endswith("session_state")


def written(node):
    """True if an expression has a text of its own in it, in an f-string or an argument of `of` too."""
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(node))


def places():
    """By name of a function of ours, where it takes a key."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for index, argument in enumerate(node.args.args):
                    if argument.arg in PARAMETERS and getattr(argument.annotation, "id", "") == "str":
                        yield node.name, index


TAKES_KEY = dict(places())


def used(tree):
    """Every expression that is used as a key of the session state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name not in ("max", "min", "sorted", "sort"):
                yield from (k.value for k in node.keywords if k.arg == "key")
            if name in ("get", "pop", "setdefault") and is_state(node.func.value):
                yield from node.args[:1]
            at = None if ast.unparse(node.func).startswith("st.") else TAKES_KEY.get(name)
            if at is not None:
                yield from node.args[at : at + 1]
        elif isinstance(node, ast.Subscript) and is_state(node.value):
            yield node.slice
        elif isinstance(node, ast.Compare) and any(map(is_state, node.comparators)):
            yield node.left


def faults(tree):
    names = set()
    for node in used(tree):
        if written(node):
            yield node.lineno
        if isinstance(node, ast.Name):
            names.add(node.id)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            direct = isinstance(node.value, (ast.Constant, ast.JoinedStr))
            if node.targets[0].id in names and direct and written(node.value):
                yield node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_other_file_writes_a_key(path):
    lines = [] if path == HOME else sorted(set(faults(ast.parse(path.read_text()))))
    assert not lines, f"{path.relative_to(ROOT)}: name these keys in specviz/ui/state/keys.py, lines {lines}"


def test_no_two_names_mean_the_same_key():
    names = {name: value for name, value in vars(keys).items() if name.isupper()}
    assert len(names) > 100
    assert len(set(names.values())) == len(names)
    assert keys.of(keys.LESSON_U, 3, 1) == "lesson-u-3-1"


@pytest.mark.parametrize(
    "line",
    [
        'st.button("Run", key="run")',
        'st.session_state["run"] = 1',
        'st.session_state.get("run")',
        '"run" in st.session_state',
        'st.button("Run", key=f"run-{i}")',
        'widget = f"run-{i}"\nst.slider("u", key=widget)',
        'pick_round(trace, "run", first)',
        'jobs.button("run", "Run", job)',
        'st.session_state[keys.of("run", i)]',
    ],
)
def test_this_test_sees_every_way_of_writing_one(line):
    assert list(faults(ast.parse(line)))
