"""Time, measured so that it means something: in turns, warmed up, on the clock that fits the device."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """Some measurements of one thing, in its unit.

    Attributes:
        median: of all.
        low, high: the 5th and the 95th percentile.
        count: how many there are.
    """

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        low, median, high = (float(x) for x in np.percentile(values, (5, 50, 95)))
        return cls(median, low, high, len(values))


def clock_for(device: str) -> tuple[Callable[[], float], str]:
    """The clock to time passes on a device with, and its name for people.

    One thread on a CPU is timed by its own seconds, which hold on a busy machine: waiting for the processor
    does not count. Otherwise only the seconds on the wall say what several threads or a GPU did.
    """
    import torch

    if device == "cpu" and torch.get_num_threads() == 1:
        return thread_time, "CPU seconds of one thread"
    return perf_counter, "seconds on the wall"


def in_turns(
    runs: Mapping[Any, Callable[[], Any]], tries: int, clock: Callable[[], float] = perf_counter
) -> dict[Any, list[float]]:
    """Seconds that each takes, `tries` times in turns after one round to warm up.

    What slows the machine down for a while then slows every one of them, and ratios hold.
    """
    turns = one_by_one(runs, tries, clock)
    while True:
        try:
            next(turns)
        except StopIteration as end:
            return end.value


def one_by_one(
    runs: Mapping[Any, Callable[[], Any]], tries: int, clock: Callable[[], float] = perf_counter
) -> Generator[None, None, dict[Any, list[float]]]:
    """The same, a run at a time, so that others may use the device in between."""
    for run in runs.values():
        run()
        yield
    taken: dict[Any, list[float]] = {name: [] for name in runs}
    for _ in range(tries):
        for name, run in runs.items():
            began = clock()
            run()
            taken[name].append(clock() - began)
            yield
    return taken
