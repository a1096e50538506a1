"""Numbers and sentences as data: parts that say what they are, so that every place can show them its way."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Notation = Literal["leviathan", "chen"]
Kind = Literal["text", "token", "target", "draft", "strong", "name"]
GLYPHS = {"accepted": "✓", "rejected": "✗", "discarded": "┄", "corrected": "↻", "bonus": "+"}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a sentence.

    Attributes:
        kind: "text" and "strong" are words of ours; "target" and "draft" are statements of ours about
            the distribution of that model, as in "p = 0.07"; "token" is a token id, whose text is data;
            "name" is a name out of a trace, also data.
        value: the words, or the token id.
    """

    kind: Kind
    value: str | int


Sentence = tuple[Part, ...]


def sentence(*parts: str | Part) -> Sentence:
    return tuple(Part("text", part) if isinstance(part, str) else part for part in parts)


def token(id: int) -> Part:
    return Part("token", id)


def strong(text: str) -> Part:
    return Part("strong", text)


def name(text: str) -> Part:
    return Part("name", text)


def plain(parts: Iterable[Part], show: Callable[[int], str]) -> str:
    """The sentence as one line of plain text; `show` gives the text of a token."""
    return "".join(show(part.value) if isinstance(part.value, int) else part.value for part in parts)


def letters(notation: Notation) -> tuple[str, str]:
    """The letters of target and draft. Leviathan et al. call the target p, Chen et al. call it q."""
    return ("q", "p") if notation == "chen" else ("p", "q")


def number(value: float | None, digits: int = 2) -> str:
    """A number for prose: `digits` significant digits; never rounded to 1 or 0 if it is not.

    "—" for None, powers of ten below 0.0001.
    """
    if value is None:
        return "—"
    if value == 0.0:
        return "0"
    if abs(value) < 1e-4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}×10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    if abs(value) >= 10:
        return f"{value:,.0f}"
    for places in range(digits, 9):
        text = f"{value:#.{places}g}".rstrip(".")
        if float(text) != 1.0 or value == 1.0:
            break
    return "1" if float(text) == 1.0 else text


def apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart."""
    for digits in range(2, 10):
        texts = number(a, digits), number(b, digits)
        if texts[0] != texts[1] or a == b:
            break
    return texts


def count(n: int, noun: str) -> str:
    """A count with its noun, as in "1 token" or "1,204 tokens"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def unbroken(text: str) -> str:
    """The same words, kept on one line."""
    return text.replace(" ", "\u00a0")
