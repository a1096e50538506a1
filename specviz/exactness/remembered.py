"""Models that remember: passes over texts seen before are looked up, the engine around them runs for real.

A cache of such a model is the list of tokens that were fed, so it holds whatever the engine's bookkeeping
put there, right or wrong, and the rows looked up are those of exactly that list.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.cache import Cache
from specviz.decoding.drafters.base import Block, Proposal
from specviz.decoding.drafters.model import LanguageModelDrafter
from specviz.decoding.protocols import LanguageModel, ModelOutput, Pair
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import Effective
from specviz.models.language_model import TransformersModel

STORE_BYTES = 384 * 2**20  # of logits a model
RECENT = 128  # effective distributions: blocks of the target, rows of the draft
BATCH_TOKENS = 2048  # cached and fed positions in one pass over many texts

Text = tuple[int, ...]


class NotLookedUp(Exception):
    """Rows that no pass has given yet. `RememberingModel.learn` makes the pass."""

    def __init__(self, model: "RememberingModel", texts: list[Text]) -> None:
        super().__init__(f"{len(texts)} rows are missing")
        self.model = model
        self.texts = texts


@dataclass(frozen=True, slots=True)
class RememberedOutput(ModelOutput):
    """Looked-up rows, and the texts that they follow."""

    texts: tuple[Text, ...] = ()


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
        self._store: OrderedDict[Text, np.ndarray] = OrderedDict()
        self.capacity = max(64, STORE_BYTES // (4 * vocab_size))
        self.passes = self.rows = self.lookups = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._model, name)

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
        found = [self._recall(t) for t in texts]
        # A single row is the very array that is stored, by which `RememberedLaws` knows it.
        return RememberedOutput(found[0] if rows == 1 else np.concatenate(found), texts=texts)

    def row(self, text: Text) -> np.ndarray:
        """Logits (V,) of what follows `text`."""
        self.learn([text])
        return self._recall(text)[0]

    def _recall(self, text: Text) -> np.ndarray:
        """(1, V)"""
        self._store.move_to_end(text)
        return self._store[text]

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
        while len(self._store) > self.capacity:
            self._store.popitem(last=False)

    def _prompt_cache(self) -> Cache:
        if self._cache is None:
            self._cache = self._model.new_cache()
            self._model.forward(self._prompt, self._cache, 1)
        return self._cache


class RememberedLaws:
    """The effective distributions of looked-up rows, so that controls and softmax run once a block.

    For runs with the same controls only, and not for repetition penalties, which look at the text.
    """

    def __init__(self) -> None:
        self._target: OrderedDict[tuple[Text, ...], Effective] = OrderedDict()
        self._draft: OrderedDict[int, tuple[np.ndarray, Effective]] = OrderedDict()

    def attach(self, run: DecodingRun) -> None:
        """Let a run use and fill this memory."""
        if run.sampling.repetition_penalty == 1.0:
            run._effective = partial(self._effective, run._effective)  # type: ignore[method-assign]
        drafter: Any = run.drafter
        while hasattr(drafter, "inner"):  # a faulty drafter around a correct one
            drafter = drafter.inner
        if run.draft_sampling.repetition_penalty == 1.0 and isinstance(drafter, LanguageModelDrafter):
            drafter.block = partial(_RememberingBlock, self)

    def _effective(
        self,
        compute: Callable[[int, ModelOutput, Proposal], Effective],
        number: int,
        output: ModelOutput,
        proposal: Proposal,
    ) -> Effective:
        assert isinstance(output, RememberedOutput)
        if output.texts not in self._target:
            _keep(self._target, output.texts, compute(number, output, proposal))
        self._target.move_to_end(output.texts)
        return self._target[output.texts]

    def drafted(self, logits: np.ndarray, compute: Callable[[np.ndarray], Effective]) -> Effective:
        """q of a draft row whose logits (1, V) are those of a remembering model."""
        known = self._draft.get(id(logits))
        if known is None or known[0] is not logits:  # an id may be given again
            known = logits, compute(logits)
            _keep(self._draft, id(logits), known)
        self._draft.move_to_end(id(logits))
        return known[1]


class _RememberingBlock(Block):
    def __init__(self, laws: RememberedLaws, *args: Any) -> None:
        super().__init__(*args)
        self._laws = laws

    def effective(self, logits: np.ndarray) -> Effective:
        return self._laws.drafted(logits, super().effective)


def _keep(memory: OrderedDict, key: Any, value: Any) -> None:
    memory[key] = value
    if len(memory) > RECENT:
        memory.popitem(last=False)


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

    def early_exit(self, layers: int | None) -> RememberingModel:
        if layers not in self._exits:
            self._exits[layers] = RememberingModel(
                self._pair.early_exit(layers), self._pair.vocab_size, self._prompt
            )
        return self._exits[layers]
