"""Models that remember: passes over texts seen before are looked up, the engine around them runs for real.

A cache of such a model is the list of tokens that were fed, so it holds whatever the engine's bookkeeping
put there, right or wrong, and the rows looked up are those of exactly that list.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from cachetools import LRUCache

from specviz.decoding import cache as caches
from specviz.decoding.cache import Cache
from specviz.decoding.protocols import LanguageModel, ModelOutput, Pair
from specviz.decoding.sampling import Effective, SamplingConfig, Scorer
from specviz.models.language_model import TransformersModel

STORE_BYTES = 384 * 2**20  # of logits a model
RECENT_BYTES = 256 * 2**20  # of distributions, and of blocks of logits, a model
BATCH_TOKENS = 2048  # cached and fed positions in one pass over many texts

Text = tuple[int, ...]


class NotLookedUp(Exception):
    """Rows that no pass has given yet. `RememberingModel.learn` makes the pass."""

    def __init__(self, model: "RememberingModel", texts: list[Text]) -> None:
        super().__init__(f"{len(texts)} rows are missing")
        self.model = model
        self.texts = texts


class TokenCache:
    """A cache that holds token ids. One layer, itself."""

    is_croppable = True

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.layers = [self]

    def get_seq_length(self) -> int:
        return len(self.tokens)

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove:
            del self.tokens[tokens_to_remove:]


class RememberingModel:
    """A language model whose `forward` looks rows up, and raises `NotLookedUp` for rows it does not have.

    Args:
        model: the model itself.
        vocab_size: V.
        prompt: what all texts begin with; its keys and values are computed once.

    Attributes:
        capacity: rows that are kept at the same time.
        passes: forward passes made.
        rows: rows computed.
        lookups: rows answered.
    """

    def __init__(self, model: LanguageModel, vocab_size: int, prompt: Sequence[int]) -> None:
        self._model = model
        self._prompt = tuple(prompt)
        self._cache: Cache | None = None  # holds the prompt
        self.capacity = max(64, STORE_BYTES // (4 * vocab_size))
        self._store: LRUCache[Text, np.ndarray] = LRUCache(self.capacity)
        # Rows asked for together before, as one array, which `RememberedScore` knows again.
        self._blocks: LRUCache[tuple[Text, ...], np.ndarray] = LRUCache(
            max(16, RECENT_BYTES // (16 * vocab_size))
        )
        self.passes = self.rows = self.lookups = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._model, name)

    @property
    def bytes(self) -> int:
        """What is kept of logits."""
        return sum(array.nbytes for kept in (self._store, self._blocks) for array in kept.values())

    def new_cache(self) -> TokenCache:
        return TokenCache()

    def forward(
        self, tokens: Sequence[int], cache: TokenCache, rows: int, features: bool = False
    ) -> ModelOutput:
        """As `LanguageModel.forward`, from memory.

        Raises:
            NotLookedUp: before anything is changed.
        """
        if features:
            raise ValueError("hidden states are not remembered")
        text = (*cache.tokens, *tokens)
        texts = tuple(text[: len(text) - behind] for behind in reversed(range(rows)))
        missing = [t for t in texts if t not in self._store]
        if missing:
            raise NotLookedUp(self, missing)
        cache.tokens.extend(tokens)
        self.lookups += rows
        if rows == 1:
            return ModelOutput(self._store[texts[0]])
        if texts not in self._blocks:
            self._blocks[texts] = np.concatenate([self._store[t] for t in texts])
        return ModelOutput(self._blocks[texts])

    def row(self, text: Text) -> np.ndarray:
        """Logits (V,) of what follows `text`."""
        self.learn([text])
        return self._store[text][0]

    def learn(self, texts: Iterable[Text]) -> None:
        """Make the passes for these texts; those of one length share them."""
        by_length: dict[int, list[Text]] = {}
        for text in dict.fromkeys(texts):
            if text not in self._store:
                by_length.setdefault(len(text), []).append(text)
        for length, group in by_length.items():
            size = max(1, BATCH_TOKENS // length) if isinstance(self._model, TransformersModel) else 1
            for start in range(0, len(group), size):
                self._learn(group[start : start + size])

    def _learn(self, texts: list[Text]) -> None:
        """One pass for texts of one length."""
        held = len(self._prompt)
        shared = all(len(t) > held and t[:held] == self._prompt for t in texts)
        self.passes += 1
        self.rows += len(texts)
        if shared and len(texts) > 1:
            endings = [t[held:] for t in texts]
            rows = self._model.after_each(endings, self._prompt_cache())  # type: ignore[attr-defined]
        elif shared:
            cache = self._prompt_cache()
            try:
                rows = np.concatenate([self._model.forward(t[held:], cache, 1).logits for t in texts])
            finally:
                caches.keep(cache, held)
        else:  # the prompt alone, or an odd text such as a faulty cache leaves
            rows = np.concatenate([self._model.forward(t, self._model.new_cache(), 1).logits for t in texts])
        for text, row in zip(texts, rows, strict=True):
            # The rows of one pass share an array, which would stay as long as any of them.
            self._store[text] = row[None].copy()

    def _prompt_cache(self) -> Cache:
        if self._cache is None:
            self._cache = self._model.new_cache()
            self._model.forward(self._prompt, self._cache, 1)
        return self._cache


class RememberedScore:
    """A `Scorer` that knows rows of a remembering model again, so that controls and softmax run once a block.

    For runs with the same controls only. Under controls that look at the text it remembers
    nothing.
    """

    def __init__(self, score: Scorer) -> None:
        self._score = score
        self._known: LRUCache[int, tuple[np.ndarray, Effective]] = LRUCache(
            RECENT_BYTES, getsizeof=lambda known: known[0].nbytes + known[1].nbytes
        )

    @property
    def bytes(self) -> int:
        """What is kept of distributions."""
        return int(self._known.currsize)

    def __call__(
        self,
        logits: np.ndarray,
        prefixes: Sequence[Sequence[int]],
        sampling: SamplingConfig,
        available: np.ndarray | None,
    ) -> Effective:
        if sampling.reads_text:
            return self._score(logits, prefixes, sampling, available)
        known = self._known.get(id(logits))
        if known is None or known[0] is not logits:  # an id may be given again
            known = logits, self._score(logits, prefixes, sampling, available)
            self._known[id(logits)] = known
        return known[1]


class LookupPair:
    """A pair of remembering models."""

    def __init__(self, pair: Pair, prompt: Sequence[int]) -> None:
        self._pair = pair
        self._prompt = prompt
        self._exits: dict[int | None, RememberingModel] = {}
        self.eos_ids = pair.eos_ids
        self.target = RememberingModel(pair.target, pair.vocab_size, prompt)
        self.draft = None if pair.draft is None else RememberingModel(pair.draft, pair.vocab_size, prompt)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._pair, name)

    @property
    def bytes(self) -> int:
        """What all its models keep."""
        models = (self.target, self.draft, *self._exits.values())
        return sum(model.bytes for model in models if model is not None)

    def early_exit(self, layers: int | None) -> RememberingModel:
        if layers not in self._exits:
            self._exits[layers] = RememberingModel(
                self._pair.early_exit(layers), self._pair.vocab_size, self._prompt
            )
        return self._exits[layers]
