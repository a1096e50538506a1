"""The one job loop: turns in order, stop, failures of any kind, and what is kept."""

import errno
from collections import Counter
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from specviz.models.errors import LoadError
from specviz.models.progress import Progress
from specviz.recipe import Recipe
from specviz.ui.state import jobs, pairs
from specviz.ui.state.device import Device
from specviz.ui.state.jobs import Job
from specviz.ui.state.trouble import failure


class Counting(Job):
    """Makes so many turns; `act` is called in each."""

    def __init__(self, goal=3, act=lambda: None, needs=()):
        super().__init__()
        self.needs, self.goal, self.act, self.made, self.given = needs, goal, act, 0, None

    @property
    def done(self):
        return self.made >= self.goal

    def turn(self, *given):
        self.given = given
        self.act()
        self.made += 1


@pytest.fixture
def as_owner(monkeypatch):
    """Whose script this is taken to be; call it to become somebody else."""
    now = ["a"]
    monkeypatch.setattr(jobs, "owner", lambda: now[0])
    yield lambda name: now.__setitem__(0, name)
    jobs._kept.clear()
    jobs._dropped.clear()


def settle(*some):
    assert jobs.wait(*some, timeout=20)


def test_owners_alternate_however_many_turns_each_has_waiting():
    device, order, ready, over = Device(), [], Event(), Event()
    device.join("z", ready.wait)
    for owner, count in (("a", 6), ("b", 2), ("c", 2)):
        for _ in range(count):
            device.join(owner, lambda owner=owner: order.append(owner))
    device.join("d", over.set)
    ready.set()
    assert over.wait(10)
    device.do(lambda: None, "z")
    device.do(lambda: None, "a")
    assert order[:4] == ["a", "b", "c", "a"] and order[3:6] == ["a", "b", "c"]
    assert Counter(order) == {"a": 6, "b": 2, "c": 2}


def test_a_waiting_turn_knows_how_many_come_before_it():
    device, ready = Device(), Event()
    device.join("x", ready.wait)

    def turns(n):
        return [lambda i=i: i for i in range(n)]

    a, b, c = turns(3), turns(1), turns(1)
    for owner, mine in (("a", a), ("b", b), ("c", c)):
        for turn in mine:
            device.join(owner, turn)
    while device.ahead("x", ready.wait) is not None:
        pass  # until it is being made
    assert [device.ahead("a", a[0]), device.ahead("b", b[0]), device.ahead("c", c[0])] == [1, 2, 3]
    assert device.ahead("a", a[1]) == 4  # after the first of everybody
    assert device.ahead("d", a[0]) is None
    assert device.leave("b", b[0]) and not device.leave("b", b[0])
    assert device.ahead("c", c[0]) == 2
    ready.set()


def test_a_turn_of_a_script_gives_its_value_or_raises():
    device = Device()
    assert device.do(lambda: 7) == 7
    with pytest.raises(KeyError):
        device.do(lambda: {}["x"])
    assert device.do(lambda: device.do(lambda: 8)) == 8  # a turn inside a turn is the same turn


def test_a_job_is_made_to_its_end_once_however_often_it_is_started(as_owner):
    job = Counting(50)
    scripts = [Thread(target=jobs.start, args=(job,)) for _ in range(8)]
    for script in scripts:
        script.start()
    for script in scripts:
        script.join()
    settle(job)
    assert job.made == 50 and job.failure is None


def test_jobs_of_several_owners_make_as_many_turns_each(as_owner):
    seen, gate = [], Event()
    first = Counting(1, gate.wait)
    jobs.start(first)
    some = []
    for name in "abcdefgh":
        as_owner(name)
        some.append(Counting(20, lambda name=name: seen.append(name)))
        jobs.start(some[-1])
    gate.set()
    settle(first, *some)
    for at in range(0, len(seen), 8):
        assert len(set(seen[at : at + 8])) == 8  # one each, then the next of each


def test_stop_ends_after_the_turn_and_start_goes_on(as_owner):
    began, go_on = Event(), Event()

    def act():
        began.set()
        go_on.wait(10)

    job = Counting(5, act)
    jobs.start(job)
    assert began.wait(10)
    stopper = Thread(target=jobs.stop, args=(job,))
    stopper.start()
    while not job.stopping:
        pass
    go_on.set()
    stopper.join()
    settle(job)
    assert job.made == 1 and job.failure is None
    jobs.start(job)
    settle(job)
    assert job.made == 5


def test_stop_during_a_loading_ends_it(as_owner, monkeypatch):
    loading = Event()

    def load(recipe, report):
        loading.set()
        while True:
            report(Progress("downloading", 1, 2))

    monkeypatch.setattr(pairs, "load", load)
    job = Counting(3, needs=(Recipe(),))
    jobs.start(job)
    assert loading.wait(10)
    jobs.stop(job)
    settle(job)
    assert job.made == 0 and job.failure is None and pairs.shelf()._users[("built-in", "")] == 0


FAILURES = [
    (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "memory of the device is full"),
    (MemoryError(), "memory of the device is full"),
    (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "not foreseen"),
    (KeyError("x"), "not foreseen"),
    (IndexError("list index out of range"), "not foreseen"),
    (OSError(errno.ENOSPC, "No space left on device"), "disk is full"),
    (LoadError("there is no such model"), "there is no such model"),
    (ValueError("the prompt has no tokens"), "the prompt has no tokens"),
]


@pytest.mark.parametrize("error, said", FAILURES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("where", ["turn", "load"])
def test_any_failure_is_said_and_the_next_start_works(as_owner, monkeypatch, error, said, where):
    broken = [True]

    def act(*_):
        if broken:
            raise error
        return "the pair"

    monkeypatch.setattr(pairs, "load", act if where == "load" else lambda *_: "the pair")
    job = Counting(2, act if where == "turn" else lambda: None, needs=(Recipe(),))
    jobs.start(job)
    settle(job)
    assert said in job.failure.reason + job.failure.advice
    assert job.made == 0 and pairs.shelf()._users[("built-in", "")] == 0
    broken.clear()
    jobs.start(job)
    settle(job)
    assert job.failure is None and job.made == 2 and job.given == ("the pair",)


def test_a_loading_that_fails_while_its_owner_is_away_is_told_on_return(as_owner, monkeypatch):
    away, loads = [True], []

    def load(recipe, report):
        loads.append(recipe)
        if away:
            raise LoadError("there is no such model")
        return "the pair"

    monkeypatch.setattr(jobs, "present", lambda name: not away)
    monkeypatch.setattr(pairs, "load", load)
    job = jobs.keep("audit", Counting(2, needs=(Recipe(),)))
    jobs.start(job)
    settle(job)
    away.clear()
    assert jobs.kept("audit") is job and "no such model" in job.failure.reason and not job.left
    assert pairs.shelf()._users[("built-in", "")] == 0
    jobs.start(job)
    settle(job)
    assert job.failure is None and job.made == 2 and len(loads) == 2


def test_torchs_own_error_is_out_of_memory():
    torch = pytest.importorskip("torch")
    assert "memory" in failure(torch.OutOfMemoryError("Tried to allocate 1 GiB")).reason


def test_what_is_kept_is_bounded_and_what_goes_on_stays(as_owner, monkeypatch):
    monkeypatch.setattr(jobs, "settings", lambda: SimpleNamespace(kept_rows=64))
    monkeypatch.setattr(Counting, "bytes", 30 << 20)
    gate = Event()
    going = jobs.keep("going", Counting(1, gate.wait))
    jobs.start(going)
    jobs.keep("old", Counting())
    jobs.keep("older", Counting())
    assert jobs.kept("old") is None and jobs.lost("old")
    assert jobs.kept("going") is going and jobs.kept("older") is not None
    jobs.keep("new", Counting())
    assert jobs.kept("older") is None and not jobs.lost("going")
    as_owner("b")
    assert jobs.kept("going") is None and not jobs.lost("old")  # they are somebody else's
    gate.set()
    settle(going)


def test_an_owner_who_left_stops_his_jobs(as_owner, monkeypatch):
    here = [True]
    monkeypatch.setattr(jobs, "present", lambda name: bool(here))
    job = Counting(1000, lambda: here.clear() if job.made == 3 else None)
    jobs.start(job)
    settle(job)
    assert job.made == 4 and job.left
    here.append(True)
    jobs.start(job)
    settle(job)
    assert job.done and not job.left
