"""Trace files: versioned JSON, gzipped when the name ends in .gz. Whatever is read is checked, once.

The format follows the dataclasses of `trace`: an object per value, a list per tuple. msgspec checks types
and ranges while it parses, and skips fields that it does not know without building them, so that a file
cannot take much more memory than it has bytes. Then `consistency.check` makes sure that the parts fit each
other. Nothing in a file is ever executed.
"""

import gzip
import re
import zlib
from dataclasses import MISSING, fields
from io import BytesIO
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from specviz.decoding.consistency import TraceError, check
from specviz.decoding.ranges import Text, TokenId
from specviz.decoding.trace import TokenText, Trace

__all__ = ["TraceError", "dumps", "load", "loads", "save"]

FORMAT = "specviz-trace"
# A reader takes any minor version of its own major one, and ignores fields that it does not know.
# 1.1 has the log-probabilities of the committed tokens, and the time that recording took.
# 1.2 has what block verification compares its uniforms with.
# 1.3 has what plain decoding took beside the run.
# 1.4 has bias, forced tokens, min new tokens, grammar and conversation, and where the draft's context ends.
# 1.5 has the trees of candidates.
# 1.6 has the recipe as it was written.
VERSION = (1, 6)
MAX_BYTES = 128 * 2**20  # of JSON, after decompression
# Of JSON to its compressed form; real traces have 2 to 30. Reading a file takes at most MAX_RATIO * MEMORY
# times its size and BASE, an uncompressed one MEMORY times and BASE (bytes on top of the interpreter's).
MAX_RATIO = 100
MEMORY = 16
BASE = 32 * 2**20


class _Token(msgspec.Struct, array_like=True, frozen=True):
    """A `TokenText` in a file: [text, special], or [null, special, hex] for bytes that are no characters."""

    text: Text | None
    special: bool
    data: Text = ""


class _Header(msgspec.Struct, frozen=True):
    format: Text = ""
    version: tuple[int, int] = (0, 0)


# What a file holds: the fields of a trace, with texts as they are written.
_File = msgspec.defstruct(
    "_File",
    [
        (
            f.name,
            dict[TokenId, _Token]
            if f.name == "tokens"
            else get_type_hints(Trace, include_extras=True)[f.name],
        )
        for f in fields(Trace)
        if f.default is MISSING
    ]
    + [
        (f.name, get_type_hints(Trace, include_extras=True)[f.name], f.default)
        for f in fields(Trace)
        if f.default is not MISSING
    ],
)


def dumps(trace: Trace, compress: bool = False) -> bytes:
    """UTF-8 JSON, gzipped if asked for. `loads` reads whatever this writes.

    Raises:
        TraceError: if the trace is larger than a file may be.
    """
    head = {"format": FORMAT, "version": VERSION}
    body = {f.name: getattr(trace, f.name) for f in fields(Trace)}
    body["tokens"] = {token: _written(text) for token, text in trace.tokens.items()}
    content = msgspec.json.encode(head | body)
    if len(content) > MAX_BYTES:
        raise TraceError(f"the run is too long for a file: more than {MAX_BYTES // 2**20} MiB")
    if not compress:
        return content
    packed = gzip.compress(content, mtime=0)  # equal traces make equal files
    if len(content) > _unpacked_limit(packed):  # rounds that repeat each other over and over
        packed = gzip.compress(content, compresslevel=0, mtime=0)
    return packed


def loads(content: bytes) -> Trace:
    """A trace from JSON or gzipped JSON (told apart by the content).

    Raises:
        TraceError: if it is not a valid trace or larger than the limits.
    """
    if content[:2] == b"\x1f\x8b":
        content = _unpacked(content)
    if len(content) > MAX_BYTES:
        raise TraceError(f"the trace is larger than {MAX_BYTES // 2**20} MiB")
    try:
        _check_header(content)
        data = msgspec.json.decode(content, type=_File)
    except RecursionError:
        raise TraceError("the JSON is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise TraceError(_located(str(error))) from None
    except TraceError:
        raise
    except ValueError as error:  # msgspec's own, and Python's for numbers of too many digits
        raise TraceError(f"not valid JSON: {error}") from None
    values: dict[str, Any] = {f.name: getattr(data, f.name) for f in fields(Trace)}
    values["tokens"] = {token: _read(text, token) for token, text in values["tokens"].items()}
    trace = Trace(**values)
    check(trace)
    return trace


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace; gzipped when the name ends in .gz."""
    path = Path(path)
    path.write_bytes(dumps(trace, compress=path.suffix == ".gz"))


def load(path: str | Path) -> Trace:
    """Read a trace.

    Raises:
        TraceError: if the content is not a valid trace.
        OSError: if the file cannot be read.
    """
    path = Path(path)
    if path.stat().st_size > MAX_BYTES:
        raise TraceError(f"{path.name} is larger than {MAX_BYTES // 2**20} MiB")
    return loads(path.read_bytes())


def _unpacked_limit(packed: bytes) -> int:
    return min(MAX_BYTES, MAX_RATIO * len(packed))


def _unpacked(content: bytes) -> bytes:
    limit = _unpacked_limit(content)
    try:
        with gzip.open(BytesIO(content)) as stream:
            unpacked = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"the gzip data are damaged: {error}") from None
    if len(unpacked) > limit:
        raise TraceError(
            f"the file unpacks to more than {limit / 2**20:.1f} MiB, {MAX_RATIO} times its size at most, "
            "which no trace does"
        )
    return unpacked


def _check_header(content: bytes) -> None:
    try:
        header = msgspec.json.decode(content, type=_Header)
    except msgspec.ValidationError as error:
        raise TraceError(f"not a SpecViz trace: {_located(str(error))}") from None
    if header.format != FORMAT:
        raise TraceError(f'not a SpecViz trace: the field "format" should be "{FORMAT}"')
    if header.version[0] != VERSION[0]:
        major, minor = header.version
        raise TraceError(
            f"the trace has format version {major}.{minor}; this SpecViz reads versions {VERSION[0]}.x"
        )


def _located(message: str) -> str:
    """A message of msgspec's with the field in front."""
    problem, _, path = message.partition(" - at `")
    path = re.sub(r"`.*", "", path.removeprefix("key` in `")).removeprefix("$")
    return f"trace{path}: {problem[:1].lower()}{problem[1:]}".replace("`", "")


def _written(token: TokenText) -> _Token | list[Any]:
    try:
        return [token.data.decode("utf-8"), token.special]
    except UnicodeDecodeError:
        return [None, token.special, token.data.hex()]


def _read(token: _Token, id: int) -> TokenText:
    if (token.text is None) == (not token.data):
        raise TraceError(
            f"trace.tokens[{id}] should be [text, special] or [null, special, hexadecimal bytes]"
        )
    if token.text is not None:
        return TokenText(token.text.encode(), token.special)
    try:
        return TokenText(bytes.fromhex(token.data), token.special)
    except ValueError:
        raise TraceError(f"trace.tokens[{id}] has no hexadecimal bytes") from None
