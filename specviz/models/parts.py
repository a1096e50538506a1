"""The trained parts of drafts as torch modules."""

from typing import Any

import torch
from torch import nn
from transformers import DynamicCache

from specviz.models import causal


def body(like: Any, layers: int, dtype: torch.dtype = torch.float32) -> Any:
    """A model like the target's body (ids to last hidden state) with fewer layers, random weights and no
    embedding: drafts take the target's. It is fed `inputs_embeds` unless an embedding is set."""
    config = causal.shortened(like.config, layers).get_text_config()
    config.vocab_size, config.pad_token_id = 1, None  # what is made of these is thrown away at once
    made = type(like)(config).to(dtype)
    made.set_input_embeddings(nn.Identity())
    return made


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

    Args:
        like: the target's body.
        width: of embedding and feature.
    """

    def __init__(self, like: Any, width: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.fc = nn.Linear(2 * width, width, dtype=dtype)
        self.core = body(like, 1, dtype)

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
