"""Several candidates a position: a tree of draft tokens, and the rule that keeps one path of it.

Recursive rejection (SpecInfer, Miao et al., arXiv 2305.09781). At a node the candidates are judged in the
order in which they were drawn. The first is kept with probability min(1, p/q₁), q₁ being what it was drawn
from. After a refusal the residual max(0, p − q₁), normalised, takes p's place, and the next candidate is
judged against it with its own q₂, and so on; if all are refused the token is drawn from what is left. A kept
candidate is descended into, and p starts afresh there. At a leaf the bonus is drawn from p.

It is exact for candidates drawn in any way, as long as each qⱼ is the distribution that candidate j was
really drawn from *given the candidates before it*: one candidate of any q leaves min(p, q) and its residual,
which add up to p, and the argument repeats on the residual. Three ways to draw them:

- i.i.d. from q: qⱼ = q. A token may come twice; the second time it is refused for certain.
- without replacement: qⱼ is q without the earlier candidates, normalised.
- chosen, not drawn (the k likeliest, say): qⱼ is one-hot. Then the rule is the same as drawing z from p and
  descending if z is a child. Judging such candidates with p/q, as if they had been drawn, is biased.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.trace import Outcome
from specviz.decoding.verify import check_pair, residual

ROOT = -1


@dataclass(frozen=True, slots=True)
class Tree:
    """Draft tokens with their places. Parents stand before their children.

    Attributes:
        tokens: (N,) of the nodes.
        parents: (N,) index of each node's parent; -1 for the committed text itself.
        probs: (N, V) what each token was really drawn from, given its earlier siblings.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    probs: np.ndarray

    def children(self, node: int) -> list[int]:
        """In the order in which they were drawn."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def path(self, node: int) -> tuple[int, ...]:
        """The tokens from the first behind the text to this node; () for the text itself."""
        tokens: tuple[int, ...] = ()
        while node != ROOT:
            tokens, node = (self.tokens[node], *tokens), self.parents[node]
        return tokens


@dataclass(frozen=True, slots=True)
class TreeVerdict:
    """The judgement of a tree.

    Attributes:
        nodes: the path that is kept, from the root down.
        outcome: "bonus" if it ends at a leaf, else "corrected".
        token: the bonus or corrected token.
        residual_empty: rounding left no residual mass, so that the token came from what was there before.
    """

    nodes: tuple[int, ...]
    outcome: Outcome
    token: int
    residual_empty: bool = False

    @property
    def accepted(self) -> int:
        return len(self.nodes)


def grow(
    draft: Callable[[tuple[int, ...]], np.ndarray],
    widths: Sequence[int],
    randomness: RoundRandomness,
    distinct: bool = False,
) -> Tree:
    """Draw a tree level by level.

    Args:
        draft: q (V,) behind the committed text and a path of draft tokens.
        widths: how many candidates every node of a level gets: (2, 2) has 2 + 4 nodes.
        distinct: without replacement; nodes have fewer candidates where q has fewer tokens.
        randomness: draws node i's token with its draft row i.
    """
    tokens: list[int] = []
    parents: list[int] = []
    probs: list[np.ndarray] = []
    paths: dict[int, tuple[int, ...]] = {ROOT: ()}
    level = [ROOT]
    for width in widths:
        below: list[int] = []
        for node in level:
            q = np.asarray(draft(paths[node]), dtype=np.float64)
            for _ in range(width):
                if not q.any():
                    break
                q = q / q.sum()
                child = len(tokens)
                token = randomness.draft(child, q)
                tokens.append(token)
                parents.append(node)
                probs.append(q)
                paths[child] = (*paths[node], token)
                below.append(child)
                if distinct:
                    q = np.where(np.arange(len(q)) == token, 0.0, q)
        level = below
    return Tree(tuple(tokens), tuple(parents), np.array(probs))


def verify_tree(target_probs: np.ndarray, tree: Tree, randomness: RoundRandomness) -> TreeVerdict:
    """Judge a tree so that what is committed follows the target's distribution.

    Args:
        target_probs: (N + 1, V) rows of p: row 0 behind the committed text, row i + 1 behind node i.
        tree: the draft.
        randomness: node i is judged with the accept uniform of row i.

    Raises:
        VerifyError: if a drawn token has q = 0, or a probability is not finite.
    """
    kept: list[int] = []
    node = ROOT
    while children := tree.children(node):
        p, empty = np.asarray(target_probs[node + 1], dtype=np.float64), False
        for child in children:
            token, q = tree.tokens[child], tree.probs[child]
            check_pair(child, float(p[token]), float(q[token]))
            if randomness.accept(child, float(p[token]), float(q[token])):
                kept.append(child)
                node = child
                break
            p, empty = residual(p, q)
            p = p / p.sum()
        else:
            return TreeVerdict(tuple(kept), "corrected", randomness.correct(p), empty)
    return TreeVerdict(tuple(kept), "bonus", randomness.correct(target_probs[node + 1]))
