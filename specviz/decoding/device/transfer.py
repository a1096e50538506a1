"""What goes to a device, and the one copy that comes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """Token ids (n,) on the host and on a device."""

    here: np.ndarray
    there: torch.Tensor


@torch.inference_mode()
def upload(values: Any, device: torch.device) -> torch.Tensor:
    """A tensor of these numbers on the device. On CUDA the copy is queued, and nothing waits for it."""
    made = torch.as_tensor(values)
    if device.type == "cuda":
        made = made.pin_memory()
    return made.to(device, non_blocking=True)


@torch.inference_mode()
def ids_on(tokens: Sequence[Any], device: torch.device) -> torch.Tensor:
    """Token ids (n,) of which some are known here and the others, tensors (1,), are on the device already.

    Args:
        tokens: the known ones first.
    """
    known = [token for token in tokens if not isinstance(token, torch.Tensor)]
    parts = [token for token in tokens if isinstance(token, torch.Tensor)]
    if known or not parts:
        parts.insert(0, upload(np.array(known, dtype=np.int64), device))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


@torch.inference_mode()
def bring(columns: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Tensors of any shape as arrays of float64, in one copy to the host; ids and counts are exact."""
    flat = torch.cat([column.double().reshape(-1) for column in columns.values()]).cpu().numpy()
    ends = np.cumsum([column.numel() for column in columns.values()])
    parts = np.split(flat, ends[:-1])
    return {
        name: part.reshape(tuple(column.shape))
        for (name, column), part in zip(columns.items(), parts, strict=True)
    }
