"""The command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tables import table_pair

from specviz.__main__ import main
from specviz.cli import options
from specviz.decoding import codec

ROOT = Path(__file__).parent.parent


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setattr(options, "load", lambda args: table_pair(6, seed=3))


def test_trace_logs_every_round_and_saves(tables, tmp_path, capsys):
    out = tmp_path / "t.json.gz"
    assert main(["trace", "--prompt", "abcabc", "--max-new-tokens", "20", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    trace = codec.load(out)
    assert len(trace.output_ids) == 20
    for round in trace.rounds:
        assert f"{round.accepted} of {round.k} → {len(round.committed)}" in text
    assert "✓" in text and "✗" in text and "↻" in text
    assert "\x1b[" not in text  # no colour codes unless it is a terminal


def test_json_is_a_summary(tables, capsys):
    assert main(["trace", "--prompt", "abcabc", "--max-new-tokens", "9", "--drafter", "ngram", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["drafter"] == "ngram"
    assert len(summary["output_ids"]) == summary["metrics"]["emitted"] == 9


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--temperature", "-1"], "temperature must be"),
        (["--drafter", "oracle"], "unknown drafter"),
        (["-k", "-2"], "k must be"),
        (["--draft-top-p", "7"], "top_p must be"),
    ],
)
def test_errors_are_one_line_and_non_zero(tables, capsys, arguments, message):
    assert main(["trace", "--prompt", "abc", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and "Traceback" not in error


def test_an_unknown_target_is_one_clear_line():
    done = subprocess.run(
        [sys.executable, "-m", "specviz", "trace", "--prompt", "x", "--target", "./no/such/folder"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "specviz: " in done.stderr and "Traceback" not in done.stderr
