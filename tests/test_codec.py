"""Trace files: they come back equal, and nothing that is wrong gets in."""

import gzip
import json

import pytest
from tables import table_pair

from specviz.decoding import codec
from specviz.decoding.codec import TraceError
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
    return codec.to_dict(trace)


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
    data["a_later_field"] = {"x": 1}
    assert codec.from_dict(data) == trace


BROKEN = [
    (lambda d: d.update(format="other"), "format"),
    (lambda d: d.update(version=[codec.VERSION[0] + 1, 0]), "version"),
    (lambda d: d.update(version="1.0"), "version"),
    (lambda d: d.pop("prompt"), r"trace\.prompt is missing"),
    (lambda d: d.update(prompt=3), r"trace\.prompt should be of type str"),
    (lambda d: d.update(prompt="\ud800"), "surrogate"),
    (lambda d: d.update(chat=1), r"trace\.chat should be of type bool"),
    (lambda d: d.update(k=True), r"trace\.k should be of type int"),
    (lambda d: d.update(seed=10**30), r"trace\.seed"),
    (lambda d: d.update(seed=10**400), r"trace\.seed"),
    (lambda d: d.update(rounds={}), r"trace\.rounds should be a list"),
    (lambda d: d["sampling"].update(temperature=float("nan")), r"trace\.sampling\.temperature"),
    (lambda d: d["sampling"].update(temperature=10**400), r"trace\.sampling\.temperature"),
    (lambda d: d["sampling"].update(top_p=7.0), r"trace\.sampling: top_p"),
    (lambda d: d["rounds"][0].update(outcome="won"), r"outcome should be one of"),
    (lambda d: d["rounds"][0].update(accepted=99), "accepted"),
    (lambda d: d["rounds"][0].update(number=2), r"rounds\[0\]\.number"),
    (lambda d: d["rounds"][1].update(start=0), r"rounds\[1\]\.start"),
    (lambda d: d["rounds"][0].update(committed=[]), "committed"),
    (lambda d: d["rounds"][0]["positions"].clear(), "accepted"),
    (lambda d: d["rounds"][0]["positions"][0].update(u=1.5), r"positions\[0\]\.u should lie in"),
    (lambda d: d["rounds"][0]["positions"][0].update(q=0.0), "q should be above 0"),
    (lambda d: d["rounds"][0]["positions"][0].update(q=float("inf")), "finite"),
    (lambda d: d["rounds"][0]["positions"][0].update(token=None), "draft tokens only"),
    (lambda d: d["rounds"][0]["positions"][0].update(token=-1), "token should lie in"),
    (lambda d: d["rounds"][0]["positions"][0].update(state="bonus"), "state"),
    (lambda d: d["rounds"][0]["positions"][0]["table"]["p"].pop(), "equal length"),
    (lambda d: d["tokens"].update({"-1": ["x", False]}), "token ids"),
    (lambda d: d["tokens"].update({"1": ["x"]}), r"tokens\[1\]"),
    (lambda d: d["tokens"].update({"1": [None, False, "zz"]}), r"tokens\[1\]"),
]


@pytest.mark.parametrize("spoil, message", BROKEN)
def test_what_is_wrong_is_refused_with_the_field_named(data, spoil, message):
    data = json.loads(json.dumps(data))
    spoil(data)
    with pytest.raises(TraceError, match=message):
        codec.from_dict(data)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "not valid JSON"),
        (b"[]", "format"),
        (b'{"format": NaN}', "NaN"),
        (b"[" * 200_000, "nested too deeply|not valid JSON"),
        (b"\x1f\x8b broken", "gzip"),
        (gzip.compress(b"[]")[:-4], "gzip"),
        (b"\xff\xfe{", "not valid JSON"),
        (b'{"format": ' + b"9" * 10_000 + b"}", "not valid JSON"),
    ],
)
def test_files_that_are_no_traces_are_refused(content, message):
    with pytest.raises(TraceError, match=message):
        codec.loads(content)


def test_a_small_file_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(codec, "MAX_BYTES", 10_000)
    with pytest.raises(TraceError, match="larger than"):
        codec.loads(gzip.compress(b" " * 1_000_000))


def test_lists_and_strings_are_limited(data, monkeypatch):
    monkeypatch.setattr(codec, "MAX_TEXT", 3)
    with pytest.raises(TraceError, match="longer than 3"):
        codec.from_dict(data)
    monkeypatch.undo()
    monkeypatch.setattr(codec, "MAX_ITEMS", 2)
    with pytest.raises(TraceError, match="more than 2 items"):
        codec.from_dict(data)
