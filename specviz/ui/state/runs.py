"""Runs: what is shown, what goes on, and how a reload or a second tab finds them again.

The parameter `run` of the address names what is shown: a recording, or a run that this server has. The
address is the only place that says so; reload and the back button follow from that. A link carries the
recipe and that name, never a trace: on another server the recipe makes the run again.

A run is begun by a click and belongs to its name. A job (see `jobs`) makes its rounds, whoever looks on.
"""

import secrets

import streamlit as st

from specviz import traces
from specviz.recipe import Recipe, from_link
from specviz.ui.state import address, jobs
from specviz.ui.state.owner import owner
from specviz.ui.state.shelf import OWNERS, Entry, Running, shelf


def shown_name() -> str:
    """The run that the address names; "" if it names none."""
    return st.query_params.get("run", "")


def current() -> Entry | None:
    """What the address asks for. None if its recipe has not been run here, or its first round is not made."""
    name = shown_name()
    if name in {r.name for r in traces.RECORDINGS}:
        return _recorded(name)
    entry = shelf().get(name)
    if entry is not None or going():
        return entry
    recipe = from_link(st.query_params.to_dict())
    same = (r.name for r in traces.RECORDINGS if r.recipe == recipe)
    name = next(same, "")
    return _recorded(name) if name else None


def job() -> Running | None:
    """The job that makes the run that the address names, at work or not."""
    return shelf().jobs.get(shown_name())


def going() -> bool:
    """True while rounds of the shown run are made."""
    shown = job()
    return shown is not None and shown.active


def made(entry: Entry) -> bool:
    """True while rounds of this run are made."""
    return shelf().goes_on(entry)


def gone() -> bool:
    """True if the address names a run that this server had, and dropped to make room."""
    return shown_name() in shelf().gone


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
    prompt = [*before, *drafted, *taken]
    written = len(prompt) - len(trace.prompt_ids) + trace.written
    jobs.start(_begin(Running(new_name(), recipe, prompt, parent, written)))


def _begin(running: Running) -> Running:
    with shelf().lock:
        shelf().jobs[running.name] = running
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
    shelf().put(entry)
    _list(entry.name, whose or owner())


def _list(name: str, whose: str) -> None:
    with shelf().lock:
        own = shelf().mine.setdefault(whose, [])
        shelf().mine.move_to_end(whose)
        own[:] = [known for known in own if known in shelf().entries or known in shelf().jobs]
        if name not in own:
            own.append(name)
        while len(shelf().mine) > OWNERS:
            shelf().mine.popitem(last=False)


def mine() -> list[Entry]:
    """The runs made or opened in this browser that the server still has, oldest first."""
    with shelf().lock:
        names = list(shelf().mine.get(owner(), ()))
        return [entry for name in names if (entry := shelf().entries.get(name)) is not None]


def entry_by_name(name: str) -> Entry | None:
    if name in {r.name for r in traces.RECORDINGS}:
        return _recorded(name)
    return shelf().get(name)


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
