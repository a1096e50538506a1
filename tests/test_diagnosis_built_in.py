"""On real models: seven drafts that are bad in a known way, and what changes bring that are really made."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from test_debug_page import ROOT, markup

from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis import costs, observe, summary
from specviz.diagnosis.audit import Audit
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.plans import Plan
from specviz.diagnosis.prompts import encode, parse
from specviz.diagnosis.report import Report
from specviz.diagnosis.setting import Setting
from specviz.ui.debug import work

pytestmark = pytest.mark.slow

ENGLISH = """Water boils at a temperature of
The old lighthouse keeper opened the letter and
Once upon a time there was a dog who
What is the capital of France?
Why is the sky blue?
How do plants grow?"""
GERMAN = """Die Hauptstadt von Deutschland ist
Es war einmal ein König, der hatte
Wasser kocht bei
Der Hund lief über die Straße und"""
COUNTING = "1, 2, 3, 4, 5, 6, 7,\none two three one two three one two three one"
COOL = SamplingConfig(temperature=0.5)
SETTING = Setting(max_new_tokens=20, self_checks=0)


def another_order(pair):
    """The same draft, its layers the wrong way round."""
    other, draft, model = copy(pair), copy(pair.draft), copy(pair.draft.model)
    model._modules = {**model._modules, "layers": torch.nn.ModuleList(reversed(list(model.layers)))}
    draft.model, other.draft = model, draft
    return other


def same(pair):
    return pair


# name: (what is done to the pair, setting, prompts, key of the finding that has to come first)
BAD = {
    "wrong chat template": (
        same,
        replace(SETTING, chat=True, draft_prompt="plain", max_new_tokens=24),
        ENGLISH,
        "prompt",
    ),
    "temperature 0.2 against 1": (
        same,
        replace(SETTING, draft_sampling=SamplingConfig(0.2)),
        ENGLISH,
        "controls",
    ),
    "top-k on one side": (
        same,
        replace(SETTING, draft_sampling=SamplingConfig(top_k=2)),
        ENGLISH,
        "controls",
    ),
    "another layer order": (another_order, replace(SETTING, max_new_tokens=24), ENGLISH, "broken-weights"),
    "a fault of its cache": (
        same,
        replace(SETTING, k=2, sampling=COOL, draft_sampling=COOL, rule="draft-cache-hole", self_checks=1),
        COUNTING,
        "draft-cache",
    ),
    "trimmed vocabulary, other language": (same, replace(SETTING, max_new_tokens=24), GERMAN, "vocabulary"),
    "plainly weak": (
        same,
        replace(SETTING, sampling=COOL, draft_sampling=COOL, max_new_tokens=24),
        ENGLISH,
        "weak",
    ),
}


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """What passes cost is not measured here, and audits lie in a folder of the test."""
    known = costs.Costs(0.05, (1.0, 1.05, 1.1, 1.15, 1.3, 1.6), 0.1, 0.1)
    monkeypatch.setattr(costs, "measure", lambda *args: known)
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))


def audited(folder, pair, setting, prompts):
    work, bench = Audit(folder, prompts, setting), Bench(pair, setting)
    while not work.finished:
        work.step(bench)
    work.close()
    return Report.of(folder)


@pytest.mark.parametrize("name", BAD)
def test_each_bad_draft_is_named_first_by_the_audit_and_by_the_page(name, built_in_pair, quick):
    change, setting, prompts, key = BAD[name]
    folder = work.folder("bad-draft")
    report = audited(folder, change(built_in_pair), setting, parse(prompts, False))
    first = report.findings[0]
    assert first.key == key, [f.title for f in report.findings]
    assert summary.text(report).startswith(first.title)
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    app.run()
    app.switch_page("pages/debug.py")
    app.query_params["audit"] = folder.name
    app.run()
    assert not app.exception
    heads = [m.value for m in app.markdown if m.value.startswith("### ")]
    assert heads[0] == f"### {first.title}" and "Recorded audit" not in markup(app)


GREEDY = SamplingConfig(temperature=0.0)
NOW = Setting(sampling=GREEDY, draft_sampling=GREEDY, second="eagle", max_new_tokens=20, self_checks=0)
# Changes that leave no draw: the text is the same, and so what was expected along it is what has to happen.
CERTAIN = {
    "K 1": (Plan(k=1), replace(NOW, k=1)),
    "K 8": (Plan(k=8), replace(NOW, k=8)),
    "chat template for the draft": (Plan(source="chat"), replace(NOW, draft_prompt="chat")),
    "EAGLE": (Plan(source="second"), replace(NOW, drafter="eagle", second="")),
}
WARM = (Plan(controls="t0.8"), replace(NOW, draft_sampling=SamplingConfig(0.8)))


def really(pair, setting, prompts):
    """Rounds and accepted tokens of runs with this setting, by prompt."""
    bench, sums = Bench(pair, setting), []
    for prompt in prompts:
        ids = encode(pair, prompt, "plain")
        lead = observe._leads(bench, prompt, ids).get(setting.draft_prompt)
        rounds = list(observe._run(bench, prompt, ids, lead))
        sums.append([len(rounds), sum(r.accepted for r in rounds)])
    return np.array(sums, float)


def test_what_changes_were_predicted_to_bring_they_bring(built_in_pair, quick, tmp_path):
    prompts = parse("\n".join(ENGLISH.split("\n")[1:4]), False)
    texts = audited(tmp_path / "now", built_in_pair, NOW, prompts).texts
    for name, (plan, setting) in CERTAIN.items():
        assert texts.outcome(plan).label == "exact"
        assert texts.sums(plan)[:, :2] == pytest.approx(really(built_in_pair, setting, prompts)), name
    plan, setting = WARM
    drawn = [really(built_in_pair, replace(setting, seed=seed), prompts).sum(axis=0) for seed in (1, 2, 3)]
    means = [1 + accepted / rounds for rounds, accepted in drawn]
    assert min(means) - 0.1 <= texts.outcome(plan).mean <= max(means) + 0.1
