"""Trace files: they come back equal, and nothing that is wrong gets in."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tables import table_pair

from specviz.decoding import codec
from specviz.decoding.codec import TraceError
from specviz.decoding.ranges import MAX_TEXT
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig


@pytest.fixture(scope="module")
def trace():
    run = DecodingRun(
        table_pair(7), "abacab", k=3, max_new_tokens=12, seed=3, stop=["zz"], sampling=SamplingConfig(0.8, 5)
    )
    list(run)
    return run.trace()


@pytest.fixture
def data(trace):
    return json.loads(codec.dumps(trace))


def read(data):
    return codec.loads(json.dumps(data).encode())


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_saved_trace_comes_back_equal(trace, tmp_path, name):
    codec.save(trace, tmp_path / name)
    assert codec.load(tmp_path / name) == trace
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_saving_twice_makes_the_same_file(trace, tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        codec.save(trace, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_a_trace_says_why_rounds_went_as_they_did(trace):
    for round in trace.rounds:
        for i, row in enumerate(round.positions[:-1]):
            if i < round.accepted:
                assert row.state == "accepted" and row.u * row.q < row.p
            elif i == round.accepted:
                assert row.state == "rejected" and row.u * row.q >= row.p
            else:
                assert row.state == "discarded"
            assert row.beta + row.residual_mass == pytest.approx(1.0)
        for row in round.positions:
            outside = row.rest.p_over + row.rest.p_under
            assert sum(row.table.p) + outside == pytest.approx(1.0)


def test_newer_minor_versions_and_unknown_fields_are_read(data, trace):
    data["version"] = [codec.VERSION[0], 99]
    data["a_later_field"] = {"x": [[], [], {"y": 1}]}
    data["rounds"][0]["positions"][0]["another"] = [1, 2]
    assert read(data) == trace


def test_files_of_version_1_0_are_read(data, trace):
    data["version"] = [1, 0]
    for round in data["rounds"]:
        for name in ("record_seconds", "log_probs", "raw_log_probs"):
            del round[name]
    old = read(data)
    assert [r.positions for r in old.rounds] == [r.positions for r in trace.rounds]
    assert old.rounds[0].log_probs == () and old.rounds[0].record_seconds == 0.0


def row(d, i=0):
    return d["rounds"][0]["positions"][i]


BROKEN = [
    (lambda d: d.update(format="other"), "format"),
    (lambda d: d.update(version=[codec.VERSION[0] + 1, 0]), "version"),
    (lambda d: d.update(version="1.0"), "version"),
    (lambda d: d.pop("prompt"), "trace: .*missing required field prompt"),
    (lambda d: d.update(prompt=3), r"trace\.prompt: expected str"),
    (lambda d: d.update(prompt="\ud800"), "not valid JSON"),
    (lambda d: d.update(prompt="x" * (MAX_TEXT + 1)), r"trace\.prompt: .*length"),
    (lambda d: d.update(prompt_ids=[]), "prompt_ids should not be empty"),
    (lambda d: d.update(prompt_ids=[0, 9999]), "prompt_ids has 9999, which is outside"),
    (lambda d: d.update(chat=1), r"trace\.chat: expected bool"),
    (lambda d: d.update(k=True), r"trace\.k: expected int"),
    (lambda d: d.update(k=1001), r"trace\.k: expected int <= 1000"),
    (lambda d: d.update(seed=10**30), r"trace\.seed"),
    (lambda d: d.update(seed=10**400), r"trace\.seed"),
    (lambda d: d.update(rounds={}), r"trace\.rounds: expected array"),
    (lambda d: d.update(rounds=[[]]), r"trace\.rounds\[0\]: expected object"),
    (lambda d: d["sampling"].update(temperature=float("nan")), "not valid JSON"),
    (lambda d: d["sampling"].update(temperature=10**400), r"trace\.sampling\.temperature: number out of"),
    (lambda d: d["sampling"].update(top_p=7.0), r"trace\.sampling: top_p"),
    (
        lambda d: d["rounds"][0].update(outcome="won"),
        r"trace\.rounds\[0\]\.outcome: invalid enum value 'won'",
    ),
    (lambda d: d["rounds"][0].update(accepted=99), "accepted"),
    (lambda d: d["rounds"][0].update(number=2), r"rounds\[0\]\.number"),
    (lambda d: d["rounds"][1].update(start=0), r"rounds\[1\]\.start"),
    (lambda d: d["rounds"][0].update(committed=[]), "committed"),
    (lambda d: d["rounds"][0].update(finish="eos"), "finish"),
    (lambda d: d["rounds"][0].update(log_probs=[-1.0] * 9), r"rounds\[0\]\.log_probs should have one"),
    (lambda d: d["rounds"][0].update(raw_log_probs=[0.5] * len(d["rounds"][0]["committed"])), "0 or less"),
    (lambda d: d["rounds"][0]["target_cache"].update(kept=999), "target_cache keeps more"),
    (lambda d: d["rounds"][0]["positions"].clear(), "accepted"),
    (lambda d: row(d).update(u=1.5), r"positions\[\.*0\.*\]\.u: expected float < 1\.0"),
    (lambda d: row(d).update(q=0.0), "should have the table's p and q"),
    (lambda d: row(d).update(q=float("inf")), "not valid JSON"),
    (lambda d: row(d).update(token=None), "draft tokens only"),
    (lambda d: row(d).update(token=-1), r"token: expected int >= 0"),
    (lambda d: row(d).update(token=6 - row(d)["token"]), "should"),
    (lambda d: row(d).update(state="bonus"), "state should be"),
    (lambda d: row(d).update(state="discarded"), "state should be"),
    (lambda d: row(d).update(p_root_sum=0.0), "p_root_sum"),
    (lambda d: row(d).update(p_root_sum=0.5), "p_root_sum should be at least 1"),
    (lambda d: row(d).update(p_root_sum=5000.0), "p_root_sum is larger"),
    (lambda d: row(d).update(p_entropy=500.0), "p_entropy is too large"),
    (lambda d: row(d).update(kl=-1.0), r"kl: expected float >= 0"),
    (lambda d: row(d).update(beta=row(d)["beta"] / 2), "beta should come to"),
    (lambda d: row(d).update(residual_mass=1.0), "residual_mass should come to"),
    (lambda d: row(d).update(target_logsumexp=-1e300), "target_logsumexp does not fit"),
    (lambda d: row(d).update(draft_logsumexp=1e300), "draft_logsumexp does not fit"),
    (lambda d: row(d)["table"]["p"].pop(), "equal length"),
    (lambda d: row(d)["table"].update(p=[0.0] * len(row(d)["table"]["p"])), "p should come to 1"),
    (lambda d: row(d)["table"].update(q=[0.0] * len(row(d)["table"]["q"])), "q should come to 1"),
    (lambda d: row(d)["table"].update(ids=row(d)["table"]["ids"][:1] * len(row(d)["table"]["ids"])), "once"),
    (lambda d: row(d)["table"]["target_removed"].__setitem__(0, "top-k"), "has probability"),
    (lambda d: row(d)["rest"].update(p_over=0.5), "p should come to 1"),
    (lambda d: row(d)["rest"].update(count=10), "make up the vocabulary"),
    (lambda d: d["tokens"].update({"-1": ["x", False]}), "expected int >= 0"),
    (lambda d: d["tokens"].update({"1": ["x"]}), r"tokens\[.*\]"),
    (lambda d: d["tokens"].update({"1": [None, False]}), r"tokens\[1\]"),
    (lambda d: d["tokens"].update({"1": [None, False, "zz"]}), r"tokens\[1\]"),
    (lambda d: d["tokens"].clear(), "whose text is missing"),
    (lambda d: d["tokens"].pop(str(d["rounds"][-1]["token"])), "whose text is missing"),
]


@pytest.mark.parametrize("spoil, message", BROKEN)
def test_what_is_wrong_is_refused_with_the_field_named(data, spoil, message):
    spoil(data)
    with pytest.raises(TraceError, match=message):
        read(data)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "not valid JSON"),
        (b"[]", "not a SpecViz trace"),
        (b'{"format": NaN}', "not valid JSON"),
        (b"[" * 200_000, "not a SpecViz trace"),
        (b'{"format": "specviz-trace", "x": ' + b"[" * 200_000, "nested too deeply"),
        (b"\x1f\x8b broken", "gzip"),
        (gzip.compress(b"[]", mtime=0)[:-4], "gzip"),
        (b"\xff\xfe{", "not valid JSON"),
        (b'{"format": ' + b"9" * 10_000 + b"}", "not valid JSON|format"),
        (b'{"format": "\xff"}', "not valid JSON"),
    ],
)
def test_files_that_are_no_traces_are_refused(content, message):
    with pytest.raises(TraceError, match=message):
        codec.loads(content)


def test_every_flipped_bit_of_a_gzipped_trace_is_refused_or_reads_the_same(trace):
    """zlib has an error of its own for some of them."""
    content = codec.dumps(trace, compress=True)
    refused = 0
    for place in range(2, len(content), max(1, len(content) // 300)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        try:
            assert codec.loads(bytes(damaged)) == trace
        except TraceError:
            refused += 1
    assert refused > 250


def test_a_small_file_that_unpacks_to_too_much_is_refused():
    with pytest.raises(TraceError, match="unpacks to more than"):
        codec.loads(gzip.compress(b" " * 10_000_000))


def test_rounds_that_repeat_each_other_over_and_over_can_be_saved(trace):
    """They pack so well that they would look like a bomb."""
    long = replace(trace, prompt="x" * 1_000_000)
    assert codec.loads(codec.dumps(long, compress=True)) == long


def test_a_run_that_is_too_long_for_a_file_is_not_written(trace, monkeypatch):
    monkeypatch.setattr(codec, "MAX_BYTES", 1000)
    with pytest.raises(TraceError, match="too long for a file"):
        codec.dumps(trace)


# Fields that a trace does not have, and those it has, filled with as many small values as fit.
BOMBS = {
    "unknown field of empty lists": (b'"later":[', b"[],"),
    "unknown field of objects": (b'"later":[', b'{"a":1},'),
    "rounds of empty lists": (b'"rounds":[', b"[],"),
    "ids": (b'"prompt_ids":[', b"0,"),
    "large ids": (b'"prompt_ids":[', b"1234567,"),
    "empty stop strings": (b'"stop":[', b'"",'),
    "short stop strings": (b'"stop":[', b'"abcd",'),
    "version of lists": (b'"version":[', b"[],"),
}
WATCHED = """
import sys
from specviz.decoding import codec
def peak():  # of this program alone; getrusage counts what the test had when it started it
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
content = open(sys.argv[1], "rb").read()
before = peak()
try:
    codec.loads(content)
except codec.TraceError:
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads what Linux says of a process")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", BOMBS)
def test_memory_stays_within_the_stated_multiple_of_a_files_size(name, packed, tmp_path):
    start, item = BOMBS[name]
    size = 16 * 2**20
    rest = b'"format":"specviz-trace",' if "version" in name else b'"format":"specviz-trace","version":[1,0],'
    content = b"{" + rest + start + item * (size // len(item)) + item.rstrip(b",") + b"]}"
    if packed:
        content = gzip.compress(content)
    path = tmp_path / "bomb"
    path.write_bytes(content)
    bound = codec.MEMORY * (codec.MAX_RATIO if packed else 1) * len(content) + codec.BASE
    # The kernel's count is now and then too high: what a second look does not confirm was not there.
    assert any(_memory_taken(path) <= bound for _ in range(2))


def _memory_taken(path):
    done = subprocess.run([sys.executable, "-c", WATCHED, path], capture_output=True, text=True, check=True)
    assert done.stdout, "should be refused"
    return int(done.stdout)
