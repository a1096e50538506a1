"""What a reader has done and found hard, as plain data that a browser keeps and a file carries.

Nothing of it is trusted: `cleaned` takes what fits and leaves the rest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.lessons import library, schedule

FORMAT, VERSION = "specviz-progress", 1
LARGEST = 64 * 1024  # bytes of a file
MOST = 100_000  # of anything counted
GRADES = ("could not say", "partly", "solid", "as a specialist")


def topics() -> set[str]:
    return {lesson.key for lesson in library.lessons()}


def counted(checks: Any, topic: str, right: bool) -> dict[str, list[int]]:
    """`checks`, by topic [right, wrong], with one more answer."""
    found = _checks(checks)
    good, bad = found.get(topic, [0, 0])
    return {**found, topic: [good + right, bad + (not right)]}


@dataclass(frozen=True, slots=True)
class Weakness:
    """A topic and what went wrong there.

    Attributes:
        topic: key of the lesson.
        missed, asked: answers that were wrong or weak, of all that there were.
        cards: keys of the cards not known when last asked.
    """

    topic: str
    missed: int
    asked: int
    cards: tuple[str, ...]

    @property
    def share(self) -> float:
        """Missed of asked, drawn a little towards a half, so that one slip does not outweigh many."""
        return (self.missed + 1) / (self.asked + 2)


def weak_spots(data: Mapping[str, Any]) -> list[Weakness]:
    """Topics in which anything was missed, the weakest first.

    `data` is what is remembered: "card-boxes", "checks", "mock". A card counts as one answer, a mock
    question as one, missed below "solid".
    """
    cards = {card.key: card for card in library.cards()}
    asked = dict.fromkeys(sorted(topics()), 0)
    missed = dict(asked)
    unknown: dict[str, list[str]] = {key: [] for key in asked}
    for key, (box, _) in schedule.boxes_from(data.get("card-boxes"), set(cards)).items():
        topic = cards[key].topic
        asked[topic] += 1
        if box == 0:
            missed[topic] += 1
            unknown[topic].append(key)
    for topic, (right, wrong) in _checks(data.get("checks")).items():
        asked[topic] += right + wrong
        missed[topic] += wrong
    for key, (grade, _) in mock_from(data.get("mock")).items():
        asked[cards[key].topic] += 1
        if grade < 2:
            missed[cards[key].topic] += 1
            if key not in unknown[cards[key].topic]:
                unknown[cards[key].topic].append(key)
    found = [Weakness(t, missed[t], asked[t], tuple(unknown[t])) for t in asked if missed[t]]
    return sorted(found, key=lambda w: (-w.share, w.topic))


def mock_from(data: Any) -> dict[str, tuple[int, int]]:
    """Grades of mock interviews by card: (0 … 3, day), without whatever is none."""
    return schedule.counts_from(data, {card.key for card in library.cards()}, len(GRADES))


def cleaned(data: Any) -> dict[str, Any]:
    """What of some remembered data is progress as we know it."""
    if not isinstance(data, dict):
        return {}
    found: dict[str, Any] = {}
    done = data.get("done")
    if isinstance(done, list):
        found["done"] = sorted({key for key in done if isinstance(key, str) and key in topics()})
    if data.get("level") in ("learner", "engineer"):
        found["level"] = data["level"]
    boxes = schedule.boxes_from(data.get("card-boxes"), {card.key for card in library.cards()})
    if boxes:
        found["card-boxes"] = {key: list(value) for key, value in boxes.items()}
    streaks = data.get("best-streaks")
    if isinstance(streaks, dict):
        found["best-streaks"] = {
            level: n for level, n in streaks.items() if level in ("1", "2", "3") and _small(n)
        }
    checks = _checks(data.get("checks"))
    if checks:
        found["checks"] = checks
    mock = mock_from(data.get("mock"))
    if mock:
        found["mock"] = {key: list(value) for key, value in mock.items()}
    plan = data.get("plan")
    if isinstance(plan, list):
        found["plan"] = sorted({i for i in plan if _small(i) and i < 100})
    return found


def exported(data: Mapping[str, Any]) -> str:
    """The progress as a file."""
    return json.dumps({"format": FORMAT, "version": VERSION, "progress": cleaned(dict(data))}, indent=1)


def imported(content: bytes) -> dict[str, Any]:
    """The progress of a file.

    Raises:
        ValueError: if the file is none of ours, with a sentence for the reader.
    """
    if len(content) > LARGEST:
        raise ValueError("This file is too large to be a file of progress.")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("This file cannot be read: it is not JSON.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError("This is not a file of progress that SpecViz has saved.")
    if data.get("version") != VERSION:
        raise ValueError(f"This file has version {data.get('version')!r}; this SpecViz reads {VERSION}.")
    return cleaned(data.get("progress"))


def _checks(data: Any) -> dict[str, list[int]]:
    if not isinstance(data, dict):
        return {}
    return {
        topic: list(value)
        for topic, value in data.items()
        if topic in topics()
        and isinstance(value, (list, tuple))
        and len(value) == 2
        and all(map(_small, value))
    }


def _small(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST
