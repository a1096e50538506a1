"""Which hidden states of the target a drafter works from, and how several drafters share one pass."""

from collections.abc import Iterable, Sequence
from typing import Any

# False: none. True: the last hidden states, after the final norm. A tuple: those that go into these layers
# (0 is the first), side by side in this order; `LAST` among them stands for the last hidden state.
Features = bool | tuple[int, ...]
LAST = -1


def together(wanted: Iterable[Features]) -> Features:
    """What one pass has to give so that every drafter gets its own."""
    layers = {layer for each in wanted for layer in _layers(each)}
    return layers == {LAST} or tuple(sorted(layers))


def share(rows: Sequence[Any], asked: Features, wanted: Features) -> Sequence[Any]:
    """The part of each row (width of all that was asked for,) that one drafter wants."""
    if asked == wanted or not wanted:
        return rows if wanted else []
    held = _layers(asked)
    places = [held.index(layer) for layer in _layers(wanted)]
    return [row.reshape(len(held), -1)[places].reshape(-1) for row in rows]


def _layers(features: Features) -> tuple[int, ...]:
    if isinstance(features, bool):
        return (LAST,) if features else ()
    return features
