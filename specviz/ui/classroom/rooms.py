"""Classes that go on: what their presenters show, who looks on, the poll. All of it in one bounded place.

A room names what is shown, a run by its name or a slide of a lesson, and never holds it. A presenter has one
room, and every change goes to the room of whoever asks for it: nobody can change another's. Viewers look
whether `version` has grown. A room ends when its presenter ends it, or has been away for an hour.
"""

import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count
from threading import RLock
from time import monotonic

from specviz.reading.prose import Notation
from specviz.ui.classroom.polls import Poll

# Neither 0 and O nor 1, I and L: a code is read from a wall, and spelled out.
ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
LENGTH = 6
CODE = re.compile(f"[{ALPHABET}]{{{LENGTH}}}")
ROOMS = 32
VIEWERS = 1000  # of a room, looking on or gone
AWAY = 3600.0  # seconds without its presenter after which a room ends
LOOKING = 20.0  # seconds after which somebody who did not look is not counted
ENDED = 1000  # codes of rooms that are known to have ended

_ticks = count(1)


class Full(Exception):
    """There are as many classes as the server holds."""


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run as the presenter sees it.

    Attributes:
        run: its name in the address.
        select: the pinned (round, position), or None.
        covered: verdicts are covered, but for `revealed` rounds.
        notation: which letter stands for which model.
    """

    run: str
    select: tuple[int, int] | None
    covered: bool = False
    revealed: frozenset[int] = frozenset()
    notation: Notation = "leviathan"


@dataclass(frozen=True, slots=True)
class ShownSlide:
    """A slide of a lesson: the lesson's key, its reading level, the slide's number from 0."""

    topic: str
    level: str
    at: int


Shown = ShownRun | ShownSlide


@dataclass(slots=True)
class Room:
    """A class that goes on.

    Attributes:
        code: what its viewers type, or have in their link.
        owner: the presenter's browser.
        shown: what everybody sees.
        poll: the question that is put, or was put last.
        version: grows when viewers have to look again.
        seen: when the presenter was last there.
    """

    code: str
    owner: str
    shown: Shown | None
    seen: float
    poll: Poll | None = None
    version: int = field(default_factory=lambda: next(_ticks))
    _viewers: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def look(self, who: str) -> None:
        """Somebody looks on."""
        with _lock:
            self._viewers[who] = monotonic()
            self._viewers.move_to_end(who)
            while len(self._viewers) > VIEWERS:
                self._viewers.popitem(last=False)

    def viewers(self) -> int:
        """How many browsers look on now."""
        with _lock:
            return sum(monotonic() - seen < LOOKING for seen in self._viewers.values())

    def vote(self, who: str, option: int) -> bool:
        """Answer the poll. False if there is none that is open; the presenter is not asked."""
        with _lock:
            return self.poll is not None and who != self.owner and self.poll.vote(who, option)


_lock = RLock()
_rooms: OrderedDict[str, Room] = OrderedDict()
_ended: OrderedDict[str, None] = OrderedDict()


def spelled(text: str) -> str:
    """A code as somebody typed it or a link has it, in the form rooms go by; "" if it cannot be one."""
    code = re.sub(r"[\s-]", "", text[:40]).upper()
    return code if CODE.fullmatch(code) else ""


def room(text: str) -> Room | None:
    """The room of a code, None if there is none."""
    with _lock:
        _expire()
        return _rooms.get(spelled(text))


def ended(text: str) -> bool:
    """True if there was a room of that code."""
    with _lock:
        _expire()
        return spelled(text) in _ended


# For its presenter. `owner` says whose room is meant, so that nobody has another's in hand.


def presented(owner: str) -> Room | None:
    """The room that somebody presents; that he is there is noted."""
    with _lock:
        _expire()
        found = next((room for room in _rooms.values() if room.owner == owner), None)
        if found is not None:
            found.seen = monotonic()
        return found


def start(owner: str, shown: Shown | None = None) -> Room:
    """Begin a class, or show something else in the one that goes on.

    Raises:
        Full: if the server holds as many as it can.
    """
    with _lock:
        found = presented(owner)
        if found is not None:
            show(owner, shown or found.shown)
            return found
        if len(_rooms) >= ROOMS:
            raise Full
        code = next(c for c in iter(_new_code, None) if c not in _rooms and c not in _ended)
        _rooms[code] = Room(code, owner, shown, monotonic())
        return _rooms[code]


def show(owner: str, shown: Shown | None) -> None:
    """Change what everybody sees. The answer to a poll stays until something else is looked at."""
    with _lock:
        found = presented(owner)
        if found is None or found.shown == shown:
            return
        found.shown = shown
        if found.poll is not None and not found.poll.open and place(shown) != found.poll.about:
            found.poll = None
        found.version = next(_ticks)


def ask(owner: str, poll: Poll | None) -> None:
    """Put a question to everybody; None takes it back."""
    with _lock:
        found = presented(owner)
        if found is not None:
            found.poll = poll
            found.version = next(_ticks)


def reveal(owner: str) -> None:
    """Close the poll: everybody sees the counts and what was right."""
    with _lock:
        found = presented(owner)
        if found is not None and found.poll is not None and found.poll.open:
            found.poll.close()
            found.version = next(_ticks)


def end(owner: str) -> None:
    """End the class."""
    with _lock:
        found = presented(owner)
        if found is not None:
            _end(found)


def place(shown: Shown | None) -> tuple:
    """What a poll about this would ask about."""
    if isinstance(shown, ShownRun):
        return (shown.run, *(shown.select or ()))
    return () if shown is None else (shown.topic,)


def _new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def _end(found: Room) -> None:
    del _rooms[found.code]
    found.shown = found.poll = None
    found.version = next(_ticks)
    _ended[found.code] = None
    while len(_ended) > ENDED:
        _ended.popitem(last=False)


def _expire() -> None:
    """The caller holds the lock."""
    for found in [room for room in _rooms.values() if monotonic() - room.seen > AWAY]:
        _end(found)
