"""The tables of an audit: their columns with units, and how parts become Parquet files.

Four tables: `prompts` (a row a prompt), `rounds`, `positions` (a row a judged or discarded draft token) and
`tokens` (a row a committed token). `prompt` and `round` and `position` join them. pandas and DuckDB read the
files as they are; each column carries its description in the schema's metadata.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Columns = dict[str, list[Any]]

PROMPTS = {
    "prompt": (pa.int32(), "index in the file of prompts, from 0"),
    "group": (pa.string(), "as given, or empty"),
    "text": (pa.string(), "what the user said, at most 2,000 characters"),
    "answer": (pa.string(), "the committed text, at most 4,000 characters"),
    "prompt_tokens": (pa.int32(), "tokens before the answer"),
    "tokens": (pa.int32(), "committed tokens"),
    "finish": (pa.string(), "eos, stop, length or context; score for a text that was served"),
    "seed": (pa.int64(), "of this prompt's run"),
    "rounds": (pa.int32(), "target passes"),
    "drafted": (pa.int32(), "draft tokens proposed"),
    "accepted": (pa.int32(), "draft tokens kept, before the cut at the end of the text"),
    "lost": (pa.int32(), "draft tokens rejected or discarded, and those that no context was left for"),
    "log_evidence": (pa.float64(), "natural log of the evidence against exactness over this run"),
    "seconds": (pa.float64(), "wall time of the run, s"),
    "error": (pa.string(), "why nothing or not everything could be measured, or empty"),
}
ROUNDS = {
    "prompt": (pa.int32(), "index of the prompt"),
    "round": (pa.int32(), "number within the run, from 1"),
    "start": (pa.int32(), "committed tokens of the answer before the round"),
    "k": (pa.int16(), "draft tokens in this round"),
    "accepted": (pa.int16(), "of these kept"),
    "committed": (pa.int16(), "tokens added to the text"),
    "short": (pa.int16(), "tokens not drafted as the draft's context was full"),
    "draft_seconds": (pa.float32(), "wall time of drafting, s"),
    "verify_seconds": (pa.float32(), "wall time of the target's pass, s"),
}
POSITIONS = {
    "prompt": (pa.int32(), "index of the prompt"),
    "round": (pa.int32(), "number within the run, from 1"),
    "position": (pa.int16(), "place in the block, from 1"),
    "state": (pa.string(), "accepted, rejected or discarded"),
    "token": (pa.int32(), "id of the draft token"),
    "text": (pa.string(), "its text with spaces made visible"),
    "p": (pa.float32(), "its probability under the target, 0 … 1"),
    "q": (pa.float32(), "its probability under the draft, 0 … 1"),
    "u": (pa.float32(), "the uniform that judged it, 0 … 1"),
    "beta": (pa.float32(), "sum of min(p, q), 0 … 1"),
    "p_entropy": (pa.float32(), "entropy of p, nats"),
    "q_entropy": (pa.float32(), "entropy of q, nats"),
    "p_rank": (pa.int32(), "1 + tokens with a larger p"),
    "q_rank": (pa.int32(), "1 + tokens with a larger q"),
    "instead": (pa.int32(), "id of the token that came instead of a rejected one; null elsewhere"),
    "cause": (pa.string(), "why it was rejected; empty unless rejected"),
    "lost": (pa.int16(), "a rejected token and those discarded behind it; 0 elsewhere"),
}
TOKENS = {
    "prompt": (pa.int32(), "index of the prompt"),
    "index": (pa.int32(), "place in the answer, from 0"),
    "round": (pa.int32(), "round that committed it, from 1; 0 for a text that was served"),
    "token": (pa.int32(), "its id"),
    "text": (pa.string(), "its text with spaces made visible"),
    "kind": (pa.string(), "word start, word part, number, punctuation, code symbol, newline, space, special"),
    "p": (pa.float32(), "its probability under the target, 0 … 1"),
    "logprob": (pa.float32(), "log of it at temperature 1 without controls, nats"),
    "p_top": (pa.float32(), "largest probability of p, 0 … 1"),
    "p_entropy": (pa.float32(), "entropy of p, nats"),
    "q_entropy": (pa.float32(), "entropy of q, nats; null where nothing is proposed"),
    "q_logprob": (pa.float32(), "log q of it at temperature 1 without controls, nats"),
    "beta": (pa.float32(), "sum of min(p, q) as the first of a block, 0 … 1; null where nothing is proposed"),
    "beta_second": (pa.float32(), "the same of the second draft; null without one"),
    "outside": (pa.float32(), "mass of p on tokens that the draft can never propose, 0 … 1"),
    "lacking": (pa.bool_(), "true if this token is one of them, or the draft's context was full"),
    "looked_up": (pa.int16(), "tokens that prompt lookup proposes here, at most 16"),
    "looked_up_right": (pa.int16(), "how many of them, from the first on, are the text's"),
}
TABLES: dict[str, dict[str, tuple[pa.DataType, str]]] = {
    "prompts": PROMPTS,
    "rounds": ROUNDS,
    "positions": POSITIONS,
    "tokens": TOKENS,
}
# Columns of `tokens` that depend on the audit: q of the token under other controls, prompts or drafts, and
# of a served target between what its numbers lie where the server names the leading tokens only.
LAW = "q|"
BOUNDS = {
    "beta_low": "least that beta can be, 0 … 1; beta is in the middle",
    "beta_high": "most that beta can be, 0 … 1",
    "p_low": "least that p can be, 0 … 1",
    "p_high": "most that p can be, 0 … 1",
}


def schema(name: str, extra: Iterable[str] = ()) -> pa.Schema:
    """The schema of a table; `extra` are columns of probabilities."""
    fields = [
        pa.field(column, kind, metadata={"description": about})
        for column, (kind, about) in TABLES[name].items()
    ]
    fields += [
        pa.field(
            column,
            pa.float32(),
            metadata={
                "description": BOUNDS.get(column, "q of the token, 0 … 1: source|controls|place in block")
            },
        )
        for column in extra
    ]
    return pa.schema(fields)


def empty(name: str) -> Columns:
    return {column: [] for column in TABLES[name]}


FLUSH = 20_000  # rows held before they are written


def combine(parts: Callable[[], Iterable[dict[str, Any]]], folder: Path) -> dict[str, int]:
    """Write the four tables from the parts of prompts, in their order, holding few of them at a time.

    Args:
        parts: gives them, each time it is called.

    Returns:
        rows by table.
    """
    extra: dict[str, list[str]] = {name: [] for name in TABLES}
    for part in parts():
        for name, columns in part["tables"].items():
            # A prompt that failed has no columns of laws, and one may lack a source.
            extra[name] += [c for c in columns if c not in TABLES[name] and c not in extra[name]]
    rows = {}
    for name in TABLES:
        layout = schema(name, extra[name])
        partial = folder / f"{name}.parquet.partial"
        rows[name] = 0
        held: Columns = {field.name: [] for field in layout}
        with pq.ParquetWriter(partial, layout, compression="zstd", compression_level=9) as writer:
            for part in parts():
                columns = part["tables"][name]
                count = len(next(iter(columns.values())))
                for column, values in held.items():
                    values.extend(columns.get(column, [None] * count))
                rows[name] += count
                if len(held["prompt"]) > FLUSH:
                    _flush(writer, layout, held)
            _flush(writer, layout, held)
        partial.replace(folder / f"{name}.parquet")
    return rows


def _flush(writer: pq.ParquetWriter, layout: pa.Schema, held: Columns) -> None:
    arrays = [pa.array(held[field.name], field.type, from_pandas=True) for field in layout]
    writer.write_table(pa.table(arrays, schema=layout))
    for values in held.values():
        values.clear()


def read(folder: Path) -> dict[str, Any]:
    """The four tables as pandas frames.

    Raises:
        ValueError: if a file is missing, damaged, or lacks a column.
    """
    frames = {}
    for name in TABLES:
        path = folder / f"{name}.parquet"
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"{path} cannot be read as a table: {error}") from None
        missing = [column for column in TABLES[name] if column not in table.column_names]
        if missing:
            raise ValueError(f"{path} lacks the column {missing[0]!r}: it was not made by this version")
        frames[name] = table.to_pandas()
    return frames


def documentation() -> Iterator[tuple[str, str, str, str]]:
    """(table, column, type, description) of every column."""
    for name, columns in TABLES.items():
        for column, (kind, about) in columns.items():
            yield name, column, str(kind), about
    yield "tokens", f"{LAW}…", "float", "q of the token: source|controls|place in block, 0 … 1"
    for column, about in BOUNDS.items():
        yield "tokens", column, "float", f"{about}; of a served target only"


def dumps(part: dict[str, Any]) -> bytes:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def shorten(source: Path, goal: Path, digits: int) -> None:
    """Copy the tables with few significant digits, which makes the files small."""
    for name in TABLES:
        table = pq.read_table(source / f"{name}.parquet")
        arrays = [
            pa.array([_rounded(value, digits) for value in column.to_pylist()], field.type)
            if pa.types.is_floating(field.type)
            else column
            for field, column in zip(table.schema, table.columns, strict=True)
        ]
        pq.write_table(
            pa.table(arrays, schema=table.schema),
            goal / f"{name}.parquet",
            compression="zstd",
            compression_level=19,
            use_dictionary=[f.name for f in table.schema if not pa.types.is_floating(f.type)],
            write_statistics=False,
            store_schema=False,
        )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")
