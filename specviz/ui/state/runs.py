"""The runs of this browser: what is shown, what is live, and how a reload finds them again.

The parameter `run` of the address names what is shown: a recording, or a run that this server still has.
The address is the only place that says so; reload and the back button follow from that. A link carries
the recipe and that name, never a trace: on another server the recipe makes the run anew.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, fields
from threading import Lock
from typing import Any, Literal

import streamlit as st

from specviz import traces
from specviz.decoding.trace import Trace
from specviz.recipe import Recipe, from_link
from specviz.ui.state import keys

Source = Literal["recorded", "live", "file"]
RUN_PAGES = ("", "home", "rounds", "exactness")  # those that show a run
OF_A_RUN = ("run", "sel", "full")  # parameters that mean nothing beside another run
OF_A_TOUR = ("tour", "step")  # a tour that is left is over
KEPT_TRACES = 64
KEPT_RUNS = 8  # a run holds its caches: tens of megabytes


@dataclass(slots=True)
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
    """

    name: str
    title: str
    source: Source
    trace: Trace
    recipe: Recipe | None = None
    run: Any = None
    parent: tuple[str, int, int] | None = None


class _Shelf:
    """Entries of all sessions by unguessable name, the most recently used last."""

    def __init__(self) -> None:
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.lock = Lock()

    def put(self, entry: Entry) -> None:
        with self.lock:
            self.entries[entry.name] = entry
            self.entries.move_to_end(entry.name)
            while len(self.entries) > KEPT_TRACES:
                self.entries.popitem(last=False)
            live = [e for e in self.entries.values() if e.run is not None]
            for old in live[:-KEPT_RUNS]:
                old.run = None

    def get(self, name: str) -> Entry | None:
        with self.lock:
            entry = self.entries.get(name)
            if entry is not None:
                self.entries.move_to_end(name)
            return entry


@st.cache_resource(show_spinner=False)
def _shelf() -> _Shelf:
    return _Shelf()


def current() -> Entry | None:
    """What the address asks for. None if its recipe has not been run here."""
    name = st.query_params.get("run", "")
    if name in {r.name for r in traces.RECORDINGS}:
        return _recorded(name)
    entry = _shelf().get(name)
    if entry is not None:
        return entry
    recipe = from_link(st.query_params.to_dict())
    same = (r.name for r in traces.RECORDINGS if r.recipe == recipe)
    name = next(same, "")
    return _recorded(name) if name else None


def _recorded(name: str) -> Entry:
    recording = traces.recording(name)
    return Entry(name, recording.title, "recorded", traces.load(name), recording.recipe)


def show(entry: Entry, select: tuple[int, int] | None = None) -> None:
    """Make `entry` what the page shows."""
    if entry.source != "recorded":
        keep(entry)
    chosen = address(entry, select)
    # Every change of the address is a step for the back button.
    if any(st.query_params.get(name) != value for name, value in chosen.items()):
        st.query_params.update(chosen)


def address(entry: Entry, select: tuple[int, int] | None = None) -> dict[str, str]:
    """The parameters of the address that show `entry`."""
    return {"run": entry.name, "sel": _sel(select)}


def keep(entry: Entry) -> None:
    """Make `entry` one of this session's runs, without showing it."""
    _shelf().put(entry)
    mine: list[str] = st.session_state.setdefault(keys.MINE, [])
    if entry.name not in mine:
        mine.append(entry.name)


def carry_over(page: str) -> None:
    """Keep what a page shows when it is left and opened again from the navigation, which empties the address.

    The run, its selection and the recipe follow to the other pages that show a run. Called by app.py before
    the page. An address that says anything, as a link's, is left alone.

    Args:
        page: the page's own address; "" is the first one.
    """
    state = st.session_state
    before, state[keys.PAGE] = state.get(keys.PAGE), page
    if before not in (None, page) and not st.query_params:
        own = dict(state.get(keys.ADDRESSES, {}).get(page, {}))
        if page in RUN_PAGES:
            shown, recipe = state.get(keys.CARRIED, ({}, {}))
            if own.get("run") != shown.get("run"):
                own = {name: value for name, value in own.items() if name not in OF_A_RUN}
            own |= shown
            state.update(recipe)
        st.query_params.update(own)
    _note()


def _note() -> None:
    """Keep the address of the page that is shown, and of what it shows."""
    state, address = st.session_state, st.query_params.to_dict()
    page = state.get(keys.PAGE, "")
    state.setdefault(keys.ADDRESSES, {})[page] = {k: v for k, v in address.items() if k not in OF_A_TOUR}
    if page in RUN_PAGES:
        names = [f.name for f in fields(Recipe)]
        shown = {name: address[name] for name in ("run", "sel") if name in address}
        _, recipe = state.get(keys.CARRIED, ({}, {}))
        state[keys.CARRIED] = shown, recipe | {name: state[name] for name in names if name in state}


def mine() -> list[Entry]:
    """The runs made or opened in this session that the server still has, oldest first."""
    names: list[str] = st.session_state.setdefault(keys.MINE, [])
    return [entry for name in names if (entry := _shelf().get(name)) is not None]


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
    _note()  # a click redraws a part of the page, without app.py


def _sel(select: tuple[int, int] | None) -> str:
    return "none" if select is None else f"{select[0]}.{select[1]}"


def hidden() -> frozenset[str]:
    """Controls that a teacher's link leaves out (`hide=k,seed`)."""
    return frozenset(name.strip() for name in st.query_params.get("hide", "").split(",") if name.strip())


def covered() -> bool:
    """True if a teacher's link keeps the verdicts covered until they are revealed (`lock=1`)."""
    return st.query_params.get("lock", "") not in ("", "0", "false")
