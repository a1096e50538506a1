"""A change to one room runs that room's tests before the others."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def collected(*options):
    command = [sys.executable, "-m", "pytest", "--collect-only", *options]
    files = ["tests/test_cli.py", "tests/test_metrics.py", "tests/test_verify.py"]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]
    return list(dict.fromkeys(names)), len(names)


@pytest.mark.slow
def test_the_tests_of_changed_files_come_first():
    usual, count = collected()
    assert usual[0] == "tests/test_cli.py"
    order, same = collected("--first", "README.md,specviz/reading/metrics.py")
    assert order[0] == "tests/test_metrics.py" and same == count
    assert collected("--first", "tests/test_verify.py")[0][0] == "tests/test_verify.py"
