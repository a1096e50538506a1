"""Trace files: versioned JSON, gzipped when the name ends in .gz. Whatever is read is checked.

The format follows the dataclasses of `trace`: an object per value, a list per tuple. Reading checks
every type, range and size, refuses NaN and infinity, and names the field that is wrong. Nothing in a
file is ever executed.
"""

import gzip
import json
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from specviz.decoding.trace import Position, Round, TokenText, Trace

FORMAT = "specviz-trace"
# A reader takes any minor version of its own major one, and ignores fields that it does not know.
VERSION = (1, 0)
MAX_BYTES = 128 * 2**20  # of JSON, after decompression
MAX_ITEMS = 200_000  # of any one list
MAX_TEXT = 1_000_000  # characters of any one string


class TraceError(ValueError):
    """A file that is not a valid trace; the message names the field."""


def to_dict(trace: Trace) -> dict[str, Any]:
    """Plain JSON values, with the format's name and version."""
    return {"format": FORMAT, "version": list(VERSION), **_plain(trace)}


def from_dict(data: Any) -> Trace:
    """The trace that `to_dict` described.

    Raises:
        TraceError: for anything else, an unknown major version included.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TraceError(f'not a SpecViz trace: the field "format" should be "{FORMAT}"')
    version = data.get("version")
    if not (isinstance(version, list) and len(version) == 2 and all(type(v) is int for v in version)):
        raise TraceError('the field "version" should be a list of two whole numbers')
    if version[0] != VERSION[0]:
        raise TraceError(
            f"the trace has format version {version[0]}.{version[1]}; "
            f"this SpecViz reads versions {VERSION[0]}.x"
        )
    trace = _decoder(Trace)(data, "trace")
    _check(trace)
    return trace


def dumps(trace: Trace) -> bytes:
    """UTF-8 JSON."""
    text = json.dumps(to_dict(trace), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def loads(content: bytes) -> Trace:
    """A trace from JSON or gzipped JSON (told apart by the content).

    Raises:
        TraceError: if it is not a valid trace or larger than the limits.
    """
    if content[:2] == b"\x1f\x8b":
        try:
            with gzip.open(BytesIO(content)) as stream:
                content = stream.read(MAX_BYTES + 1)
        except (OSError, EOFError) as error:
            raise TraceError(f"the gzip data are damaged: {error}") from None
    if len(content) > MAX_BYTES:
        raise TraceError(f"the trace is larger than {MAX_BYTES // 2**20} MiB")
    try:
        data = json.loads(content, parse_constant=_refuse_constant)
    except RecursionError:
        raise TraceError("the JSON is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"not valid JSON: {error}") from None
    return from_dict(data)


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace; gzipped when the name ends in .gz."""
    path = Path(path)
    content = dumps(trace)
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # equal traces make equal files
    path.write_bytes(content)


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


def _refuse_constant(name: str) -> None:
    raise TraceError(f"the JSON contains {name}, which is not a number")


def _plain(value: Any) -> Any:
    if isinstance(value, TokenText):
        return _token_to_list(value)
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _token_to_list(token: TokenText) -> list[Any]:
    """[text, special], or [null, special, hex] for bytes that are no whole characters."""
    try:
        return [token.data.decode("utf-8"), token.special]
    except UnicodeDecodeError:
        return [None, token.special, token.data.hex()]


def _token_from_list(data: Any, where: str) -> TokenText:
    if isinstance(data, list) and len(data) in (2, 3) and isinstance(data[1], bool):
        if len(data) == 2 and isinstance(data[0], str):
            return TokenText(_utf8(data[0], where), data[1])
        if len(data) == 3 and data[0] is None and isinstance(data[2], str):
            try:
                return TokenText(bytes.fromhex(data[2]), data[1])
            except ValueError:
                pass
    raise TraceError(f"{where} should be [text, special] or [null, special, hexadecimal bytes]")


def _utf8(text: str, where: str) -> bytes:
    if len(text) > MAX_TEXT:
        raise TraceError(f"{where} is longer than {MAX_TEXT} characters")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TraceError(f"{where} contains half of a surrogate pair, which is no character") from None


Decoder = Callable[[Any, str], Any]


@cache
def _decoder(kind: Any) -> Decoder:
    """A function that checks a JSON value against a type hint and builds the value."""
    if kind is TokenText:
        return _token_from_list
    if is_dataclass(kind):
        return _dataclass_decoder(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = _decoder(next(a for a in args if a is not type(None)))
        return lambda value, where: None if value is None else inner(value, where)
    if origin is tuple:
        return _list_decoder(_decoder(args[0]))
    if origin is dict:
        return _tokens_decoder(_decoder(args[1]))
    if origin is Literal:
        return _choice_decoder(args)
    return _scalar_decoder(kind)


def _dataclass_decoder(cls: Any) -> Decoder:
    hints = get_type_hints(cls)
    members = [(f, _decoder(hints[f.name]), f.metadata.get("range")) for f in fields(cls)]

    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise TraceError(f"{where} should be an object")
        built = {}
        for member, decoder, limits in members:
            place = f"{where}.{member.name}"
            if member.name not in value:
                raise TraceError(f"{place} is missing")
            built[member.name] = item = decoder(value[member.name], place)
            if limits is not None:
                _check_range(item, limits, place)
        try:
            return cls(**built)
        except ValueError as error:  # the values' own checks, such as those of the sampling controls
            raise TraceError(f"{where}: {error}") from None

    return decode


def _check_range(value: Any, limits: tuple[float, float], where: str) -> None:
    for item in value if isinstance(value, tuple) else (value,):
        if item is not None and not limits[0] <= item <= limits[1]:
            raise TraceError(f"{where} should lie in {limits[0]} … {limits[1]}, not be {item}")


def _list_decoder(item: Decoder) -> Decoder:
    def decode(value: Any, where: str) -> tuple:
        if not isinstance(value, list):
            raise TraceError(f"{where} should be a list")
        if len(value) > MAX_ITEMS:
            raise TraceError(f"{where} has more than {MAX_ITEMS} items")
        return tuple([item(element, f"{where}[{i}]") for i, element in enumerate(value)])

    return decode


def _tokens_decoder(item: Decoder) -> Decoder:
    def decode(value: Any, where: str) -> dict[int, Any]:
        if not isinstance(value, dict):
            raise TraceError(f"{where} should be an object")
        if len(value) > MAX_ITEMS:
            raise TraceError(f"{where} has more than {MAX_ITEMS} items")
        if not all(key.isascii() and key.isdigit() and len(key) < 12 for key in value):
            raise TraceError(f"the keys of {where} should be token ids")
        return {int(key): item(element, f"{where}[{key}]") for key, element in value.items()}

    return decode


def _choice_decoder(choices: tuple) -> Decoder:
    def decode(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise TraceError(f"{where} should be one of {', '.join(map(repr, choices))}")
        return value

    return decode


def _scalar_decoder(kind: type) -> Decoder:
    def decode(value: Any, where: str) -> Any:
        if kind is float:
            if type(value) is int and abs(value) < 2**63:
                return float(value)
            if type(value) is not float or not isfinite(value):
                raise TraceError(f"{where} should be a finite number")
            return value
        if type(value) is not kind:
            raise TraceError(f"{where} should be of type {kind.__name__}")
        if isinstance(value, str):
            _utf8(value, where)
        return value

    return decode


def _check(trace: Trace) -> None:
    """What types alone do not say: that the parts of a trace fit each other."""
    start = len(trace.prompt_ids)
    for i, round in enumerate(trace.rounds):
        where = f"trace.rounds[{i}]"
        if round.number != i + 1:
            raise TraceError(f"{where}.number should be {i + 1}")
        if round.start != start:
            raise TraceError(f"{where}.start should be {start}, the committed tokens before it")
        start += len(round.committed)
        _check_round(round, where)


def _check_round(round: Round, where: str) -> None:
    if not round.positions or round.accepted > round.k:
        raise TraceError(f"{where}.accepted should be at most the number of draft tokens")
    for row, position in enumerate(round.positions):
        _check_position(position, row == round.k, f"{where}.positions[{row}]")
    if (round.outcome == "bonus") != (round.accepted == round.k):
        raise TraceError(f"{where}.outcome does not fit the number of accepted tokens")
    verified = (*round.draft_tokens[: round.accepted], round.token)
    if not round.committed or round.committed != verified[: len(round.committed)]:
        raise TraceError(f"{where}.committed should be the accepted tokens and the token after them")


def _check_position(position: Position, last: bool, where: str) -> None:
    drafted = (position.token, position.p, position.q, position.beta, position.residual_mass)
    if any((value is None) != last for value in drafted):
        raise TraceError(f"{where}: token, p, q, beta and residual_mass are given for draft tokens only")
    if not last and position.q == 0.0:
        raise TraceError(f"{where}.q should be above 0: the token was drawn from q")
    if last != (position.state in ("bonus", "unused")):
        raise TraceError(f"{where}.state does not fit its place in the round")
    table = position.table
    if len({len(getattr(table, f.name)) for f in fields(table)}) != 1:
        raise TraceError(f"{where}.table should have columns of equal length")
