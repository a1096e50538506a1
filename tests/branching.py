"""Randomness that takes every decision both ways: the exact law of any run by enumeration.

The program under test is run again for every path. A path is the list of choices taken so far; where
it ends, the first outcome is taken and the others are queued. The probability of a path is the product
of the probabilities of its choices, so the sum over all paths of an output is its exact probability.
"""

from collections.abc import Callable, Hashable

import numpy as np


class Branching:
    """One path through the decisions. Offers both the run's and the round's protocol."""

    def __init__(self, path: list[int]) -> None:
        self.path = path
        self.taken: list[int] = []
        self.queued: list[list[int]] = []
        self.mass = 1.0

    def round(self, number: int) -> "Branching":
        return self

    def _choose(self, masses: np.ndarray) -> int:
        outcomes = np.flatnonzero(masses)
        depth = len(self.taken)
        if depth < len(self.path):
            choice = self.path[depth]
        else:
            choice = int(outcomes[0])
            self.queued += [[*self.taken, int(other)] for other in outcomes[1:]]
        self.taken.append(choice)
        self.mass *= float(masses[choice])
        return choice

    def draft(self, row: int, weights: np.ndarray) -> int:
        return self._choose(weights / weights.sum())

    def accept(self, row: int, p: float, q: float) -> bool:
        keep = min(1.0, p / q)
        return bool(self._choose(np.array([1.0 - keep, keep])))

    def correct(self, weights: np.ndarray) -> int:
        return self._choose(weights / weights.sum())

    def draft_u(self, row: int) -> None:
        return None

    accept_u = draft_u

    def correct_u(self) -> None:
        return None


def enumerate_law(program: Callable[[Branching], Hashable]) -> dict[Hashable, float]:
    """The exact law of what `program(randomness)` returns."""
    law: dict[Hashable, float] = {}
    pending: list[list[int]] = [[]]
    while pending:
        randomness = Branching(pending.pop())
        outcome = program(randomness)
        law[outcome] = law.get(outcome, 0.0) + randomness.mass
        pending += randomness.queued
    return law
