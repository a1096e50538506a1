"""A run belongs to its name: clicks, Back, a second tab, another page, failures, what the server keeps."""

import errno
import gc
import tracemalloc
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest
from tables import table_pair
from test_jobs import FAILURES
from waiting import everything, finish

from specviz.recipe import Recipe
from specviz.ui.state import jobs, pairs, runs, saved, shelf

ROOT = Path(__file__).parent.parent


def open_app(**parameters):
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for name, value in parameters.items():
        app.query_params[name] = value
    return app.run()


def texts(app):
    kinds = ("text", "markdown", "caption", "warning", "info", "error", "code")
    return "\n".join(element.value for kind in kinds for element in getattr(app, kind))


def shown(app):
    value = app.query_params["run"]
    return value[0] if isinstance(value, list) else value


def press(app, key):
    app.button(key=key).click().run()
    assert not app.exception
    return app


def begun():
    """Names of all runs that were ever begun."""
    return set(runs.shelf().jobs)


class Gate:
    """Lets a model's passes through, or holds them up."""

    def __init__(self):
        self.open = Event()
        self.open.set()
        self.error = None

    def __call__(self, history):
        assert self.open.wait(20)
        if self.error is not None and len(history) > 14:
            raise self.error
        return self.real(history)


@pytest.fixture
def gate(monkeypatch):
    """The page's models are tables; the gate holds up or breaks the target's passes."""
    pair, gate = table_pair(6, seed=2), Gate()
    pair.encode = lambda prompt, chat: [ord(c) % 6 for c in prompt]
    gate.real, pair.target.logits = pair.target.logits, gate
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    yield gate
    gate.open.set()
    for job in everything():
        jobs.stop(job)


def test_a_branch_that_takes_long_finishes_as_a_branch_and_begins_nothing_else(gate):
    app = open_app(prompt="abcabc", max_tokens="24", seed="3")
    finish(press(app, "run_toggle"))
    parent, before = shown(app), begun()
    app.session_state["branch-open"] = True
    app.run()
    gate.open.clear()
    next(b for b in app.button if b.label == "Start the branch").click().run()
    for _ in range(4):  # the page looks, again and again, while nothing moves
        app.run()
        assert app.button(key="run_toggle").label == "Stop"
    gate.open.set()
    finish(app)
    child = runs.entry_by_name(shown(app))
    assert child.parent == (parent, 1, 1) and child.run.finish == "length"
    assert len(child.trace.output_ids) == 24
    assert begun() - before == {child.name}


def test_back_in_mid_run_begins_nothing_and_the_run_goes_on(gate):
    app = open_app(run="capital")
    app.number_input(key="seed").set_value(77).run()
    gate.open.clear()
    press(app, "run_toggle")
    name, before = shown(app), begun()
    app.query_params["run"] = "capital"  # as the browser's Back does
    app.run()
    assert app.button(key="run_toggle").label == "Run"
    gate.open.set()
    finish(app)
    assert begun() == before
    app.query_params["run"] = name
    app.run()
    assert "live run" in texts(app) and len(runs.entry_by_name(name).trace.output_ids) == 24


def test_two_tabs_show_one_run_and_either_may_stop_it(gate):
    one = open_app(prompt="abcabc", max_tokens="24", seed="12")
    gate.open.clear()
    press(one, "run_toggle")
    name = shown(one)
    two = open_app(prompt="abcabc", max_tokens="24", seed="12", run=name)
    assert two.button(key="run_toggle").label == "Stop"
    job = runs.shelf().jobs[name]
    two.button(key="run_toggle").click()  # the other tab was quicker: it goes on no more when this arrives
    gate.open.set()
    finish(one)
    two.run()
    assert not two.exception and begun() >= {name}
    for app in (one, two):
        finish(press(app, "run_step"))
    assert not job.active and runs.entry_by_name(name).run.finish in (None, "length")


def test_a_click_on_run_that_is_made_twice_begins_one_run(gate):
    app = open_app(prompt="abcabc", max_tokens="24", seed="13")
    before = begun()
    gate.open.clear()
    press(app, "run_toggle")
    app.session_state["_wish"] = "run"  # the second click of a double click, queued behind the first
    app.run()
    gate.open.set()
    finish(app)
    assert len(begun() - before) == 1


def test_a_run_goes_on_while_another_page_is_shown(gate):
    app = open_app(prompt="abcabc", max_tokens="24", seed="14")
    press(app, "run_toggle")
    name = shown(app)
    app.switch_page("pages/learn.py").run()
    assert jobs.wait(*everything())
    assert runs.shelf().jobs[name].run.finish == "length"


def test_a_reload_finds_the_run_and_the_list_of_runs_of_this_browser(gate, monkeypatch):
    monkeypatch.setattr(runs, "owner", lambda: "this browser")
    app = open_app(prompt="abcabc", max_tokens="24", seed="15")
    gate.open.clear()
    press(app, "run_toggle")
    again = open_app(prompt="abcabc", max_tokens="24", seed="15", run=shown(app))  # a session of its own
    assert again.button(key="run_toggle").label == "Stop"
    gate.open.set()
    finish(again)
    assert "live run" in texts(again)
    assert shown(app) in [entry.name for entry in runs.mine()]


@pytest.mark.parametrize("error, said", FAILURES[:6], ids=lambda v: type(v).__name__)
def test_a_round_that_fails_keeps_the_rounds_before_and_the_next_click_goes_on(gate, error, said):
    app = open_app(prompt="abcabc", max_tokens="24", seed="16")
    gate.error = error
    finish(press(app, "run_toggle"))
    assert not app.exception
    assert "The run stopped." in texts(app) and said in texts(app)
    name = shown(app)
    made = len(runs.entry_by_name(name).trace.rounds)
    assert made and app.button(key="run_toggle").label == "Resume"
    gate.error = None
    finish(press(app, "run_toggle"))
    assert shown(app) == name and "The run stopped." not in texts(app)
    assert runs.entry_by_name(name).run.finish == "length"


@pytest.mark.parametrize("error, said", FAILURES, ids=lambda v: type(v).__name__)
def test_a_loading_that_fails_says_so_and_the_next_click_works(gate, monkeypatch, error, said):
    working = pairs.load

    def broken(recipe, report):
        raise error

    monkeypatch.setattr(pairs, "load", broken)
    app = open_app(prompt="abcabc", max_tokens="24", seed="17")
    finish(press(app, "run_toggle"))
    assert not app.exception
    assert "The run could not start." in texts(app) and said in texts(app)
    assert app.button(key="run_toggle").label == "Run"
    monkeypatch.setattr(pairs, "load", working)
    finish(press(app, "run_toggle"))
    assert "live run" in texts(app)


def test_an_audit_that_fails_says_so_and_can_be_repeated(gate, monkeypatch):
    from specviz.ui.rounds import cache_audit

    real = cache_audit.check_caches

    def broken(run):
        raise RuntimeError("CUDA out of memory")

    app = open_app(prompt="abcabc", max_tokens="12", seed="18")
    finish(press(app, "run_toggle"))
    monkeypatch.setattr(cache_audit, "check_caches", broken)
    finish(press(app, "audit"))
    assert "The audit broke off." in texts(app) and "memory of the device is full" in texts(app)
    monkeypatch.setattr(cache_audit, "check_caches", real)
    finish(press(app, "audit"))
    assert app.success and "broke off" not in texts(app)


def test_what_if_stays_with_its_run():
    app = open_app(run="capital", sel="1.1")
    slider = next(s for s in app.slider if "random number" in s.label)
    slider.set_value(0.123).run()
    assert "not what happened" in texts(app)
    app.query_params["run"], app.query_params["sel"] = "story", "1.1"
    app.run()
    assert "not what happened" not in texts(app)


@pytest.fixture
def small(monkeypatch):
    """A shelf of its own that keeps 64 MiB, on which every run takes 40 and every trace 10."""
    kept = shelf.Shelf()
    monkeypatch.setattr(shelf, "_SHELF", kept)
    monkeypatch.setattr(shelf, "settings", lambda: SimpleNamespace(kept_runs=64))
    monkeypatch.setattr(shelf, "run_bytes", lambda run: 0 if run is None else 40 << 20)
    monkeypatch.setattr(shelf, "trace_bytes", lambda trace: 10 << 20)
    return kept


def put(kept, name, going=False):
    entry = runs.Entry(name, name, "live", None, Recipe(), SimpleNamespace(finish=None, pair="the pair"))
    if going:
        kept.jobs[name] = SimpleNamespace(active=True)
    kept.put(entry)
    return entry


def test_a_run_that_goes_on_is_never_dropped_and_the_rest_is_bounded(small):
    first = put(small, "going", going=True)
    others = [put(small, str(i)) for i in range(8)]
    assert small.entries["going"] is first and first.run is not None
    assert others[-1].run is not None and all(other.run is None for other in others[:-1])
    held = sum(10 + (40 if entry.run else 0) for entry in small.entries.values())
    assert held <= 64 + 50 + 10  # what is going and what was put last stay in any case
    assert all(other.dropped for other in others[:-1]) and "0" in small.gone


def test_memory_is_level_once_the_shelf_is_full(monkeypatch):
    """Before: a name of every run that ever was stayed in its owner's list."""
    kept, pair = shelf.Shelf(), table_pair(6, seed=2)
    pair.encode = lambda prompt, chat: [ord(c) % 6 for c in prompt]
    monkeypatch.setattr(shelf, "_SHELF", kept)
    monkeypatch.setattr(shelf, "settings", lambda: SimpleNamespace(kept_runs=0.25))
    monkeypatch.setattr(pairs, "load", lambda recipe, report: pair)
    monkeypatch.setattr(jobs, "owner", lambda: "a")

    def make(count):
        for seed in range(count):
            running = shelf.Running(runs.new_name(), Recipe(prompt="abcabc", seed=seed, max_tokens=8))
            kept.jobs[running.name] = running
            runs._list(running.name, "a")
            jobs.start(running)
            assert jobs.wait(running) and running.failure is None
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        make(10)
        before, full = make(20), len(kept.entries)
        after = make(20)
    finally:
        tracemalloc.stop()
    assert full == len(kept.entries) < 10 and len(kept.gone) == 50 - full
    assert len(kept.jobs) == full and len(kept.mine["a"]) <= full + 1
    assert after - before < 0.05 * 2**20


def test_what_was_dropped_is_said_where_it_is_missed(gate):
    app = open_app(prompt="abcabc", max_tokens="24", seed="19")
    finish(press(app, "run_step"))
    name = shown(app)
    runs.shelf().let_go(runs.entry_by_name(name), "the server needed their memory for other runs")
    app.run()
    assert "can be looked at but not resumed" in texts(app)
    assert app.button(key="run_toggle").label == "Run"
    del runs.shelf().entries[name], runs.shelf().jobs[name]
    runs.shelf().gone[name] = None
    app.run()
    assert "This run is no longer here" in texts(app)


def test_a_pair_that_has_to_go_takes_its_resting_runs_along(small):
    resting = put(small, "resting")
    small.let_pair_go("the pair")
    assert resting.run is None and "make room" in resting.dropped


def test_text_of_a_link_is_never_markup(gate, monkeypatch):
    from specviz.models.errors import LoadError

    def broken(recipe, report):
        raise LoadError(f"{recipe.target} cannot be found")

    monkeypatch.setattr(pairs, "load", broken)
    app = open_app(target="[x](http://evil.example) :red[y]", prompt="abc")
    finish(press(app, "run_toggle"))
    assert "[x](http://evil.example)" in "".join(t.value for t in app.text)
    marked = [e.value for kind in ("markdown", "caption", "info", "error") for e in getattr(app, kind)]
    marked += [e.label for e in (*app.button, *app.get("expander"))]
    assert not any("evil.example" in text for text in marked)


@pytest.mark.parametrize(
    "error", [RuntimeError("out of memory"), KeyError("x"), ZeroDivisionError()], ids=repr
)
def test_a_page_that_fails_says_so_with_the_details_folded_and_the_next_click_works(monkeypatch, error):
    from specviz.ui.rounds import run_bar

    def broken(trace):
        raise error

    real = run_bar.metric_row
    monkeypatch.setattr(run_bar, "metric_row", broken)
    app = open_app(run="capital")
    assert "could not be drawn" in app.error[0].value
    assert [box.label for box in app.expander if box.label == "Details"]
    assert len(app.exception) == 1  # in the details, where tests see it
    monkeypatch.setattr(run_bar, "metric_row", real)
    app.button(key="try-again").click().run()
    assert not app.exception and not app.error


def test_while_rounds_are_made_the_settings_shown_are_the_runs(gate):
    app = open_app(prompt="abcabc", max_tokens="24", seed="21")
    gate.open.clear()
    press(app, "run_toggle")
    app.session_state["seed"] = 8  # as a browser may say that has not drawn its controls yet
    app.run()
    assert app.number_input(key="seed").value == 21
    gate.open.set()
    finish(app)
    assert app.number_input(key="seed").value == 21 and "settings changed" not in texts(app)


class TestRestart:
    """What a server writes when it ends, and reads when it starts again."""

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        folder = tmp_path / "runs"
        held = SimpleNamespace(kept_runs=64, saved_runs=folder)
        monkeypatch.setattr(saved, "settings", lambda: held)
        monkeypatch.setattr(shelf, "_SHELF", shelf.Shelf())
        return folder

    def restart(self, monkeypatch):
        saved.save()
        monkeypatch.setattr(shelf, "_SHELF", shelf.Shelf())
        saved.restore()

    def test_a_run_is_found_again_with_what_it_had_and_whose_it_was(self, gate, folder, monkeypatch):
        app = open_app(prompt="abcabc", max_tokens="24", seed="19")
        finish(press(app, "run_step"))
        name = shown(app)
        before = runs.entry_by_name(name)
        self.restart(monkeypatch)
        again = runs.entry_by_name(name)
        assert again is not before and again.trace == before.trace and again.recipe == before.recipe
        assert shelf.shelf().mine[app.session_state["_owner"]] == [name]
        app.run()
        assert not app.exception and "not resumed: its caches are gone, as the server was restarted" in texts(
            app
        )
        assert app.button(key="run_toggle").label == "Run"

    def test_what_goes_on_is_kept_as_far_as_it_came(self, gate, folder, monkeypatch):
        far, go_on, real = Event(), Event(), gate.real

        def held_up(history):
            if len(history) > 14:
                far.set()
                go_on.wait(20)
            return real(history)

        gate.real = held_up
        app = open_app(prompt="abcabc", max_tokens="24", seed="20")
        press(app, "run_toggle")
        name, going = shown(app), runs.shelf()
        assert far.wait(20)
        self.restart(monkeypatch)
        entry = runs.entry_by_name(name)
        assert entry.trace.rounds and entry.trace.finish is None and entry.dropped
        assert going.jobs[name].stopping or not going.jobs[name].active
        go_on.set()
        assert jobs.wait(going.jobs[name])

    def test_a_full_disk_is_said_and_what_was_saved_before_stays(self, gate, folder, monkeypatch, caplog):
        app = open_app(prompt="abcabc", max_tokens="24", seed="19")
        finish(press(app, "run_step"))
        name = shown(app)
        saved.save()
        before = sorted(path.name for path in folder.iterdir())

        def full(path, content):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", full)
            saved.save()
        assert "The disk is full" in caplog.text
        assert sorted(path.name for path in folder.iterdir()) == before and len(before) == 2
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]  # nothing half
        monkeypatch.setattr(shelf, "_SHELF", shelf.Shelf())
        saved.restore()
        assert runs.entry_by_name(name) is not None

    @pytest.mark.parametrize("harm", ["index", "run", "name", "owners"])
    def test_harm_costs_the_run_and_not_the_start(self, gate, folder, monkeypatch, harm):
        app = open_app(prompt="abcabc", max_tokens="24", seed="19")
        finish(press(app, "run_step"))
        name = shown(app)
        saved.save()
        index = folder / saved.INDEX
        if harm == "index":
            index.write_text("[1")
        elif harm == "run":
            (folder / f"{name}.json.gz").write_bytes(b"nothing")
        elif harm == "name":
            index.write_text(index.read_text().replace(name, "../../etc/passwd"))
        else:
            index.write_text(index.read_text().replace('"owners": {', '"owners": 3, "x": {'))
        monkeypatch.setattr(shelf, "_SHELF", shelf.Shelf())
        saved.restore()
        assert runs.entry_by_name(name) is None and not shelf.shelf().entries

    def test_the_folder_is_bounded_and_the_newest_stay(self, gate, folder, monkeypatch):
        app = open_app(prompt="abcabc", max_tokens="24", seed="19")
        finish(press(app, "run_step"))
        entry = runs.entry_by_name(shown(app))
        monkeypatch.setattr(saved.codec, "dumps", lambda trace, compress: bytes(3 << 20))
        for i in range(4):
            shelf.shelf().put(replace(entry, name=f"another-{i}"))
        saved.save()
        assert {path.name for path in folder.iterdir()} == {
            saved.INDEX,
            "another-2.json.gz",
            "another-3.json.gz",
        }

    def test_nothing_is_written_where_nothing_is_set(self, folder, monkeypatch):
        monkeypatch.setattr(saved, "settings", lambda: SimpleNamespace(kept_runs=64, saved_runs=None))
        saved.save()
        saved.restore()
        assert not folder.exists()
