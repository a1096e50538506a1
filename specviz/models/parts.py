"""The trained parts of drafts as torch modules, and the parts of a target that drafts share with it."""

import copy
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, DynamicCache


def body(target: Any, layers: int, dtype: torch.dtype = torch.float32) -> Any:
    """A base model like the target's with fewer layers, random weights and no embedding: drafts take
    the target's. It is fed `inputs_embeds` unless an embedding is set."""
    config = _config(target, layers)
    config.vocab_size, config.pad_token_id = 1, None  # what is made of these is thrown away at once
    made = AutoModel.from_config(config, dtype=dtype)
    made.set_input_embeddings(nn.Identity())
    return made


def decoder_layers(base: Any) -> tuple[str, nn.ModuleList]:
    """Name and list of the decoder layers of a base model.

    Raises:
        ValueError: if there is no such list directly in the model.
    """
    count = base.config.get_text_config().num_hidden_layers
    for name, child in base.named_children():
        if isinstance(child, nn.ModuleList) and len(child) == count:
            return name, child
    raise ValueError(f"{type(base).__name__} does not keep its {count} decoder layers in one list")


def early_exit(target: Any, layers: int) -> Any:
    """A base model of the target's first layers and its final norm, made of the target's own modules.

    The target is only read: the new model has containers and a config of its own around shared weights.
    """
    base = target.base_model
    name, shared = decoder_layers(base)
    with torch.device("meta"):
        made = AutoModel.from_config(_config(target, layers), dtype=target.dtype)
    for child, module in base.named_children():
        setattr(made, child, nn.ModuleList(shared[:layers]) if child == name else module)
    made.training = False  # not .eval(), which would reach into the shared modules
    return made


def _config(target: Any, layers: int) -> Any:
    config = copy.deepcopy(target.base_model.config.get_text_config())
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    return config


class MedusaHeads(nn.Module):
    """One residual block for each future position (Cai et al. 2024, arXiv 2401.10774)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.r = nn.ModuleList(nn.Linear(width, width) for _ in range(heads))

    def forward(self, states: torch.Tensor) -> list[torch.Tensor]:
        """The target's last hidden states (…, width) to a hidden state (…, width) a head."""
        return [states + nn.functional.silu(block(states)) for block in self.r]


class EagleCore(nn.Module):
    """One decoder layer that predicts the next feature (Li et al. 2024, arXiv 2401.15077).

    A feature is the target's last hidden state after its final norm. At a position the layer sees the
    token's embedding and the feature of the token before.
    """

    def __init__(self, target: Any, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        width = target.base_model.config.get_text_config().hidden_size
        self.fc = nn.Linear(2 * width, width, dtype=dtype)
        self.core = body(target, 1, dtype)

    def forward(
        self,
        embedded: torch.Tensor,
        before: torch.Tensor,
        cache: DynamicCache | None = None,
        mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Predicted features (batch, n, width).

        Args:
            embedded: (batch, n, width) embeddings of the tokens.
            before: (batch, n, width) the feature before each token; zeros before the first of a text.
            cache: what came before, to which these positions are added.
            mask: (batch or 1, 1, n, all) added to the attention scores; causal if None.
            positions: (1, n); those behind the cache if None.
        """
        merged = self.fc(torch.cat([embedded, before], dim=-1))
        out = self.core(
            inputs_embeds=merged,
            cache=cache,
            use_cache=cache is not None,
            attention_mask=mask,
            position_ids=positions,
        )
        return out.last_hidden_state
