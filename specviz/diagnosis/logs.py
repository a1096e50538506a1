"""Acceptance from the logs of other engines: vLLM, llama.cpp and SGLang. Sums only: no tokens, no causes.

Formats, as their sources print them:

vLLM        a log line every few seconds; counters in /metrics (Prometheus text); per-request JSON with
            `speculative_decoding`. Rate i divides by all drafts.
llama.cpp   `draft acceptance = …` with accepted and generated tokens, `mean len` and `acc per pos` in newer
            ones; `draft acceptance rate = …` in older; `statistics NAME: #gen tokens = …, #acc tokens = …`.
SGLang      `accept len`, `accept rate` in `Decode batch` lines. The rate has had two definitions.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from specviz.diagnosis.curves import Curve, Shape, from_counts, shape

Engine = Literal["vLLM", "llama.cpp", "SGLang"]
# SGLang's rate: accepted drafts / drafted ones, or committed tokens (bonus included) / drafted ones with it.
Definition = Literal["", "drafts", "with bonus"]
MOST_CHARACTERS = 20_000_000
MOST_LINES = 200_000
MOST_POSITIONS = 64
NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one line, scrape or request says.

    Attributes:
        engine, form: who wrote it, and which of its formats it is.
        rounds: target passes with drafts; None where it is not said.
        drafted, accepted: draft tokens; None where they are not said.
        reached: rounds with at least i accepted, i = 1, 2, …; () where they are not said.
        tried: rounds that drafted at least i; () if all of them, or not said.
        length: mean acceptance length as printed; None where it is not.
        rate: acceptance rate as printed, 0 … 1.
        total: True for counters since the start: the last one counts, and not their sum.
    """

    engine: Engine
    form: str
    rounds: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    reached: tuple[float, ...] = ()
    tried: tuple[float, ...] = ()
    length: float | None = None
    rate: float | None = None
    total: bool = False


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
    whole = _json_requests(text)
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
        if _counter(line, counters):
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
            requests = _json_requests(line)
            if requests:
                readings += requests
                continue
        if found is not None:
            if per_position is None and trace and found.engine == "llama.cpp" and not found.reached:
                found = _with_positions(found, trace)
            trace = ()
            readings.append(found)
        elif per_position is not None:  # llama.cpp prints it on a line of its own, before or after
            shares = _shares(per_position.group(1))
            last = readings[-1] if readings else None
            if last and last.engine == "llama.cpp" and last.rounds and not last.reached:
                readings[-1] = _with_positions(last, shares)
            else:
                trace = shares
        else:
            unknown.append((number, line[:400]))
    if counters:
        made = _from_counters(counters)
        if made is not None:
            readings.append(made)
    return _together(readings, unknown, notes, sglang, k)


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


# vLLM

VLLM_FIELDS = {
    "length": re.compile(rf"[Mm]ean acceptance length: {NUMBER}"),
    "accepted": re.compile(r"(?<![a-z] )Accepted: (\d+) tokens"),
    "drafted": re.compile(r"(?<![a-z] )Drafted: (\d+) tokens"),
    "rate": re.compile(rf"[Dd]raft acceptance rate: {NUMBER}%"),
    "system": re.compile(rf"System efficiency: {NUMBER}"),
}
VLLM_POSITIONS = re.compile(r"Per-position acceptance rate: ((?:[0-9.]+(?:, )?)+)")
# Before version 1: "Speculative metrics: Draft acceptance rate: 0.7, System efficiency: …, Number of …
# tokens: n"
VLLM_OLD = re.compile(r"Number of (accepted|draft|emitted) tokens(?: tokens)?: (\d+)")
VLLM_OLD_RATE = re.compile(rf"Draft acceptance rate: {NUMBER}(?!%)")


def _vllm(line: str) -> Reading | None:
    if "SpecDecoding metrics:" in line:
        found = {name: m.group(1) for name, p in VLLM_FIELDS.items() if (m := p.search(line))}
        if not {"accepted", "drafted"} <= found.keys() and "length" not in found:
            return None
        accepted, drafted = _number(found.get("accepted")), _number(found.get("drafted"))
        length = _number(found.get("length"))
        positions = VLLM_POSITIONS.search(line)
        shares = _shares(positions.group(1)) if positions else ()
        rounds = None
        if drafted and shares and length and accepted and length > 1:
            rounds = _whole(accepted, length, drafted, len(shares))
        elif length and accepted and length > 1:
            rounds = accepted / (length - 1)
        elif drafted and shares:
            rounds = drafted / len(shares)  # nothing accepted: every draft is of full length
        rate = _number(found.get("rate"))
        reached = tuple(share * rounds for share in shares) if rounds else ()
        return Reading(
            "vLLM",
            "log line",
            rounds,
            drafted,
            accepted,
            reached,
            (),
            length,
            None if rate is None else rate / 100,
        )
    if "Speculative metrics:" in line:
        counts = {name: float(value) for name, value in VLLM_OLD.findall(line)}
        old = VLLM_OLD_RATE.search(line)
        if not counts and old is None:
            return None
        return Reading(
            "vLLM",
            "log line of version 0",
            None,
            counts.get("draft"),
            counts.get("accepted"),
            rate=float(old.group(1)) if old else None,
            total=True,
        )
    return None


def _whole(accepted: float, length: float, drafted: float, k: int) -> float:
    """The rounds: drafted / K where every draft had full length and that agrees with the printed length,
    which has two decimals; accepted / (length − 1) otherwise."""
    full = drafted / k
    return full if abs(1 + accepted / full - length) <= 0.006 else accepted / (length - 1)


COUNTER = re.compile(r"^(vllm:spec_decode_[a-z_]+?)(?:_total)?(?:\{(.*)\})?\s+([0-9.eE+\-]+)(?:\s+\d+)?$")
OTHER_METRIC = re.compile(
    r"^(?:vllm|sglang|llamacpp|python|process|http)[a-z_:]*(?:\{.*\})?\s+\S+(?:\s+\d+)?$"
)
POSITION = re.compile(r'position="(\d+)"')


def _counter(line: str, counters: dict[str, Any]) -> bool:
    """Take a line of Prometheus text; True if it is one. Several engines or replicas are added up."""
    found = COUNTER.match(line)
    if found is None:
        return OTHER_METRIC.match(line) is not None
    name, labels, value = found.groups()
    try:
        number = float(value)
    except ValueError:
        return False
    short = name.removeprefix("vllm:spec_decode_num_")
    position = POSITION.search(labels or "")
    if position is not None and int(position.group(1)) < MOST_POSITIONS:
        places = counters.setdefault("positions", {})
        places[int(position.group(1))] = places.get(int(position.group(1)), 0.0) + number
    elif not short.endswith("created"):
        counters[short] = counters.get(short, 0.0) + number
    return True


def _from_counters(counters: dict[str, Any]) -> Reading | None:
    rounds, drafted = counters.get("drafts"), counters.get("draft_tokens")
    accepted = counters.get("accepted_tokens")
    if accepted is None or drafted is None:
        return None
    places = counters.get("positions", {})
    reached = tuple(places.get(i, 0.0) for i in range(max(places, default=-1) + 1))
    length = 1 + accepted / rounds if rounds else None
    return Reading("vLLM", "/metrics", rounds, drafted, accepted, reached, (), length, None, True)


def _json_requests(text: str) -> list[Reading] | None:
    """Readings of JSON with `speculative_decoding` anywhere in it; None if the text is no such JSON."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        data = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    found: list[Reading] = []
    todo = [data]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            inner = value.get("speculative_decoding")
            made = _request(inner) if isinstance(inner, dict) else None
            if made is not None:
                found.append(made)
            todo += [v for v in value.values() if isinstance(v, dict | list)]
        elif isinstance(value, list):
            todo += [v for v in reversed(value) if isinstance(v, dict | list)]
    return found or None


def _request(data: dict[str, Any]) -> Reading | None:
    drafted, accepted = _plain(data.get("num_draft_tokens")), _plain(data.get("num_accepted_draft_tokens"))
    rounds = _plain(data.get("num_spec_steps"))
    reached: tuple[float, ...] = ()
    tried: tuple[float, ...] = ()
    steps, drafts = _counts(data.get("per_step_accepted")), _counts(data.get("per_step_drafted"))
    histogram = _histogram(data.get("acceptance_histogram"))
    by_length = data.get("acceptance_histogram_by_draft_length")
    if steps and drafts and len(steps) == len(drafts):
        longest = min(MOST_POSITIONS, max(drafts, default=0))
        reached = tuple(float(sum(a >= i for a in steps)) for i in range(1, longest + 1))
        tried = tuple(float(sum(d >= i for d in drafts)) for i in range(1, longest + 1))
    elif isinstance(by_length, dict) and by_length:
        table = {int(k): _histogram(h) for k, h in by_length.items() if str(k).isdigit()}
        longest = min(MOST_POSITIONS, max(table, default=0))
        places = range(1, longest + 1)
        reached = tuple(sum(n for h in table.values() for a, n in h.items() if a >= i) for i in places)
        tried = tuple(sum(sum(h.values()) for k, h in table.items() if k >= i) for i in places)
    elif histogram:
        longest = min(MOST_POSITIONS, max([*histogram, int(_plain(data.get("num_spec_tokens")) or 0)]))
        reached = tuple(sum(n for a, n in histogram.items() if a >= i) for i in range(1, longest + 1))
    if rounds is None and histogram:
        rounds = sum(histogram.values())
    if drafted is None and accepted is None and not reached:
        return None
    length, rate = _plain(data.get("mean_acceptance_length")), _plain(data.get("draft_acceptance_rate"))
    return Reading("vLLM", "request", rounds, drafted, accepted, reached, tried, length, rate)


def _histogram(data: Any) -> dict[int, float]:
    """{accepted: rounds} from an object or a list."""
    if isinstance(data, list):
        data = dict(enumerate(data))
    if not isinstance(data, dict):
        return {}
    return {
        int(a): float(n)
        for a, n in data.items()
        if str(a).isdigit() and int(a) < MOST_POSITIONS and _plain(n) is not None
    }


def _counts(data: Any) -> list[int]:
    """A list of counts; empty for anything else."""
    usable = isinstance(data, list) and all(type(v) is int and 0 <= v <= 10_000 for v in data)
    return data if usable else []


# llama.cpp

LLAMA = re.compile(
    rf"draft acceptance(?: rate)?\s*=\s*{NUMBER}\s*\(\s*(\d+)\s+accepted\s*/\s*(\d+)\s+generated\s*\)"
)
LLAMA_LENGTH = re.compile(rf"mean len\s*=\s*{NUMBER}")
LLAMA_STATISTICS = re.compile(r"statistics\s+\S+.*#gen tokens\s*=\s*(\d+),\s*#acc tokens\s*=\s*(\d+)")
LLAMA_DRAFTS = re.compile(r"#gen drafts\s*=\s*(\d+)")
LLAMA_EXAMPLE = re.compile(r"^(n_drafted|n_accept)\s*=\s*(\d+)\s*$")
ACC_PER_POS = re.compile(r"acc per pos\s*=\s*\(([0-9.,\s]+)\)")


def _llama(line: str) -> Reading | None:
    found = LLAMA.search(line)
    if found is not None:
        rate, accepted, drafted = (float(v) for v in found.groups())
        length = LLAMA_LENGTH.search(line)
        mean = float(length.group(1)) if length else None
        rounds = accepted / (mean - 1) if mean and mean > 1 and accepted else None
        made = Reading("llama.cpp", "slot line", rounds, drafted, accepted, (), (), mean, rate)
        places = ACC_PER_POS.search(line)
        return _with_positions(made, _shares(places.group(1))) if places else made
    statistics = LLAMA_STATISTICS.search(line)
    if statistics is not None:
        drafted, accepted = (float(v) for v in statistics.groups())
        drafts = LLAMA_DRAFTS.search(line)
        return Reading(
            "llama.cpp",
            "statistics",
            float(drafts.group(1)) if drafts else None,
            drafted,
            accepted,
            total=True,
        )
    return None


def _with_positions(reading: Reading, shares: tuple[float, ...]) -> Reading:
    """Rates by position, which divide by all rounds; these follow from their sum if they are not printed."""
    rounds = reading.rounds
    if rounds is None and reading.accepted and sum(shares) > 0:
        rounds = reading.accepted / sum(shares)
    if rounds is None:
        return reading
    return Reading(
        reading.engine,
        reading.form,
        rounds,
        reading.drafted,
        reading.accepted,
        tuple(share * rounds for share in shares),
        (),
        reading.length,
        reading.rate,
        reading.total,
    )


# SGLang

SGLANG = re.compile(rf"accept len: {NUMBER}")
SGLANG_RATE = re.compile(rf"accept rate: {NUMBER}")


def _sglang(line: str) -> Reading | None:
    found = SGLANG.search(line)
    if found is None:
        return None
    rate = SGLANG_RATE.search(line)
    return Reading(
        "SGLang", "decode line", length=float(found.group(1)), rate=float(rate.group(1)) if rate else None
    )


LINES: tuple[Callable[[str], Reading | None], ...] = (_vllm, _llama, _sglang)


def _shares(text: str) -> tuple[float, ...]:
    values = [_number(part.strip()) for part in text.split(",") if part.strip()]
    usable = [v for v in values if v is not None and 0.0 <= v <= 1.0]
    return tuple(usable[:MOST_POSITIONS]) if len(usable) == len(values) else ()


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _plain(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    usable = type(value) in (int, float) and 0 <= value < 1e15
    return float(value) if usable else None
