"""`bench trees`: accepted draft tokens a round in real runs, by chains under both rules and by trees.

All run on the same prompts with the same seeds, so that each begins from the same texts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from specviz.decoding.protocols import Pair
from specviz.decoding.tree import SHAPES, shape
from specviz.recipe import Recipe

# What differs in the recipe, by name. Chains and the two larger trees reach as far: four tokens.
WAYS: dict[str, dict[str, Any]] = {
    "chain of 4, token rule": {},
    "chain of 4, block rule": {"rule": "block"},
} | {
    f"tree of {size} ({'-'.join(map(str, SHAPES[size]))}), {name}": {"tree": f"{size}{draw}"}
    for size in SHAPES
    for draw, name in (("", "distinct"), (":iid", "i.i.d."))
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """Accepted draft tokens a round, over some texts.

    Attributes:
        way: what drafts and judges.
        drafted: draft tokens in a full round.
        mean: a ratio of sums over all texts.
        half: half of its 95% interval, over texts (Student's t); infinite for a single one.
        rounds, texts: how many there were.
    """

    way: str
    drafted: int
    mean: float
    half: float
    rounds: int
    texts: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half:.3f} a round ({self.rounds} rounds, {self.texts} texts)"


def measure(
    pair: Pair,
    prompts: Sequence[str],
    seeds: int = 3,
    recipe: Recipe | None = None,
    said: Callable[[str], None] = lambda text: None,
) -> Iterator[Accepted]:
    """Each way on every prompt with every seed. Rounds that drafted nothing do not count.

    Args:
        said: told what is being run.
    """
    recipe = recipe or Recipe(k=4, temperature=1.0, max_tokens=48)
    for way, change in WAYS.items():
        counts = []
        for number, prompt in enumerate(prompts):
            said(f"{way}: prompt {number + 1} of {len(prompts)}")
            for seed in range(seeds):
                given = replace(recipe, prompt=prompt, seed=100 * seed + number, **change)
                counts.append([round.accepted for round in given.start(pair) if round.k])
        drafted = shape(change["tree"]).nodes if "tree" in change else recipe.k
        yield Accepted(way, drafted, *_mean(counts), sum(map(len, counts)), len(counts))


def _mean(texts: list[list[int]]) -> tuple[float, float]:
    """The mean over all rounds, a ratio of sums over the texts, and half of its interval."""
    from scipy.stats import t

    sums, sizes, n = np.array([sum(x) for x in texts]), np.array([len(x) for x in texts]), len(texts)
    mean = float(sums.sum() / sizes.sum())
    spread = sqrt(float(((sums - mean * sizes) ** 2).sum()) * n / max(1, n - 1)) / sizes.sum()
    return mean, float(t.ppf(0.975, n - 1)) * spread if n > 1 else float("inf")
