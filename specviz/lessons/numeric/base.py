"""Questions with numbers drawn anew from a seed, each with its worked solution.

Every answer is computed by the same functions that the lessons use; the solution's lines carry the numbers
of this very question.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with a number for an answer.

    Attributes:
        kind: name of the generator.
        topic: key of the lesson.
        question: markdown.
        answer: the number.
        tolerance: how far an answer may lie off and still be right.
        solution: the steps, one a line.
    """

    kind: str
    topic: str
    question: str
    answer: float
    tolerance: float
    solution: tuple[str, ...]

    def right(self, answer: float) -> bool:
        return abs(answer - self.answer) <= self.tolerance


Generator = Callable[[np.random.Generator], Problem]
GENERATORS: dict[str, Generator] = {}


def generator(function: Generator) -> Generator:
    GENERATORS[function.__name__] = function
    return function
