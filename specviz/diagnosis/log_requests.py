"""What vLLM, SGLang and llama.cpp say of each request, as JSON."""

import json
from collections.abc import Callable
from typing import Any

from specviz.diagnosis.readings import MOST_POSITIONS, Reading, plain


def json_requests(text: str) -> list[Reading] | None:
    """Readings of JSON with a request's figures anywhere in it; None if the text is no such JSON."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return None
    try:
        data = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return readings_in(data) or None


def readings_in(data: Any) -> list[Reading]:
    """Readings of parsed JSON: vLLM's `speculative_decoding`, SGLang's `meta_info`, llama.cpp's `timings`."""
    found: list[Reading] = []
    todo = [data]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            for name, read in FORMS.items():
                inner = value.get(name)
                made = read(inner) if isinstance(inner, dict) else None
                if made is not None:
                    found.append(made)
            todo += [v for v in value.values() if isinstance(v, dict | list)]
        elif isinstance(value, list):
            todo += [v for v in reversed(value) if isinstance(v, dict | list)]
    return found


def _request(data: dict[str, Any]) -> Reading | None:
    drafted, accepted = plain(data.get("num_draft_tokens")), plain(data.get("num_accepted_draft_tokens"))
    rounds = plain(data.get("num_spec_steps"))
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
        longest = min(MOST_POSITIONS, max([*histogram, int(plain(data.get("num_spec_tokens")) or 0)]))
        reached = tuple(sum(n for a, n in histogram.items() if a >= i) for i in range(1, longest + 1))
    if rounds is None and histogram:
        rounds = sum(histogram.values())
    if drafted is None and accepted is None and not reached:
        return None
    length, rate = plain(data.get("mean_acceptance_length")), plain(data.get("draft_acceptance_rate"))
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
        if str(a).isdigit() and int(a) < MOST_POSITIONS and plain(n) is not None
    }


def _counts(data: Any) -> list[int]:
    """A list of counts; empty for anything else."""
    usable = isinstance(data, list) and all(type(v) is int and 0 <= v <= 10_000 for v in data)
    return data if usable else []


COUNTS = (  # SGLang's names for accepted and drafted tokens, which changed
    ("spec_num_correct_drafts", "spec_num_proposed_drafts"),
    ("spec_accepted_drafts", "spec_proposed_drafts"),
    ("spec_accept_token_num", "spec_draft_token_num"),
)


def _sglang(data: dict[str, Any]) -> Reading | None:
    rounds = plain(data.get("spec_verify_ct"))
    if not rounds:
        return None
    counts = [(plain(data.get(a)), plain(data.get(d))) for a, d in COUNTS]
    accepted, drafted = next((pair for pair in counts if pair[0] is not None), (None, None))
    committed = plain(data.get("completion_tokens"))
    if accepted is None and committed is not None:  # older ones say no more
        accepted = max(0.0, committed - rounds)
    length = plain(data.get("spec_accept_length"))
    return Reading("SGLang", "request", rounds, drafted, accepted, (), (), length)


def _llama(data: dict[str, Any]) -> Reading | None:
    drafted, accepted = plain(data.get("draft_n")), plain(data.get("draft_n_accepted"))
    if not drafted or accepted is None:
        return None
    return Reading("llama.cpp", "request", None, drafted, accepted)


FORMS: dict[str, Callable[[dict[str, Any]], Reading | None]] = {
    "speculative_decoding": _request,
    "meta_info": _sglang,
    "timings": _llama,
}
