"""Spaced repetition: a card that was known moves to a box with a longer rest, else to the first box."""

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.lessons.library import Card

RESTS = (0, 1, 3, 7, 21, 60)
"""Days of rest in box 0 (new, or not known), 1, 2, …"""

Boxes = Mapping[str, tuple[int, int]]
"""By card: its box, and the day it is due as a proleptic ordinal (`date.toordinal`)."""


def answered(box: int, known: bool, today: int) -> tuple[int, int]:
    """Box and due day after an answer on day `today`."""
    new = min(box + 1, len(RESTS) - 1) if known else 0
    return new, today + RESTS[new]


def due(cards: Sequence[Card], boxes: Boxes, today: int) -> list[Card]:
    """The cards to ask on day `today`: longest overdue first, then new ones in their order."""
    seen = [card for card in cards if card.key in boxes and boxes[card.key][1] <= today]
    new = [card for card in cards if card.key not in boxes]
    return sorted(seen, key=lambda card: boxes[card.key][1]) + new


def boxes_from(data: Any, keys: set[str]) -> dict[str, tuple[int, int]]:
    """What a browser remembered, without whatever is not a box of a known card."""
    if not isinstance(data, dict):
        return {}
    return {
        key: (value[0], value[1])
        for key, value in data.items()
        if key in keys
        and isinstance(value, (list, tuple))
        and len(value) == 2
        and all(type(v) is int for v in value)
        and 0 <= value[0] < len(RESTS)
        and 0 < value[1] < 10_000_000
    }
