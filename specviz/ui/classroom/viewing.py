"""What a viewer of a class sees: the presenter's run or slide, on his own screen, and the poll.

The page looks every second or so whether there is news, and is drawn again only then. A viewer may look at
another token meanwhile; the presenter's next step takes him along again.
"""

from typing import Any

import streamlit as st

from specviz.lessons import library
from specviz.reading.inspect import inspect_position
from specviz.reading.prose import count
from specviz.reading.prose import number as figure
from specviz.reading.story import happened
from specviz.tokens import shower
from specviz.ui.classroom import rooms
from specviz.ui.classroom.answers import bars
from specviz.ui.classroom.polls import Poll
from specviz.ui.classroom.rooms import Room, ShownRun, ShownSlide
from specviz.ui.classroom.shown import slide
from specviz.ui.classroom.slides import slides
from specviz.ui.components.timeline import timeline
from specviz.ui.rounds.inspector import reading
from specviz.ui.shell.markup import code
from specviz.ui.state import keys, runs
from specviz.ui.state.owner import owner
from specviz.ui.state.runs import Entry

PACE = 0.7  # seconds between two looks of a viewer
SHARED = 0.04  # seconds more for each viewer of the class, so that the server has time for all of them
STYLE = """
.st-key-class-answers button { min-height: 3.2rem; }
.st-key-class-answers button p { font-size: 1.1rem; }
"""


def page(room: Room) -> None:
    """The whole page of somebody who follows."""
    st.html(f"<style>{STYLE}</style>")
    shown, poll = room.shown, room.poll
    entry = runs.entry_by_name(shown.run) if isinstance(shown, ShownRun) else None
    watch(room, _news(room, entry))
    mine = room.owner == owner()
    st.caption(
        f":material/co_present: Class {room.code}. "
        + ("You present it; this is what everybody sees." if mine else "You follow the presenter's screen.")
    )
    if isinstance(shown, ShownSlide):
        _slide(room, shown, poll)
    elif isinstance(shown, ShownRun):
        if entry is None:
            st.info("The run that was shown is not on the server any more.", icon=":material/inventory_2:")
        elif poll is not None and poll.open and poll.about[0] == shown.run:
            _question(room, entry, poll)
        else:
            if poll is not None and poll.about == rooms.place(shown):
                _result(room, poll)
            _run(shown, entry)
    else:
        st.info("It begins in a moment. This page follows by itself.", icon=":material/hourglass_empty:")


def _news(room: Room, entry: Entry | None) -> tuple[Any, ...]:
    """What makes a viewer's page old when it changes."""
    if entry is None:
        return (room.version,)
    return room.version, len(entry.trace.rounds), runs.made(entry)


def watch(room: Room, drawn: tuple[Any, ...]) -> None:
    """Look for news every now and then. Before what is drawn, so that a page cut short is drawn again."""
    who = owner()
    if who != room.owner:
        room.look(who)
    pace = PACE + SHARED * room.viewers()

    @st.fragment(run_every=pace)
    def look() -> None:
        if who != room.owner:
            room.look(who)
        shown = room.shown
        entry = runs.entry_by_name(shown.run) if isinstance(shown, ShownRun) else None
        if rooms.room(room.code) is not room or _news(room, entry) != drawn:
            st.rerun()

    with st.container(key=keys.CLASS_WATCH):
        look()


def _run(shown: ShownRun, entry: Entry) -> None:
    trace = entry.trace
    live = runs.made(entry)
    if not shown.covered:
        st.markdown(happened(trace))
    own = st.session_state.get(keys.CLASS_OWN)
    select = own[1] if own is not None and own[0] == shown else shown.select

    def chosen(place: tuple[int, int] | None) -> None:
        st.session_state[keys.CLASS_OWN] = shown, place

    with st.container(key=keys.STAGE):
        left, right = st.columns([1.75, 1], gap="medium")
    with left:
        timeline(
            trace,
            selected=select,
            key=keys.CLASS_TIMELINE,
            on_select=chosen,
            live=live,
            covered=shown.covered,
            notation=shown.notation,
            uncovered=shown.revealed if shown.covered else None,
        )
    with right:
        if select is None or not _exists(entry, select):
            st.caption("No token is selected.")
        elif shown.covered and select[0] not in shown.revealed:
            st.info("Its verdict is covered. What do you expect?", icon=":material/visibility_off:")
        else:
            reading(trace, *select, key=keys.CLASS_INSPECTOR, notation=shown.notation)


def _exists(entry: Entry, select: tuple[int, int]) -> bool:
    rounds = entry.trace.rounds
    return 1 <= select[0] <= len(rounds) and 1 <= select[1] <= rounds[select[0] - 1].k + 1


def _question(room: Room, entry: Entry, poll: Poll) -> None:
    """What becomes of a draft token: its numbers without the coin, and what went before."""
    _, number, position = poll.about
    place = inspect_position(entry.trace, number, position)
    show = shower(entry.trace)
    text = (entry.trace.prompt_ids + entry.trace.output_ids)[: place.round.start]
    drafted = place.round.draft_tokens[: position - 1]
    with st.container(border=True):
        st.markdown(f"#### Round {number}, position {position}: what becomes of {code(show(place.token))}?")
        st.text("… " + "".join(show(i) for i in (*text, *drafted)[-24:]))
        with st.container(horizontal=True):
            st.metric("p, target", figure(place.row.p, 3), border=True)
            st.metric("q, draft", figure(place.row.q, 3), border=True)
        _answers(room, poll)


def _answers(room: Room, poll: Poll) -> None:
    """A button for each answer. It can be changed until the presenter reveals."""
    who = owner()
    said = poll.said(who)
    with st.container(key=keys.CLASS_ANSWERS):
        for i, option in enumerate(poll.options):
            st.button(
                option,
                key=keys.of(keys.CLASS_ANSWER, i),
                type="primary" if i == said else "secondary",
                icon=":material/check:" if i == said else None,
                width="stretch",
                disabled=who == room.owner,
                on_click=_vote,
                args=(room, who, i),
            )
    if said is not None:
        st.caption("Your answer is counted without your name. You can change it until it is revealed.")


def _vote(room: Room, who: str, option: int) -> None:
    room.vote(who, option)


def _result(room: Room, poll: Poll) -> None:
    with st.container(border=True):
        st.markdown(f"**What the class said** ({count(poll.tally().total, 'answer')})")
        bars(poll)


def _slide(room: Room, shown: ShownSlide, poll: Poll | None) -> None:
    lesson = next((entry for entry in library.lessons() if entry.key == shown.topic), None)
    if lesson is None:
        return
    made = slides(lesson, shown.level)
    current = made[min(shown.at, len(made) - 1)]
    asks = current.kind in ("question", "check")
    about = poll is not None and current.choice is not None and poll.about[1:] == (current.choice.question,)
    slide(shown.topic, current, poll if about else None)
    if asks and about and poll is not None and poll.open:
        _answers(room, poll)


def gone(code: str) -> None:
    """In place of a class that is not there."""
    if rooms.ended(code):
        st.info("This class has ended. Thank you for coming.", icon=":material/done_all:")
    else:
        st.warning(
            "There is no class with this code. It has six letters and digits, as the presenter shows them.",
            icon=":material/search_off:",
        )
