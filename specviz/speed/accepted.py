"""Accepted draft tokens a round in real runs: chains under both exact rules, and trees of candidates.

All run on the same prompts with the same seeds, so that each begins from the same texts.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from specviz.decoding.tree import SHAPES, shape
from specviz.recipe import Recipe
from specviz.speed.machine import Machine, this_machine

if TYPE_CHECKING:
    from specviz.decoding.protocols import Pair
    from specviz.decoding.run import DecodingRun

PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a girl who",
    "def quicksort(a):",
    "The history of the Roman empire began",
    "My favourite recipe is",
    "One, two, three,",
    "The theory of relativity says",
    "In the morning the fisherman",
    "Dear Sir or Madam,",
    "The best way to learn",
)
# What differs in the recipe, by name. Chains and the two larger trees reach as far: four tokens.
WAYS: dict[str, dict[str, Any]] = {
    "chain of 4, token rule": {},
    "chain of 4, block rule": {"rule": "block"},
} | {
    f"tree of {size} ({'-'.join(map(str, SHAPES[size]))}), {name}": {"tree": f"{size}{draw}"}
    for draw, name in (("", "without replacement"), (":iid", "with replacement"))
    for size in SHAPES
}
RECIPE = Recipe(k=4, temperature=1.0, max_tokens=48)
SEEDS = 3
FILE = "accepted.json"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Accepted draft tokens a round, over some texts.

    Attributes:
        way: what drafts and judges.
        drafted: draft tokens in a full round.
        mean: a ratio of sums over all texts.
        half: half of its 95% interval, over texts (Student's t); None for a single one.
        rounds, texts: how many there were.
    """

    way: str
    drafted: int
    mean: float
    half: float | None
    rounds: int
    texts: int

    @property
    def interval(self) -> str:
        """Mean and half of the interval, as they are quoted."""
        return f"{self.mean:.2f}" if self.half is None else f"{self.mean:.2f} ± {self.half:.2f}"

    def __str__(self) -> str:
        return f"{self.interval} a round ({self.rounds:,} rounds, {self.texts} texts)"


@dataclass(frozen=True, slots=True)
class Counted:
    """A measurement, and where it was made.

    Attributes:
        pair: its name.
        dtype: of the target.
        temperature, tokens: of each run.
        machine: where.
        kept: a line a way.
        refused: why a way could not be run, by its name.
    """

    pair: str
    dtype: str
    temperature: float
    tokens: int
    machine: Machine
    kept: tuple[Accepted, ...]
    refused: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Counted":
        kept = tuple(Accepted(**each) for each in data["kept"])
        return cls(**{**data, "machine": Machine(**data["machine"]), "kept": kept})


class Count:
    """The measurement, a round at a time: every way on a text before the next text.

    Args:
        pair: what runs.
        prompts: the beginnings.
        seeds: runs of each with each way.
        recipe: what all runs have in common.
    """

    def __init__(
        self, pair: "Pair", prompts: Sequence[str] = PROMPTS, seeds: int = SEEDS, recipe: Recipe = RECIPE
    ):
        self.pair = pair
        self.recipe = recipe
        self.counts: dict[str, list[list[int]]] = {way: [] for way in WAYS}
        self.refused: dict[str, str] = {}
        self._texts = [(prompt, 100 * seed + n) for seed in range(seeds) for n, prompt in enumerate(prompts)]
        self._todo = [(way, prompt, seed) for prompt, seed in self._texts for way in WAYS]
        self.total = len(self._todo)
        self._run: DecodingRun | None = None

    @property
    def made(self) -> int:
        """Runs that are finished."""
        return self.total - len(self._todo)

    @property
    def done(self) -> bool:
        return not self._todo

    @property
    def now(self) -> str:
        """The way at work."""
        return self._todo[0][0]

    def attach(self, pair: "Pair") -> None:
        """Go on with a pair that may have been loaded again: the run at work begins once more."""
        if pair is not self.pair:
            self.pair, self._run = pair, None

    def step(self) -> None:
        """One round. A way that this pair cannot run is left out from then on, and `refused` says why."""
        way, prompt, seed = self._todo[0]
        try:
            if self._run is None:
                self._run = replace(self.recipe, prompt=prompt, seed=seed, **WAYS[way]).start(self.pair)
            self._run.step()
        except ValueError as error:
            self.refused[way], self._run = str(error), None
            self.counts.pop(way, None)
            self._todo = [each for each in self._todo if each[0] != way]
            self.total = len(self._texts) * (len(WAYS) - len(self.refused))
            return
        if self._run.finish is not None:
            # Rounds that drafted nothing do not count.
            self.counts[way].append([round.accepted for round in self._run.rounds if round.k])
            self._run = None
            del self._todo[0]

    def result(self) -> Counted:
        """What is known so far."""
        kept = [_accepted(way, texts, self.recipe) for way, texts in self.counts.items() if any(texts)]
        return Counted(
            self.pair.info.name,
            self.pair.info.target.dtype,
            self.recipe.temperature,
            self.recipe.max_tokens,
            this_machine(str(getattr(self.pair.target, "device", "cpu"))),
            tuple(kept),
            dict(self.refused),
        )


def measure(count: Count, said: Callable[[str], None] = lambda text: None) -> Counted:
    """All of it, at once.

    Args:
        said: told what is being run.
    """
    while not count.done:
        said(f"run {count.made + 1} of {count.total}: {count.now}")
        count.step()
    return count.result()


def recorded() -> Counted:
    """The measurement that ships with SpecViz: what `bench trees --json` printed."""
    text = (resources.files("specviz.speed") / "recorded" / FILE).read_text(encoding="utf-8")
    return Counted.from_dict(json.loads(text)["trees"])


def _accepted(way: str, texts: list[list[int]], recipe: Recipe) -> Accepted:
    """The mean over all rounds, a ratio of sums over the texts, and half of its interval."""
    from scipy.stats import t

    change = WAYS[way]
    drafted = shape(change["tree"]).nodes if "tree" in change else recipe.k
    sums, sizes, n = np.array([sum(x) for x in texts]), np.array([len(x) for x in texts]), len(texts)
    mean = float(sums.sum() / sizes.sum())
    spread = sqrt(float(((sums - mean * sizes) ** 2).sum()) * n / max(1, n - 1)) / sizes.sum()
    half = float(t.ppf(0.975, n - 1)) * float(spread) if n > 1 else None
    return Accepted(way, drafted, mean, half, int(sizes.sum()), n)
