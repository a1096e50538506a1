"""Lines of vLLM, llama.cpp and SGLang, and vLLM's counters: what each says of its drafts."""

import re
from collections.abc import Callable
from typing import Any

from specviz.diagnosis.readings import MOST_POSITIONS, Reading, number, shares_of

NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"

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
        accepted, drafted = number(found.get("accepted")), number(found.get("drafted"))
        length = number(found.get("length"))
        positions = VLLM_POSITIONS.search(line)
        shares = shares_of(positions.group(1)) if positions else ()
        rounds = None
        if drafted and shares and length and accepted and length > 1:
            rounds = _whole(accepted, length, drafted, len(shares))
        elif length and accepted and length > 1:
            rounds = accepted / (length - 1)
        elif drafted and shares:
            rounds = drafted / len(shares)  # nothing accepted: every draft is of full length
        rate = number(found.get("rate"))
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


def counter(line: str, counters: dict[str, Any]) -> bool:
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


def from_counters(counters: dict[str, Any]) -> Reading | None:
    rounds, drafted = counters.get("drafts"), counters.get("draft_tokens")
    accepted = counters.get("accepted_tokens")
    if accepted is None or drafted is None:
        return None
    places = counters.get("positions", {})
    reached = tuple(places.get(i, 0.0) for i in range(max(places, default=-1) + 1))
    length = 1 + accepted / rounds if rounds else None
    return Reading("vLLM", "/metrics", rounds, drafted, accepted, reached, (), length, None, True)


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
        return with_positions(made, shares_of(places.group(1))) if places else made
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


def with_positions(reading: Reading, shares: tuple[float, ...]) -> Reading:
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
