"""What one line, scrape or request of another engine says."""

from dataclasses import dataclass
from typing import Any, Literal

Engine = Literal["vLLM", "llama.cpp", "SGLang"]
MOST_POSITIONS = 64


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


def shares_of(text: str) -> tuple[float, ...]:
    values = [number(part.strip()) for part in text.split(",") if part.strip()]
    usable = [v for v in values if v is not None and 0.0 <= v <= 1.0]
    return tuple(usable[:MOST_POSITIONS]) if len(usable) == len(values) else ()


def number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def plain(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    usable = type(value) in (int, float) and 0 <= value < 1e15
    return float(value) if usable else None
