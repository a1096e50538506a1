"""The layers of EAGLE drafts as published, made of transformers' own decoder layers.

EAGLE-1 and -2 (SafeAILab/EAGLE, eagle/model/cnets1.py): fc takes a token's embedding and the target's last
hidden state before it, side by side; decoder layers follow, the first one without a norm in front. What
comes out stands for the target's last hidden state, and goes to the target's head.

EAGLE-3 (eagle/model/cnets.py; speculators/models/eagle3): fc takes hidden states of several layers of the
target. The first layer's attention sees the normed embedding and the normed state side by side, so its
projections are twice as wide. What comes out, before the last norm, is what the next step starts from.

In both, a position is a token with what was known before it, so there is none for the first token of a text.
Here it is kept as a row that nothing after it looks at, so that rows are tokens in this cache too; positions
count from the second token, as there.
"""

from typing import Any

import torch
from torch import nn
from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

from specviz.decoding.cache import Cache
from specviz.decoding.cache import length as cached

Where = tuple[torch.Tensor, torch.Tensor]  # see `Stack.around`

# Families of layers by a config's model_type: decoder layer, norm, rotary embedding.
FAMILIES: dict[str, tuple[Any, Any, Any]] = {
    "llama": (
        modeling_llama.LlamaDecoderLayer,
        modeling_llama.LlamaRMSNorm,
        modeling_llama.LlamaRotaryEmbedding,
    ),
    "qwen3": (
        modeling_qwen3.Qwen3DecoderLayer,
        modeling_qwen3.Qwen3RMSNorm,
        modeling_qwen3.Qwen3RotaryEmbedding,
    ),
}


class Stack(nn.Module):
    """Decoder layers of a family. Made without memory: `files.fill` gives it its weights.

    Args:
        config: transformers config of the layers.
        biased: whether queries, keys and values have a bias.
    """

    def __init__(self, config: Any, biased: bool) -> None:
        super().__init__()
        self.config = config
        config._attn_implementation = "sdpa"
        layer, self.norm_class, rotary = FAMILIES[config.model_type]
        self.__dict__["rotary"] = rotary(config)  # no part of the module: it stays in float32
        with torch.device("meta"):
            self.layers = nn.ModuleList(layer(config, i) for i in range(config.num_hidden_layers))
            for each in self.layers:
                self._project(each.self_attn, config.hidden_size, biased)

    def _project(self, attention: Any, width: int, biased: bool) -> None:
        """Give an attention projections from states of `width` numbers."""
        for name in ("q_proj", "k_proj", "v_proj"):
            rows = getattr(attention, name).out_features
            setattr(attention, name, nn.Linear(width, rows, bias=biased))

    def _norm(self, width: int | None = None) -> Any:
        return self.norm_class(width or self.config.hidden_size, eps=self.config.rms_norm_eps)

    def around(
        self, states: torch.Tensor, cache: Cache, own: torch.Tensor | None = None, where: Where | None = None
    ) -> list[dict[str, Any]]:
        """What each layer is called with beside its input, (batch, n, width) states behind what `cache`
        holds.

        Args:
            own: in training, what (n, all) may be looked at, where the same positions are made again.
            where: of nodes of a tree: what each (n, all) may look at, and the places of their tokens (1, n).
        """
        past, fed = (cached(cache), states.shape[1]) if own is None else (0, states.shape[1])
        rows = torch.arange(past, past + fed, device=states.device)
        columns = torch.arange(past + fed, device=states.device)
        # The first row is no position of these drafts: nothing but itself may look at it.
        seen = (columns <= rows[:, None]) & ((columns > 0) | (rows[:, None] == 0))
        positions = (rows - 1).clamp(min=0)[None]
        if where is not None:
            seen, positions = where[0], where[1] - 1
        rotary = self.__dict__["rotary"].to(states.device)(states, positions)
        kinds = getattr(self.config, "layer_types", None) or ["full_attention"] * len(self.layers)
        found = []
        for kind in kinds:
            mask = seen if own is None else own
            if kind == "sliding_attention":
                mask = seen & (columns > rows[:, None] - self.config.sliding_window)
            found.append(
                {
                    "attention_mask": mask[None, None],
                    "position_ids": positions,
                    "position_embeddings": rotary,
                    "cache": cache,
                }
            )
        return found


class EagleOne(Stack):
    """EAGLE-1 and -2.

    Args:
        merge_bias: whether fc has a bias.
    """

    def __init__(self, config: Any, biased: bool, merge_bias: bool) -> None:
        super().__init__(config, biased)
        with torch.device("meta"):
            self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=merge_bias)
        self.layers[0].input_layernorm = nn.Identity()

    def merged(self, features: torch.Tensor) -> torch.Tensor:
        """The target's hidden states as the layers take them."""
        return features

    def forward(
        self,
        embedded: torch.Tensor,
        before: torch.Tensor,
        cache: Cache,
        own: torch.Tensor | None = None,
        where: Where | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, n, width) embeddings and states before them; returns what goes to the head, and on."""
        states = self.fc(torch.cat([embedded, before], dim=-1))
        for layer, beside in zip(self.layers, self.around(states, cache, own, where), strict=True):
            states = layer(states, use_cache=True, **beside)
        return states, states


class EagleThree(Stack):
    """EAGLE-3, with what later configs may ask for.

    Args:
        features: width of the target's hidden states, all those that are taken together.
        taken: how many those are.
        norm_before_residual: the residual stream of the first layer starts from the normed state.
        norm_before_fc: one norm over all hidden states before fc.
        fc_norm: one norm for each of them.
        norm_output: the next step starts from the normed state.
    """

    def __init__(
        self,
        config: Any,
        biased: bool,
        features: int,
        taken: int,
        *,
        norm_before_residual: bool = False,
        norm_before_fc: bool = False,
        fc_norm: bool = False,
        norm_output: bool = False,
    ) -> None:
        super().__init__(config, biased)
        self.norm_before_residual = norm_before_residual
        self.norm_output = norm_output
        width = config.hidden_size
        with torch.device("meta"):
            self.fc = nn.Linear(features, width, bias=False)
            self.norm = self._norm()
            self.input_norm = self._norm(features) if norm_before_fc else None
            self.fc_norm = (
                nn.ModuleList(self._norm(features // taken) for _ in range(taken)) if fc_norm else None
            )
            first: Any = self.layers[0]
            first.hidden_norm = self._norm()
            self._project(first.self_attn, 2 * width, biased)

    def merged(self, features: torch.Tensor) -> torch.Tensor:
        """The target's hidden states, side by side, as one state."""
        if self.input_norm is not None:
            features = self.input_norm(features)
        if self.fc_norm is not None:
            parts = features.chunk(len(self.fc_norm), dim=-1)
            features = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], dim=-1)
        return self.fc(features)

    def forward(
        self, embedded: torch.Tensor, before: torch.Tensor, cache: Cache, where: Where | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(1, n, width) embeddings and states before them; returns what goes to the head, and on."""
        first: Any = self.layers[0]
        beside, *rest = self.around(embedded, cache, where=where)
        normed = first.hidden_norm(before)
        both = torch.cat([first.input_layernorm(embedded), normed], dim=-1)
        states = normed if self.norm_before_residual else before
        states = states + first.self_attn(hidden_states=both, **beside)[0]
        states = states + first.mlp(first.post_attention_layernorm(states))
        for layer, others in zip(self.layers[1:], rest, strict=True):
            states = layer(states, use_cache=True, **others)
        normed = self.norm(states)
        return normed, normed if self.norm_output else states
