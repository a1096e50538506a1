"""How a model's attention runs: a cache that grows in place, and heads of one group side by side.

transformers' dynamic cache copies every key and value in each pass, and its attention copies them once for
each query head of a group, or takes a path of PyTorch that is slower than that. Over 2,048 cached tokens a
row of the built-in target took 68 ms in bfloat16 on an AMD EPYC, 12 of them for the cache and 44 for the
attention; as here it takes 27.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

GROUPED = "specviz_grouped"
SLACK = 64  # positions to spare, at least; and an eighth of what is held
FEW = 32  # query rows; more are a prompt, for which transformers' way is right


class GrowingLayer(DynamicLayer):
    """Keys and values of a layer at the front of larger tensors, so that what comes is written behind them.

    `keys` and `values` show the positions that count. Cutting makes them shorter; what is written next
    takes the place of what was cut.
    """

    _room: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add keys and values (batch, heads, n, width); returns all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        held = self.get_seq_length()
        n = held + key_states.shape[-2]
        room = self._room
        if (
            room is None
            or n > room[0].shape[-2]
            or not (held and _front(self.keys, room[0]) and _front(self.values, room[1]))
        ):
            size = n + max(SLACK, n // 8)
            room = _wider(self.keys, key_states, held, size), _wider(self.values, value_states, held, size)
        room[0][..., held:n, :] = key_states
        room[1][..., held:n, :] = value_states
        self._room = room
        self.keys, self.values = room[0][..., :n, :], room[1][..., :n, :]
        return self.keys, self.values

    def reset(self) -> None:
        super().reset()
        self._room = None


class GrowingCache(DynamicCache):
    """A cache whose layers grow in place. It keeps all positions, those of sliding windows included: the
    mask still applies the window, and any layer can be cut anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_class_to_replicate = GrowingLayer


def _front(part: torch.Tensor, whole: torch.Tensor) -> bool:
    """True if `part` is what `whole` begins with, in the same memory, and not a tensor of its own."""
    return (
        part.data_ptr() == whole.data_ptr()
        and part.stride() == whole.stride()
        and part.shape[:-2] == whole.shape[:-2]
    )


def _wider(held: torch.Tensor, like: torch.Tensor, count: int, size: int) -> torch.Tensor:
    """Room for `size` positions that begins with the `count` that are held."""
    room = like.new_empty((*like.shape[:-2], size, like.shape[-1]))
    if count:
        room[..., :count, :] = held
    return room


def group_heads(model: Any) -> bool:
    """Let a transformers model on a CPU attend with `grouped`; False if it goes its own way or need not.

    Args:
        model: is changed; `ungroup_heads` takes it back.
    """
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    groups = getattr(config, "num_key_value_heads", None) or heads
    if model.device.type != "cpu" or model.config._attn_implementation != "sdpa" or groups == heads:
        return False
    if not model._can_set_attn_implementation():
        return False
    ALL_ATTENTION_FUNCTIONS.register(GROUPED, grouped)
    ALL_MASK_ATTENTION_FUNCTIONS.register(GROUPED, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    model.set_attn_implementation(GROUPED)
    return True


def ungroup_heads(model: Any) -> None:
    model.set_attn_implementation("sdpa")


def grouped(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of few rows, with the query heads that share keys and values as rows of one product.

    Args:
        module: the layer.
        query: (batch, heads, n, width).
        key, value: (batch, groups, all, width).
        attention_mask: (batch or 1, 1, n, all), None for one row that sees everything.

    Returns:
        (batch, n, heads, width), and None for the weights. Anything else that is asked for is left to
        transformers.
    """
    batch, heads, n, width = query.shape
    groups = key.shape[1]
    plain = not dropout and not any(kwargs.get(name) is not None for name in ("softcap", "position_bias"))
    mask_fits = n == 1 if attention_mask is None else attention_mask.shape[1] == 1
    if not (plain and mask_fits and n <= FEW and heads // groups > 1):
        return ALL_ATTENTION_FUNCTIONS["sdpa"](
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    together = heads // groups
    mask = attention_mask
    if mask is not None and n > 1:
        mask = mask.repeat(1, 1, together, 1)
    rows = query.reshape(batch, groups, together * n, width)
    out = scaled_dot_product_attention(rows, key, value, attn_mask=mask, scale=scaling)
    return out.reshape(batch, heads, n, value.shape[-1]).transpose(1, 2).contiguous(), None
