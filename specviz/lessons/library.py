"""The texts, read once from their TOML files and checked."""

import tomllib
from dataclasses import dataclass
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
class Source:
    """Where a claim comes from: what it proves, and where to find it (arXiv id, project, or a page here)."""

    what: str
    where: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """One topic. `texts` has one text a reading level, "learner" and "engineer"."""

    number: int
    key: str
    title: str
    predict: Choice
    texts: dict[str, str]
    takeaway: str
    sources: tuple[Source, ...]
    questions: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class RedFlag:
    """A wrong answer that is often heard, and why it is wrong."""

    claim: str
    why: str


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
        follow_ups: what is asked next.
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
    follow_ups: tuple[str, ...]
    red_flags: tuple[RedFlag, ...]
    bullets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Engine:
    """How a project does it: columns of the table in the last lesson."""

    name: str
    drafters: str
    rule: str
    exact: str
    metrics: str
    source: str


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
                "follow_ups": tuple(card["follow_ups"]),
                "bullets": tuple(card["bullets"]),
                "red_flags": tuple(RedFlag(*pair) for pair in card["red_flags"]),
            }
        )
        for card in data
    )


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
        predict=_choice(data["predict"]),
        texts={level: data[level] for level in ("learner", "engineer")},
        takeaway=data["takeaway"],
        sources=tuple(Source(*pair) for pair in data["sources"]),
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
