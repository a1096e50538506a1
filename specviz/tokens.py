"""How tokens look: every byte is shown, nothing that is invisible stays so, and characters stay whole.

A token is a run of bytes, and neither its edges nor its content are those of ordinary text: it may hold
half a character, only spaces, or a character that changes the direction of whatever follows. Its bytes
become `Piece` values that say what they are; whoever draws them decides how each kind looks. Pieces are
data. They are never put into markup.
"""

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple
from unicodedata import bidirectional, category

from specviz.decoding.trace import TokenText, Trace

Show = Callable[[int], str]
"""The text of a token, by its id."""

Kind = Literal["text", "space", "newline", "tab", "invisible", "control", "byte", "special"]

ZWJ = "\u200d"
JOINERS = "\u200c" + ZWJ
REGIONAL = "".join(map(chr, range(0x1F1E6, 0x1F200)))  # two of them are a flag
# A stray byte b is carried through a string as U+DC00 + b, as Python's "surrogateescape" does.
STRAY = range(0xDC80, 0xDD00)
# Explicit embeddings, overrides and isolates: left in a text they would reorder what surrounds them.
REORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
# Characters shown of one token or group. No tokenizer has longer tokens; a file might.
LONGEST = 512


class Piece(NamedTuple):
    """A part of a token that is drawn in one way.

    Attributes:
        kind: "text" as it is; "space", "newline", "tab" to be made visible; "invisible" a character that
            draws nothing but belongs in running text (joiners, other spaces); "control" the code points of
            characters that must not act; "byte" hexadecimal bytes that form no character; "special" the
            name of a control token.
        text: the characters themselves, or the code points, bytes or name in words.
    """

    kind: Kind
    text: str


class Group(NamedTuple):
    """Neighbouring tokens, ``start`` up to ``stop``, that only together are whole characters."""

    start: int
    stop: int
    pieces: tuple[Piece, ...]


def pieces(token: TokenText) -> tuple[Piece, ...]:
    """The pieces of one token. None for a token that stands for no bytes."""
    if token.special:
        name = "".join(map(visible_piece, _pieces(_decode(token.data))))
        return (Piece("special", name or "special"),)
    return _pieces(_decode(token.data))


def visible(token: TokenText) -> str:
    """One line of plain text for charts, tables and sentences, as in ``␣which`` or ``⟨f0 9f⟩``.

    Right-to-left text is isolated, so that numbers beside it stay where they are.
    """
    shown = "".join(map(visible_piece, pieces(token))) or "∅"
    return f"\u2068{shown}\u2069" if any(bidirectional(ch) in {"R", "AL"} for ch in shown) else shown


def shower(trace: Trace) -> Show:
    """The text of a token of this trace."""
    return lambda token: visible(trace.tokens[token])


def visible_piece(piece: Piece) -> str:
    match piece.kind:
        case "space":
            return "␣" * len(piece.text)
        case "newline":
            return "↵" * len(piece.text)
        case "tab":
            return "⇥" * len(piece.text)
        case "invisible":
            return f"⟨{' '.join(map(_code_point, piece.text))}⟩"
        case "byte" | "control":
            return f"⟨{piece.text}⟩"
    return piece.text


def groups(tokens: Sequence[TokenText]) -> list[Group]:
    """The tokens of a text, put together where a character spans several of them.

    A token stays with its neighbour if the bytes of a code point, or the code points of one visible
    character (combining marks, joined emoji, flags), are spread over both. Special tokens stand alone.
    Bytes that never become a character are shown as bytes.
    """
    merged: list[_Unit] = []
    for unit in _units(tokens):
        if merged and _joins(merged[-1], unit):
            last = merged.pop()
            unit = _Unit(last.start, unit.stop, last.text + unit.text)
        merged.append(unit)
    return [Group(u.start, u.stop, pieces(tokens[u.start]) if u.special else _pieces(u.text)) for u in merged]


class _Unit(NamedTuple):
    """Tokens whose bytes are whole code points, as text."""

    start: int
    stop: int
    text: str
    special: bool = False


def _units(tokens: Sequence[TokenText]) -> Iterable[_Unit]:
    decoder = getincrementaldecoder("utf-8")("surrogateescape")
    start, text = 0, ""
    for i, token in enumerate(tokens):
        if token.special:
            text += decoder.decode(b"", final=True)
            if start < i:
                yield _Unit(start, i, text)
            yield _Unit(i, i + 1, "", special=True)
            decoder.reset()
            start, text = i + 1, ""
            continue
        text += decoder.decode(token.data)
        incomplete, _ = decoder.getstate()
        if not incomplete:
            yield _Unit(start, i + 1, text)
            start, text = i + 1, ""
    if start < len(tokens):
        yield _Unit(start, len(tokens), text + decoder.decode(b"", final=True))


def _joins(left: _Unit, right: _Unit) -> bool:
    """Whether a visible character spans the border; the common cases of Unicode's annex 29."""
    if not left.text or not right.text:
        return False
    before, after = left.text[-1], right.text[0]
    if before.isspace() or category(before) in {"Cc", "Cs"}:
        return False
    if before == ZWJ or _attaches(after):
        return True
    flags = len(left.text) - len(left.text.rstrip(REGIONAL))
    return after in REGIONAL and flags % 2 == 1


def _attaches(ch: str) -> bool:
    """Whether a character changes the one before it: marks, joiners, skin tones, tags."""
    return category(ch).startswith("M") or ch in JOINERS or _is_emoji_suffix(ch)


def _is_emoji_suffix(ch: str) -> bool:
    return 0x1F3FB <= ord(ch) <= 0x1F3FF or 0xE0020 <= ord(ch) <= 0xE007F


def _decode(data: bytes) -> str:
    return data.decode("utf-8", errors="surrogateescape")


def _pieces(text: str) -> tuple[Piece, ...]:
    shown = _shown_pieces(text[:LONGEST])
    if len(text) <= LONGEST:
        return shown
    return (*shown, Piece("control", f"… {len(text) - LONGEST:,} more characters"))


@lru_cache(maxsize=8192)
def _shown_pieces(shown: str) -> tuple[Piece, ...]:
    kinds = [_kind(ch) for ch in shown]
    for i in range(1, len(kinds)):
        # Behind a visible character these change how it looks; a joiner needs another one to join.
        last = i + 1 == len(kinds)
        if kinds[i] == "invisible" and kinds[i - 1] == "text" and _attaches(shown[i]):
            kinds[i] = "invisible" if last and shown[i] in JOINERS else "text"
    result = []
    for kind, run in groupby(zip(kinds, shown, strict=True), key=lambda pair: pair[0]):
        result.append(Piece(kind, _shown(kind, "".join(ch for _, ch in run))))
    return tuple(result)


def _shown(kind: Kind, run: str) -> str:
    match kind:
        case "byte":
            return " ".join(f"{ord(ch) - 0xDC00:02x}" for ch in run)
        case "control":
            return " ".join(map(_code_point, run))
    return run


def _code_point(ch: str) -> str:
    return f"U+{ord(ch):04X}"


@lru_cache(maxsize=4096)
def _kind(ch: str) -> Kind:
    simple: dict[str, Kind] = {" ": "space", "\n": "newline", "\t": "tab"}
    if ch in simple:
        return simple[ch]
    if ord(ch) in STRAY:
        return "byte"
    if category(ch) in {"Cc", "Zl", "Zp"} or bidirectional(ch) in REORDERING:
        return "control"
    variation = 0xFE00 <= ord(ch) <= 0xFE0F or 0xE0100 <= ord(ch) <= 0xE01EF
    return "invisible" if category(ch) in {"Cf", "Zs"} or variation else "text"
