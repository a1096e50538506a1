"""A target's head cut to some ids, and a draft that predicts with it."""

from dataclasses import replace
from typing import Any

import numpy as np

from specviz.decoding.cache import Cache
from specviz.decoding.features import Features
from specviz.decoding.trace import ModelInfo
from specviz.models.language_model import TransformersModel


class TrimmedHead:
    """The target's head for some ids only: the others cannot be proposed, and q is 0 there.

    Args:
        head: the target's.
        ids: (n,) sorted ids, as a torch tensor.
        vocab_size: V.

    Raises:
        ValueError: if the head cannot be cut to some ids.
    """

    def __init__(self, head: Any, ids: Any, vocab_size: int) -> None:
        self.head = head.trimmed(ids).packed()
        self.ids = ids.cpu().numpy()
        self._ids_there = ids.to(self.head.device)
        self.vocab_size = vocab_size

    @property
    def dtype(self) -> Any:
        return self.head.dtype

    @property
    def width(self) -> int:
        """Of a hidden state."""
        return self.head.width

    def __len__(self) -> int:
        return len(self.ids)

    def __call__(self, states: Any) -> np.ndarray:
        """Hidden states (rows, hidden) to logits (rows, V) float32."""
        return self.spread(self.head(states).float().cpu().numpy())

    def spread(self, logits: np.ndarray) -> np.ndarray:
        """(rows, n) to (rows, V), -inf elsewhere."""
        return spread(logits, self.ids, self.vocab_size)

    def there(self, states: Any) -> Any:
        """As the call, with logits that stay on the device."""
        return self.spread_there(self.head(states).float())

    def spread_there(self, logits: Any) -> Any:
        return spread_there(logits, self._ids_there, self.vocab_size)


def spread(logits: np.ndarray, ids: np.ndarray, vocab_size: int) -> np.ndarray:
    """Logits (rows, n) of some ids to (rows, V), -inf elsewhere."""
    made = np.full((len(logits), vocab_size), -np.inf, dtype=np.float32)
    made[:, ids] = logits
    return made


def spread_there(logits: Any, ids: Any, vocab_size: int) -> Any:
    """`spread` with tensors on one device."""
    import torch

    made = torch.full((len(logits), vocab_size), -torch.inf, device=logits.device)
    return made.index_copy(1, ids, logits)


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

    def _pass(self, fed: Any, cache: Cache, rows: int, features: Features, **more: Any) -> tuple[Any, Any]:
        states = self.model(fed, cache=cache, use_cache=True, **more).last_hidden_state
        return self.head.head(states[:, -rows:]), states if features else None

    def on_all(self, logits: np.ndarray) -> np.ndarray:
        return self.head.spread(logits)

    def on_all_there(self, logits: Any) -> Any:
        return self.head.spread_there(logits)

    def info(self) -> ModelInfo:
        return replace(super().info(), parameters=self.own_parameters)
