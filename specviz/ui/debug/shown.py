"""Which audit is shown: a recorded one, or one of this server, by its name in the address (`audit=…`)."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from specviz.diagnosis import recorded
from specviz.diagnosis.report import Report
from specviz.ui.debug import audited, work
from specviz.ui.state import keys

AUDIT = "audit"  # parameter of the address
YOURS = "Your audit"
FIRST = recorded.RECORDED[0].name


@dataclass(frozen=True, slots=True)
class Shown:
    """An audit on the page.

    Attributes:
        name: in the address.
        title: for people.
        report: what it says so far; None before its first tables.
        folder: where it lies.
        recorded: whether it came with SpecViz.
    """

    name: str
    title: str
    report: Report | None
    folder: Path
    recorded: bool


def current() -> Shown:
    """What the address asks for; the first recorded audit if it asks for nothing that is here."""
    job = work.current()
    if job is not None and not job.active:
        job.settle()
    found = by_name(st.query_params.get(AUDIT, FIRST)) or by_name(FIRST)
    assert found is not None
    return found


def by_name(name: str) -> Shown | None:
    """An audit by its name in the address; None if there is none here."""
    for kept in recorded.RECORDED:
        if kept.name == name:
            return Shown(name, kept.title, recorded.load(name), recorded.FOLDER / name, True)
    if not work.usable(name):
        return None
    folder = work.folder(name)
    last = folder / "checks.json"  # written after the tables
    report = _report(str(folder), last.stat().st_mtime_ns) if last.exists() else None
    return Shown(name, YOURS, report, folder, False)


def lost() -> bool:
    """Whether the address names an audit that is not here any more."""
    name = st.query_params.get(AUDIT, FIRST)
    return name not in {kept.name for kept in recorded.RECORDED} and not work.usable(name)


@st.cache_resource(show_spinner=False, max_entries=16)
def _report(folder: str, written: int) -> Report:
    job = work.current()
    at_work = job is not None and job.name == Path(folder).name
    with job.lock if job is not None and at_work else nullcontext():  # no turn writes meanwhile
        return Report.of(Path(folder))


def own(shown: Shown) -> dict[str, str]:
    """Titles of one's own audits, and of the shown one, by name."""
    names = work.mine()
    if not shown.recorded and shown.name not in names:
        names.append(shown.name)  # a link brought it here
    return {name: YOURS if len(names) == 1 else f"{YOURS} {i}" for i, name in enumerate(names, 1)}


def choose(shown: Shown) -> None:
    """The recorded audits, and the own one."""
    titles = {kept.name: f"{kept.title} · recorded" for kept in recorded.RECORDED} | own(shown)
    st.session_state[keys.DEBUG_AUDIT] = shown.name

    def changed() -> None:
        st.query_params[AUDIT] = st.session_state[keys.DEBUG_AUDIT] or shown.name

    st.segmented_control(
        "Audit",
        list(titles),
        format_func=lambda name: titles[name],
        key=keys.DEBUG_AUDIT,
        on_change=changed,
        label_visibility="collapsed",
    )


def open_in_rounds(shown: Shown, prompt: int, place: tuple[int, int], key: str) -> None:
    """A link to the run of a prompt on the Rounds page, at a round and position."""
    parameters = audited.address(shown, prompt, place)
    if not parameters:
        st.caption("The run that wrote this text is not here: there is no round to open.")
        return
    with st.container(key=key):
        label, icon = "Open in Rounds", ":material/open_in_new:"
        st.page_link("pages/rounds.py", label=label, icon=icon, query_params=parameters)
