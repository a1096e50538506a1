"""The folder of an audit: resumed, killed, sharded, merged, read by others."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from bad_drafts import PROMPTS, SETTING, audited, near, pair
from streamlit.testing.v1 import AppTest
from tables import TablePair

from specviz.__main__ import main
from specviz.cli import audit as command
from specviz.decoding import codec
from specviz.decoding.controls import SamplingConfig
from specviz.diagnosis import summary, tables
from specviz.diagnosis.audit import Audit, AuditError, merge, missing, read_parts, trace_path
from specviz.diagnosis.bench import bench_of
from specviz.diagnosis.compare import compare
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.prompts import parse
from specviz.diagnosis.report import Report
from specviz.diagnosis.setting import Setting
from specviz.reading.metrics import metrics
from specviz.recipe import Recipe

ROOT = Path(__file__).parent.parent
SMALL = replace(SETTING, max_new_tokens=16, self_checks=1)
DRAFT = pair(near(0.8))
FEW = "\n".join(PROMPTS.split("\n")[:5])


def frames_equal(a, b):
    for name in tables.TABLES:
        drop = ["seconds", "draft_seconds", "verify_seconds"]
        left, right = (f[name].drop(columns=drop, errors="ignore") for f in (a, b))
        assert left.equals(right), name


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return audited(tmp_path_factory.mktemp("whole"), DRAFT, SMALL, FEW)


def test_the_tables_have_the_documented_columns_and_open_in_pandas(tmp_path):
    audited(tmp_path, DRAFT, SMALL, FEW)
    for name, columns in tables.TABLES.items():
        table = pq.read_table(tmp_path / f"{name}.parquet")
        for column, (kind, about) in columns.items():
            field = table.schema.field(column)
            assert field.type == kind and field.metadata[b"description"].decode() == about
    assert {row[1] for row in tables.documentation() if row[0] == "rounds"} == set(tables.ROUNDS)


def test_sums_are_those_of_the_traces(tmp_path):
    report = audited(tmp_path, DRAFT, SMALL, FEW)
    for row in report.frames["prompts"].itertuples():
        trace = codec.load(trace_path(tmp_path, row.prompt))
        figures = metrics(trace.rounds)
        assert (row.rounds, row.drafted, row.accepted, row.tokens) == (
            figures.rounds,
            figures.drafted,
            figures.accepted,
            figures.emitted,
        )
        assert row.seed == trace.seed
    figures = metrics([r for i in range(5) for r in codec.load(trace_path(tmp_path, i)).rounds])
    assert [rate.value for rate in report.curve.unconditional] == pytest.approx(figures.per_position)
    assert [rate.value for rate in report.curve.conditional] == pytest.approx(figures.conditional)
    assert report.mean_length[0] == pytest.approx(figures.mean_acceptance_length)


def test_an_audit_goes_on_where_it_stopped(tmp_path, whole):
    work = Audit(tmp_path, parse(FEW, False), SMALL)
    bench = Bench(DRAFT, SMALL)
    work.step(bench)
    work.step(bench)
    again = Audit(tmp_path, parse(FEW, False), SMALL)
    assert (again.done, again.total) == (2, 5)
    while not again.finished:
        again.step(bench)
    again.close()
    frames_equal(Report.of(tmp_path).frames, whole.frames)


def test_a_step_that_fails_half_way_leaves_nothing(tmp_path, whole, monkeypatch):
    work = Audit(tmp_path, parse(FEW, False), SMALL)
    bench = Bench(DRAFT, SMALL)
    real = Path.replace
    calls = []

    def failing(self, target):
        calls.append(target)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="No space"):
        while True:
            work.step(bench)
    monkeypatch.setattr(Path, "replace", real)
    again = Audit(tmp_path, parse(FEW, False), SMALL)
    while not again.finished:
        again.step(bench)
    again.close()
    frames_equal(Report.of(tmp_path).frames, whole.frames)


def test_other_prompts_or_settings_are_refused(tmp_path):
    Audit(tmp_path, parse(FEW, False), SMALL)
    with pytest.raises(AuditError, match="other prompts"):
        Audit(tmp_path, parse(FEW + "\nabc", False), SMALL)
    with pytest.raises(AuditError, match="k was 4, now 2"):
        Audit(tmp_path, parse(FEW, False), replace(SMALL, k=2))
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(AuditError, match="not written by an audit"):
        Audit(tmp_path, parse(FEW, False), SMALL)


def test_shards_together_are_the_whole(tmp_path, whole):
    for i in (1, 2, 3):
        work = Audit(tmp_path / str(i), parse(FEW, False), SMALL, (i, 3))
        while not work.finished:
            work.step(Bench(DRAFT, SMALL))
        work.close()
    assert missing(tmp_path / "1") == [1, 2, 4]
    merge([tmp_path / str(i) for i in (1, 2, 3)], tmp_path / "all")
    assert not missing(tmp_path / "all")
    frames_equal(Report.of(tmp_path / "all").frames, whole.frames)
    Audit(tmp_path / "other", parse("ab", False), SMALL)
    with pytest.raises(AuditError, match="other prompts"):
        merge([tmp_path / "1", tmp_path / "other"], tmp_path / "bad")
    with pytest.raises(AuditError, match="i/n"):
        Audit(tmp_path / "x", parse("ab", False), SMALL, (0, 3))


def test_a_damaged_part_is_named(tmp_path):
    audited(tmp_path, DRAFT, SMALL, "bob\ncoc")
    path = next((tmp_path / "parts").iterdir())
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(AuditError, match="damaged"):
        list(read_parts(tmp_path))
    path.write_bytes(gzip.compress(b'{"tables": {}}'))
    with pytest.raises(AuditError, match="a table is missing"):
        list(read_parts(tmp_path))


def test_a_prompt_that_cannot_be_run_is_said_and_the_others_count(tmp_path):
    report = audited(tmp_path, DRAFT, SMALL, "bob\n" + "a" * 300 + "\ncoc")
    assert len(report.measured) == 2
    assert "at most 200" in report.failed["error"].iloc[0]


def test_a_served_text_is_scored_and_nothing_is_generated(tmp_path, whole, monkeypatch):
    answers = whole.frames["prompts"]
    lines = [json.dumps({"prompt": r.text, "answer": r.answer}) for r in answers.itertuples()]
    work = Audit(tmp_path, parse("\n".join(lines), True), SMALL)
    monkeypatch.setattr("specviz.diagnosis.observe.DecodingRun", None)
    monkeypatch.setattr(DRAFT, "encode", lambda text, chat: [0, *(ord(c) - ord("a") for c in text)])
    monkeypatch.setattr(
        "specviz.diagnosis.observe.answer_ids", lambda pair, text: [ord(c) - ord("a") for c in text]
    )
    while not work.finished:
        work.step(Bench(DRAFT, SMALL))
    work.close()
    report = Report.of(tmp_path)
    assert report.scored and report.totals["tokens"] == whole.totals["tokens"]
    same = report.frames["tokens"][["token", "p", "beta"]]
    assert np.allclose(same.to_numpy(float), whole.frames["tokens"][["token", "p", "beta"]].to_numpy(float))
    low, high = whole.texts.outcome(whole.texts.now).low - 0.5, whole.mean_length[2] + 0.5
    assert low < report.mean_length[0] < high
    assert report.findings and not list((tmp_path / "traces").iterdir())


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from bad_drafts import near, pair
from specviz.cli import audit as command
from specviz.diagnosis.observe import Bench
from specviz.__main__ import main
command.load_bench = lambda args, setting: Bench(pair(near(0.8)), setting)
sys.exit(main(sys.argv[1:]))
"""


def start(arguments):
    code = SCRIPT.format(tests=str(ROOT / "tests"))
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_killed_in_the_middle_it_loses_and_repeats_nothing(tmp_path):
    prompts = tmp_path / "p.txt"
    prompts.write_text("\n".join(PROMPTS.split("\n") * 3))
    arguments = ["audit", prompts, "--max-new-tokens", 40, "--temperature", 1, "--json"]
    process = start([*arguments, "--out", tmp_path / "killed"])
    parts = tmp_path / "killed" / "parts"
    while process.poll() is None and len(list(parts.glob("*.gz")) if parts.exists() else []) < 4:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(list(parts.glob("*.json.gz")))
    assert 4 <= done < 24
    before = {path.name: path.stat().st_mtime_ns for path in parts.glob("*.json.gz")}
    again = start([*arguments, "--out", tmp_path / "killed"])
    assert json.loads(again.communicate()[0])["missing"] == 0
    assert all((parts / name).stat().st_mtime_ns == when for name, when in before.items())
    setting = replace(SETTING, max_new_tokens=40, self_checks=2)
    whole = audited(tmp_path / "whole", DRAFT, setting, prompts.read_text())
    frames_equal(tables.read(tmp_path / "killed"), whole.frames)


@pytest.fixture
def command_on_tables(monkeypatch):
    monkeypatch.setattr(command, "load_bench", lambda args, setting: Bench(DRAFT, setting))


def test_the_command_measures_shows_and_gates(command_on_tables, tmp_path, capsys):
    prompts = tmp_path / "p.txt"
    prompts.write_text(FEW)
    arguments = ["audit", str(prompts), "--out", str(tmp_path / "a"), "--max-new-tokens", "16"]
    assert main([*arguments, "--min-mean-length", "1.01", "--max-evidence", "1e9"]) == 0
    shown = capsys.readouterr()
    assert "5 of 5 prompts" in shown.err and "Causes, by tokens lost" in shown.out
    assert main(["audit", "show", str(tmp_path / "a"), "--min-mean-length", "4.9"]) == command.BELOW
    assert "below 4.9" in capsys.readouterr().err
    assert main(["audit", "show", str(tmp_path / "a"), "--max-evidence", "0.5"]) == command.NOT_EXACT
    assert main(["audit", "compare", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert "within noise" in capsys.readouterr().out
    assert main(["audit", "columns"]) == 0
    assert "sum of min(p, q)" in capsys.readouterr().out


def test_tokens_are_named_as_in_a_trace_and_kept_with_the_settings(tmp_path, capsys, monkeypatch):
    plain = TablePair(DRAFT.target, DRAFT.draft)
    monkeypatch.setattr(command, "load_bench", lambda args, setting: bench_of(plain, setting))
    prompts = tmp_path / "p.txt"
    prompts.write_text(FEW)
    out = tmp_path / "a"
    few = ["audit", str(prompts), "--out", str(out), "--max-new-tokens", "12", "--self-checks", "0"]
    named = ["--ban", '"c", 3', "--bias", '"d":-2.5', "--force", '"ab"', "--constrain", "target"]
    assert main([*few, "--limit", "2", *named, "--shard", "1/2"]) == 0
    setting = json.loads((out / "audit.json").read_text())["setting"]
    assert (setting["ban"], setting["bias"], setting["constrain"]) == ('"c", 3', '"d":-2.5', "target")
    assert main([*few, "--limit", "2", *named]) == 0  # goes on with the other shard's prompt
    assert "going on: 1 of 2" in capsys.readouterr().err
    for index in range(2):
        trace = codec.load(trace_path(out, index))
        assert trace.sampling == SamplingConfig(0.7, banned=(2, 3), bias=((3, -2.5),), forced=(0, 1))
        assert trace.draft_sampling == SamplingConfig(0.7)
        assert trace.output_ids[:2] == (0, 1) and not {2, 3} & {*trace.output_ids}
    report = Report.of(out)
    assert report.setting.sampling == trace.sampling and not len(report.failed)
    assert main([*few, "--limit", "2", *named[2:]]) == 1
    assert "begun with other settings" in capsys.readouterr().err
    assert main([*few[:3], str(tmp_path / "b"), "--ban", '"ab"']) == 1  # two tokens
    assert "is 2 tokens" in capsys.readouterr().err


def test_ids_stand_in_the_controls_at_once_so_that_older_audits_go_on():
    setting = Setting().constrained(Recipe(ban="3, 2", min_tokens=2, constrain="draft"))
    assert setting.draft_sampling == SamplingConfig(banned=(2, 3), min_new_tokens=2)
    assert setting == replace(Setting(), draft_sampling=setting.draft_sampling)
    assert Setting.from_dict(json.loads(json.dumps(setting.to_dict()))) == setting
    with pytest.raises(ValueError, match="a server sends log-probabilities"):
        Setting(served="http://localhost:1").constrained(Recipe(ban='"a"'))


def test_other_settings_are_refused_by_what_differs(command_on_tables, tmp_path, capsys):
    prompts = tmp_path / "p.txt"
    prompts.write_text(FEW)
    arguments = ["audit", str(prompts), "--out", str(tmp_path / "a"), "--max-new-tokens", "8"]
    assert main([*arguments, "--limit", "1", "--draft-temperature", "2"]) == 0
    assert main([*arguments, "--limit", "1", "--seed", "3"]) == 1
    assert "(draft temperature was 2.0, now 0.7; seed was 0, now 3)" in capsys.readouterr().err


def test_an_audit_in_which_every_prompt_failed_is_no_success(command_on_tables, tmp_path, capsys):
    prompts = tmp_path / "p.txt"
    prompts.write_text("<b>\n<i>")  # no letters of the pair
    assert main(["audit", str(prompts), "--out", str(tmp_path / "a"), "--max-new-tokens", "8"]) == 1
    assert "nothing could be measured" in capsys.readouterr().out


def test_one_prompt_says_nothing_of_noise(tmp_path, recwarn):
    report = audited(tmp_path, DRAFT, replace(SETTING, max_new_tokens=24), "bob")
    said = summary.text(report)
    assert "1 prompt, " in said and "(one prompt, no interval)" in said and "nan" not in said
    found = report.texts.outcome(report.texts.plan(report.texts.options()[:1]))
    assert not found.sure and not [f for f in report.findings if f.sort == "setting"]
    cells = [cell for split in report.splits for cell in split.cells]
    assert cells and all(cell.low != cell.low for cell in cells)
    same = compare(report, report)
    assert not same.sure and "too few to tell" in same.sentence
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_an_audit_of_the_command_line_is_shown_on_the_page(command_on_tables, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    prompts = tmp_path / "p.txt"
    prompts.write_text(FEW)
    out = tmp_path / "a"
    assert main(["audit", str(prompts), "--out", str(out), "--max-new-tokens", "8", "--limit", "2"]) == 0
    capsys.readouterr()
    assert main(["audit", "page", str(out)]) == 0
    name = capsys.readouterr().out.strip().partition("debug?audit=")[2]
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.run()
    app.switch_page("pages/debug.py")
    app.query_params["audit"] = name
    app.run()
    assert not app.exception
    assert any(text.value.endswith("2 prompts") for text in app.text)
    assert [e.proto.label for e in app.get("page_link")].count("Open in Rounds") == 2


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["audit", "nowhere.txt", "--out", "x"], "nowhere.txt"),
        (["audit", "p.txt"], "--out"),
        (["audit", "p.txt", "q.txt", "--out", "x"], "too many"),
        (["audit", "p.txt", "--out", "x", "--shard", "a"], "--shard"),
        (["audit", "p.txt", "--out", "x", "-k", "0"], "K must be"),
        (["audit", "show"], "audit show DIR"),
        (["audit", "show", "nowhere"], "no audit that can be read"),
        (["audit", "compare", "a"], "two folders"),
    ],
)
def test_wrong_uses_are_one_clear_line(arguments, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.txt").write_text("abc")
    (tmp_path / "q.txt").write_text("abc")
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_two_audits_are_compared_position_by_position(tmp_path, whole):
    other = audited(tmp_path, pair(near(0.95)), SMALL, FEW)
    found = compare(whole, other)
    assert found.prompts == 5 and found.after > found.before
    assert found.change == pytest.approx(found.after - found.before)
    assert found.low <= found.change <= found.high
    # The first token of each answer stands behind the same text whoever drafts.
    assert found.positions >= 5 and found.beta_change > 0
    with pytest.raises(ValueError, match="different prompts"):
        compare(whole, audited(tmp_path / "b", DRAFT, SMALL, "bob"))
