"""Long work: one loop for every page. A job has a life of its own; pages only look at it.

For whoever writes a page:

    class Audit(Job):                        # what is to be done, in turns
        needs = (recipe,)                    # pairs that are loaded first; each turn is given them, in order
        def turn(self, pair): ...            # a round, or about as long; keeps what it has found in self
        done = property(...)                 # nothing is left to do
        share = property(...)                # 0 … 1 for a progress bar, or None

    job = jobs.kept("audit")                 # this owner's job of that name, in whatever tab, after a reload
    if jobs.button(keys.AUDIT, "Audit", job):          # Stop while it goes on; True once for each click
        job = jobs.keep("audit", Audit(...))           # or the old one, to go on with it
        jobs.start(job)
        st.rerun()
    jobs.progress(job)                       # where it stands, or why it broke off
    ...
    watch.follow(job)                        # last on the page: draws the page again when there is news

A turn runs on the device's thread, beside no other pass; turns of all owners alternate. It must not call
Streamlit. An exception of any kind ends the job, not the page: what it has found stays, `failure` says what
happened, and the next click goes on. A job that stands still costs nothing but memory; when the server needs
that, `lost` says so. Nobody's absence is waited out: an owner without an open page for a minute stops all.
"""

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Condition, Lock
from typing import Any, Literal

import streamlit as st

from specviz.models.progress import Progress
from specviz.recipe import Recipe
from specviz.settings import settings
from specviz.ui.state import keys, pairs, trouble
from specviz.ui.state.device import DEVICE
from specviz.ui.state.owner import owner, present
from specviz.ui.state.trouble import Failure

State = Literal["resting", "loading", "waiting", "working"]
PATIENCE = 1.0  # seconds that a click on Stop waits for the end of a turn
LOADERS = ThreadPoolExecutor(32, "specviz loader")  # they wait for each other in `pairs`

_news = Condition()  # guards the fields of all jobs that the loop writes
_ticks = count(1)


class Stopped(Exception):
    """Raised in a loading that nobody wants any more."""


class Job:
    """Something that takes many turns; see above.

    Attributes:
        needs: what pairs it works with.
        state: "resting" before and after; "loading" its pairs; "waiting" for its turn; "working".
        failure: why it broke off, None if it did not.
        left: True if it was stopped because its owner had gone.
        loading: how far the loading is.
        version: grows with all news.
        turns: made since it was started.
        lock: held during a turn: take it to see what a turn changes in one piece.
    """

    needs: tuple[Recipe, ...] = ()

    def __init__(self) -> None:
        self.state: State = "resting"
        self.failure: Failure | None = None
        self.left = False
        self.loading: Progress | None = None
        self.version = 0
        self.turns = 0
        self.owner = ""
        self.lock = Lock()
        self._wanted = False
        self._pairs: tuple[Any, ...] = ()

    def turn(self, *pairs: Any) -> None:
        """Do a little."""
        raise NotImplementedError

    @property
    def done(self) -> bool:
        raise NotImplementedError

    @property
    def share(self) -> float | None:
        """How much is done, 0 … 1; None if nobody can tell."""
        return None

    @property
    def bytes(self) -> int:
        """What it holds, roughly."""
        return 1 << 20

    @property
    def active(self) -> bool:
        return self.state != "resting"

    @property
    def stopping(self) -> bool:
        return self.active and not self._wanted

    @property
    def ahead(self) -> int | None:
        """How many turns of others come before its next; None if it is not waiting for one."""
        return DEVICE.ahead(self.owner, self._turn) if self.state == "waiting" else None

    def _turn(self) -> None:
        """On the device's thread: a turn, if it is still wanted, then to the end of the queue."""
        with _news:
            if not self._wanted or self.done or not present(self.owner):
                self.left = self._wanted and not self.done
                return self._rest()
            self.state = "working"
        found = None
        try:
            with self.lock:
                self.turn(*self._pairs)
        except BaseException as error:
            found = trouble.failure(error)
            if trouble.is_out_of_memory(error):
                error.__traceback__ = None  # its frames hold what did not fit
                trouble.free()
        with _news:
            self.turns += 1
            self.failure = found
            if found or not self._wanted or self.done:
                return self._rest()
            self.state = "waiting"
            self._tell()
        DEVICE.join(self.owner, self._turn)
        return None

    def _prepare(self) -> None:
        """On a loader's thread: load what it needs, then queue."""

        def report(progress: Progress) -> None:
            with _news:
                if not self._wanted:
                    raise Stopped
                self.loading = progress
                self._tell()

        try:
            self._pairs = tuple(pairs.load(recipe, report) for recipe in self.needs)
        except BaseException as error:
            with _news:
                self.failure = None if isinstance(error, Stopped) else trouble.failure(error)
                self._rest()
            if trouble.is_out_of_memory(error):
                error.__traceback__ = None
                trouble.free()
            return
        with _news:
            self.state, self.loading = "waiting", None
            self._tell()
        DEVICE.join(self.owner, self._turn)

    def _rest(self) -> None:
        """The caller holds the lock."""
        for recipe in self.needs:
            pairs.shelf().release(recipe)
        self._pairs, self.loading, self.state, self._wanted = (), None, "resting", False
        self._tell()

    def _tell(self) -> None:
        self.version = next(_ticks)
        _news.notify_all()


def start(job: Job) -> None:
    """Set a job going, or on again; nothing happens to one that goes on."""
    with _news:
        if job.active:
            job._wanted = True
            return
        job.owner, job._wanted, job.failure, job.left, job.turns = owner(), True, None, False, 0
        for recipe in job.needs:
            pairs.shelf().hold(recipe)
        job.state = "loading" if job.needs else "waiting"
        job._tell()
    if job.needs:
        LOADERS.submit(job._prepare)
    else:
        DEVICE.join(job.owner, job._turn)


def stop(job: Job) -> None:
    """End a job after its turn. It can be started again."""
    with _news:
        job._wanted = False
        if DEVICE.leave(job.owner, job._turn):
            job._rest()
        _news.wait_for(lambda: not job.active, PATIENCE)


def wait(*jobs: Job, timeout: float = 60.0) -> bool:
    """Until none of these goes on; for tests and commands. False if the time is over."""
    with _news:
        return _news.wait_for(lambda: not any(job.active for job in jobs), timeout)


# What an owner has set going.

_kept: OrderedDict[tuple[str, str], Job] = OrderedDict()
_dropped: OrderedDict[tuple[str, str], None] = OrderedDict()
REMEMBERED = 10_000  # names of what was dropped


def keep(name: str, job: Any) -> Any:
    """Keep a job under a name of its owner's; returns it. One of that name that goes on is stopped."""
    key = owner(), name
    before = _kept.get(key)
    if before is not None and before is not job:
        stop(before)
    with _news:
        _kept[key] = job
        _kept.move_to_end(key)
        _dropped.pop(key, None)
        held, limit = sum(other.bytes for other in _kept.values()), settings().kept_rows * 2**20
        for other in [k for k, j in _kept.items() if not j.active and j is not job]:
            if held <= limit:
                break
            held -= _kept.pop(other).bytes
            _dropped[other] = None
        while len(_dropped) > REMEMBERED:
            _dropped.popitem(last=False)
    return job


def kept(name: str) -> Any:
    """This owner's job of a name, None if there is none."""
    key = owner(), name
    with _news:
        if key in _kept:
            _kept.move_to_end(key)
        return _kept.get(key)


def lost(name: str) -> bool:
    """True if there was one, and the server needed its memory."""
    return (owner(), name) in _dropped


def _pair_dropped(pair: Any) -> None:
    """A job that rests must not keep a pair alive that had to go."""
    with _news:
        for key in [k for k, job in _kept.items() if not job.active and getattr(job, "pair", None) is pair]:
            del _kept[key]
            _dropped[key] = None


pairs.shelf().on_drop.append(_pair_dropped)


def now() -> int:
    """What comes after this is news."""
    with _news:
        return next(_ticks)


def working() -> list[Job]:
    """All jobs of all owners that go on and were kept under a name."""
    return [job for job in list(_kept.values()) if job.active]


# What a page shows of a job.


def button(key: str, label: str, job: Job | None, *, disabled: bool = False, **options: Any) -> bool:
    """One button in one place, that starts a job, or stops it while it goes on.

    Returns:
        True once for each click that means to start: set the job up, `start` it, and `st.rerun()`.
    """
    going = job is not None and job.active
    pressed = keys.of(key, keys.PRESSED)

    def click() -> None:
        if going:
            assert job is not None
            stop(job)
        else:
            st.session_state[pressed] = True

    st.button(
        ("Stopping …" if job is not None and job.stopping else "Stop") if going else label,
        key=key,
        on_click=click,
        icon=":material/stop:" if going else options.pop("icon", ":material/play_arrow:"),
        disabled=disabled and not going,
        **{name: value for name, value in options.items() if name != "icon"},
    )
    return st.session_state.pop(pressed, False) and not (job is not None and job.active)


def progress(job: Job | None, broke_off: str = "This broke off.", bar: bool = True) -> None:
    """Where a job stands, if it goes on; why it broke off, if it did."""
    if job is None:
        return
    if job.active:
        said, share = where(job), job.share
        if job.loading is not None and job.loading.total:
            share = pairs.share(job.loading)
        if bar and (share is not None or said):
            st.progress(min(1.0, max(0.0, share or 0.0)))
        if said:
            st.text(said)
    elif job.failure is not None:
        trouble.show(broke_off, job.failure)
    elif job.left:
        st.caption("Stopped, as the page had been closed. It goes on from here.")


def where(job: Job) -> str:
    """What a job waits for, as text; "" while it is making its turns."""
    if job.state == "loading":
        return pairs.words(job.loading) if job.loading is not None else "loading the models"
    if job.state == "waiting" and not job.turns:
        before = job.ahead
        if before:
            return f"{before} {'run' if before == 1 else 'runs'} before yours"
    return ""
