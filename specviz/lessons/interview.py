"""The plan for two days, and a mock interview: which questions, in which order, and how it went."""

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from specviz.lessons import library
from specviz.lessons.library import Card


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the plan.

    Attributes:
        day, minutes, title, what: when, how long, and what to do.
        page: "rounds", "learn" or "practice"; where to do it.
        parameters: of that page's address.
    """

    day: int
    minutes: int
    title: str
    what: str
    page: str
    parameters: dict[str, str] = field(default_factory=dict)


@lru_cache(maxsize=1)
def plan() -> tuple[Block, ...]:
    data = tomllib.loads((Path(__file__).parent / "plan.toml").read_text(encoding="utf-8"))
    return tuple(
        Block(b["day"], b["minutes"], b["title"], b["what"], b["page"], dict(b["with"]))
        for b in data["block"]
    )


def questions(count: int, seed: int, weak: Collection[str] = ()) -> list[Card]:
    """`count` cards as an interviewer would ask: easy ones first, no two of a topic while others are left.

    Topics in `weak` come first within their level.
    """
    rng = np.random.default_rng([seed, 7])
    cards = library.cards()
    shuffled = [cards[i] for i in rng.permutation(len(cards))]
    shuffled.sort(key=lambda card: card.topic not in weak)
    wanted = {1: max(1, count // 4), 3: count // 3}
    wanted[2] = count - wanted[1] - wanted[3]
    chosen: list[Card] = []
    for level in (1, 2, 3):
        of_level = [card for card in shuffled if card.level == level]
        first: dict[str, Card] = {}
        for card in of_level:
            first.setdefault(card.topic, card)
        taken = {card.topic for card in chosen}
        one_each = sorted(first.values(), key=lambda card: card.topic in taken)
        rest = [card for card in of_level if card not in one_each]
        chosen += [*one_each, *rest][: wanted[level]]
    return chosen


@dataclass(frozen=True, slots=True)
class Answer:
    """How one question went: the card, seconds until "I have answered", and the grade 0 … 3."""

    card: str
    seconds: float
    grade: int


def held(bullets: Sequence[str], said: Collection[int]) -> int:
    """The grade that a checklist suggests: nothing, some, most or all of what a strong answer holds."""
    share = len(set(said) & set(range(len(bullets)))) / len(bullets) if bullets else 0.0
    return 0 if share == 0 else 1 if share < 0.6 else 2 if share < 1 else 3
