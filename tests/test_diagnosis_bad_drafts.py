"""Seven drafts that are bad in a known way: each is named first."""

import json

import numpy as np
import pandas as pd
import pytest
from bad_drafts import BAD, audited, near, pair

from specviz.diagnosis import faults, summary
from specviz.diagnosis.setting import Setting


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return {
        name: audited(tmp_path_factory.mktemp("audit"), made, setting)
        for name, (made, setting, _) in BAD.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_each_bad_draft_is_named_first(reports, name):
    report, key = reports[name], BAD[name][2]
    assert next(finding.key for finding in report.findings) == key, [f.title for f in report.findings]
    assert summary.text(report).startswith(report.findings[0].title)


def test_the_largest_cause_is_that_of_the_bad_draft(reports):
    first = {name: report.causes[0].key for name, report in reports.items()}
    assert first["temperature 0.2 against 1"] == "controls"
    assert first["top-k on one side"] == "controls"
    assert first["trimmed vocabulary, other language"] == "outside"
    assert first["a fault of its cache"] == "drift"


def test_a_good_draft_gets_no_fault(tmp_path):
    report = audited(tmp_path, pair(near(0.97)), Setting(max_new_tokens=40))
    assert [finding.key for finding in report.findings] == ["weak"]
    assert report.findings[0].title == "The draft is good"
    assert report.checks["self_draft"]["accepted"] == report.checks["self_draft"]["drafted"] > 0
    assert not report.checks["caches"]["wrong"] and report.checks["caches"]["checked"] == 4


def test_the_summary_is_json_without_nan(reports):
    for report in reports.values():
        text = json.dumps(summary.as_dict(report), allow_nan=False)
        assert json.loads(text)["totals"]["rounds"] == report.totals["rounds"]


def test_sums_agree_with_each_other(reports):
    for report in reports.values():
        positions, rounds, prompts = (report.frames[n] for n in ("positions", "rounds", "prompts"))
        states = positions["state"].value_counts()
        assert states["accepted"] == rounds["accepted"].sum() == prompts["accepted"].sum()
        assert len(positions) == rounds["k"].sum() == prompts["drafted"].sum()
        assert rounds["committed"].sum() == prompts["tokens"].sum() == len(report.frames["tokens"])
        rejected = positions[positions["state"] == "rejected"]
        assert (rejected["cause"] != "").all() and rejected["lost"].sum() == (
            rounds["k"] - rounds["accepted"]
        ).sum()
        assert sum(share.lost for share in report.causes) == prompts["lost"].sum()


@pytest.mark.parametrize("draft, broken", [(-5.7, False), (-9.4, True)])
def test_a_weak_draft_on_a_few_short_texts_is_not_called_broken(draft, broken):
    """Of 49,152 ids a few texts use a hundred: whoever knows which ones guesses better than a fair draft."""
    rng = np.random.default_rng(0)
    count = 6 * 28
    tokens = pd.DataFrame(
        {
            "prompt": np.repeat(range(6), 28),
            "token": rng.integers(0, 100, count),
            "lacking": False,
            "logprob": rng.normal(-3.0, 1.0, count),
            "q_logprob": draft,
            "q|draft|t1|0": np.exp(rng.normal(draft, 1.0, count)),
        }
    )
    found = faults.of_the_weights({"tokens": tokens}, Setting(), 49152)
    assert [finding.key for finding in found] == (["broken-weights"] if broken else [])


@pytest.mark.slow
def test_a_template_of_the_drafts_own_is_named_also_where_it_was_not_used(tmp_path):
    import torch
    from tiny import CHAT, VOCAB, letter_tokenizer, llama, tiny_pair

    from specviz.diagnosis.audit import Audit
    from specviz.diagnosis.observe import Bench
    from specviz.diagnosis.prompts import parse
    from specviz.diagnosis.report import Report
    from specviz.models.language_model import TransformersModel

    held, draft = tiny_pair(template=CHAT), llama(1)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(3)
        for weight in draft.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
    held.draft = TransformersModel(draft, "near", len(VOCAB))
    other = letter_tokenizer(
        template="{% for message in messages %}abc-abc: {{ message['content'] }}</s>zzz{% endfor %}"
    )
    said = {}
    for style in ("same", "own"):
        setting = Setting(chat=True, draft_prompt=style, max_new_tokens=24, self_checks=0)
        prompts = parse("\n".join(f"where is order {1000 + 37 * i}?" for i in range(8)), False)
        work = Audit(tmp_path / style, prompts, setting)
        while not work.finished:
            work.step(Bench(held, setting, draft_tokenizer=other))
        work.close()
        said[style] = [finding.key for finding in Report.of(tmp_path / style).findings]
    assert said["own"][0] == "prompt"
    assert "own-template" in said["same"] and "own-template" not in said["own"]
