"""What README and the other documents tell people to type works as it stands there."""

import re
import shlex
from pathlib import Path

import pytest

from specviz.__main__ import COMMANDS, main, parser

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / ".github").glob("*.md")),
    *sorted(p for p in (ROOT / "specviz").rglob("*.md") if "node_modules" not in p.parts),
]
# Only parsed: these train or measure for minutes, serve until they are stopped, or need what a test has not.
LONG = {"bench", "train-drafts", "record", "app", "health", "speed", "audit", "pair"}


def commands():
    """Every line of a code block that starts specviz, with the document it stands in."""
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, flags=re.M | re.S)
        blocks += re.findall(r"^    (\S.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            for start in ("python -m specviz ", "specviz "):
                if line.strip().startswith(start):
                    yield pytest.param(line.strip().removeprefix(start), id=f"{path.name}: {line.strip()}")


LINES = list(commands())


def test_readme_has_commands():
    assert len(LINES) >= 5


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_documents_is_one(line):
    args = parser().parse_args(shlex.split(line, comments=True))
    assert args.command in COMMANDS


RUN = [
    line
    for line in LINES
    if shlex.split(line.values[0])[0] not in LONG and not re.search(r"--(target|draft) ", line.values[0])
]


@pytest.mark.slow
@pytest.mark.pair
@pytest.mark.parametrize("line", RUN)
def test_a_command_of_the_documents_runs(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line, comments=True)) == 0
    assert capsys.readouterr().out


def test_every_file_that_the_map_names_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
    block = re.search(r"## Map\n+```\n(.*?)```", text, flags=re.S)[1]
    folder = [ROOT]
    seen = 0
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        for word in line.split():
            name = word.rstrip(",")
            if not name.endswith(("/", ".py")) or depth >= len(folder):
                break  # what the line says of it
            path = folder[depth] / name
            assert path.exists(), path
            seen += 1
            if name.endswith("/"):
                folder[depth + 1 :] = [path]
    assert seen > 20


def settings_table():
    from specviz.settings import Settings

    for name, field in Settings.model_fields.items():
        default = field.default
        shown = (
            "unset"
            if default is None
            else f"`{str(default).lower() if isinstance(default, bool) else default}`"
        )
        yield f"| `{name}` | {'empty' if default == '' else shown} | {field.description} |"


def test_every_setting_is_documented_as_it_is():
    text = (ROOT / ".github" / "DEPLOY.md").read_text(encoding="utf-8")
    table = re.search(r"\|---\|---\|---\|\n((?:\|.*\n)+)", text)[1]
    assert table.splitlines() == list(settings_table())


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_configuration_that_is_shown_is_valid(path, tmp_path, monkeypatch):
    from specviz import settings

    for number, block in enumerate(re.findall(r"^```toml\n(.*?)^```", path.read_text("utf-8"), re.M | re.S)):
        file = tmp_path / f"{number}.toml"
        file.write_text(block, encoding="utf-8")
        monkeypatch.setenv("SPECVIZ_CONFIG", str(file))
        settings.read()


def test_the_worked_examples_are_true():
    """They build on one another, so they run as one text."""
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    assert len(blocks) >= 3
    exec(compile("\n".join(blocks), "CONTRIBUTING.md", "exec"), {"__name__": "contributing"})


@pytest.mark.slow
@pytest.mark.pair
def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    """The last block shows in a Streamlit app what the one before has saved."""
    from streamlit.testing.v1 import AppTest

    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    *_, run, app = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    exec(compile(run, "README.md", "exec"), {"__name__": "readme"})
    assert (tmp_path / "run.json.gz").stat().st_size > 1000
    page = AppTest.from_string(app, default_timeout=60).run()
    assert not page.exception and len(page.get("bidi_component")) == 1
