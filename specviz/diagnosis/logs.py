"""Acceptance from the logs of other engines: vLLM, llama.cpp and SGLang. Sums only: no tokens, no causes.

Formats, as their sources print them:

vLLM        a log line every few seconds; counters in /metrics (Prometheus text); per-request JSON with
            `speculative_decoding`. Rate i divides by all drafts.
llama.cpp   `draft acceptance = …` with accepted and generated tokens, `mean len` and `acc per pos` in newer
            ones; `draft acceptance rate = …` in older; `statistics NAME: #gen tokens = …, #acc tokens = …`.
SGLang      `accept len`, `accept rate` in `Decode batch` lines. The rate has had two definitions.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from specviz.diagnosis.curves import Curve, Shape, from_counts, shape
from specviz.diagnosis.log_lines import (
    ACC_PER_POS,
    LINES,
    LLAMA_EXAMPLE,
    counter,
    from_counters,
    with_positions,
)
from specviz.diagnosis.log_requests import json_requests
from specviz.diagnosis.readings import Reading, shares_of

# SGLang's rate: accepted drafts / drafted ones, or committed tokens (bonus included) / drafted ones with it.
Definition = Literal["", "drafts", "with bonus"]
MOST_CHARACTERS = 20_000_000
MOST_LINES = 200_000


@dataclass(frozen=True, slots=True)
class Log:
    """All readings of a text, put together.

    Attributes:
        readings: in order.
        unknown: (line number, text) of lines that speak of drafts, or of anything, and are not understood.
        ask: True if the text holds SGLang rates, whose definition only the reader's user knows.
        rounds, drafted, accepted: sums; None where some reading does not say.
        length, rate: mean acceptance length and draft acceptance rate; None if they do not follow.
        curve, shape: acceptance by position; None if no reading has it.
        notes: what was assumed.
    """

    readings: tuple[Reading, ...]
    unknown: tuple[tuple[int, str], ...]
    ask: bool = False
    rounds: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    length: float | None = None
    rate: float | None = None
    curve: Curve | None = None
    shape: Shape | None = None
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        from specviz.diagnosis.summary import plain

        return plain(asdict(self))

    @property
    def text(self) -> str:
        """The summary for a terminal."""
        if not self.readings:
            return "no line of vLLM, llama.cpp or SGLang was understood"
        engines = ", ".join(dict.fromkeys(r.engine for r in self.readings))
        head = [f"{engines}: {len(self.readings):,} readings (sums only: no tokens, no causes)"]
        figures = (
            ("mean acceptance length", self.length, ".2f"),
            ("draft acceptance rate", self.rate, ".1%"),
            ("accepted", self.accepted, ",.0f"),
            ("drafted", self.drafted, ",.0f"),
            ("rounds", self.rounds, ",.0f"),
        )
        head.append(
            " · ".join(f"{name} {value:{form}}" for name, value, form in figures if value is not None)
        )
        if self.shape is not None and self.curve is not None:
            head.append(f"{self.shape.title}. {self.shape.sentence}")
            head += [
                f"  {i:>2}  {a.value:.3f} of all rounds · {c.value:.3f} of those that got there ({c.count:,})"
                for i, (a, c) in enumerate(
                    zip(self.curve.unconditional, self.curve.conditional, strict=True), 1
                )
            ]
        head += list(self.notes)
        if self.ask:
            head.append(
                "SGLang's accept rate has two definitions; which one this server prints depends on its age. "
                "Compare with its accept len: (len − 1) / draft tokens, or len / (draft tokens + 1)."
            )
        if self.unknown:
            head.append(f"{len(self.unknown)} lines were not understood:")
            head += [f"  {number}: {line[:100]}" for number, line in self.unknown[:10]]
        return "\n".join(head)


def read(text: str, sglang: Definition = "", k: int | None = None) -> Log:
    """Read a log, a scrape of /metrics, or JSON of requests; they may be mixed.

    Args:
        text: at most 20 million characters; the rest is left out, and said.
        sglang: which definition SGLang's rate has; "" if that is not known.
        k: draft tokens a round, for SGLang, which does not print it.
    """
    notes = []
    if len(text) > MOST_CHARACTERS:
        text = text[:MOST_CHARACTERS]
        notes.append(f"Only the first {MOST_CHARACTERS:,} characters were read.")
    whole = json_requests(text)
    if whole is not None:
        return _together(whole, [], notes, sglang, k)
    readings: list[Reading] = []
    unknown: list[tuple[int, str]] = []
    counters: dict[str, Any] = {}
    trace: tuple[float, ...] = ()
    example: dict[str, float] = {}
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        notes.append(f"Only the first {MOST_LINES:,} of {len(lines):,} lines were read.")
    for number, line in enumerate(lines[:MOST_LINES], 1):
        line = line.strip()
        if not line or line.startswith("# "):
            continue
        if counter(line, counters):
            continue
        count = LLAMA_EXAMPLE.match(line)
        if count is not None:
            example[count.group(1)] = float(count.group(2))
            if {"n_drafted", "n_accept"} <= example.keys():
                pair = example.pop("n_drafted"), example.pop("n_accept")
                readings.append(Reading("llama.cpp", "example program", None, *pair))
            continue
        per_position = ACC_PER_POS.search(line)
        found = next((made for read_line in LINES if (made := read_line(line)) is not None), None)
        if found is None and line.startswith("{"):
            requests = json_requests(line)
            if requests:
                readings += requests
                continue
        if found is not None:
            if per_position is None and trace and found.engine == "llama.cpp" and not found.reached:
                found = with_positions(found, trace)
            trace = ()
            readings.append(found)
        elif per_position is not None:  # llama.cpp prints it on a line of its own, before or after
            shares = shares_of(per_position.group(1))
            last = readings[-1] if readings else None
            if last and last.engine == "llama.cpp" and last.rounds and not last.reached:
                readings[-1] = with_positions(last, shares)
            else:
                trace = shares
        else:
            unknown.append((number, line[:400]))
    if counters:
        made = from_counters(counters)
        if made is not None:
            readings.append(made)
    return _together(readings, unknown, notes, sglang, k)


def scraped(text: str) -> Reading | None:
    """The counters in a scrape of /metrics; None if it has none about drafts."""
    counters: dict[str, Any] = {}
    for line in text[:MOST_CHARACTERS].splitlines()[:MOST_LINES]:
        counter(line.strip(), counters)
    return from_counters(counters)


def between(before: Reading, after: Reading) -> Reading | None:
    """What happened between two scrapes; None if nothing was drafted, or the server began anew."""
    names = ("rounds", "drafted", "accepted")
    changes = {name: (getattr(after, name) or 0.0) - (getattr(before, name) or 0.0) for name in names}
    if min(changes.values()) < 0 or not changes["drafted"]:
        return None
    earlier = (*before.reached, *(0.0 for _ in after.reached))
    reached = tuple(max(0.0, b - a) for a, b in zip(earlier, after.reached, strict=False))
    return Reading(
        after.engine, after.form, changes["rounds"], changes["drafted"], changes["accepted"], reached
    )


def together(readings: Sequence[Reading]) -> Log:
    """Readings that were made elsewhere, put together."""
    return _together(list(readings), [], [], "", None)


def _together(
    readings: list[Reading],
    unknown: list[tuple[int, str]],
    notes: list[str],
    sglang: Definition,
    k: int | None,
) -> Log:
    ask = any(r.engine == "SGLang" and r.rate is not None for r in readings) and not sglang
    if any(r.total for r in readings) and any(not r.total for r in readings):
        notes.append(
            "Counters since the start and lines of intervals were given; the counters alone are summed."
        )
        readings = [r for r in readings if r.total]
    counted = [r for r in readings if r.drafted is not None and r.accepted is not None]
    drafted = sum(r.drafted or 0.0 for r in counted) or None
    accepted = sum(r.accepted or 0.0 for r in counted) if counted else None
    with_rounds = [r for r in readings if r.rounds is not None]
    rounds = sum(r.rounds or 0.0 for r in with_rounds) or None
    complete = bool(counted) and len(counted) == len(with_rounds)
    rate = accepted / drafted if accepted is not None and drafted else None
    length = None
    if complete and rounds and accepted is not None:
        length = 1 + accepted / rounds
    lengths = [r.length for r in readings if r.length is not None]
    if length is None and lengths:
        length = sum(lengths) / len(lengths)
        notes.append(
            f"Mean acceptance length: the plain mean of {len(lengths)} printed ones; rounds are not printed."
        )
    rates = [r.rate for r in readings if r.rate is not None]
    if rate is None and rates:
        rate = sum(rates) / len(rates)
        if sglang == "with bonus":
            if k:
                rate = max(0.0, (rate * (k + 1) - 1) / k)
                notes.append(f"SGLang's rate counts the bonus; taken out for K = {k}.")
            else:
                notes.append("SGLang's rate counts the bonus: give K to take it out.")
        elif ask:
            notes.append("The rate is as printed.")
    curve = _curve(readings)
    return Log(
        tuple(readings),
        tuple(unknown),
        ask,
        rounds,
        drafted,
        accepted,
        length,
        rate,
        curve,
        None if curve is None else shape(curve),
        tuple(notes),
    )


def _curve(readings: list[Reading]) -> Curve | None:
    known = [r for r in readings if r.reached and r.rounds]
    if not known:
        return None
    longest = max(len(r.reached) for r in known)
    reached = tuple(sum(r.reached[i] for r in known if len(r.reached) > i) for i in range(longest))
    tried = tuple(
        sum((r.tried[i] if len(r.tried) > i else r.rounds or 0.0) for r in known if len(r.reached) > i)
        for i in range(longest)
    )
    return from_counts(reached, sum(r.rounds or 0.0 for r in known), tried)
