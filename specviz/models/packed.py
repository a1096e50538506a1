"""Linear layers in oneDNN's own layout of weights; `products` says what they gain and chooses them."""

from typing import Any

import torch
from torch import nn

# Rows that the layout is made for. Layouts for 4 … 16 rows cost the same within 3 %.
ROWS = 8
JOINED = 1 << 22  # weights of a layer; beyond this a call costs nothing beside the product


class PackedLinear(nn.Module):
    """A linear layer whose weight lies in oneDNN's layout; the row-major one is given up.

    Args:
        dense: the layer it stands for, on the CPU.
        tied: its weight is an embedding's, and counted there.
    """

    def __init__(self, dense: nn.Linear, tied: bool = False) -> None:
        super().__init__()
        self.tied = tied
        self.in_features, self.out_features = dense.in_features, dense.out_features
        # Not a buffer: such a tensor has no storage that state_dict, copies or moves could use.
        self._packed: Any = torch.ops.mkldnn._reorder_linear_weight(dense.weight.detach(), ROWS)
        self.bias: torch.Tensor | None
        self.register_buffer("bias", None if dense.bias is None else dense.bias.detach())

    @property
    def weight(self) -> torch.Tensor:
        """(out, in) row-major: a copy, the same numbers."""
        return self._packed.to_dense()

    @property
    def small(self) -> bool:
        """True if the call costs something beside the product."""
        return self._packed.numel() <= JOINED

    @property
    def parameters_count(self) -> int:
        own = 0 if self.tied else self._packed.numel()
        return own + (0 if self.bias is None else self.bias.numel())

    def dense(self) -> nn.Linear:
        """The ordinary layer again."""
        return linear(self.weight, self.bias).train(self.training)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and rows.requires_grad:  # the packed product has no derivative
            return nn.functional.linear(rows, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(rows, self._packed, self.bias, "none", [], "")


class JointLinear(nn.Module):
    """One of several layers that are fed the same rows: the first that is asked multiplies for all.

    Args:
        joint: the layer of all, one below the other.
        start, size: which of its outputs are this layer's.
    """

    def __init__(self, joint: PackedLinear, start: int, size: int) -> None:
        super().__init__()
        self.in_features, self.out_features = joint.in_features, size
        self.joint = joint
        self.start = start

    @property
    def weight(self) -> torch.Tensor:
        return self.joint.weight[self._own]

    @property
    def bias(self) -> torch.Tensor | None:
        return None if self.joint.bias is None else self.joint.bias[self._own]

    @property
    def _own(self) -> slice:
        return slice(self.start, self.start + self.out_features)

    def dense(self) -> nn.Linear:
        """The ordinary layer again."""
        made = linear(self.weight.clone(), None if self.bias is None else self.bias.clone())
        return made.train(self.training)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and rows.requires_grad:
            return nn.functional.linear(rows, self.weight, self.bias)
        # The product waits with the rows themselves, so that it is this thread's and goes when they go.
        held = getattr(rows, "_joint_product", None)
        if held is None or held[0] is not self.joint:
            held = rows._joint_product = self.joint, self.joint(rows)  # type: ignore[attr-defined]
        return held[1].narrow(-1, self.start, self.out_features)


def linear(weight: torch.Tensor, bias: torch.Tensor | None = None) -> nn.Linear:
    """A layer around a weight (out, in) and a bias (out,) that are there already."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer
