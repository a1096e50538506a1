"""What is installed is what is tested, and starts."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from specviz.__main__ import main
from specviz.cli import app, doctor

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_project_asks_for_what_requirements_txt_names():
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    needs, _, tests = text.partition("# The tests.")
    for lines, named in (
        (needs, PROJECT["dependencies"]),
        (tests, PROJECT["optional-dependencies"]["tests"]),
    ):
        assert [line for line in lines.splitlines() if line and not line.startswith("#")] == named


def test_the_app_is_found_in_a_checkout():
    assert app.script() == ROOT / "app.py"


@pytest.mark.slow
def test_an_installed_package_holds_the_app_its_pages_and_its_data(tmp_path):
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        names = set(wheel.namelist())
        wheel.extractall(tmp_path / "site")
    pages = {f"specviz/_app/pages/{path.name}" for path in (ROOT / "pages").glob("*.py")}
    assert pages | {"specviz/_app/app.py", "specviz/_app/.streamlit/config.toml"} <= names
    data = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "specviz").rglob("*")
        if "node_modules" not in path.parts  # the linter's, where CI put them
        and path.suffix in (".toml", ".js", ".css", ".safetensors", ".gz", ".jsonl")
    }
    assert data <= names
    assert not any("node_modules" in name for name in names)
    code = "from specviz.cli import app; print(app.script())"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "site", capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(tmp_path / "site" / "specviz" / "_app" / "app.py")


class TestDoctor:
    def test_it_says_what_is_here(self, capsys):
        assert main(["doctor"]) == 0
        out = capsys.readouterr().out
        assert "Python 3" in out and "packages are here" in out and "Settings" in out and "✗" not in out

    def test_a_missing_package_is_named(self, monkeypatch, capsys):
        monkeypatch.setattr(doctor, "needed", lambda: {"no-such-package": "1.0"})
        assert main(["doctor"]) == 1
        assert "✗ Not installed: no-such-package" in capsys.readouterr().out

    def test_a_full_disk_is_said_with_its_numbers(self, monkeypatch, tmp_path, capsys):
        monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "new" / "home"))
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("", (), {"free": 10_000_000}))
        assert main(["doctor"]) == 1
        assert "0.0 GiB of room and the built-in target needs 0.7" in capsys.readouterr().out

    def test_wrong_settings_are_said(self, monkeypatch, capsys):
        monkeypatch.setenv("SPECVIZ_MAX_K", "0")
        assert main(["doctor"]) == 1
        assert "SPECVIZ_MAX_K" in capsys.readouterr().out
