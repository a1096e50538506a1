"""Where a text ends: at EOS, at a stop string, at its limit, or where the target's context is full."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specviz.decoding.trace import Finish, TokenText


@dataclass(frozen=True, slots=True)
class Ends:
    """What may end a text, when a round is about to commit.

    Attributes:
        eos_ids: ids that end it.
        stop: strings that end it, as UTF-8 bytes, none of them empty.
        limit: tokens that may still be emitted, 1 or more.
        context: tokens that may still be committed before the target can be fed no more.
        tail: the end of the emitted bytes, as far back as a stop string may begin.
    """

    eos_ids: frozenset[int]
    stop: tuple[bytes, ...]
    limit: int
    context: int
    tail: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """What is committed of the verified tokens.

    Attributes:
        tokens: up to and including the first that ends the text.
        finish: why it ends there, or None.
        tail: as in `Ends`, after these tokens.
    """

    tokens: tuple[int, ...]
    finish: Finish | None
    tail: bytes


Cutter = Callable[[Sequence[int], Ends, Callable[[int], TokenText]], Cut]


def cut(tokens: Sequence[int], ends: Ends, text_of: Callable[[int], TokenText]) -> Cut:
    """Cut verified tokens at the first that ends the text.

    Args:
        tokens: at least one.
        ends: what ends it.
        text_of: the text of a token; asked for only where there are stop strings.
    """
    tail = ends.tail
    reach = max(map(len, ends.stop), default=1) - 1
    for count, token in enumerate(tokens, 1):
        finish: Finish | None = None
        if token in ends.eos_ids:
            finish = "eos"
        elif ends.stop:
            text = text_of(token)
            tail += b"" if text.special else text.data
            if any(stop in tail for stop in ends.stop):
                finish = "stop"
            tail = tail[-reach:] if reach else b""
        if finish is None and count == ends.limit:
            finish = "length"
        if finish is not None:
            return Cut(tuple(tokens[:count]), finish, tail)
    # The target must be fed everything committed before it can say what follows.
    return Cut(tuple(tokens), "context" if len(tokens) > ends.context else None, tail)
