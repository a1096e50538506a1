"""`bench trees`: what trees of candidates would keep, at the round starts of real runs.

The rule only: every row is an uncached pass, so this says nothing about time.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from specviz.decoding.protocols import LanguageModel, Pair
from specviz.decoding.randomness import SeededRandomness
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.decoding.tree import ROOT, grow, verify_tree
from specviz.recipe import Recipe

# Name, candidates a node on every level, without replacement.
SHAPES: dict[str, tuple[tuple[int, ...], bool]] = {
    "chain of 4": ((1, 1, 1, 1), False),
    "4 nodes (2, 1), i.i.d.": ((2, 1), False),
    "4 nodes (2, 1), distinct": ((2, 1), True),
    "8 nodes (4, 1), distinct": ((4, 1), True),
    "14 nodes (2, 2, 2), i.i.d.": ((2, 2, 2), False),
    "14 nodes (2, 2, 2), distinct": ((2, 2, 2), True),
}


def measure(pair: Pair, prompts: Sequence[str], temperature: float = 1.0) -> dict[str, str]:
    """Accepted draft tokens a round by shape, with 95% intervals over the prompts."""
    assert pair.draft is not None
    kept: dict[str, list[list[int]]] = {name: [] for name in SHAPES}
    recipe = Recipe(k=4, temperature=temperature, max_tokens=48)
    for seed, prompt in enumerate(prompts, 100):
        run = replace(recipe, prompt=prompt, seed=seed).start(pair)
        starts = [round.start for round in run]
        for counts in kept.values():
            counts.append([])
        for number, start in enumerate(starts, 1):
            text = run.tokens[:start]
            draft = _remembered(pair.draft, text, recipe.sampling)
            target = _remembered(pair.target, text, recipe.sampling)
            for name, (widths, distinct) in SHAPES.items():
                randomness = SeededRandomness(seed).round(number)
                tree = grow(draft, widths, randomness, distinct)
                rows = np.stack([target(tree.path(node)) for node in range(ROOT, len(tree.tokens))])
                kept[name][-1].append(verify_tree(rows, tree, randomness).accepted)
    return {name: _mean(texts) for name, texts in kept.items()}


def _remembered(
    model: LanguageModel, text: Sequence[int], sampling: SamplingConfig
) -> Callable[[tuple[int, ...]], np.ndarray]:
    """The model's effective distribution behind the text and a path, each computed once."""
    known: dict[tuple[int, ...], np.ndarray] = {}

    def probs(path: tuple[int, ...]) -> np.ndarray:
        if path not in known:
            tokens = [*text, *path]
            logits = model.forward(tokens, model.new_cache(), 1).logits
            known[path] = effective_probs(logits, [tokens], sampling, model.available).probs[0]
        return known[path]

    return probs


def _mean(texts: list[list[int]]) -> str:
    """The mean over all rounds, a ratio of sums over the texts, and its interval."""
    from scipy.stats import t

    sums, sizes, n = np.array([sum(x) for x in texts]), np.array([len(x) for x in texts]), len(texts)
    mean = sums.sum() / sizes.sum()
    spread = sqrt(float(((sums - mean * sizes) ** 2).sum()) * n / max(1, n - 1)) / sizes.sum()
    half = float(t.ppf(0.975, n - 1)) * spread if n > 1 else float("inf")
    return f"{mean:.3f} ± {half:.3f} a round ({sizes.sum()} rounds, {n} texts)"
