"""Table models: exact distributions over a tiny vocabulary, behind the same protocols as real models.

The law of the next token depends on the whole history, position by position, so that a cache that
lost, doubled or misplaced a token changes the output.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from specviz.decoding.protocols import ModelOutput
from specviz.decoding.trace import ModelInfo, PairInfo, TokenText


class TableLayer:
    is_croppable = True

    def __init__(self) -> None:
        self.tokens: list[int] = []

    def get_seq_length(self) -> int:
        return len(self.tokens)

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove:
            del self.tokens[tokens_to_remove:]


class TableCache:
    def __init__(self) -> None:
        self.layers = [TableLayer()]


class TableModel:
    """Random but fixed logits for every history, from a hash of (salt, history).

    `law` may be given instead: a function from the history (tuple) to logits (V,).
    """

    tolerance = 1e-9
    forward_seconds = 0.0

    def __init__(self, vocab_size=3, salt=0, law=None, name="table", context_length=64, available=None):
        self.name = name
        self.vocab_size = vocab_size
        self.salt = salt
        self.law = law
        self.context_length = context_length
        self.available = available
        self.passes: list[int] = []
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def new_cache(self) -> TableCache:
        return TableCache()

    def logits(self, history: Sequence[int]) -> np.ndarray:
        history = tuple(history)
        if self.law is not None:
            return np.asarray(self.law(history), dtype=np.float64)
        if history not in self._known:
            rng = np.random.default_rng([self.salt, len(history), *history])
            self._known[history] = rng.normal(0.0, 1.2, self.vocab_size)
        return self._known[history]

    def probs(self, history: Sequence[int]) -> np.ndarray:
        z = np.exp(self.logits(history) - self.logits(history).max())
        return z / z.sum()

    def forward(self, tokens, cache, rows, features=False) -> ModelOutput:
        self.passes.append(len(tokens))
        layer = cache.layers[0]
        out = []
        for token in tokens:
            layer.tokens.append(token)
            out.append(self.logits(layer.tokens))
        return ModelOutput(np.stack(out[-rows:]))


class BranchingLayer(TableLayer):
    """With its tokens as keys (1, 1, n, 1), so that rows of a tree can be picked."""

    @property
    def keys(self) -> np.ndarray:
        return np.array(self.tokens, dtype=np.int64).reshape(1, 1, -1, 1)

    @keys.setter
    def keys(self, keys: np.ndarray) -> None:
        self.tokens = keys.ravel().tolist()

    values = keys


class BranchingTable(TableModel):
    """A table that can be fed a tree: what a token sees through its mask is its history."""

    def new_cache(self) -> TableCache:
        cache = TableCache()
        cache.layers = [BranchingLayer()]
        return cache

    def forward_branching(self, tokens, cache, places, rows, features=False) -> ModelOutput:
        layer = cache.layers[0]
        layer.tokens += tokens
        out = []
        for position, visible in zip(places.positions, places.visible, strict=True):
            history = [layer.tokens[i] for i in np.flatnonzero(visible)]
            assert position == len(history) - 1
            out.append(self.logits(history))
        return ModelOutput(np.stack(out[-rows:]))

    def branching_problem(self) -> str:
        return ""


class TablePair:
    """A pair of table models. Token i prints as the i-th letter; EOS and special ids are settable."""

    def __init__(self, target, draft=None, eos=(), special=()):
        self.target = target
        self.draft = draft
        self.vocab_size = target.vocab_size
        self.eos_ids = frozenset(eos)
        self.special_ids = frozenset(special)
        self.medusa = self.eagle = self.mtp = None
        infos = [
            model and ModelInfo(model.name, 0, "cpu", "float64", 1, self.vocab_size)
            for model in (target, draft)
        ]
        self.info = PairInfo("table", *infos, self.vocab_size, self.vocab_size)

    def encode(self, prompt: str, chat: bool) -> list[int]:
        return [ord(c) - ord("a") for c in prompt]

    def token_text(self, token: int) -> TokenText:
        return TokenText(chr(ord("a") + token).encode(), token in self.special_ids)


def table_pair(vocab_size=3, seed=1, **kwargs) -> TablePair:
    return TablePair(
        TableModel(vocab_size, salt=seed, name="target"),
        TableModel(vocab_size, salt=seed + 1000, name="draft"),
        **kwargs,
    )


def branching_pair(vocab_size=3, seed=1, **kwargs) -> TablePair:
    return TablePair(
        BranchingTable(vocab_size, salt=seed, name="target"),
        BranchingTable(vocab_size, salt=seed + 1000, name="draft"),
        **kwargs,
    )


def joint_law(model: TableModel, prompt: Sequence[int], m: int) -> dict[tuple[int, ...], float]:
    """Exact probability of every continuation of `m` tokens under plain sampling from `model`."""
    law = {}
    for tokens in product(range(model.vocab_size), repeat=m):
        mass = 1.0
        for i, token in enumerate(tokens):
            mass *= model.probs([*prompt, *tokens[:i]])[token]
        law[tokens] = mass
    return law


def total_variation(a: dict, b: dict) -> float:
    return sum(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys()) / 2
