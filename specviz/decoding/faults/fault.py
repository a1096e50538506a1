"""What a fault is: where it differs from a correct engine, and what becomes of the output."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from specviz.decoding.drafters import Drafter
from specviz.decoding.ending import Cutter, cut
from specviz.decoding.faults.rules import EXACT, Hand, Output, Rule, make_verifier, output
from specviz.decoding.faults.spot import Spot
from specviz.decoding.protocols import Pair
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig, Scorer
from specviz.decoding.tree import Shape, TreeVerifier
from specviz.decoding.verify import Verifier

Kind = Literal["law", "lossy", "wasteful", "bookkeeping"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One variation of the engine.

    Attributes:
        name: identifies it on the command line, in links and in traces.
        title: for people.
        kind: "law" changes the output's distribution by mistake, "lossy" by design; "wasteful" is exact and
            accepts less than it could; "bookkeeping" leaves the rule alone and spoils what it is fed.
        does: one sentence.
        timeline: how it looks on the timeline.
        needs: the conditions under which it shows, "" if it always does.
        seen: public threads or papers, as "owner/repository#number" or "arXiv number".
        rule: the rule for one position.
        deal: what the rule is given at a position.
        verifier: the rule for a block.
        one_position: True if the rows of one position alone decide what comes out there, so that `law`
            exists. Bookkeeping faults are of this kind: given right rows, the output follows p.
        rejudge: True if recorded rounds can be judged again by it; False if it looks at single tokens
            of a trace's rest, at other rows, or is no matter of the rule.
        change_pair, change_drafter, score, cut: what else is different in a run.
        tree, tree_verifier: of a fault in judging trees: the shape that runs have if they are given none, how
            its candidates are drawn, and the rule.
    """

    name: str
    title: str
    kind: Kind
    does: str
    timeline: str
    needs: str = ""
    seen: tuple[str, ...] = ()
    rule: Rule = EXACT
    deal: Callable[[Spot], Hand] = field(default=lambda spot: spot.hand)
    verifier: Verifier = field(default=None)  # type: ignore[assignment]  # made from the rule
    one_position: bool = True
    rejudge: bool = True
    change_pair: Callable[[Pair], Pair] = field(default=lambda pair: pair)
    change_drafter: Callable[[Drafter, SamplingConfig], Drafter] | None = None
    score: Scorer | None = None
    cut: Cutter = cut
    tree: Shape | None = None
    tree_verifier: TreeVerifier | None = None

    def __post_init__(self) -> None:
        if self.verifier is None:
            object.__setattr__(self, "verifier", make_verifier(self.name, self.rule))
        self.verifier.__name__ = self.name
        if self.tree_verifier is not None:
            self.tree_verifier.__name__ = self.name

    @property
    def links(self) -> tuple[str, ...]:
        """Addresses of `seen`."""
        return tuple(_link(reference) for reference in self.seen)

    def output(self, spot: Spot) -> Output | None:
        """The exact distribution of the token that this fault puts at a position; None if there is none."""
        return output(self.rule, self.deal(spot)) if self.one_position else None

    def law(self, spot: Spot) -> np.ndarray | None:
        """(V,) float64, or None if one position does not decide it."""
        result = self.output(spot)
        return None if result is None else result.law

    def tv(self, spot: Spot) -> float | None:
        """Total variation distance between what the fault gives and p."""
        law = self.law(spot)
        return None if law is None else float(np.abs(law - spot.p).sum() / 2)

    def acceptance(self, spot: Spot) -> float | None:
        """Probability that the draft token of this position is kept; the exact rule's is β."""
        result = self.output(spot)
        return None if result is None else result.acceptance

    def start(self, pair: Pair, prompt: Any, **settings: Any) -> DecodingRun:
        """A run with this fault; the arguments are those of `DecodingRun`, less `verifier` and `cut`.

        A `score` that is given takes the place of the fault's.
        """
        pair = self.change_pair(pair)
        settings.setdefault("score", self.score)
        if self.tree is not None and self.tree_verifier is not None:
            given = settings.pop("tree", None) or self.tree
            tree = Shape(given.widths, self.tree.draw)
            return DecodingRun(pair, prompt, tree=tree, tree_verifier=self.tree_verifier, **settings)
        return DecodingRun(
            pair,
            prompt,
            verifier=self.verifier,
            cut=self.cut,
            change_drafter=self.change_drafter,
            **settings,
        )


def _link(reference: str) -> str:
    if reference.startswith("arXiv "):
        return f"https://arxiv.org/abs/{reference.removeprefix('arXiv ')}"
    repository, number = reference.split("#")
    return f"https://github.com/{repository}/issues/{number}"  # leads to pull requests too
