"""Guided tours as data: which page, with which settings and selection, and what to look at there."""

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from specviz.decoding.position import Position
from specviz.decoding.trace import Trace
from specviz.lessons import worked

SELECTIONS = ("accepted", "rejected", "discarded", "corrected", "bonus")


@dataclass(frozen=True, slots=True)
class Step:
    """A stop of a tour.

    Attributes:
        page: "rounds", "exactness", "debug", "drafters", "learn" or "practice".
        title, text: what is said there.
        run: rounds, exactness: name of the recorded run.
        select: rounds, exactness: one of `SELECTIONS`, or "".
        topic: learn: key of the lesson.
        practice: practice: name of the section.
        level: learn: "learner" or "engineer".
        mistakes: practice, order: how many mistakes are mixed in.
        game: practice, verdict: the level of the game.
        cards: practice, cards: "due today", "cram" or "all".
        hides: rounds: True keeps every verdict covered until it is revealed.
    """

    page: str
    title: str
    text: str
    run: str = ""
    select: str = ""
    topic: str = ""
    practice: str = ""
    level: str = ""
    mistakes: int | None = None
    game: int | None = None
    cards: str = ""
    hides: bool = False

    def parameters(self, trace: Trace | None) -> dict[str, str]:
        """The address's parameters; `trace` is the run's, if there is one.

        Raises:
            ValueError: if the run has no such place.
        """
        given = {"run": self.run, "topic": self.topic, "practice": self.practice}
        found = {name: value for name, value in given.items() if value}
        if self.hides:
            found["lock"] = "1"
        if self.select and trace is not None:
            number, position = place(trace, self.select)
            found["sel"] = f"{number}.{position}"
        return found


@dataclass(frozen=True, slots=True)
class Tour:
    """A tour; `door` is what the first screen calls it, "" if it does not offer it."""

    key: str
    title: str
    about: str
    steps: tuple[Step, ...]
    door: str = ""


@lru_cache(maxsize=1)
def tours() -> tuple[Tour, ...]:
    data = tomllib.loads((Path(__file__).parent / "tours.toml").read_text(encoding="utf-8"))
    return tuple(Tour(**{**t, "steps": tuple(Step(**step) for step in t["steps"])}) for t in data["tour"])


def place(trace: Trace, what: str) -> tuple[int, int]:
    """(round, position) of a telling place of a run: where its acceptance was open, about one half.

    Raises:
        ValueError: if the run has none, or `what` is not in `SELECTIONS`.
    """
    if what == "bonus":
        full = worked.bonus_round(trace)
        if full is None:
            raise ValueError("no round of this run ended with a bonus")
        return full.number, full.k + 1
    if what not in SELECTIONS:
        raise ValueError(f"no selection {what!r}")
    whole = [r for r in trace.rounds if 0 < r.accepted < r.k - 1]
    if not whole:
        raise ValueError("no round of this run has accepted, rejected and discarded tokens")
    round = min(whole, key=lambda r: _openness(r.positions[r.accepted]))
    accepted = min(range(round.accepted), key=lambda i: _openness(round.positions[i]))
    positions = {
        "accepted": accepted + 1,
        "rejected": round.accepted + 1,
        "discarded": round.accepted + 2,
        "corrected": round.k + 1,
    }
    return round.number, positions[what]


def _openness(row: Position) -> float:
    """How far a draft token's accept probability is from one half, 0 … ½."""
    return abs((row.accept_probability or 0.0) - 0.5)
