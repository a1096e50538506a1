"""Runs: what is shown, what goes on, and how a reload or a second tab finds them again.

The parameter `run` of the address names what is shown: a recording, or a run that this server has. The
address is the only place that says so; reload and the back button follow from that. A link carries the
recipe and that name, never a trace: on another server the recipe makes the run again.

A run is begun by a click and belongs to its name. A job (see `jobs`) makes its rounds, whoever looks on.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import RLock
from typing import Any, Literal

import streamlit as st

from specviz import traces
from specviz.decoding.trace import Trace
from specviz.recipe import Recipe, from_link
from specviz.settings import settings
from specviz.ui.state import address, jobs, pairs
from specviz.ui.state.owner import owner
from specviz.ui.state.sizes import run_bytes, trace_bytes

Source = Literal["recorded", "live", "file"]
OWNERS = 1000  # whose lists of runs are kept


@dataclass(slots=True, eq=False)
class Entry:
    """A run that can be shown.

    Attributes:
        name: its name in the address.
        title: for people.
        source: "recorded" (comes with SpecViz), "live" (made here), "file" (opened from a file).
        trace: the rounds so far.
        recipe: what it was made from; None if that is not known.
        run: the run itself while it can go on.
        parent: for a branch, the entry it left, and where: (name, round, position).
        dropped: why `run` is gone before its end; "" if it is not.
    """

    name: str
    title: str
    source: Source
    trace: Trace
    recipe: Recipe | None = None
    run: Any = None
    parent: tuple[str, int, int] | None = None
    dropped: str = ""


class Running(jobs.Job):
    """Makes the rounds of one run.

    Args:
        name: the run's name in the address.
        recipe: how it is made.
        prompt: token ids to start from, instead of the recipe's prompt.
        parent: as of `Entry`.

    Attributes:
        entry: None until its pair is loaded and its first round made.
        until: the round to stop after; None for the end.
    """

    def __init__(
        self,
        name: str,
        recipe: Recipe,
        prompt: list[int] | None = None,
        parent: tuple[str, int, int] | None = None,
    ) -> None:
        super().__init__()
        self.needs = (recipe,)
        self.name, self.recipe, self.prompt, self.parent = name, recipe, prompt, parent
        self.entry: Entry | None = None
        self.until: int | None = None

    @property
    def run(self) -> Any:
        return None if self.entry is None else self.entry.run

    @property
    def done(self) -> bool:
        if self.entry is None:
            return False
        over = self.run is None or self.run.finish is not None
        return over or (self.until is not None and len(self.run.rounds) >= self.until)

    @property
    def share(self) -> float | None:
        made = 0 if self.entry is None else len(self.entry.trace.output_ids)
        return made / self.recipe.max_tokens

    def turn(self, pair: Any) -> None:
        if self.entry is None:
            given = {} if self.prompt is None else {"prompt": self.prompt}
            self._enter(self.recipe.start(pair, **given))
        assert self.entry is not None
        try:
            self.run.step()
        finally:
            self.entry.trace = self.run.trace()
            self.run.recent = None  # full rows are megabytes, and pages read the trace

    def _enter(self, run: Any) -> None:
        text = title(self.recipe)
        if self.parent is not None:
            text = f"branch at round {self.parent[1]}, position {self.parent[2]} · {text}"
        self.entry = Entry(self.name, text, "live", run.trace(), self.recipe, run, self.parent)
        _shelf().put(self.entry)


class _Shelf:
    """Entries of all owners by unguessable name, the most recently used last, and the jobs that make them.

    What goes on is never dropped. Of what rests, first the runs themselves go (caches and rows, the bulk),
    then whole entries, those used longest ago first, until the rest fits `Settings.kept_runs`.
    """

    def __init__(self) -> None:
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.jobs: OrderedDict[str, Running] = OrderedDict()
        self.mine: OrderedDict[str, list[str]] = OrderedDict()
        self.gone: OrderedDict[str, None] = OrderedDict()
        self.lock = RLock()

    def put(self, entry: Entry) -> None:
        with self.lock:
            self.entries[entry.name] = entry
            self.entries.move_to_end(entry.name)
            self._bound(entry)

    def get(self, name: str) -> Entry | None:
        with self.lock:
            entry = self.entries.get(name)
            if entry is not None:
                self.entries.move_to_end(name)
            return entry

    def goes_on(self, entry: Entry) -> bool:
        job = self.jobs.get(entry.name)
        return job is not None and job.active

    def _bound(self, newest: Entry) -> None:
        limit = settings().kept_runs * 2**20
        weights = {e.name: (run_bytes(e.run), trace_bytes(e.trace)) for e in self.entries.values()}
        held = sum(map(sum, weights.values()))
        resting = [e for e in self.entries.values() if e is not newest and not self.goes_on(e)]
        for entry in resting:
            if held > limit and entry.run is not None:
                held -= weights[entry.name][0]
                self.let_go(entry, "the server needed their memory for other runs")
        for entry in resting:
            if held > limit:
                held -= weights[entry.name][1]
                del self.entries[entry.name]
                self.jobs.pop(entry.name, None)
                self.gone[entry.name] = None
        while len(self.gone) > 10 * OWNERS:
            self.gone.popitem(last=False)
        idle = [name for name, job in self.jobs.items() if not job.active and name not in self.entries]
        for name in idle[:-OWNERS]:  # that failed before their first round
            del self.jobs[name]

    def let_go(self, entry: Entry, why: str) -> None:
        if entry.run is not None and entry.run.finish is None:
            entry.dropped = why
        entry.run = None

    def let_pair_go(self, pair: Any) -> None:
        with self.lock:
            for entry in self.entries.values():
                if entry.run is not None and entry.run.pair is pair:
                    self.let_go(entry, "their models had to make room for others")


_SHELF = _Shelf()
pairs.shelf().on_drop.append(_SHELF.let_pair_go)


def _shelf() -> _Shelf:
    return _SHELF


def shown_name() -> str:
    """The run that the address names; "" if it names none."""
    return st.query_params.get("run", "")


def current() -> Entry | None:
    """What the address asks for. None if its recipe has not been run here, or its first round is not made."""
    name = shown_name()
    if name in {r.name for r in traces.RECORDINGS}:
        return _recorded(name)
    entry = _shelf().get(name)
    if entry is not None or going():
        return entry
    recipe = from_link(st.query_params.to_dict())
    same = (r.name for r in traces.RECORDINGS if r.recipe == recipe)
    name = next(same, "")
    return _recorded(name) if name else None


def job() -> Running | None:
    """The job that makes the run that the address names, at work or not."""
    return _shelf().jobs.get(shown_name())


def going() -> bool:
    """True while rounds of the shown run are made."""
    shown = job()
    return shown is not None and shown.active


def gone() -> bool:
    """True if the address names a run that this server had, and dropped to make room."""
    return shown_name() in _shelf().gone


def title(recipe: Recipe) -> str:
    """A run's name for people."""
    text = " ".join(recipe.prompt.split())
    return (
        f"{text[:32]}{'…' if len(text) > 32 else ''} · {recipe.drafter} · K {recipe.k} · seed {recipe.seed}"
    )


def resumable(entry: Entry | None, recipe: Recipe) -> bool:
    """True if the shown run can go on with these settings."""
    return entry is not None and entry.run is not None and entry.run.finish is None and entry.recipe == recipe


def go(entry: Entry | None, recipe: Recipe, once: bool = False) -> None:
    """What a click on Run, Resume or Step means: the shown run goes on, or a new one begins and is shown."""
    if going():
        return  # a second click, or another tab, was quicker
    running = job()
    if running is None or not resumable(entry, recipe):
        running = _begin(Running(new_name(), recipe))
    running.until = len(running.run.rounds if running.run else ()) + 1 if once else None
    jobs.start(running)


def branch(entry: Entry, at: tuple[int, int], token: int | None, recipe: Recipe) -> None:
    """Begin and show a new run: the text of another up to a place, the token taken there, then on.

    Args:
        entry, at: the run, and the (round, position) that is replaced.
        token: what is taken there; None leaves it to the new run.
        recipe: how the new run goes on.
    """
    trace, (number, position) = entry.trace, at
    round = trace.rounds[number - 1]
    before = (trace.prompt_ids + trace.output_ids)[: round.start]
    drafted = round.draft_tokens[: min(position - 1, round.accepted)]
    taken = () if token is None else (token,)
    parent = (entry.name, number, position)
    jobs.start(_begin(Running(new_name(), recipe, [*before, *drafted, *taken], parent)))


def _begin(running: Running) -> Running:
    with _shelf().lock:
        _shelf().jobs[running.name] = running
    _list(running.name, owner())
    _address(running.name, selection() or (1, 1))
    return running


def _recorded(name: str) -> Entry:
    recording = traces.recording(name)
    return Entry(name, recording.title, "recorded", traces.load(name), recording.recipe)


def show(entry: Entry, select: tuple[int, int] | None = None) -> None:
    """Make `entry` what the page shows."""
    if entry.source != "recorded":
        keep(entry)
    _address(entry.name, select)


def parameters(entry: Entry, select: tuple[int, int] | None = None) -> dict[str, str]:
    """The parameters of the address that show `entry`."""
    return {"run": entry.name, "sel": _sel(select)}


def _address(name: str, select: tuple[int, int] | None) -> None:
    chosen = {"run": name, "sel": _sel(select)}
    # Every change of the address is a step for the back button.
    if any(st.query_params.get(key) != value for key, value in chosen.items()):
        st.query_params.update(chosen)


def keep(entry: Entry, whose: str = "") -> None:
    """Make `entry` one of an owner's runs, of this session's if none is named, without showing it."""
    _shelf().put(entry)
    _list(entry.name, whose or owner())


def _list(name: str, whose: str) -> None:
    with _shelf().lock:
        own = _shelf().mine.setdefault(whose, [])
        _shelf().mine.move_to_end(whose)
        if name not in own:
            own.append(name)
        while len(_shelf().mine) > OWNERS:
            _shelf().mine.popitem(last=False)


def mine() -> list[Entry]:
    """The runs made or opened in this browser that the server still has, oldest first."""
    with _shelf().lock:
        names = list(_shelf().mine.get(owner(), ()))
        return [entry for name in names if (entry := _shelf().entries.get(name)) is not None]


def entry_by_name(name: str) -> Entry | None:
    if name in {r.name for r in traces.RECORDINGS}:
        return _recorded(name)
    return _shelf().get(name)


def new_name() -> str:
    return secrets.token_urlsafe(9)


def selection() -> tuple[int, int] | None:
    """The selected (round, position) of the address; where it says nothing, what a recording opens with."""
    text = st.query_params.get("sel")
    if text is None:
        entry = current()
        recorded = entry is not None and entry.source == "recorded"
        return traces.recording(entry.name).select if entry is not None and recorded else None
    parts = text.split(".")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and len(p) < 8 for p in parts):
        return None
    return int(parts[0]), int(parts[1])


def choose(select: tuple[int, int] | None) -> None:
    """Put a selection into the address. None is said too: a recording would open with its own."""
    st.query_params["sel"] = _sel(select)
    address.note()  # a click redraws a part of the page, without app.py


def _sel(select: tuple[int, int] | None) -> str:
    return "none" if select is None else f"{select[0]}.{select[1]}"
