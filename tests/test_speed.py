"""Speed: what is measured, what is predicted from it, and what is said about it."""

import csv
import io
import json
from dataclasses import dataclass, replace

import pytest
from branching import enumerate_law
from tables import joint_law, table_pair, total_variation
from tiny import tiny_pair

from specviz.__main__ import main
from specviz.cli import options
from specviz.decoding import codec
from specviz.decoding.run import DecodingRun
from specviz.speed import adaptive, engines, files, floors, formulas, verdict
from specviz.speed.adaptive import AdaptiveK
from specviz.speed.beside import MOST, Beside, against_plain
from specviz.speed.clock import Spread, in_turns
from specviz.speed.formulas import Machine, Shape
from specviz.speed.machine import this_machine
from specviz.speed.report import Draft, Pass, Report, Run, Setting
from specviz.speed.sweep import Plan, Sweep


def spread(value):
    return Spread(value, value * 0.9, value * 1.1, 5)


def run(drafter="model", k=4, ratio=1.4, **changes):
    values = {
        "drafter": drafter,
        "k": k,
        "adaptive": False,
        "ratio": spread(ratio),
        "by_text": (ratio,),
        "tokens": 250,
        "seconds": 10.0,
        "rounds": 100,
        "blocks": (*[0] * k, 100),
        "drafted": 400,
        "accepted": 150,
        "rates": (0.6, 0.4, 0.3, 0.2),
        "alpha": 0.6,
        "draft": 4.0,
        "verify": 5.0,
        "rest": 1.0,
    }
    return Run(**(values | changes))


PLAIN = run("plain", 0, tokens=100, seconds=5.0, rates=(), alpha=None, draft=0.0, verify=4.8, rest=0.2)


def made(**changes):
    values = {
        "setting": Setting(
            "t", "float32", "cpu", "", "CPU seconds of one thread", "model", 4, 0.0, ("a text",), 32
        ),
        "machine": this_machine(),
        "shape": Shape("t", 1000.0, 4.0, 2, 10, 5),
        "rates": Machine("cpu", 1e8, 1e6, 1e9),
        "passes": [Pass(n, 5, 1, spread(0.048 + 0.0005 * (n - 1))) for n in (1, 3, 5, 9)],
        "drafts": [Draft("model", k, spread(0.01 * k)) for k in (1, 2, 4, 8)],
        "runs": [replace(PLAIN, ratio=None), run(), run(k=2, ratio=1.5, rates=(0.6, 0.4), drafted=200)],
    }
    return Report(**(values | changes))


def test_c_and_v_come_from_what_was_measured():
    found = made()
    assert found.v(4) == pytest.approx(0.05 / 0.048)
    assert found.v(1) == pytest.approx(0.0485 / 0.048)  # two rows: on the line between one and three
    assert found.v(20) is None  # beyond what was measured nothing is made up
    assert found.c("model") == pytest.approx(0.01 / 0.048)
    assert found.c("eagle") is None


def test_a_prediction_adds_up_its_parts():
    found = made()
    plain = 0.048 + 0.2 / 100
    round = 4 * 0.01 + 0.05 + 1.0 / 100
    assert found.predicted("model", 4) == pytest.approx(2.5 * plain / round)
    # A K that was not run: from the rates of the longest drafts.
    assert found.predicted("model", 3) == pytest.approx(
        (1 + 0.6 + 0.4 + 0.3) * plain / (0.03 + 0.0495 + found.host("model", 3))
    )
    kept = found.kept("model")
    assert formulas.expected_tokens(kept, 4) == pytest.approx(2.5) and found.alpha("model") == 0.6
    assert found.independent("model", 4) == pytest.approx(formulas.speedup(kept, 4, 0.01 / 0.048))
    assert found.best("model").k == 2


def test_a_prediction_charges_each_round_for_what_it_drafted():
    """An adaptive K, and a drafter that finds nothing to copy in most rounds."""
    found = made()
    changing = run(adaptive=True, blocks=(60, 0, 0, 0, 40), drafted=160)
    cost = 60 * 0.048 + 40 * (0.04 + 0.05) + 1.0
    assert found.explained(changing) == pytest.approx(250 * (0.048 + 0.2 / 100) / cost)
    found.runs.append(changing)
    assert found.adaptive("model") == changing and found.run("model", 4) == run()
    assert found.best("model").k == 2 and [r.k for r in found.fixed("model")] == [2, 4]
    # Blocks that were not measured are not made up.
    assert found.explained(run(k=12, blocks=(*[0] * 12, 100))) is None


def test_a_report_survives_its_file():
    found = made()
    assert files.from_json(files.to_json(found)) == found
    rows = list(csv.DictReader(io.StringIO(files.to_csv(found))))
    assert len(rows) == 4 + 4 + 2
    assert {row["kind"] for row in rows} == {"pass", "draft block", "speed over plain"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 9}', '{"format": 1, "setting": {}}', "null"])
def test_a_file_that_is_no_report_is_refused(text):
    with pytest.raises(ValueError):
        files.from_json(text)


def test_the_verdict_says_both_and_why():
    scale = verdict.scale(run(), PLAIN)
    assert scale.plain == pytest.approx(0.05) and scale.passes == pytest.approx(2.0)
    assert scale.speedup == pytest.approx(1.25) and scale.k == 4
    assert verdict.headline(1.42).startswith("✓ 1.42× faster")
    assert "loses here" in verdict.headline(0.86)
    assert "as fast as" in verdict.headline(1.01)
    assert "and brings 2.50 tokens" in verdict.reason(scale)
    assert "stays above" in verdict.wanted(scale, 4)


def test_what_would_have_to_change_would_do():
    losing = verdict.scale(run(tokens=150), PLAIN)
    said = verdict.wanted(losing, 4)
    alpha = formulas.break_even_alpha(4, losing.c, losing.v)
    assert f"α above {alpha:.2f}" in said
    assert formulas.speedup(alpha, 4, losing.c, losing.v) == pytest.approx(1.0)
    enough = (losing.tokens - losing.v) / 4
    assert f"below {enough:.2f}" in said
    assert losing.tokens / (4 * enough + losing.v) == pytest.approx(1.0)
    sparse = verdict.scale(run(drafted=60), PLAIN)
    assert "0.6 tokens a round" in verdict.wanted(sparse, 4) and "α" not in verdict.wanted(sparse, 4)
    # The end of a text drafts fewer than K: the cost that is named is still the one that breaks even.
    short = verdict.scale(run(drafted=360), PLAIN)
    limit = float(verdict.wanted(short, 4).split("costs less than ")[1].split()[0])
    assert (short.speedup > 1) == (short.c < limit)
    hopeless = verdict.scale(run(tokens=150, draft=40.0), PLAIN)
    assert "no draft could gain" in verdict.wanted(hopeless, 4)
    dear = verdict.scale(run(tokens=105, draft=0.4, verify=9.0), PLAIN)
    assert "costs nothing would not be enough" in verdict.wanted(dear, 4)


def test_the_shape_of_a_model_counts_what_a_pass_multiplies():
    target = tiny_pair().target
    shape = floors.shape_of(target)
    matrices = sum(p.numel() for n, p in target.model.named_parameters() if "embed" not in n)
    assert shape.weights == matrices  # head included: it is not tied here
    assert shape.cache_bytes == 2 * 2 * 2 * 8 * 4 and shape.width == 32


def test_runs_are_timed_in_turns():
    order, time = [], iter(range(100))
    taken = in_turns({n: lambda n=n: order.append(n) for n in "ab"}, 3, lambda: next(time))
    assert "".join(order) == "ab" * 4 and taken == {"a": [1] * 3, "b": [1] * 3}


@pytest.fixture(scope="module")
def swept():
    plan = Plan(drafter="model", k=2, prompts=("abcabcabc", "hello"), tokens=12, turns=1, temperature=1.0)
    sweep = Sweep(tiny_pair(), plan)
    while sweep.done < sweep.total:
        assert sweep.now
        sweep.step()
    return sweep


@pytest.mark.slow
def test_a_sweep_measures_every_part(swept):
    found = swept.report
    assert {p.rows for p in found.passes} >= {1, 2, 3, 5, 9, 17}
    assert set(found.drafters) == {"model", "ngram", "suffix", "early-exit", "parallel", "combined"}
    assert [r.k for r in found.fixed("model")] == [1, 2, 3, 4, 6, 8, 12]
    assert [r.k for r in found.fixed("ngram")] == [1, 2, 4, 8]
    for r in found.runs:
        assert r.seconds > 0 and r.rest > 0 and r.rounds > 0
        assert r.seconds == pytest.approx(r.draft + r.verify + r.rest)
        if r.k:
            assert r.ratio is not None and r.accepted <= r.drafted and len(r.by_text) == 2
            assert sum(r.blocks) == r.rounds and sum(k * n for k, n in enumerate(r.blocks)) == r.drafted
            assert found.explained(r) is not None
    for drafter in found.drafters:
        assert found.adaptive(drafter).k == 8
    assert found.plain.tokens == found.plain.rounds
    assert found.predicted("model", 2) and found.c("model") and found.v(2)
    assert {p.batch for p in found.grid} == {1, 2, 4, 8, 16, 32, 64}
    assert any("at most 256" in line for line in found.refused)
    assert files.from_json(files.to_json(found)) == found


@pytest.mark.slow
def test_a_sweep_can_stop_anywhere_and_go_on():
    sweep = Sweep(tiny_pair(), Plan(k=1, prompts=("abc",), tokens=6, turns=1, grid=False))
    assert sweep.report is None and sweep.done == 0
    while sweep.done < 2:
        sweep.step()
    half = files.from_json(files.to_json(sweep.report))
    assert half.passes and not half.runs and half.plain is None
    sweep.let_go()
    sweep.attach(tiny_pair())  # loaded again
    while sweep.done < sweep.total:
        sweep.step()
    assert sweep.report.prefill and sweep.report.passes == half.passes and sweep.report.plain


@pytest.mark.slow
def test_a_part_that_broke_off_begins_again(monkeypatch):
    sweep = Sweep(tiny_pair(), Plan(k=1, prompts=("abc",), tokens=6, turns=1, grid=False))
    while "runs" not in sweep.now:
        sweep.step()
    sweep.step()
    sweep.step()
    with monkeypatch.context() as broken:
        broken.setattr(DecodingRun, "step", lambda run: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sweep.step()
    assert not sweep.report.runs
    while sweep.done < sweep.total:
        sweep.step()
    # Nothing is counted twice.
    assert all(r.ratio.count == 1 for r in sweep.report.runs if r.k)


def test_a_drafter_that_the_pair_lacks_is_refused():
    with pytest.raises(ValueError, match="no drafter 'eagle'; it has"):
        Sweep(tiny_pair(), Plan(drafter="eagle"))


@pytest.mark.slow
def test_the_command_says_it_and_saves_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(options, "load", lambda args: tiny_pair())
    out = tmp_path / "r.json"
    arguments = ["speed", "--prompt", "abcabc", "--tokens", "8", "--turns", "1", "-k", "2", "--no-batches"]
    assert main([*arguments, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "predicted" in said and "floors" in said and "plain passes" in said
    table = said[said.index("drafter ") :].splitlines()
    (adaptive,) = [line for line in table if line.startswith("model") and "chosen before each" in line]
    assert adaptive.split()[1] == "⌀" and "–" not in adaptive  # its K, its cost and its prediction are told
    assert json.loads(out.read_text())["setting"]["k"] == 2
    assert main([*arguments, "--out", "r.txt"]) == 1
    assert "json or .csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("a", "b", "at"), [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1], [1, 2], 1), ([], [], None)]
)
def test_the_first_difference_of_two_texts(a, b, at):
    assert engines.first_difference(a, b) == at


def test_a_draft_with_a_full_head_is_the_draft():
    """What transformers is given proposes what ours does."""
    import torch
    from tiny import llama

    target, draft = llama(1), llama(2)
    given = engines.full_head(target, draft.model)
    ids = torch.tensor([[4, 5, 6]])
    with torch.inference_mode():
        wanted = target.lm_head(draft.model(ids).last_hidden_state)
        assert torch.equal(given(ids).logits, wanted)
    config = given.generation_config
    assert config.num_assistant_tokens == 4 and config.assistant_confidence_threshold == 0.0
    assert config.num_assistant_tokens_schedule == "constant"


PROMPT = (0, 1, 0, 2, 0, 1)
V = {1: 1.05, 2: 1.08, 4: 1.15, 8: 1.3}


def test_an_adaptive_k_does_not_change_the_law():
    """K of every round depends on what earlier rounds accepted, on whichever path."""
    chosen = set()

    def program(randomness):
        run = DecodingRun(table_pair(3, 7), PROMPT, k=2, max_new_tokens=4, randomness=randomness)
        chooser = AdaptiveK(0.5, {1: 1.05, 2: 1.08})
        for _ in adaptive.decode(run, chooser):
            chosen.add(run.k)
        return tuple(run.tokens[len(PROMPT) :])

    law = enumerate_law(program)
    assert total_variation(law, joint_law(table_pair(3, 7).target, PROMPT, 4)) < 1e-12
    assert len(chosen) > 1


@dataclass
class Seen:
    k: int
    accepted: int


def rounds_of(chooser, accept, count):
    """What a chooser picks when each draft token is accepted by `accept(place)`."""
    rounds, picked = [], []
    for _ in range(count):
        k = chooser.choose(rounds)
        accepted = 0
        while accepted < k and accept(accepted):
            accepted += 1
        rounds.append(Seen(k, accepted))
        picked.append(k)
    return picked


def test_an_adaptive_k_goes_where_it_pays():
    assert rounds_of(AdaptiveK(0.1, V), lambda i: True, 30)[-1] == 8
    idle = rounds_of(AdaptiveK(0.3, V), lambda i: False, 120)
    assert idle.count(0) > 100 and idle[-60:].count(1) >= 2  # looks again now and then
    cost = sum(0.3 * k + V.get(k, 1.0) for k in idle) / len(idle)
    assert cost < 1 / 0.95  # a draft that is never accepted costs less than a twentieth


def test_an_adaptive_k_notices_a_change():
    """Only probes see the new text at first, so that it takes one or two of them."""
    chooser, rounds = AdaptiveK(0.1, V), []
    for number in range(60 + 2 * (adaptive.PROBE + 1)):
        k = chooser.choose(rounds)
        rounds.append(Seen(k, k if number >= 60 else 0))
    assert rounds[59].k == 0 and rounds[-1].k == 8


def beside_a_run():
    """A run of a table pair and plain decoding beside it, as a job makes them."""
    pair = table_pair(3, 7)
    run = DecodingRun(pair, PROMPT, k=2, max_new_tokens=60)
    beside = Beside(lambda: DecodingRun(pair, PROMPT, drafter="ngram", k=0, max_new_tokens=60))
    for _ in run:
        beside.after(len(run.rounds), over=run.finish is not None)
    return replace(run.trace(), plain_seconds=beside.seconds), beside


def test_plain_decoding_is_timed_between_the_rounds():
    trace, beside = beside_a_run()
    assert len(beside.seconds) == MOST and min(beside.seconds) > 0
    assert beside._plain is None and beside._start is None  # holds no models when all is over
    scale = against_plain(trace)
    n = len(trace.rounds) - 1
    assert scale.tokens == pytest.approx(sum(len(r.committed) for r in trace.rounds[1:]) / n)
    assert scale.k == pytest.approx(sum(r.k for r in trace.rounds[1:]) / n)


def timed(trace, seconds, plain):
    """The trace with these times: of drafting, verifying and the rest, and of plain rounds."""
    draft, verify, rest = seconds
    rounds = [
        replace(r, draft_seconds=draft, verify_seconds=verify, other_seconds=rest) for r in trace.rounds
    ]
    return replace(trace, rounds=tuple(rounds), plain_seconds=plain)


def test_the_speed_of_a_run_is_its_tokens_over_what_they_cost():
    trace, _ = beside_a_run()
    scale = against_plain(timed(trace, (0.4, 1.0, 0.1), (1.0,) * 4))
    assert scale.passes == pytest.approx(1.5) and scale.speedup == pytest.approx(scale.tokens / 1.5)
    # One plain round that was held up does not make the run look fast, and one of the run not slow.
    held = against_plain(timed(trace, (0.4, 1.0, 0.1), (1.0, 1.0, 1.0, 60.0)))
    assert held.plain == pytest.approx((3 + 3) / 4)
    late = timed(trace, (0.4, 1.0, 0.1), (1.0,) * 4)
    late = replace(late, rounds=(*late.rounds[:-1], replace(late.rounds[-1], other_seconds=900.0)))
    assert against_plain(late).round == pytest.approx(1.5 * (1 + 2 / (len(trace.rounds) - 1)))


@pytest.mark.parametrize("plain", [(), (1.0,), (1.0, 1.0)])
def test_too_little_says_nothing(plain):
    trace, _ = beside_a_run()
    assert against_plain(replace(trace, plain_seconds=plain)) is None


def test_a_run_does_not_suffer_from_what_is_timed_beside_it():
    beside = Beside(lambda: 1 / 0)
    for rounds in range(10):
        beside.after(rounds)
    assert beside.seconds == ()


def test_what_was_timed_beside_a_run_survives_its_file():
    trace, _ = beside_a_run()
    assert codec.loads(codec.dumps(trace)).plain_seconds == trace.plain_seconds
    older = json.loads(codec.dumps(trace))
    del older["plain_seconds"]
    assert codec.loads(json.dumps(older).encode()).plain_seconds == ()
