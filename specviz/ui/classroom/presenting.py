"""What a presenter does beside his work: begin a class, show its link, ask, end it.

His pages say what they show by `show_run` and `show_slide`; nothing else has to know of classes.
"""

from urllib.parse import urlsplit

import streamlit as st

from specviz.decoding.trace import Trace
from specviz.reading.inspect import inspect_position
from specviz.reading.prose import Notation, count
from specviz.ui.classroom import rooms
from specviz.ui.classroom.answers import bars
from specviz.ui.classroom.link import code_and_link
from specviz.ui.classroom.polls import Poll
from specviz.ui.classroom.rooms import Room, Shown, ShownRun, ShownSlide
from specviz.ui.components.timeline import uncover
from specviz.ui.shell import teaching
from specviz.ui.state import address, guard, keys, runs
from specviz.ui.state.owner import owner

PACE = 1.5  # seconds between two looks at who is there
VERDICTS = ("accepted", "rejected", "discarded")
ASKED = ("accepted", "rejected", "not judged any more")
FULL = "This server holds no more classes at once. Try again when another one has ended."


def start_button(shown: Shown | None, label: str = "Start a class") -> bool:
    """Begins a class that opens with this. True once it has begun."""
    going = rooms.presented(owner()) is not None
    pressed = st.button(
        "Show it in your class" if going else label,
        key=keys.CLASS_START,
        type="primary",
        icon=":material/co_present:",
        help="A short link lets everybody follow your screen on their own. Nobody is asked for a name.",
        on_click=_fold,
    )
    if not pressed:
        return False
    try:
        rooms.start(owner(), shown)
    except rooms.Full:
        st.error(FULL, icon=":material/groups:")
        return False
    st.session_state[keys.CLASS_LINK_WANTED] = not going
    return True


def _fold() -> None:
    """The popover that had the button has done its work."""
    if keys.CLASS_INVITATION in st.session_state:
        st.session_state[keys.CLASS_INVITATION] = False


def invitation() -> None:
    """The popover of a page whose run can be presented. The page itself says what it shows."""
    with st.popover("Class", icon=":material/co_present:", key=keys.CLASS_INVITATION, on_change="rerun"):
        st.markdown("Everybody who opens the link sees this run, and follows what you select.")
        if start_button(None):
            st.rerun()


def show_run(
    run: str, select: tuple[int, int] | None, covered: bool, revealed: frozenset[int], notation: Notation
) -> None:
    """Say what the page shows; it goes to the presenter's class, if there is one."""
    _publish(ShownRun(run, select, covered, revealed if covered else frozenset(), notation))


def uncovered(run: str) -> frozenset[int] | None:
    """After a reload of the presenter's page: the rounds of this run that were uncovered before it."""
    room = rooms.presented(owner())
    shown = None if room is None or keys.CLASS_PUBLISHED in st.session_state else room.shown
    return shown.revealed if isinstance(shown, ShownRun) and shown.run == run else None


def show_slide(topic: str, level: str, at: int) -> None:
    """Say which slide is shown."""
    _publish(ShownSlide(topic, level, at))


def _publish(shown: Shown) -> None:
    """Only what is new here: another window of the same browser may have been used since."""
    room = rooms.presented(owner())
    if room is None or st.session_state.get(keys.CLASS_PUBLISHED) == (room.code, shown):
        return
    st.session_state[keys.CLASS_PUBLISHED] = room.code, shown
    rooms.show(owner(), shown)


def strip() -> None:
    """The line above the presenter's pages while the class goes on."""
    room = rooms.presented(owner())
    if room is None:
        return
    if st.session_state.pop(keys.CLASS_LINK_WANTED, False):
        _link(room)
    with st.container(border=True, key=keys.CLASS_STRIP, gap="small"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f":blue-badge[:material/co_present: Class {room.code}]", width="content")
            _standing(room)
            link_button(room, keys.CLASS_LINK)
            if _on_rounds():
                _asking(room)
            st.button("End the class", key=keys.CLASS_END, icon=":material/logout:", on_click=_end)
        if _on_rounds() and room.poll is not None:
            _answered(room)


def _on_rounds() -> bool:
    return st.session_state.get(keys.PAGE) in ("", "home", "rounds")


def link_button(room: Room, key: str) -> None:
    """Shows the way into the class, large."""
    if st.button("Link", key=key, icon=":material/qr_code_2:"):
        _link(room)


@st.fragment(run_every=PACE)
def _standing(room: Room) -> None:
    """Who is there. This also tells the server that the presenter is."""
    if rooms.presented(owner()) is not room:
        st.rerun()  # ended, in another window or by the clock
    st.markdown(f"**{looking_on(room)}**", width="content")


@st.fragment(run_every=PACE)
def _answered(room: Room) -> None:
    """What has been answered so far; once it is revealed, beside what was right."""
    poll, shown = room.poll, room.shown
    if poll is not None and isinstance(shown, ShownRun) and poll.about[0] == shown.run:
        _, number, position = poll.about
        st.markdown(
            f"Round {number}, position {position}, what becomes of it? {count(poll.tally().total, 'answer')}"
        )
        with st.container(key=keys.CLASS_RESULT):
            bars(poll, truth=not poll.open, beside=True)


def looking_on(room: Room) -> str:
    """How many follow, in words."""
    there = room.viewers()
    return "nobody looks on yet" if not there else f"{there} looking on"


def _asking(room: Room) -> None:
    poll, covered = room.poll, address.covered()
    st.button(
        "Uncover the verdicts" if covered else "Cover the verdicts",
        key=keys.CLASS_COVER,
        icon=":material/visibility:" if covered else ":material/visibility_off:",
        on_click=_cover,
        args=(not covered,),
    )
    if poll is not None and poll.open:
        st.button("Reveal", key=keys.CLASS_REVEAL, type="primary", on_click=_reveal, args=(poll,))
        st.button("Take it back", key=keys.CLASS_TAKE_BACK, on_click=_take_back)
    else:
        st.button(
            "Ask the class",
            key=keys.CLASS_ASK,
            type="primary",
            icon=":material/how_to_vote:",
            on_click=_ask,
            help="What becomes of the selected draft token? Its verdict is covered until you reveal it.",
        )
    if said := st.session_state.pop(keys.CLASS_SAID, ""):
        st.caption(f":material/info: {said}")


def _cover(on: bool) -> None:
    if on:
        st.query_params["lock"] = "1"
    else:
        st.query_params.pop("lock", None)


def poll_about(run: str, trace: Trace, select: tuple[int, int] | None) -> Poll | None:
    """The poll about a draft token of a run, None if there is none at that place."""
    if select is None or not 1 <= select[0] <= len(trace.rounds):
        return None
    if not 1 <= select[1] <= trace.rounds[select[0] - 1].k:
        return None
    state = inspect_position(trace, *select).state
    return Poll((run, *select), ASKED, VERDICTS.index(state))


def _ask() -> None:
    room = rooms.presented(owner())
    entry = runs.current()
    poll = None if entry is None else poll_about(entry.name, entry.trace, runs.selection())
    if room is None or entry is None or poll is None:
        st.session_state[keys.CLASS_SAID] = "Select a draft token in the timeline first."
        return
    if not address.covered():
        _cover(True)
        for number in range(1, poll.about[1]):
            uncover(keys.TIMELINE, number)
    rooms.ask(owner(), poll)


def _reveal(poll: Poll) -> None:
    rooms.reveal(owner())
    uncover(keys.TIMELINE, poll.about[1])


def _take_back() -> None:
    rooms.ask(owner(), None)


def _end() -> None:
    rooms.end(owner())
    st.session_state.pop(keys.CLASS_PUBLISHED, None)


@st.dialog("Follow on your own screen", width="large")
def _link(room: Room) -> None:
    link = teaching.address(st.context.url or "", "class", {"room": room.code})
    code_and_link(room.code, link)
    if (urlsplit(link).hostname or "") in guard.HERE:
        st.warning(
            "This address is known on this machine alone. To let others in, start SpecViz with "
            "`specviz app --address 0.0.0.0` and open it by the machine's name.",
            icon=":material/lan:",
        )
