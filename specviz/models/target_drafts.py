"""Drafts that are made of the target or look at its hidden states; see `specviz.decoding.protocols`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specviz.decoding.cache import Cache
from specviz.decoding.features import Features
from specviz.decoding.protocols import ModelOutput, Places
from specviz.decoding.trace import ModelInfo
from specviz.models import branching
from specviz.models.language_model import TransformersModel
from specviz.models.trimmed import TrimmedHead


class EarlyExit(TransformersModel):
    """The target's first layers, its final norm and its head, around the very same weights.

    Args:
        target: is only read.
        layers: 1 … one less than the target has.

    Raises:
        ValueError: if the target does not have more layers than that, or keeps them in a way that
            cannot be cut.
    """

    def __init__(self, target: TransformersModel, layers: int) -> None:
        depth = target.info().layers
        if not 1 <= layers < depth:
            raise ValueError(f"{target.name} has {depth} layers: exit after 1 … {depth - 1}, not {layers}")
        cut = target.first_layers(layers)
        super().__init__(cut, f"{target.name}, first {layers} layers", target.vocab_size)
        self.available = target.available
        self.context_length = target.context_length


class MedusaDraft:
    """Trained Medusa heads.

    Args:
        heads: `parts.MedusaHeads`, on the target's device.
        head: the target's head over the ids that the draft can propose.
        info: what the draft is.
    """

    def __init__(self, heads: Any, head: TrimmedHead, info: ModelInfo) -> None:
        self.heads = heads
        self.head = head
        self.count = len(heads.r)
        self.available = head.ids
        self._info = info

    def forward(self, feature: Any) -> np.ndarray:
        """Logits (count, V) from a feature (width,)."""
        import torch

        with torch.inference_mode():
            return self.head(torch.stack(self.heads(feature.to(self.head.dtype))))

    def forward_there(self, feature: Any) -> Any:
        """As `forward`, with logits that stay on the device."""
        import torch

        with torch.inference_mode():
            return self.head.there(torch.stack(self.heads(feature.to(self.head.dtype))))

    def info(self) -> ModelInfo:
        return self._info


class EagleDraft:
    """A trained EAGLE-style layer.

    Args:
        core: `parts.EagleCore`, on the target's device.
        embedding: the target's input embedding.
        head: the target's head over the ids that the draft can propose.
        info: what the draft is.
        context_length: the target's.
    """

    reads: Features = True  # the last hidden states

    def __init__(
        self, core: Any, embedding: Any, head: TrimmedHead, info: ModelInfo, context_length: int
    ) -> None:
        self.core = core
        self.embedding = embedding
        self.head = head
        self.available = head.ids
        self.context_length = context_length
        self.no_feature = embedding.weight.new_zeros(core.fc.out_features)
        self._info = info

    def new_cache(self) -> Any:
        from specviz.models.attention import GrowingCache

        return GrowingCache()

    def forward(self, tokens: Sequence[int], before: Sequence[Any], cache: Cache) -> ModelOutput:
        """Feed tokens, each with the feature (width,) of the token before it."""
        import torch

        with torch.inference_mode():
            predicted = self._predicted(tokens, before, cache)
            return ModelOutput(self.head(predicted[None]), predicted)

    def forward_branching(
        self, tokens: Sequence[int], before: Sequence[Any], cache: Cache, places: Places
    ) -> ModelOutput:
        """`forward` for tokens that branch: logits (n, V) behind each, and the feature predicted for it."""
        import torch

        with torch.inference_mode():
            ids = torch.tensor([list(tokens)], device=self.no_feature.device)
            features = torch.stack([feature.to(self.no_feature.dtype) for feature in before])[None]
            mask, positions = branching.tensors(places, features)
            predicted = self.core(self.embedding(ids), features, cache, mask, positions)[0]
            return ModelOutput(self.head(predicted), predicted)

    def branching_problem(self) -> str:
        return ""

    def forward_there(self, tokens: Sequence[Any], before: Sequence[Any], cache: Cache) -> ModelOutput:
        """As `forward`, with logits that stay on the device; tokens may be tensors (1,) there."""
        import torch

        with torch.inference_mode():
            predicted = self._predicted(tokens, before, cache)
            return ModelOutput(self.head.there(predicted[None]), predicted)

    def _predicted(self, tokens: Sequence[Any], before: Sequence[Any], cache: Cache) -> Any:
        import torch

        from specviz.decoding.device.transfer import ids_on

        ids = ids_on(tokens, self.no_feature.device)[None]
        features = torch.stack([feature.to(self.no_feature.dtype) for feature in before])[None]
        return self.core(self.embedding(ids), features, cache)[0, -1]

    def info(self) -> ModelInfo:
        return self._info
