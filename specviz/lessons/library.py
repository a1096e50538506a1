"""The texts, read once from their TOML files and checked."""

import tomllib
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from specviz.lessons.facts import fill

HERE = Path(__file__).parent
LEVELS = ("easy", "solid", "expert")


@dataclass(frozen=True, slots=True)
class Choice:
    """A question with options, one of them right.

    Attributes:
        question: the question; markdown, formulas in dollar signs.
        options: the options in the order they are written.
        answer: index of the right one.
        why: what makes it right, and the tempting one wrong.
    """

    question: str
    options: tuple[str, ...]
    answer: int
    why: str


@dataclass(frozen=True, slots=True)
class Reference:
    """Something that was opened before it was cited.

    Attributes:
        key: short name by which the lessons cite it.
        where: where to find it.
        shows: what it shows, in a line.
        kind: "paper", "thread", "code", "docs", or "here" for a check of ours. Papers and our own checks
            do not age; what engines do does.
        read: the day it was last opened; None for our own.
        version: version or commit of the project as it was read, "" where that means nothing.
    """

    key: str
    where: str
    shows: str
    kind: str
    read: date | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A claim of a lesson, and the reference that it comes from."""

    what: str
    reference: Reference


@dataclass(frozen=True, slots=True)
class Cell:
    """A few lines of Python that run as they stand, and what they print."""

    code: str
    prints: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """One topic.

    Attributes:
        number, key, title: place in the order, stable name, title.
        minutes: what a lecturer should plan for it.
        objectives: what a student can do afterwards, each completing "you can …".
        predict: the question that is asked before anything is told.
        texts: one text a reading level, "learner" and "engineer".
        pictures: names in `pictures.PICTURES`.
        pseudocode: the procedure as an engineer would sketch it, or "".
        cell: the same, to run; or None.
        takeaway: one or two sentences to remember.
        sources: what is claimed, and from where.
        questions: to check oneself, at least two.
    """

    number: int
    key: str
    title: str
    minutes: int
    objectives: tuple[str, ...]
    predict: Choice
    texts: dict[str, str]
    pictures: tuple[str, ...]
    pseudocode: str
    cell: Cell | None
    takeaway: str
    sources: tuple[Source, ...]
    questions: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class RedFlag:
    """A wrong answer that is often heard, and why it is wrong."""

    claim: str
    why: str


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What an interviewer asks next, and what a good answer says."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Card:
    """An interview question.

    Attributes:
        key: stable name.
        topic: key of the lesson it belongs to.
        level: 1 (asked first) to 3 (asked of a specialist).
        question: as the interviewer puts it.
        short, solid, expert: answers at three levels, each complete in itself.
        listens_for: what tells the interviewer that the candidate understands.
        follow_ups: what is asked next, with an answer in a line or two.
        red_flags: wrong answers.
        bullets: what to say in a minute.
    """

    key: str
    topic: str
    level: int
    question: str
    short: str
    solid: str
    expert: str
    listens_for: str
    follow_ups: tuple[FollowUp, ...]
    red_flags: tuple[RedFlag, ...]
    bullets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Engine:
    """How a project does it, as its own source said on the day it was read."""

    name: str
    drafters: str
    rule: str
    exact: str
    metrics: str
    source: str
    version: str
    read: date


@dataclass(frozen=True, slots=True)
class Symptom:
    """A fault: the surface it belongs to, what it does to output and acceptance, and what catches it."""

    fault: str
    surface: str
    output: str
    acceptance: str
    caught: str


@lru_cache(maxsize=1)
def lessons() -> tuple[Lesson, ...]:
    """All lessons, in order."""
    return tuple(_lesson(path) for path in sorted((HERE / "topics").glob("*.toml")))


def lesson(key: str) -> Lesson:
    """The lesson of that key.

    Raises:
        KeyError: if there is none.
    """
    return {entry.key: entry for entry in lessons()}[key]


@lru_cache(maxsize=1)
def intro() -> dict[str, str]:
    """The opening analogy: "title", "analogy", and where it "breaks"."""
    return _read(HERE / "intro.toml")


@lru_cache(maxsize=1)
def cards() -> tuple[Card, ...]:
    """All interview cards."""
    data = [card for path in sorted((HERE / "cards").glob("*.toml")) for card in _read(path)["card"]]
    return tuple(
        Card(
            **{
                **card,
                "follow_ups": tuple(FollowUp(*pair) for pair in card["follow_ups"]),
                "bullets": tuple(card["bullets"]),
                "red_flags": tuple(RedFlag(*pair) for pair in card["red_flags"]),
            }
        )
        for card in data
    )


@lru_cache(maxsize=1)
def references() -> dict[str, Reference]:
    """Everything that is cited, by key."""
    return {key: Reference(key, **entry) for key, entry in sorted(_read(HERE / "references.toml").items())}


def ageing(today: date, days: int) -> list[tuple[str, str, date]]:
    """Facts about other projects last read more than `days` ago: (name, where, day read), oldest first."""
    moving = [
        (r.key, r.where, r.read)
        for r in references().values()
        if r.kind in ("thread", "code", "docs") and r.read is not None
    ]
    moving += [(e.name, e.source, e.read) for e in engines()]
    return sorted((f for f in moving if (today - f[2]).days > days), key=lambda f: (f[2], f[0]))


@lru_cache(maxsize=1)
def engines() -> tuple[Engine, ...]:
    """What known projects do."""
    return tuple(Engine(**entry) for entry in _read(HERE / "engines.toml")["engine"])


@lru_cache(maxsize=1)
def symptoms() -> tuple[Symptom, ...]:
    """Typical faults."""
    return tuple(Symptom(**entry) for entry in _read(HERE / "symptoms.toml")["symptom"])


def _lesson(path: Path) -> Lesson:
    data = _read(path)
    return Lesson(
        number=int(path.stem.split("-")[0]),
        key=path.stem.split("-", 1)[1],
        title=data["title"],
        minutes=data["minutes"],
        objectives=tuple(data["objectives"]),
        predict=_choice(data["predict"]),
        texts={level: data[level] for level in ("learner", "engineer")},
        pictures=tuple(data.get("pictures", ())),
        pseudocode=data.get("pseudocode", ""),
        cell=Cell(data["cell"]["code"], data["cell"]["prints"]) if "cell" in data else None,
        takeaway=data["takeaway"],
        sources=tuple(Source(what, references()[key]) for what, key in data["sources"]),
        questions=tuple(_choice(entry) for entry in data["questions"]),
    )


def _choice(data: dict[str, Any]) -> Choice:
    options, answer = list(data["options"]), data["answer"]
    if not 0 <= answer < len(options):
        raise ValueError(f"no option {answer}: {data['question']}")
    if not data.get("ordered"):
        # Turned by the text's own hash, so that the place of the right answer tells nothing.
        turn = crc32(data["question"].encode()) % len(options)
        options, answer = options[turn:] + options[:turn], (answer - turn) % len(options)
    return Choice(data["question"], tuple(options), answer, data["why"])


def _read(path: Path) -> dict[str, Any]:
    return _filled(tomllib.loads(path.read_text(encoding="utf-8")))


def _filled(value: Any) -> Any:
    if isinstance(value, str):
        return fill(value).strip()
    if isinstance(value, dict):
        return {key: _filled(entry) for key, entry in value.items()}
    return [_filled(entry) for entry in value] if isinstance(value, list) else value
