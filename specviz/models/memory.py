"""How much memory models take: what is held, what a model will need, what a device has left. In bytes."""

import json
import math
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}


def needed(folder: Path, dtype: str) -> int:
    """What the weights of a folder take in a dtype, from the headers of their files.

    Returns 0 for files that cannot be read; loading them says why.
    """
    count = 0
    for path in folder.glob("*.safetensors"):
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(min(length, path.stat().st_size)))
            count += sum(math.prod(t["shape"]) for name, t in header.items() if name != "__metadata__")
        except (OSError, ValueError, KeyError, TypeError, struct.error):
            return 0
    return count * SIZES.get(dtype, 4)


def held(pairs: Iterable[Any]) -> int:
    """What the weights of loaded pairs take together; what they share counts once."""
    seen: dict[int, int] = {}
    for pair in pairs:
        for model in {id(m): m for m in (pair.target, pair.draft) if m is not None}.values():
            for value in vars(model).values() if hasattr(model, "__dict__") else ():
                _weights(value, seen)
    return sum(seen.values())


def _weights(value: Any, seen: dict[int, int]) -> None:
    """Note the tensors of a module, or of an object that keeps modules."""
    if not hasattr(value, "modules") or not callable(value.modules):
        return
    for module in value.modules():
        for tensor in vars(module).values():
            _tensor(tensor, seen)
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            _tensor(tensor, seen)


def _tensor(value: Any, seen: dict[int, int]) -> None:
    if hasattr(value, "element_size") and hasattr(value, "numel"):
        try:
            place = value.data_ptr()
        except RuntimeError:  # a layout without a plain storage
            place = id(value)
        seen[place] = max(seen.get(place, 0), value.numel() * value.element_size())


def total(device: str) -> int | None:
    """What a device has; None if it does not say."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[1]
    return _system("MemTotal")


def available(device: str) -> int | None:
    """What a device has left; None if it does not say."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return _system("MemAvailable")


def _system(name: str) -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    if name == "MemTotal" and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None
