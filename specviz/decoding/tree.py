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

How a tree is drafted and scored in a run stands in `tree_round`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from specviz.decoding.block import EXACT_RULES
from specviz.decoding.protocols import Places
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.trace import Node, Outcome
from specviz.decoding.verify import check_pair, residual

ROOT = -1
TREE = "tree"
MOST_NODES = 64

Draw = Literal["distinct", "iid", "top"]


@dataclass(frozen=True, slots=True)
class Shape:
    """How many candidates a tree has, and how they are drawn.

    Attributes:
        widths: candidates of every node of a level: (2, 1) has 2 + 2 nodes.
        draw: "distinct" without replacement, "iid" with it, "top" the likeliest ones, chosen.
    """

    widths: tuple[int, ...]
    draw: Draw = "distinct"

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1:
            raise ValueError("a tree needs at least one level, and each level at least one candidate a node")
        if self.nodes > MOST_NODES:
            raise ValueError(f"a tree has at most {MOST_NODES} nodes here, and this one has {self.nodes}")
        if self.draw not in get_args(Draw):
            raise ValueError(f"candidates are drawn {', '.join(get_args(Draw))}, not {self.draw!r}")

    @property
    def nodes(self) -> int:
        return int(np.cumprod(np.array(self.widths, dtype=np.float64)).sum())

    @property
    def depth(self) -> int:
        return len(self.widths)

    def __str__(self) -> str:
        """As in a recipe: "2-1-1", with ":iid" or ":top" behind it unless the candidates are distinct."""
        text = "-".join(map(str, self.widths))
        return text if self.draw == "distinct" else f"{text}:{self.draw}"


# By number of nodes.
SHAPES = {"4": (2, 1), "8": (2, 1, 1, 1), "16": (4, 1, 1, 1)}


def shape(text: str) -> Shape:
    """The shape that a text asks for: "4", "8", "16", or widths by level as "2-2-1"; ":iid" or ":top" behind.

    Raises:
        ValueError: if it asks for none.
    """
    size, _, draw = text.partition(":")
    if not re.fullmatch(r"\d{1,3}(-\d{1,3}){0,15}", size):
        raise ValueError(
            f"the tree {text!r} is not understood: say 4, 8 or 16 nodes, or candidates a level as 2-2-1, "
            "with :iid or :top behind it"
        )
    widths = SHAPES.get(size) or tuple(int(width) for width in size.split("-"))
    return Shape(widths, draw or "distinct")  # type: ignore[arg-type]  # the shape checks it


@dataclass(frozen=True, slots=True)
class Tree:
    """Draft tokens with their places. Parents stand before their children, level by level.

    Attributes:
        tokens: (N,) of the nodes.
        parents: (N,) index of each node's parent; -1 for the committed text itself.
        probs: N rows (V,), what each token was really drawn from, given its earlier siblings.
        marginals: N rows (V,), q behind each node's parent, before any sibling was drawn.
    """

    tokens: Sequence[int]
    parents: Sequence[int]
    probs: Sequence[np.ndarray]
    marginals: Sequence[np.ndarray] = ()

    def children(self, node: int) -> list[int]:
        """In the order in which they were drawn."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def line(self, node: int) -> tuple[int, ...]:
        """The nodes from the first behind the text to this one; () for the text itself."""
        nodes: tuple[int, ...] = ()
        while node != ROOT:
            nodes, node = (node, *nodes), self.parents[node]
        return nodes

    def path(self, node: int) -> tuple[int, ...]:
        """Their tokens."""
        return tuple(self.tokens[each] for each in self.line(node))

    def paths(self) -> list[tuple[int, ...]]:
        """(N + 1) paths: the text's own, then that to each node."""
        return [self.path(node) for node in range(ROOT, len(self.tokens))]


def children_of(nodes: Sequence[Node], parent: int) -> list[int]:
    """Indices of the recorded candidates behind one, in the order in which they were drawn."""
    return [i for i, node in enumerate(nodes) if node.parent == parent]


def main_line(nodes: Sequence[Node]) -> tuple[int, ...]:
    """Indices of the candidates that a round's positions are: the kept path and, behind it, the first
    refused candidate with its first descendants."""
    line: list[int] = []
    while children := children_of(nodes, line[-1] if line else ROOT):
        line.append(next((child for child in children if nodes[child].state == "kept"), children[0]))
    return tuple(line)


@dataclass(frozen=True, slots=True)
class TreeVerdict:
    """The judgement of a tree.

    Attributes:
        nodes: the path that is kept, from the root down.
        outcome: "bonus" if it ends at a leaf, else "corrected".
        token: the bonus or corrected token.
        residual_empty: rounding left no residual mass, so that the token came from what was there before.
        judged: of every node that was judged, the probability of its token under what stood in p's place.
        share: of `token` in what it was drawn from.
    """

    nodes: tuple[int, ...]
    outcome: Outcome
    token: int
    residual_empty: bool = False
    judged: dict[int, float] = field(default_factory=dict)
    share: float = 1.0

    @property
    def accepted(self) -> int:
        return len(self.nodes)


TreeVerifier = Callable[[np.ndarray, Tree, RoundRandomness], TreeVerdict]


def grow(
    draft: Callable[[Tree, list[int]], Sequence[np.ndarray]],
    shape: Shape,
    randomness: RoundRandomness,
) -> Tree:
    """Draw a tree level by level.

    Args:
        draft: q, a row (V,) behind each of some nodes of the tree so far.
        shape: nodes have fewer candidates where q has fewer tokens to draw without replacement.
        randomness: draws node i's token with its draft row i.
    """
    tree = Tree([], [], [], [])
    tokens, parents, probs, marginals = tree.tokens, tree.parents, tree.probs, tree.marginals
    assert isinstance(tokens, list) and isinstance(parents, list)
    assert isinstance(probs, list) and isinstance(marginals, list)
    level = [ROOT]
    for width in shape.widths:
        below: list[int] = []
        for node, marginal in zip(level, draft(tree, level), strict=True):
            q = np.asarray(marginal, dtype=np.float64)
            for _ in range(width):
                if not q.any():
                    break
                child = len(tokens)
                below.append(child)
                parents.append(node)
                marginals.append(marginal)
                if shape.draw == "top":
                    token = int(q.argmax())
                    probs.append(_only(token, len(q)))
                else:
                    q = q / q.sum()
                    token = randomness.draft(child, q)
                    probs.append(q)
                tokens.append(token)
                if shape.draw != "iid":
                    q = np.where(np.arange(len(q)) == token, 0.0, q)
        level = below
    return Tree(tuple(tokens), tuple(parents), tuple(probs), tuple(marginals))


def places(tree: Tree, nodes: Sequence[int], start: int, cached: int) -> Places:
    """Where the text that is not cached and then `nodes` stand, and what each may see.

    Args:
        tree: all nodes before `nodes` are cached already, in the order of the tree.
        start: tokens of the text.
        cached: positions that the cache holds.
    """
    text = list(range(cached, start))
    visible = np.zeros((len(text) + len(nodes), cached + len(text) + len(nodes)), dtype=bool)
    for row, place in enumerate(text):
        visible[row, : place + 1] = True
    depths = []
    for row, node in enumerate(nodes, len(text)):
        line = tree.line(node)
        visible[row, :start] = True
        visible[row, [start + each for each in line]] = True
        depths.append(start + len(line) - 1)
    return Places(np.array([*text, *depths]), visible)


def _only(token: int, size: int) -> np.ndarray:
    row = np.zeros(size)
    row[token] = 1.0
    return row


def verify_tree(target_probs: np.ndarray, tree: Tree, randomness: RoundRandomness) -> TreeVerdict:
    """Judge a tree so that what is committed follows the target's distribution.

    Args:
        target_probs: (N + 1, V) rows of p: row 0 behind the committed text, row i + 1 behind node i.
        tree: the draft.
        randomness: node i is judged with the accept uniform of row i.

    Raises:
        VerifyError: if a drawn token has q = 0, or a probability is not finite.
    """
    return descend(target_probs, tree, randomness, tree.probs)


def descend(
    target_probs: np.ndarray, tree: Tree, randomness: RoundRandomness, rows: Sequence[np.ndarray]
) -> TreeVerdict:
    """`verify_tree` with `rows` for what each node was drawn from: right only if they are that."""
    kept: list[int] = []
    judged: dict[int, float] = {}
    node = ROOT
    while children := tree.children(node):
        p, empty = np.asarray(target_probs[node + 1], dtype=np.float64), False
        for child in children:
            token, q = tree.tokens[child], rows[child]
            judged[child] = float(p[token])
            check_pair(child, judged[child], float(q[token]))
            if randomness.accept(child, judged[child], float(q[token])):
                kept.append(child)
                node = child
                break
            p, empty = residual(p, q)
            p = p / p.sum()
        else:
            drawn = randomness.correct(p)
            return TreeVerdict(tuple(kept), "corrected", drawn, empty, judged, float(p[drawn]))
    p = target_probs[node + 1]
    drawn = randomness.correct(p)
    return TreeVerdict(tuple(kept), "bonus", drawn, False, judged, float(p[drawn]))


verify_tree.__name__ = TREE  # what rounds record

# By name, the rules under which the output follows the target's distribution.
EXACT_NAMES = frozenset({*EXACT_RULES, TREE})
