"""The device that all sessions share: one thread makes every pass of a model, a turn at a time.

Whoever wants the models joins a queue. Owners take turns, whatever each of them has waiting, so that a
session with ten jobs gets no more of the device than one with a single run. One thread for all passes also
means one team of torch threads, however many sessions there are. Pairs are loaded beside the turns (see
`pairs`); only the moment in which a model is built waits for the end of a turn.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread, current_thread
from typing import Any, TypeVar

from specviz.models.steady import STEADY

T = TypeVar("T")
Turn = Callable[[], None]


class Device:
    """Turns waiting by owner, and the thread that makes them."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Turn]] = OrderedDict()
        self._news = Condition()
        self._thread: Thread | None = None
        self._busy = False

    def join(self, owner: str, turn: Turn) -> None:
        """Queue a turn. It must not raise: nobody is there to hear it."""
        with self._news:
            self._waiting.setdefault(owner, deque()).append(turn)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="specviz device", daemon=True)
                self._thread.start()
            self._news.notify()

    def leave(self, owner: str, turn: Turn) -> bool:
        """Take a turn out of the queue; False if it is not there (any more)."""
        with self._news:
            mine = self._waiting.get(owner)
            if mine is None or turn not in mine:
                return False
            mine.remove(turn)
            if not mine:
                del self._waiting[owner]
            return True

    def ahead(self, owner: str, turn: Turn) -> int | None:
        """How many turns come before this one; None if it is not waiting."""
        with self._news:
            mine = self._waiting.get(owner)
            if mine is None or turn not in mine:
                return None
            depth = mine.index(turn)
            owners = list(self._waiting)
            at = owners.index(owner)
            before = sum(min(len(turns), depth + (i < at)) for i, turns in enumerate(self._waiting.values()))
            return before + self._busy

    def users(self) -> int:
        """How many owners have turns waiting or being made."""
        with self._news:
            return len(self._waiting) + self._busy

    def do(self, make: Callable[[], T], owner: str = "") -> T:
        """Make a turn of one's own, wait for it, and return what it gives; raises what it raises."""
        if current_thread() is self._thread:
            return make()
        future: Future[T] = Future()

        def turn() -> None:
            try:
                future.set_result(make())
            except BaseException as error:
                future.set_exception(error)

        self.join(owner, turn)
        return future.result()

    def _work(self) -> None:
        while True:
            with self._news:
                while not self._waiting:
                    self._news.wait()
                owner, turns = self._waiting.popitem(last=False)
                turn = turns.popleft()
                if turns:
                    self._waiting[owner] = turns
                self._busy = True
            try:
                with STEADY.passing():  # pairs are loaded beside it
                    turn()
            finally:
                with self._news:
                    self._busy = False
            del turn  # what it holds must not outlive it


DEVICE = Device()


def do(make: Callable[[], Any], owner: str = "") -> Any:
    """`Device.do` on the server's device."""
    return DEVICE.do(make, owner)
