"""The command line."""

import argparse
import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tables import table_pair

from specviz.__main__ import COMMANDS, main
from specviz.cli import options
from specviz.decoding import codec
from specviz.decoding.sampling import SamplingConfig

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


def test_k_is_chosen_before_each_round(tables, tmp_path, capsys):
    out = tmp_path / "t.json"
    asked = ["trace", "--prompt", "abcabc", "--max-new-tokens", "20", "--adaptive", "-k", "3"]
    assert main([*asked, "--out", str(out)]) == 0
    trace = codec.load(out)
    assert len(trace.output_ids) == 20 and trace.k == 3
    assert all(round.k <= 3 for round in trace.rounds)
    capsys.readouterr()
    assert main([*asked[:-1], "0"]) == 1
    assert "--adaptive needs -k 1 or more" in capsys.readouterr().err


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


@pytest.mark.slow
def test_an_unknown_target_is_one_clear_line():
    done = subprocess.run(
        [sys.executable, "-m", "specviz", "trace", "--prompt", "x", "--target", "./no/such/folder"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "specviz: " in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def never_loaded(monkeypatch):
    def load(args):
        raise AssertionError("a pair was loaded first")

    monkeypatch.setattr(options, "load", load)


PROMPT = ["--prompt", "abc"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["trace", *PROMPT, "--out", "no/such/folder/t.json"], "no folder no/such/folder"),
        (["trace", *PROMPT, "--out", "tests"], "it is a folder"),
        (["trace", *PROMPT, "--temperature", "1e-308"], "temperature must be 0"),
        (["trace", *PROMPT, "--drafter", "oracle"], "unknown drafter"),
        (["exact", *PROMPT, "--control", "no-stop"], "no control for draws"),
        (["exact", *PROMPT, "--verifier", "nosuch"], "unknown fault 'nosuch'"),
        (["record", "nosuch"], "no recording 'nosuch'; there are capital, "),
        (["record", "--folder", "no/such/folder"], "no folder no/such/folder"),
        (["train-drafts", "--kind", "medusa", "--out", "no/such/x"], "no folder no/such"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_loaded(
    never_loaded, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(ROOT)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["exact", *PROMPT, "--length", "14"], "--length: must be 1 … 4, not 14"),
        (["exact", *PROMPT, "--length", "0"], "--length: must be 1 … 4, not 0"),
        (["exact", *PROMPT, "--draws", "0"], "--draws: must be 1 or more"),
        (["exact", *PROMPT, "--position", "1"], "'1' is not ROUND:ROW, such as 1:2"),
        (["train-drafts", "--kind", "medusa", "--passes", "-1"], "--passes: must be above 0"),
        (["train-drafts", "--kind", "medusa", "--passes", "0"], "--passes: must be above 0"),
        (["train-drafts", "--kind", "medusa", "--passes", "nan"], "--passes: must be above 0"),
        (["train-drafts", "--kind", "medusa", "--tokens", "-5"], "--tokens: must be 1 or more"),
        (["train-drafts", "--kind", "medusa", "--tokens", "x"], "invalid whole number value"),
        (["train-drafts", "--kind", "medusa", "--minutes", "0"], "--minutes: must be above 0"),
    ],
)
def test_numbers_out_of_range_are_refused_by_the_option(never_loaded, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_commands_of_the_readme_parse():
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    for name in COMMANDS:
        importlib.import_module(f"specviz.cli.{name.replace('-', '_')}").add_parser(subparsers)
    lines = re.findall(
        r"^(?:python -m )?specviz (?=[a-z])(.*)", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    commands = [shlex.split(line, comments=True) for line in lines]
    assert sum(command[0] == "exact" for command in commands) >= 1
    for command in commands:
        parser.parse_args(command)


@pytest.mark.parametrize("trouble", [MemoryError("no memory left"), RuntimeError("CUDA out of memory")])
def test_rounds_made_before_an_error_of_any_kind_are_saved(monkeypatch, tmp_path, capsys, trouble):
    pair = table_pair(6, seed=3)
    right, calls = pair.target.forward, 0

    def forward(*args):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise trouble
        return right(*args)

    monkeypatch.setattr(pair.target, "forward", forward)
    monkeypatch.setattr(options, "load", lambda args: pair)
    out = tmp_path / "t.json.gz"
    assert main(["trace", *PROMPT, "--max-new-tokens", "40", "--out", str(out)]) == 1
    trace = codec.load(out)
    assert len(trace.rounds) == 3 and str(trouble) in trace.error
    assert str(trouble) in capsys.readouterr().err


def test_commands_run_the_recipe_of_their_options():
    parser = argparse.ArgumentParser()
    options.add_run_options(parser)
    options.add_pair_options(parser)
    text = (
        "--prompt x -k 3 --seed 7 --temperature 0.4 --draft-top-k 5 --repetition-penalty 1.2 --draft d --chat"
    )
    made = options.recipe(parser.parse_args(text.split()), rule="no-stop")
    assert (made.k, made.seed, made.chat, made.draft, made.rule) == (3, 7, True, "d", "no-stop")
    assert made.sampling == SamplingConfig(0.4, repetition_penalty=1.2)
    assert made.draft_sampling == SamplingConfig(0.4, top_k=5, repetition_penalty=1.2)


def test_a_greedy_draft_is_the_drafts_temperature_0(tables, tmp_path, capsys):
    out = tmp_path / "t.json"
    assert main(["trace", "--prompt", "abc", "--greedy-draft", "--temperature", "1", "--out", str(out)]) == 0
    trace = codec.load(out)
    assert (trace.sampling.temperature, trace.draft_sampling.temperature) == (1.0, 0.0)
    assert {row.q for round in trace.rounds for row in round.positions[:-1]} == {1.0}
    assert main(["trace", "--prompt", "abc", "--greedy-draft", "--draft-temperature", "0.5"]) == 1
    assert "leave out one" in capsys.readouterr().err


def test_earlier_answers_are_searched_by_the_suffix_drafter(tables, tmp_path, capsys):
    first, again = tmp_path / "a.json", tmp_path / "b.json"
    line = ["trace", "--prompt", "abcdef", "--drafter", "suffix", "-k", "8", "--temperature", "0"]
    line += ["--max-new-tokens", "24"]
    assert main([*line, "--out", str(first)]) == 0
    assert main([*line, "--out", str(again), "--earlier", str(first)]) == 0
    one, two = codec.load(first), codec.load(again)
    assert one.output_ids == two.output_ids and len(two.rounds) < len(one.rounds)
    assert two.rounds[0].k == two.rounds[0].accepted == 6  # as many as the prompt has tokens
    assert main([*line[:3], "--drafter", "ngram", "--earlier", str(first)]) == 1
    assert "for the drafter suffix" in capsys.readouterr().err
