"""The Exactness page under Streamlit's own test runner, from recorded runs and from table models."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hostile import HOSTILE
from stories import WordPair, story
from streamlit.testing.v1 import AppTest
from waiting import finish

from specviz import traces
from specviz.decoding.block import BLOCK, verify_whole_block
from specviz.decoding.faults import FAULTS, Rule
from specviz.decoding.faults.variations import correction_p
from specviz.exactness import arithmetic as arithmetic_module
from specviz.exactness.arithmetic import arithmetic
from specviz.exactness.evidence import leak_test
from specviz.exactness.proof import proof
from specviz.exactness.recompute import table_spot
from specviz.exactness.sampling import SamplingTest
from specviz.recipe import Recipe
from specviz.ui.exactness import charts, lines, memory, sampling
from specviz.ui.exactness.examined import Examined, obtain
from specviz.ui.state import pairs, runs

ROOT = Path(__file__).parent.parent


def open_app(**parameters):
    memory._known.clear()  # what other tests have computed, some of it with broken rules
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.run()
    app.switch_page("pages/exactness.py")
    for name, value in parameters.items():
        app.query_params[name] = value
    return app.run()


def texts(app):
    kinds = ("text", "markdown", "caption", "warning", "info", "error")
    return "\n".join(element.value for kind in kinds for element in getattr(app, kind))


@pytest.fixture
def live(monkeypatch):
    """A run of table models with 16 words that the server still has; gives its name in the address."""
    pair = WordPair()
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    monkeypatch.setattr(pairs.shelf(), "get", lambda recipe: pair)
    entry = runs.Entry("words", "words", "live", story(60), Recipe(k=4, temperature=1.0))
    runs.shelf().put(entry)
    return entry.name


@pytest.fixture
def place():
    """A position of a recorded run, from its table."""
    entry = runs._recorded("capital")
    round = entry.trace.rounds[5]
    table = table_spot(round.positions[0])
    return Examined(entry, round, 1, table.spot, table.ids, tuple(range(8)), 49_144)


@pytest.mark.slow
def test_it_opens_on_a_recorded_run_with_all_verdicts_and_without_torch():
    code = (
        "import sys; from streamlit.testing.v1 import AppTest\n"
        "app = AppTest.from_file('app.py', default_timeout=60).run()\n"
        "app.switch_page('pages/exactness.py').run()\n"
        "assert not app.exception, app.exception\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))\n"
        "print(*(m.value for m in app.markdown))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    modules, shown = done.stdout.split("\n", 1)
    assert modules == "[]"
    for verdict in ("✓ 1 arithmetic", "✓ 2 sampling", "✓ the faulty rule is caught", "✓ 3 on the run"):
        assert verdict in shown
    assert "from the recorded table" in shown
    assert "**The claim:**" in shown


@pytest.mark.slow
@pytest.mark.parametrize("entry", traces.RECORDINGS, ids=lambda r: r.name)
def test_every_recording_can_be_checked(entry):
    app = open_app(run=entry.name)
    assert not app.exception
    drafted = any(round.k for round in traces.load(entry.name).rounds)
    told = "agrees with p" in texts(app) or "too few draws to tell" in texts(app)
    assert told == drafted
    assert "contradicts p" not in texts(app)


def test_the_selected_position_of_the_rounds_page_is_examined():
    app = open_app(run="capital", sel="2.3")
    assert app.selectbox(key="_exact_round").value == 2
    assert app.selectbox(key="_exact_position").value == 3


def test_behind_the_drafts_the_place_of_the_correction_is_examined():
    trace = traces.load("capital")
    round = next(r for r in trace.rounds if r.outcome == "corrected" and r.k == 4)
    app = open_app(run="capital", sel=f"{round.number}.5")
    assert app.selectbox(key="_exact_position").value == round.accepted + 1


def test_another_position_goes_into_the_address():
    app = open_app(run="capital", sel="2.3")
    app.selectbox(key="_exact_round").set_value(3).run()
    assert not app.exception
    assert app.query_params["sel"] == "3.3"


@pytest.mark.parametrize(
    "junk",
    [
        {"sel": "99.1"},
        {"fault": "<script>"},
        {"fault": "lenience=nan"},
        {"fault": "lenience=-1"},
        {"draws": "1e99"},
        {"bias": "x"},
        {"texts": "-1", "length": "9"},
        {"full": "1"},
        {"run": "nobody"},
    ],
    ids=str,
)
def test_values_from_a_link_are_checked(junk):
    app = open_app(**junk)
    assert not app.exception


def test_draws_go_on_to_the_chosen_number_and_no_further():
    app = open_app(run="capital", draws="10,000")
    app.button(key="draw_toggle").click().run()
    finish(app)
    assert "**10,000** draws so far" in texts(app)
    assert app.button(key="draw_toggle").disabled
    app.selectbox(key="draws").set_value("100,000").run()
    assert app.button(key="draw_toggle").label == "Continue"


def test_stop_keeps_the_draws_and_continue_goes_on(monkeypatch):
    real = sampling.Drawing.turn

    def stopped_after_a_while(self):
        real(self)
        if self.total in (4000, 32_000):
            self._wanted = False  # as the button does

    monkeypatch.setattr(sampling.Drawing, "turn", stopped_after_a_while)
    app = open_app(run="capital", draws="100,000")
    app.button(key="draw_toggle").click().run()
    finish(app)
    assert "**4,000** draws so far" in texts(app)
    assert app.button(key="draw_toggle").label == "Continue"
    app.button(key="draw_toggle").click().run()
    finish(app)
    assert "**32,000** draws so far" in texts(app)


def test_a_control_that_is_not_caught_is_said_plainly_with_the_draws_it_takes():
    app = open_app(run="capital", sel="6.1", fault="coarse-uniforms")
    shown = texts(app)
    assert "… not caught yet" in shown
    assert "was **not caught**: after 1,000 draws" in shown
    assert "9 times out of 10 it takes about" in shown
    assert "9 times out of 10: " in shown  # the line on the size of a leak


@pytest.mark.parametrize("recording, reason", [("equal", "no number of draws"), ("hot", "takes about")])
def test_where_nothing_can_be_said_the_page_says_so(recording, reason, monkeypatch):
    monkeypatch.setattr(sampling, "FIRST", 3)
    shown = texts(open_app(run=recording))
    assert "… 2 sampling: too few draws" in shown
    assert "Too few draws to tell" in shown and reason in shown
    assert "agrees with p" not in shown


def test_a_control_that_is_caught_says_so():
    app = open_app(run="capital", fault="always-accept")
    assert "✓ caught, as it must be" in texts(app)
    assert "not caught" not in texts(app)


def test_bookkeeping_faults_leave_sampling_green_and_the_page_says_why():
    app = open_app(run="capital", fault="draft-cache-hole")
    shown = texts(app)
    assert "✓ caught" not in shown
    assert "second surface" in shown


def test_an_exact_but_wasteful_rule_is_not_called_wrong():
    shown = texts(open_app(run="capital", fault="accept-on-match"))
    assert "✓ caught" not in shown
    assert "Nothing to catch" in shown
    assert "looks worse" in shown


def worst_for_a_correction_from_p(trace):
    """Where min(p, q) + (1 − β)·p is farthest from p."""

    def distance(row):
        overlap = np.minimum(row.table.p, row.table.q)
        return 0.5 * np.abs(overlap - row.beta * np.array(row.table.p)).sum()

    places = [(r, i) for r in trace.rounds for i in range(1, r.k + 1)]
    round, position = max(places, key=lambda place: distance(place[0].positions[place[1] - 1]))
    return f"{round.number}.{position}"


def test_an_exact_rule_that_is_not_exact_is_reported(monkeypatch):
    broken = Rule(correction=correction_p)
    monkeypatch.setattr(arithmetic_module, "EXACT", broken)
    real = SamplingTest.__init__

    def init(self, spot, fault=None, seed=0):
        real(self, spot, fault or FAULTS["correction-from-p"], seed)

    monkeypatch.setattr(SamplingTest, "__init__", init)
    place = worst_for_a_correction_from_p(traces.load("capital"))
    shown = texts(open_app(run="capital", sel=place))
    assert "✗ 1 arithmetic" in shown
    assert "✗ 2 sampling" in shown
    assert "✗ contradicts p" in shown


@pytest.mark.slow
def test_every_fault_can_be_chosen(live):
    for name in FAULTS:
        app = open_app(run=live, fault=name, full="1")
        assert not app.exception, name
        assert FAULTS[name].does in texts(app)


def test_choosing_a_fault_goes_into_the_address():
    app = open_app(run="capital")
    app.radio(key="faults-law").set_value("always-accept").run()
    assert app.query_params["fault"] == "always-accept"
    app.radio(key="faults-lossy").set_value("lenience=0.5").run()
    assert app.radio(key="faults-law").value is None
    app.slider(key="lenience-parameter").set_value(0.3).run()
    assert app.query_params["fault"] == "lenience=0.3"
    assert "Multiplies q by 0.3" in texts(app)


def test_the_recorded_table_does_not_pretend_to_know_what_needs_the_vocabulary():
    app = open_app(run="capital", fault="softmax-of-residual")
    assert "needs the full vocabulary" in texts(app)
    assert "full vocab." in app.radio(key="faults-law").options[2]


def test_the_full_vocabulary_decides_them(live):
    app = open_app(run=live, fault="softmax-of-residual")
    app.button(key="vocabulary").click().run()
    shown = texts(app)
    assert not app.exception
    assert "full vocabulary: 16 tokens" in shown
    assert "needs the full vocabulary" not in shown
    app.button(key="table").click().run()
    assert "from the recorded table" in texts(app)


def test_a_run_of_another_pair_says_why_there_is_no_full_vocabulary(live, monkeypatch):
    monkeypatch.setattr(pairs.shelf(), "get", lambda recipe: WordPairOfAnotherSize())
    app = open_app(run=live, full="1")
    assert not app.exception
    assert "not with the pair" in texts(app)
    assert "from the recorded table" in texts(app)


class WordPairOfAnotherSize(WordPair):
    def __init__(self):
        super().__init__()
        self.vocab_size = 17


def test_catches_are_measured_on_demand():
    app = open_app(run="capital", sel="6.1")
    assert "draw " not in app.radio(key="faults-law").options[0]
    app.button(key="gallery_toggle").click().run()
    finish(app)
    assert "draw " in app.radio(key="faults-law").options[0]
    assert "measured: after" in texts(app)


def test_continuations_of_the_exact_engine_agree_and_those_of_a_fault_do_not(live):
    app = open_app(run=live, texts="500", length="2", fault="always-accept")
    app.button(key="whole_toggle").click().run()
    finish(app)
    assert not app.exception
    assert "500 continuations: :green-badge[✓ agrees" in texts(app)
    app.segmented_control(key="engine").set_value("with the fault").run()
    app.button(key="whole_toggle").click().run()
    finish(app)
    assert "500 continuations: :green-badge[✓ caught" in texts(app)


def test_the_caches_of_the_exact_engine_are_right(live):
    app = open_app(run=live)
    app.button(key="caches_toggle").click().run()
    finish(app)
    assert not app.exception
    shown = texts(app)
    assert "**target** :green-badge[✓ right]" in shown
    assert "**draft** :green-badge[✓ right]" in shown
    assert "✓ 5 caches" in shown


@pytest.mark.parametrize(
    "name, role", [("draft-cache-hole", "draft"), ("target-cache-keeps-rejected", "target")]
)
def test_with_a_cache_fault_sampling_stays_green_and_the_caches_turn_red(live, name, role):
    app = open_app(run=live, fault=name, caches="with the fault")
    app.button(key="caches_toggle").click().run()
    finish(app)
    assert not app.exception
    shown = texts(app)
    assert f"**{role}** :red-badge[✗ wrong" in shown
    assert "✓ 5 caches: the fault is caught" in shown
    assert "measured: after" in shown
    assert "✓ 2 sampling" in shown
    assert "✓ caught" not in shown
    assert "Two surfaces" in shown


def test_a_run_judged_by_blocks_is_checked_as_an_exact_one(monkeypatch):
    pair = WordPair()
    monkeypatch.setattr(pairs, "obtain", lambda *args, **more: pair)
    entry = runs.Entry("blocks", "blocks", "live", story(40, verifier=verify_whole_block), Recipe(rule=BLOCK))
    runs.shelf().put(entry)
    shown = texts(open_app(run="blocks"))
    assert "Not judged by the exact rule" not in shown
    assert "checks 3 and 4 look at whole blocks" in shown
    assert "✓ 3 on the run" in shown


def test_the_evidence_goes_over_all_runs_of_this_browser(live):
    one, same, other = (
        runs.Entry(name, name, "live", story(40, seed=seed), Recipe())
        for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    app = open_app(run=live)
    for entry in (one, same, other):
        runs.shelf().put(entry)
    runs.shelf().mine[app.session_state["_owner"]] = ["one", "same", "other"]
    app.run()
    app.segmented_control(key="watch").set_value("all runs made here").run()
    shown = texts(app)
    assert "after 80 tokens" in shown
    assert "1 run with the seed of an earlier one left out" in shown
    assert "voids the 1 in 20" in shown


def test_a_run_by_a_faulty_rule_crosses_the_threshold():
    trace = story(400, agreement=0.1, verifier=FAULTS["always-accept"].verifier)
    runs.shelf().put(runs.Entry("faulty", "faulty", "file", trace))
    app = open_app(run="faulty")
    assert not app.exception
    assert "✗ passed 20 at token" in texts(app)
    assert "✗ 3 on the run" in texts(app)


def test_hostile_tokens_stay_text():
    trace = story(40, texts=HOSTILE[:16])
    runs.shelf().put(runs.Entry("hostile", "hostile", "file", trace))
    app = open_app(run="hostile")
    assert not app.exception
    for chart in app.get("plotly_chart"):
        assert "<img" not in chart.proto.spec
        assert "<script" not in chart.proto.spec


def test_every_chart_has_a_description():
    app = open_app(run="capital")
    found = app.get("plotly_chart")
    assert len(found) >= 5
    assert all(chart.proto.alt for chart in found)


def test_stacked_bars_reach_p(place):
    figure = charts.stack(arithmetic(place.spot, None, place.columns), place.show, place.others)
    kept, corrected, line = figure.data
    heights = np.add(kept.y, corrected.y)
    assert np.allclose(heights, list(line.y[::3]))
    assert figure.layout.xaxis.ticktext[-1] == "others<br>(49,144)"


def test_the_band_is_drawn_where_honest_runs_fall(place):
    test = SamplingTest(place.spot, None, 1)
    test.add(10_000)
    bars = test.check(place.columns).bars
    drawn, band, _line = charts.shares(bars, place.show, place.others).data
    assert list(drawn.y) == [b.share for b in bars]
    assert list(band.base) == [b.low for b in bars]
    assert np.allclose(np.add(band.base, band.y), [b.high for b in bars])


def test_the_evidence_line_starts_at_one():
    test = leak_test([traces.load("story")])
    line = lines.evidence(test).data[0]
    assert line.y[0] == 1.0
    assert len(line.y) == test.tokens + 1
    assert f"{test.tokens} tokens" in lines.describe_evidence(test)


def test_the_proof_is_that_of_the_chosen_token(place):
    app = open_app(run="capital", sel="6.1")
    for column in (2, 1):
        app.selectbox(key="proof-capital-6-1-False").set_value(column).run()
        assert all(f"`{line.numbers}`" in texts(app) for line in proof(place.spot, column).lines)
    assert "a correction drawn from p passes every greedy test" in texts(app)


def test_doubling_bursts_stop_at_the_goal(place):
    job = sampling.Drawing(place, FAULTS["always-accept"], 0)
    job.goal = 3000
    totals = []
    while not job.done:
        job.turn()
        totals.append(job.total)
    assert totals == [2000, 3000]
    assert job.control is not None
    assert job.control.draws.total == 3000


def test_the_drafted_token_is_always_among_the_bars():
    entry = runs._recorded("hot")
    for round in entry.trace.rounds:
        for number in range(1, round.k + 1):
            place = obtain_table(entry, round.number, number)
            assert place.row.token in [place.ids[c] for c in place.columns]
            assert place.tokens == entry.trace.pair.vocab_size


def obtain_table(entry, number, position):
    return obtain(entry, (number, position), None)
