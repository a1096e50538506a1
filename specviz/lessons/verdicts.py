"""The game "predict the verdict": places of a recorded run, and a proper score for forecasts.

Level 1 shows p, q and the coin: the verdict follows, and the question is whether it was certain. Level 2
hides the coin and asks for the probability that the token is kept. Level 3 asks for the probability that
the place ends with a given other token, the one with the largest residual.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from specviz.decoding.randomness import accepts
from specviz.decoding.trace import Trace
from specviz.reading.inspect import Inspection, inspect_position

Kind = Literal["kept for certain", "kept by this coin", "rejected by this coin", "rejected for certain"]
KINDS: tuple[Kind, ...] = (
    "kept for certain",
    "kept by this coin",
    "rejected by this coin",
    "rejected for certain",
)
LEVELS = (1, 2, 3)
CLOSE = 0.05  # a forecast this near to the true probability continues a streak


@dataclass(frozen=True, slots=True)
class Task:
    """A place to predict.

    Attributes:
        level: 1, 2 or 3.
        round, position: where it is, both from 1.
        inspection: all about the place.
        about: level 3: the other token asked about.
        kind: level 1: the right answer.
        probability: levels 2 and 3: the probability that the exact rule gives to the event.
        happened: levels 2 and 3: whether it happened in the run.
    """

    level: int
    round: int
    position: int
    inspection: Inspection
    about: int | None
    kind: Kind
    probability: float
    happened: bool


def tasks(trace: Trace, level: int, seed: int) -> list[Task]:
    """The judged places of a run that the exact rule judged, in an order given by the seed."""
    places = [
        (round.number, i + 1)
        for round in trace.rounds
        if round.verifier == "exact"
        for i, row in enumerate(round.positions[: round.k])
        if row.state in ("accepted", "rejected") and row.u is not None
    ]
    made = [task for place in places if (task := _task(trace, level, *place)) is not None]
    order = np.random.default_rng([seed, level]).permutation(len(made))
    return [made[i] for i in order]


def quadratic_score(forecast: float, happened: bool) -> float:
    """Quadratic (Brier) score scaled to 0 … 1: 1 − (forecast − outcome)².

    It is proper: the forecast that maximises its expectation is the true probability.
    """
    return 1.0 - (forecast - float(happened)) ** 2


def expected_loss(forecast: float, probability: float) -> float:
    """What a forecast loses on average against the true probability: their squared distance."""
    return (forecast - probability) ** 2


def _task(trace: Trace, level: int, number: int, position: int) -> Task | None:
    seen = inspect_position(trace, number, position)
    row = seen.row
    assert row.p is not None and row.q is not None and row.u is not None
    keep = min(1.0, row.p / row.q)
    kept = accepts(row.u, row.p, row.q)
    certain = row.p >= row.q if kept else row.p == 0.0
    kind = KINDS[(0 if certain else 1) if kept else (3 if certain else 2)]
    if level < 3:
        return Task(level, number, position, seen, None, kind, keep, kept)
    other = max(
        (c for c in seen.candidates if c.token != row.token), key=lambda c: c.residual or 0.0, default=None
    )
    if other is None or not other.residual:
        return None
    happened = not kept and seen.round.token == other.token
    return Task(level, number, position, seen, other.token, kind, (1.0 - keep) * other.residual, happened)
