"""Spaced repetition: a card that was known moves to a box with a longer rest, else to the first box.

And cramming, for the day before: no rests of days, only a distance of a few cards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.lessons.library import Card

RESTS = (0, 1, 3, 7, 21, 60)
"""Days of rest in box 0 (new, or not known), 1, 2, …"""

AGAIN_AFTER = 3
"""A card that was not known comes back after so many others, if there are as many."""
ONCE_MORE_AFTER = 8
"""In cramming: one that is known at last is asked once more after so many others."""

Boxes = Mapping[str, tuple[int, int]]
"""By card: its box, and the day it is due as a proleptic ordinal (`date.toordinal`)."""


def answered(box: int, known: bool, today: int) -> tuple[int, int]:
    """Box and due day after an answer on day `today`."""
    new = min(box + 1, len(RESTS) - 1) if known else 0
    return new, today + RESTS[new]


def due(cards: Sequence[Card], boxes: Boxes, today: int, recent: Sequence[str] = ()) -> list[Card]:
    """The cards to ask on day `today`: longest overdue first, then new ones in their order.

    Cards in `recent`, the last few that were answered, stand back until that many others were asked.
    """
    seen = [card for card in cards if card.key in boxes and boxes[card.key][1] <= today]
    new = [card for card in cards if card.key not in boxes]
    queue = sorted(seen, key=lambda card: boxes[card.key][1]) + new
    waiting = sorted((card for card in queue if card.key in recent), key=lambda c: list(recent).index(c.key))
    return [card for card in queue if card.key not in recent] + waiting


@dataclass(frozen=True, slots=True)
class Cram:
    """What is left to cram.

    Attributes:
        queue: keys of cards, the next one first.
        missed: those that were not known when last asked.
    """

    queue: tuple[str, ...]
    missed: frozenset[str] = frozenset()


def weakest_first(cards: Sequence[Card], boxes: Boxes) -> list[Card]:
    """Cards once missed, then new ones, then known ones by box; questions asked first before others."""

    def place(card: Card) -> tuple[int, int]:
        box = boxes[card.key][0] if card.key in boxes else None
        return (0 if box == 0 else 1 if box is None else 1 + box, card.level)

    return sorted(cards, key=place)


def crammed(state: Cram, key: str, known: bool) -> Cram:
    """After an answer to the card `key`: gone if known, but once more later if it was missed before."""
    rest = [k for k in state.queue if k != key]
    if not known:
        rest.insert(AGAIN_AFTER, key)
        return Cram(tuple(rest), state.missed | {key})
    if key in state.missed:
        rest.insert(ONCE_MORE_AFTER, key)
    return Cram(tuple(rest), state.missed - {key})


def boxes_from(data: Any, keys: set[str]) -> dict[str, tuple[int, int]]:
    """What a browser remembered, without whatever is not a box of a known card."""
    return counts_from(data, keys, len(RESTS))


def counts_from(data: Any, keys: set[str], below: int) -> dict[str, tuple[int, int]]:
    """Pairs of a number under `below` and a day, by known key, without whatever is none of these."""
    if not isinstance(data, dict):
        return {}
    return {
        key: (value[0], value[1])
        for key, value in data.items()
        if key in keys
        and isinstance(value, (list, tuple))
        and len(value) == 2
        and all(type(v) is int for v in value)
        and 0 <= value[0] < below
        and 0 < value[1] < 10_000_000
    }
