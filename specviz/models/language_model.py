"""Transformers models behind the engine's `LanguageModel` protocol."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.cache import Cache
from specviz.decoding.protocols import ModelOutput
from specviz.decoding.trace import ModelInfo
from specviz.models.errors import LoadError

# A model whose config names no limit is taken to have none.
NO_LIMIT = 10_000_000

# Largest logit difference that rounding explains between a cached and an uncached pass, by dtype. Over ten
# prompts fed in blocks of 1 to 5 tokens, the built-in target on a CPU differs by at most 0.00011, 0.24 and
# 1.7, at logits up to 41.
TOLERANCE = {"float64": 1e-4, "float32": 1e-3, "float16": 0.5, "bfloat16": 4.0}


class TransformersModel:
    """A causal model of transformers; see `specviz.decoding.protocols.LanguageModel`.

    Args:
        model: a transformers causal model in eval mode, on one device.
        name: shown in errors and results.
        vocab_size: V. Logits beyond it are cut; ids that the model has no logit for are not available.
        known: sorted ids below V that may be emitted; None for all. Padded rows stand for no token.
    """

    def __init__(self, model: Any, name: str, vocab_size: int, known: np.ndarray | None = None) -> None:
        from specviz.models import products

        self.model = model
        self.parameters = products.parameters(model)  # packed later, a tied head has weights of its own
        self.name = name
        self.vocab_size = vocab_size
        config = model.config.get_text_config()
        self.context_length = getattr(config, "max_position_embeddings", None) or NO_LIMIT
        self.device = model.device
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.tolerance = TOLERANCE[self.dtype]
        self.forward_seconds = 0.0
        self.width = self._width()
        ids = np.arange(vocab_size) if known is None else known
        ids = ids[ids < self.width]
        self.available: np.ndarray | None = None if len(ids) == vocab_size else ids

    def _width(self) -> int:
        return int(self.model.get_output_embeddings().weight.shape[0])

    def new_cache(self) -> Any:
        from transformers import DynamicCache

        # Without a config every layer keeps all its positions, those of sliding windows included (the
        # mask still applies the window), so that any layer can be cut anywhere.
        return DynamicCache()

    def forward(self, tokens: Sequence[int], cache: Cache, rows: int, features: bool = False) -> ModelOutput:
        """Feed `tokens` behind what `cache` holds; return the logits of the last `rows` of them."""
        import torch

        began = perf_counter()
        with torch.inference_mode():
            fed = torch.tensor([list(tokens)], device=self.device)
            logits, states = self._pass(fed, cache, rows, features)
            # Half precision goes to float32 before anything is computed from it.
            output = ModelOutput(
                self._spread(logits[0].float().cpu().numpy()), states[0] if features else None
            )
        self.forward_seconds += perf_counter() - began
        return output

    def after_each(self, endings: Sequence[Sequence[int]], cache: Cache) -> np.ndarray:
        """Logits (n, V) of what follows each of n endings of one length, in one pass.

        Args:
            endings: tokens that stand behind what `cache` holds.
            cache: is not changed.
        """
        import torch

        repeated = copy.deepcopy(cache)
        with torch.inference_mode():
            repeated.batch_repeat_interleave(len(endings))  # type: ignore[attr-defined]
            fed = torch.tensor([list(ending) for ending in endings], device=self.device)
            logits, _ = self._pass(fed, repeated, 1, False)
            return self._spread(logits[:, 0].float().cpu().numpy())

    def _pass(self, fed: Any, cache: Cache, rows: int, features: bool) -> tuple[Any, Any]:
        """Feed token ids (batch, n).

        Returns:
            logits (batch, rows, width) and, if asked for, hidden states (batch, n, hidden) after the
            final norm.
        """
        out = self.model(fed, cache=cache, use_cache=True, logits_to_keep=rows, output_hidden_states=features)
        return out.logits, out.hidden_states[-1] if features else None

    def _spread(self, logits: np.ndarray) -> np.ndarray:
        """(rows, width) to (rows, V); what the model cannot emit is -inf."""
        missing = self.vocab_size - logits.shape[1]
        if missing <= 0:
            return logits[:, : self.vocab_size]
        return np.pad(logits, ((0, 0), (0, missing)), constant_values=-np.inf)

    def info(self) -> ModelInfo:
        return ModelInfo(
            name=self.name,
            parameters=self.parameters,
            device=str(self.device),
            dtype=self.dtype,
            layers=self.model.config.get_text_config().num_hidden_layers,
            vocab_size=self.width,
        )


class TrimmedHead:
    """The target's head for some ids only: the others cannot be proposed, and q is 0 there.

    Args:
        weight: (V or more, hidden) of the target's head.
        ids: (n,) sorted ids, as a torch tensor.
        vocab_size: V.
    """

    def __init__(self, weight: Any, ids: Any, vocab_size: int) -> None:
        from specviz.models import products

        self.weight = weight.detach()[ids.to(weight.device)].contiguous()
        self.product = products.packed(self.weight)
        self.ids = ids.cpu().numpy()
        self.vocab_size = vocab_size

    def __len__(self) -> int:
        return len(self.ids)

    def __call__(self, states: Any) -> np.ndarray:
        """Hidden states (rows, hidden) to logits (rows, V) float32."""
        return self.spread(self.product(states).float().cpu().numpy())

    def spread(self, logits: np.ndarray) -> np.ndarray:
        """(rows, n) to (rows, V), -inf elsewhere."""
        spread = np.full((len(logits), self.vocab_size), -np.inf, dtype=np.float32)
        spread[:, self.ids] = logits
        return spread


class TrimmedDraft(TransformersModel):
    """A draft that shares the target's embedding and predicts some of its ids only.

    Args:
        model: a transformers base model (no head) whose embedding is the target's.
        head: the target's head for the ids that the draft can emit, on the model's device.
        own_parameters: parameters that are not the target's.
    """

    def __init__(self, model: Any, head: TrimmedHead, name: str, own_parameters: int) -> None:
        self.head = head
        super().__init__(model, name, head.vocab_size)
        self.available = head.ids
        self.own_parameters = own_parameters

    def _width(self) -> int:
        return len(self.head)

    def _pass(self, fed: Any, cache: Cache, rows: int, features: bool) -> tuple[Any, Any]:
        states = self.model(fed, cache=cache, use_cache=True).last_hidden_state
        return self.head.product(states[:, -rows:]), states if features else None

    def _spread(self, logits: np.ndarray) -> np.ndarray:
        return self.head.spread(logits)

    def info(self) -> ModelInfo:
        return replace(super().info(), parameters=self.own_parameters)


def require_rollback(model: TransformersModel) -> None:
    """Feed one token and refuse a model whose cache cannot be cut.

    Raises:
        LoadError: with the reason.
    """
    from transformers import DynamicCache

    try:
        # Made from the config, a cache has the kinds of layer that the model really keeps.
        cache: Any = DynamicCache(config=model.model.config)
        model.forward([0], cache, rows=1)
        caches.require_cuttable(cache, model.name)
        cache = model.new_cache()
        model.forward([0], cache, rows=1)
    except caches.UncuttableCache as error:
        raise LoadError(str(error)) from error
    if caches.length(cache) != 1:
        raise LoadError(f"{model.name} does not fill a key-value cache, so it cannot be rolled back")
    model.forward_seconds = 0.0
