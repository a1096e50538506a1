"""Expected rounds along a text, whoever drafts: from the probabilities that its tokens would be kept."""

from dataclasses import dataclass

import numpy as np

MOST_K = 16


@dataclass(frozen=True, slots=True)
class Walk:
    """Expectations over the rounds that write one text.

    Attributes:
        rounds: expected rounds (target passes).
        accepted: expected draft tokens kept.
        drafted: expected draft tokens made by a model.
        copied: expected tokens that a lookup proposed.
    """

    rounds: float
    accepted: float
    drafted: float
    copied: float = 0.0


def kept(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """min(1, q(x)/p(x)): the probability that the text's token came from the draft; 0 where nothing is
    proposed (NaN). `q` is (D, n), `p` (n,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(1.0, q / p[None])
    return np.where(np.isnan(share), 0.0, share)


def walk(
    keep: np.ndarray,
    k: int,
    *,
    endless: bool = True,
    proposed: np.ndarray | None = None,
    copied: np.ndarray | None = None,
    copies: np.ndarray | None = None,
    go_on: np.ndarray | None = None,
) -> Walk:
    """The rounds that write a text of n tokens, with at most `k` drafts each.

    A round never drafts more than can be committed beside the token that the target adds, as the engine
    does near the end of a text. The expectation over all ways in which the rounds may fall is exact.

    Args:
        keep: (D, n) probability that token t is kept when it is draft number d of its block.
        k: 1 … 16.
        endless: whether a block goes on beyond D, with the last row.
        proposed: (D, n) bool: whether there is a proposal at all; everywhere if None.
        copied, copies: (n,) for a lookup that is asked first: how many tokens it proposes at t (0: none, the
            draft is asked), and how many of them are what the text says. At most 16.
        go_on: (n,) bool: whether the draft drafts a token at t, looking at its distribution before it draws.
    """
    depth, n = keep.shape
    rows = [keep[min(i, depth - 1)].tolist() for i in range(k if endless else min(k, depth))]
    there = None if proposed is None else [proposed[min(i, depth - 1)].tolist() for i in range(len(rows))]
    goes = None if go_on is None else go_on.tolist()
    starts = [0.0] * (n + 2)
    starts[0] = 1.0
    rounds = accepted = drafted = looked = 0.0
    for s in range(n):
        here = starts[s]
        if here == 0.0:
            continue
        rounds += here
        room = min(k, n - s - 1)
        if copied is not None and copies is not None and copied[s] > 0:
            length = min(int(copies[s]), room)
            looked += here * min(int(copied[s]), room)
            accepted += here * length
            starts[s + length + 1] += here
            continue
        reached, length = here, 0
        asked = 0
        for i in range(min(room, len(rows))):
            if (goes is not None and not goes[s + i]) or (there is not None and not there[i][s + i]):
                break
            asked += 1
            chance = rows[i][s + i]
            starts[s + i + 1] += reached * (1.0 - chance)
            reached *= chance
            accepted += reached
            length = i + 1
        drafted += here * asked
        starts[s + length + 1] += reached
    return Walk(rounds, accepted, drafted, looked)


def lookups(tokens: list[int], first: int, drafter, most: int = MOST_K) -> tuple[np.ndarray, np.ndarray]:
    """What prompt lookup would propose at each position of a text.

    Args:
        tokens: prompt and answer.
        first: tokens of the prompt.
        drafter: an n-gram drafter; only the text decides what it proposes.

    Returns:
        (n,) tokens proposed, and how many of them, from the first on, are the text's.
    """
    from specviz.decoding.randomness import SeededRandomness

    draws = SeededRandomness(0).round(1)  # a lookup draws nothing
    n = len(tokens) - first
    proposed, right = np.zeros(n, dtype=np.int16), np.zeros(n, dtype=np.int16)
    for t in range(n):
        found = drafter.propose(tokens[: first + t], most, draws).tokens
        proposed[t] = len(found)
        following = tokens[first + t : first + t + len(found)]
        for made, said in zip(found, following, strict=False):
            if made != said:
                break
            right[t] += 1
    return proposed, right


def intervals(numbers: np.ndarray, seed: int = 0, draws: int = 1000) -> np.ndarray:
    """Sums over prompts resampled with replacement.

    Args:
        numbers: (P, C) one row a prompt.

    Returns:
        (draws, C) sums; NaN for a single prompt, which cannot say how prompts differ.
    """
    count = len(numbers)
    if count == 1:
        return np.full((draws, numbers.shape[1]), np.nan)
    weights = np.random.default_rng(seed).multinomial(count, np.full(count, 1.0 / count), size=draws)
    return weights @ numbers


def span(low: float, high: float, form: str = ".2f") -> str:
    """An interval in words."""
    return "one prompt, no interval" if low != low else f"{low:{form}} to {high:{form}}"
