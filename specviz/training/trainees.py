"""What is trained, a class a kind: how it starts, and what it predicts on a batch."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache

from specviz.models import causal, parts
from specviz.models.checkpoints import layouts, stack
from specviz.models.language_model import TransformersModel

MODEL_LAYERS = 3
MEDUSA_HEADS = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts padded at the end to one length L.

    Attributes:
        ids: (B, L).
        states: (B, L, width) the target's last hidden states, after the final norm.
        log_z: (B, L) log normalisers of the target.
        top: (B, L) the target's greedy tokens.
        written: (B, L) true where the next token is one that the target wrote.
    """

    ids: torch.Tensor
    states: torch.Tensor
    log_z: torch.Tensor
    top: torch.Tensor
    written: torch.Tensor

    @property
    def written_rows(self) -> torch.Tensor:
        """(B·L,) for each position its number among the written ones."""
        return self.written.flatten().long().cumsum(0) - 1


class Trainee(nn.Module):
    """A draft in training.

    Attributes:
        kind: kind of drafter.
        embedding: the target's with all that it does to ids, in float32, frozen.
        trained: the module whose weights are trained and saved.
        feature_weight: of the distance to the target's features in the loss.
    """

    kind: str
    feature_weight = 0.0
    embedding: nn.Module

    def __init__(self, target: TransformersModel, trained: nn.Module) -> None:
        super().__init__()
        embedding = target.model.get_input_embeddings()
        if embedding.weight.dtype != torch.float32:
            embedding = copy.deepcopy(embedding).float()
        self.__dict__["embedding"] = embedding  # the target's own: not a part of this module
        self.trained = trained.float()

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """(B, L, width); a family's scale is part of the embedding, so the module itself is asked."""
        with torch.no_grad():
            return self.embedding(ids)

    def predict(self, batch: Batch) -> Iterator[tuple[torch.Tensor, int]]:
        """Predicted hidden states (B, L, width), each with its lead: the one at position i stands for
        the target's at i + lead."""
        raise NotImplementedError

    def tensors(self) -> dict[str, torch.Tensor]:
        """The trained weights by name."""
        return self.trained.state_dict()

    def metadata(self) -> dict[str, str]:
        """What is needed, beside the weights, to build this draft again."""
        return {}

    @classmethod
    def like(cls, target: TransformersModel, metadata: dict[str, str]) -> "Trainee":
        """A draft of the same shape as the one with this metadata."""
        raise NotImplementedError


class ModelTrainee(Trainee):
    """A small model that starts as the target's first layers: the later ones expect a residual stream
    whose scale an embedding does not have."""

    kind = "model"

    def __init__(self, target: TransformersModel, layers: int = MODEL_LAYERS) -> None:
        self.layers = min(layers, target.body.config.get_text_config().num_hidden_layers)
        body = parts.body(target.body, self.layers)
        start = target.body.state_dict()
        body.load_state_dict({name: start[name] for name in body.state_dict()})
        super().__init__(target, body)

    def predict(self, batch: Batch) -> Iterator[tuple[torch.Tensor, int]]:
        yield self.trained(inputs_embeds=self.embed(batch.ids), use_cache=False).last_hidden_state, 0

    def metadata(self) -> dict[str, str]:
        return {"layers": str(self.layers)}

    @classmethod
    def like(cls, target: TransformersModel, metadata: dict[str, str]) -> "ModelTrainee":
        return cls(target, int(metadata["layers"]))


class MedusaTrainee(Trainee):
    """Heads that start as the target's own."""

    kind = "medusa"

    def __init__(self, target: TransformersModel, heads: int = MEDUSA_HEADS) -> None:
        made = parts.MedusaHeads(target.logits_of.width, heads)
        for weight in made.parameters():
            nn.init.zeros_(weight)
        super().__init__(target, made)
        self.heads = heads

    def predict(self, batch: Batch) -> Iterator[tuple[torch.Tensor, int]]:
        # The target's own head gives the token after position i, so the first of these is one further.
        yield from ((states, lead) for lead, states in enumerate(self.trained(batch.states), 1))

    def metadata(self) -> dict[str, str]:
        return {"heads": str(self.heads)}

    @classmethod
    def like(cls, target: TransformersModel, metadata: dict[str, str]) -> "MedusaTrainee":
        return cls(target, int(metadata["heads"]))


class EagleTrainee(Trainee):
    """One layer that starts as the target's last one, trained on the target's features and on its own."""

    kind = "eagle"
    feature_weight = 1.0

    def __init__(self, target: TransformersModel) -> None:
        base = target.body
        made = parts.EagleCore(base, target.logits_of.width)
        list_name = causal.layer_list(base)
        own = made.core.get_submodule(list_name)
        own[0].load_state_dict(base.get_submodule(list_name)[-1].state_dict())
        outside = [name for name in made.core.state_dict() if not name.startswith(f"{list_name}.")]
        start = base.state_dict()
        made.core.load_state_dict({name: start[name] for name in outside}, strict=False)
        _start_at_scale(made.fc, target)
        super().__init__(target, made)

    @classmethod
    def like(cls, target: TransformersModel, metadata: dict[str, str]) -> "EagleTrainee":
        return cls(target)

    def predict(self, batch: Batch) -> Iterator[tuple[torch.Tensor, int]]:
        """First on the target's features, then one step on: on its own feature of the token before.

        In the second step a position attends to itself as made from its own feature, and to the earlier
        ones as made from the target's, just as in a block's second draft token.
        """
        embedded, length = self.embed(batch.ids), batch.ids.shape[1]
        cache = DynamicCache()
        first = self.trained(embedded, _shifted(batch.states), cache)
        yield first, 0
        positions = torch.arange(length, device=embedded.device)
        earlier = positions[:, None] > positions
        seen = torch.cat([earlier, torch.eye(length, dtype=torch.bool, device=embedded.device)], dim=1)
        mask = torch.zeros(seen.shape, device=embedded.device).masked_fill(
            ~seen, torch.finfo(torch.float32).min
        )
        yield self.trained(embedded, _shifted(first), cache, mask[None, None], positions[None]), 0


class EagleOneTrainee(Trainee):
    """EAGLE-1 as engines serve it: a layer of Llama's kind without a norm in front, and no last norm.

    It starts as the state before: what is attended to and the feed-forward part add nothing yet.
    """

    kind = "eagle-1"
    feature_weight = 1.0

    def __init__(self, target: TransformersModel) -> None:
        from transformers import LlamaConfig

        made = stack.EagleOne(LlamaConfig(**layouts.eagle_one(target)), False, False).to_empty(device="cpu")
        for name, weight in made.named_parameters():
            zero = name.endswith(("o_proj.weight", "down_proj.weight"))
            nn.init.ones_(weight) if weight.dim() == 1 else nn.init.normal_(
                weight, 0.0, 0.0 if zero else 0.02
            )
        width = target.logits_of.width
        with torch.no_grad():
            made.fc.weight[:, width:] += torch.eye(width)
        super().__init__(target, made)

    @classmethod
    def like(cls, target: TransformersModel, metadata: dict[str, str]) -> "EagleOneTrainee":
        return cls(target)

    def predict(self, batch: Batch) -> Iterator[tuple[torch.Tensor, int]]:
        """On the target's features, then one step on, as `EagleTrainee` does; nothing looks at the first
        token, which has no state before it."""
        # The bare rows, as engines share them.
        rows = self.embedding.weight
        assert isinstance(rows, torch.Tensor)
        embedded = nn.functional.embedding(batch.ids, rows).detach()
        length = batch.ids.shape[1]
        cache = DynamicCache()
        first, _ = self.trained(embedded, _shifted(batch.states), cache)
        yield first, 0
        positions = torch.arange(length, device=embedded.device)
        earlier = (positions[:, None] > positions) & (positions > 0)
        own = torch.cat([earlier, torch.eye(length, dtype=torch.bool, device=embedded.device)], dim=1)
        yield self.trained(embedded, _shifted(first), cache, own)[0], 0


TRAINEES: dict[str, Any] = {
    cls.kind: cls for cls in (ModelTrainee, MedusaTrainee, EagleTrainee, EagleOneTrainee)
}


def _shifted(states: torch.Tensor) -> torch.Tensor:
    """The state before each position; zeros before the first."""
    return nn.functional.pad(states[:, :-1], (0, 0, 1, 0))


def _start_at_scale(fc: nn.Linear, target: TransformersModel) -> None:
    """Let `fc` start as a sum of feature and embedding, at the scale that the target's last layer expects.

    The feature, with the norm's weight divided out, gets about half of the residual stream's size there
    and the embedding a quarter (shares found by trial on one target).
    """
    width = fc.out_features
    embed = target.model.get_input_embeddings()
    ids = torch.arange(min(256, embed.weight.shape[0]), device=target.device)[None]
    with torch.no_grad():
        stream = target.body(ids, output_hidden_states=True, use_cache=False).hidden_states[-2]
        size = float(stream.float().pow(2).mean(-1).sqrt().median())
        embedding = float(embed(ids).float().pow(2).mean().sqrt())
        fc.weight[:, :width] = size / 4 / embedding * torch.eye(width)
        fc.weight[:, width:] = torch.diag(size / 2 / _norm_weight(target).float().abs().clamp(min=0.1).cpu())
        nn.init.zeros_(fc.bias)


def _norm_weight(target: TransformersModel) -> torch.Tensor:
    """(width,) weight of the final norm: the last vector of that size outside the layers."""
    base = target.body
    list_name = causal.layer_list(base)
    width = target.logits_of.width
    vectors = [
        weight
        for name, weight in base.named_parameters()
        if weight.shape == (width,) and not name.startswith(list_name + ".")
    ]
    return vectors[-1] if vectors else torch.ones(width)
