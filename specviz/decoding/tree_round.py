"""A round with a tree: drafted level by level, scored in one pass of the target, judged, and its path kept.

The pass feeds all nodes behind the text, each with the position of its depth and a mask through which it
sees the text and its own ancestors, as if every path stood there alone (SpecInfer, Miao et al., arXiv
2305.09781). Afterwards the caches keep the rows of the path that was kept.

For the record a round with a tree is a line of it from the text to a leaf: the kept path and, where all
candidates were refused, the first of them with its first descendants. On that line q is the draft's own
distribution, so that β, KL and entropies mean what they mean in a chain; what each candidate was really
drawn from and judged against is in `Round.tree`.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.cache import Cache
from specviz.decoding.controls import NothingLeft
from specviz.decoding.drafters.base import Drafter, Proposal, empty_proposal
from specviz.decoding.protocols import LanguageModel, ModelOutput
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.record import Made
from specviz.decoding.rounds import (
    Done,
    Rows,
    RunError,
    cache_step,
    draft_name,
    length,
    located,
    room,
    target_rows,
)
from specviz.decoding.sampling import Effective, NonFiniteLogits
from specviz.decoding.trace import Node
from specviz.decoding.tree import ROOT, Shape, Tree, TreeVerdict, grow, places
from specviz.decoding.verify import Verdict, verifier_name

if TYPE_CHECKING:
    from specviz.decoding.run import DecodingRun


def require_branching(target: LanguageModel, drafter: Drafter, shape: Shape) -> None:
    """Refuse what no tree can be drafted with, or scored by.

    Raises:
        ValueError: saying in one sentence what stands in the way.
    """
    if not hasattr(drafter, "branch"):
        raise ValueError(
            f"the drafter {drafter.kind} proposes one continuation of the text: it does not fill a tree of "
            f"{shape.nodes} candidates"
        )
    for model in (target, getattr(drafter, "model", None)):
        why = "" if model is None else _why_not(model)
        if why:
            raise ValueError(why)


def _why_not(model: Any) -> str:
    problem = getattr(model, "branching_problem", None)
    if problem is None:
        return f"{getattr(model, 'name', 'this draft')} cannot be fed a tree: it takes no attention mask"
    return problem()


class DraftTree:
    """A tree that a drafter fills: behind each node with children, q as it is made of logits.

    Args:
        drafter: one that has `branch`.
        prefix: the committed tokens.
    """

    tree: Tree
    drawn: bool

    def __init__(self, drafter: Any, prefix: Sequence[int]) -> None:
        self.drafter = drafter
        self.prefix = prefix
        self.rows: dict[int, tuple[np.ndarray, Effective, int]] = {}

    def __call__(self, tree: Tree, level: list[int]) -> list[np.ndarray]:
        logits = self.drafter.branch(self.prefix, tree, level)
        prefixes = [[*self.prefix, *tree.path(node)] for node in level]
        sampling, available = self.drafter.sampling, self.drafter.available
        try:
            effective = self.drafter.score(logits, prefixes, sampling, available)
        except NothingLeft:  # some node's controls leave the draft no token: it has no candidates behind it
            return [self._alone(logits, row, prefixes[row], node) for row, node in enumerate(level)]
        except NonFiniteLogits as error:
            raise NonFiniteLogits(len(tree.line(level[0])), error.value) from None
        for row, node in enumerate(level):
            self.rows[node] = logits, effective, row
        return list(effective.probs)

    def _alone(self, logits: np.ndarray, row: int, prefix: Sequence[int], node: int) -> np.ndarray:
        drafter = self.drafter
        try:
            one = drafter.score(logits[row : row + 1], [prefix], drafter.sampling, drafter.available)
        except NothingLeft:
            return np.zeros(logits.shape[1])
        self.rows[node] = logits[row : row + 1], one, 0
        return one.probs[0]

    def proposal(self, line: Sequence[int]) -> Proposal:
        """A line of the tree as a block: q of each row is the draft's own."""
        made = [self.rows[self.tree.parents[node]] for node in line]
        if not made:
            return empty_proposal(self.drafter.vocab_size)
        removed = [rows.removed[row] for _, rows, row in made if rows.removed is not None]
        logs = [rows.log_probs[row] for _, rows, row in made if rows.log_probs is not None]
        return Proposal(
            tokens=[self.tree.tokens[node] for node in line],
            probs=np.stack([rows.probs[row] for _, rows, row in made]),
            logits=np.stack([logits[row] for logits, _, row in made]),
            removed=np.stack(removed) if removed else None,
            logsumexp=np.array([rows.logsumexp[row] for _, rows, row in made]),
            log_probs=logs or None,
            drawn=self.drawn,
        )

    def nodes(
        self, verdict: TreeVerdict, target_probs: np.ndarray, randomness: RoundRandomness
    ) -> tuple[Node, ...]:
        """What a trace keeps of every candidate.

        Args:
            target_probs: (N + 1, V) as the rule was given them.
        """
        tree = self.tree
        return tuple(
            Node(
                parent=parent,
                token=token,
                p=float(target_probs[parent + 1, token]),
                q=float(tree.marginals[node][token]),
                drawn=float(tree.probs[node][token]),
                against=verdict.judged.get(node),
                state="kept" if node in verdict.nodes else "refused" if node in verdict.judged else "unseen",
                u=randomness.accept_u(node),
                draft_u=randomness.draft_u(node) if self.drawn else None,
            )
            for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True))
        )


def draft(
    drafter: Any, prefix: Sequence[int], shape: Shape, depth: int, randomness: RoundRandomness
) -> DraftTree:
    """Draft a tree of at most `depth` levels behind `prefix`; without nodes where the drafter knows nothing.

    Raises:
        ValueError: if the draft's logits cannot be used.
    """
    made = DraftTree(drafter, prefix)
    made.drawn = shape.draw != "top" and not drafter.sampling.greedy
    widths = shape.widths[: min(depth, drafter.deepest(prefix))]
    made.tree = grow(made, Shape(widths, shape.draw), randomness) if widths else Tree((), (), ())
    return made


def score(target: Any, tree: Tree, text: Sequence[int], cache: Cache, features: Any) -> ModelOutput:
    """One pass over what of the text is not cached, and over all nodes: logits (N + 1, V).

    Row 0 is about the token behind the text, row i + 1 about the one behind node i.
    """
    cached = caches.length(cache)
    fed, rows = [*text[cached:], *tree.tokens], len(tree.tokens) + 1
    if not tree.tokens:
        return target.forward(fed, cache, rows, features)
    where = places(tree, range(len(tree.tokens)), len(text), cached)
    return target.forward_branching(fed, cache, where, rows, features)


def main_line(tree: Tree, verdict: TreeVerdict) -> tuple[int, ...]:
    """The kept path, and behind it the first refused candidate with its first descendants."""
    line = list(verdict.nodes)
    while children := tree.children(line[-1] if line else ROOT):
        line.append(children[0])
    return tuple(line)


class LineDraws:
    """The draws of a round as the rows of a line of its tree: row i is what node line[i] was given."""

    def __init__(self, inner: RoundRandomness, line: Sequence[int]) -> None:
        self.inner = inner
        self.line = line

    def draft(self, row: int, weights: np.ndarray) -> int:
        return self.inner.draft(self.line[row], weights)

    def accept(self, row: int, p: float, q: float) -> bool:
        return self.inner.accept(self.line[row], p, q)

    def correct(self, weights: np.ndarray) -> int:
        return self.inner.correct(weights)

    def draft_u(self, row: int) -> float | None:
        return self.inner.draft_u(self.line[row])

    def accept_u(self, row: int) -> float | None:
        return self.inner.accept_u(self.line[row])

    def correct_u(self) -> float | None:
        return self.inner.correct_u()


def on_path(features: Any, text: int, verdict: TreeVerdict) -> Any:
    """Of the features of what was fed, `text` tokens and the nodes, those of the text and the kept path."""
    if features is None:
        return None
    return features[[*range(text), *(text + node for node in verdict.nodes)]]


def make(run: "DecodingRun", number: int, shape: Shape) -> Done:
    """`rounds.make` with a tree of this shape; what is recorded is a line of it."""
    began, randomness = perf_counter(), run.randomness.round(number)
    start, drafter = len(run.tokens), run.drafter
    target_before, draft_before = caches.length(run.target_cache), length(drafter.cache)
    try:
        drafted = draft(drafter, run.tokens, shape, room(run), randomness)
    except ValueError as error:
        raise RunError(located(draft_name(run), number, error)) from error
    tree, drafted_at, draft_after = drafted.tree, perf_counter(), length(drafter.cache)
    output = score(run.pair.target, tree, run.tokens, run.target_cache, drafter.wants_features)
    scored_at, target_after = perf_counter(), start + len(tree.tokens)
    effective = target_rows(run, number, output.logits, tree.paths())
    try:
        verdict = run.tree_verifier(effective.probs, tree, randomness)
    except ValueError as error:
        raise RunError(f"round {number}, {error}") from error

    cut = run.cut([*(tree.tokens[node] for node in verdict.nodes), verdict.token], run.ends(), run.text)
    cached = start + len(cut.tokens) - 1
    line = main_line(tree, verdict)
    rows = [0, *(node + 1 for node in line)]
    path = [start + node for node in verdict.nodes]
    draft_path = [place for place in path if place < draft_after]  # the draft is not fed the last level
    draft_kept = min(start + len(draft_path), cached) if drafter.keeps_drafts else start
    proposal, at_rows = drafted.proposal(line), effective.at(rows)
    round = run.record(
        Made(
            number=number,
            start=start,
            proposal=proposal,
            target_logits=output.logits[rows],
            target_available=run.pair.target.available,
            target=at_rows,
            verdict=Verdict(verdict.accepted, verdict.outcome, verdict.token, verdict.residual_empty),
            randomness=LineDraws(randomness, line),
            committed=cut.tokens,
            finish=cut.finish,
            verifier=verifier_name(run.tree_verifier),
            target_cache=cache_step(target_before, target_after, cached),
            draft_cache=None if drafter.cache is None else cache_step(draft_before, draft_after, draft_kept),
            began=began,
            draft_seconds=drafted_at - began,
            verify_seconds=scored_at - drafted_at,
            tree=drafted.nodes(verdict, effective.probs, randomness),
            share=verdict.share if tree.tokens else None,
        )
    )
    run.note([*cut.tokens, *tree.tokens, *(id for row in round.positions for id in row.table.ids)])
    features = on_path(output.features, start - target_before, verdict)
    text = tuple(range(start))
    return Done(
        round,
        Rows(number, at_rows.probs, proposal.probs),
        None if features is None else features[: cached - target_before],
        cut.tail,
        (
            (run.target_cache, target_after, (*text, *path)),
            (drafter.cache, draft_after, (*text, *draft_path)),
        ),
    )
