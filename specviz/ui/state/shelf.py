"""Entries, the jobs that make them, and the shelf that holds both for all owners: bounded in bytes."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Literal

from specviz.decoding.trace import Trace
from specviz.models import memory
from specviz.recipe import EXACT, Recipe
from specviz.settings import settings
from specviz.speed.beside import Beside
from specviz.ui.state import jobs, pairs
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
        written: how many of them, at their end, a run before this one wrote.
        parent: as of `Entry`.

    Attributes:
        entry: None until its pair is loaded and its first round made.
        until: the round to stop after; None for the end.
        beside: plain decoding, timed between the rounds.
    """

    def __init__(
        self,
        name: str,
        recipe: Recipe,
        prompt: list[int] | None = None,
        parent: tuple[str, int, int] | None = None,
        written: int = 0,
    ) -> None:
        super().__init__()
        self.needs = (recipe,)
        self.name, self.recipe, self.prompt, self.parent = name, recipe, prompt, parent
        self.written = written
        self.entry: Entry | None = None
        self.until: int | None = None
        self.beside: Beside | None = None

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
            given: dict[str, Any] = {}
            if self.prompt is not None:
                given = {"prompt": self.prompt, "written": self.written}
            plain = replace(self.recipe, drafter="ngram", k=0, rule=EXACT)
            run = self.recipe.start(pair, **given)
            self.beside = Beside(lambda: plain.start(pair, **given))
            self._enter(run)
        try:
            self.run.step()
        finally:
            self._keep()
        assert self.beside is not None
        self.beside.after(len(self.run.rounds), over=self.run.finish is not None)
        self._keep()

    def _keep(self) -> None:
        assert self.entry is not None and self.beside is not None
        self.entry.trace = replace(self.run.trace(), plain_seconds=self.beside.seconds)
        self.run.recent = None  # full rows are megabytes, and pages read the trace

    def _enter(self, run: Any) -> None:
        text = title(self.recipe)
        if self.parent is not None:
            text = f"branch at round {self.parent[1]}, position {self.parent[2]} · {text}"
        self.entry = Entry(self.name, text, "live", run.trace(), self.recipe, run, self.parent)
        shelf().put(self.entry)


class Shelf:
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
        held = before = sum(map(sum, weights.values()))
        resting = [e for e in self.entries.values() if e is not newest and not self.goes_on(e)]
        for entry in resting:
            if held > limit and entry.run is not None:
                held -= weights[entry.name][0]
                self.let_go(entry, "the server needed their memory for other runs")
        if held < before:
            memory.give_back()
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
        job = self.jobs.get(entry.name)
        if job is not None and job.beside is not None:
            job.beside.end()  # it has caches too

    def let_pair_go(self, pair: Any) -> None:
        with self.lock:
            for entry in self.entries.values():
                if entry.run is not None and entry.run.pair is pair:
                    self.let_go(entry, "their models had to make room for others")


_SHELF = Shelf()
pairs.shelf().on_drop.append(_SHELF.let_pair_go)


def shelf() -> Shelf:
    """The server's runs."""
    return _SHELF


def title(recipe: Recipe) -> str:
    """A run's name for people."""
    text = " ".join(recipe.prompt.split())
    return (
        f"{text[:32]}{'…' if len(text) > 32 else ''} · {recipe.drafter} · K {recipe.k} · seed {recipe.seed}"
    )
