"""The target's exact law of whole continuations, by teacher forcing, and plain samples from it."""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from specviz.decoding.controls import SamplingConfig, bind
from specviz.decoding.protocols import Pair
from specviz.decoding.sampling import effective_probs
from specviz.exactness.remembered import RememberingModel, Text

RECENT = 128  # distributions kept beside the logits


@dataclass(frozen=True, slots=True)
class Cells:
    """All continuations, cut into cells that follow from the law alone.

    Attributes:
        whole: likely continuations, each a cell of its own, with their probability.
        others: likely beginnings, each with the probability of all continuations that begin like this and
            are in no longer cell. The empty beginning is among them.
    """

    whole: dict[Text, float]
    others: dict[Text, float]

    @property
    def masses(self) -> dict[Text, float]:
        return self.whole | self.others

    def of(self, tokens: Text) -> Text:
        """The cell of a continuation."""
        if tokens in self.whole:
            return tokens
        return next(tokens[:i] for i in range(len(tokens), -1, -1) if tokens[:i] in self.others)


class JointLaw:
    """The law of continuations of `length` tokens, or fewer that end with the text.

    Args:
        target: the target, of which rows are remembered.
        pair: says which tokens end a text.
        prompt: what the continuations follow.
        sampling: the target's controls.
        length: tokens.
    """

    def __init__(
        self, target: RememberingModel, pair: Pair, prompt: Text, sampling: SamplingConfig, length: int
    ) -> None:
        self.target = target
        self.pair = pair
        self.prompt = prompt
        self.sampling = bind(sampling, pair, len(prompt))
        self.length = length
        self._recent: OrderedDict[Text, np.ndarray] = OrderedDict()
        self._known: dict[Text, float] = {}

    def following(self, prefix: Text) -> np.ndarray:
        """(V,) the target's effective distribution behind the prompt and `prefix`."""
        if prefix not in self._recent:
            text = (*self.prompt, *prefix)
            logits = self.target.row(text)[None]
            law = effective_probs(logits, [text], self.sampling, self.pair.target.available).probs[0]
            self._recent[prefix] = law
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        self._recent.move_to_end(prefix)
        return self._recent[prefix]

    def weigh(self, continuations: Iterable[Text]) -> None:
        """Compute the probability of continuations, of many at once in few passes."""
        new = sorted({tokens for tokens in continuations if tokens not in self._known})
        self.target.learn((*self.prompt, *tokens[:i]) for tokens in new for i in range(len(tokens)))
        for tokens in new:  # neighbours share prefixes
            ended = any(token in self.pair.eos_ids for token in tokens[:-1])
            mass = 0.0 if ended else 1.0
            for i, token in enumerate(tokens):
                mass *= float(self.following(tokens[:i])[token]) if mass else 0.0
            self._known[tokens] = mass

    def probability(self, tokens: Text) -> float:
        """Of one continuation; 0 for one that goes on behind an end-of-text token."""
        self.weigh([tokens])
        return self._known[tokens]

    def cells(self, smallest: float) -> Cells:
        """The cells whose continuations, or beginnings, have at least this probability."""
        whole: dict[Text, float] = {}
        others: dict[Text, float] = {}
        level: dict[Text, float] = {(): 1.0}
        for depth in range(1, self.length + 1):
            self.target.learn((*self.prompt, *prefix) for prefix in level)
            deeper: dict[Text, float] = {}
            for prefix, mass in level.items():
                probs = self.following(prefix) * mass
                likely = np.flatnonzero(probs >= smallest)
                others[prefix] = max(0.0, float(probs.sum() - probs[likely].sum()))
                for token in likely.tolist():
                    ends = depth == self.length or token in self.pair.eos_ids
                    (whole if ends else deeper)[(*prefix, token)] = float(probs[token])
            level = deeper
        return Cells(whole, others)

    def sample(self, cells: Cells, n: int, rng: np.random.Generator) -> Counter[Text]:
        """How many of n texts drawn from the target alone fall into each cell.

        Token by token, all texts with one beginning at once. A text whose cell is decided is not followed
        any further.
        """
        counts: Counter[Text] = Counter({(): n})
        for prefix in sorted(cells.others, key=len):
            drawn = rng.multinomial(counts[prefix], self.following(prefix))
            for token in np.flatnonzero(drawn).tolist():
                tokens = (*prefix, token)
                if tokens in cells.whole or tokens in cells.others:
                    counts[tokens] = int(drawn[token])
                    counts[prefix] -= int(drawn[token])
        return counts
