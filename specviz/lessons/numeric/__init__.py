"""Questions with numbers drawn anew from a seed, each with its worked solution."""

import numpy as np

from specviz.lessons.numeric import rounds, rule  # noqa: F401 (their questions register themselves)
from specviz.lessons.numeric.base import GENERATORS, Problem

__all__ = ["GENERATORS", "Problem", "problem", "topic_of"]


def problem(kind: str, seed: int) -> Problem:
    """The question of this kind and seed (0 or more).

    Raises:
        KeyError: for an unknown kind.
    """
    place = list(GENERATORS).index(kind) if kind in GENERATORS else -1
    return GENERATORS[kind](np.random.default_rng([seed, place]))


def topic_of(kind: str) -> str:
    return problem(kind, 0).topic
