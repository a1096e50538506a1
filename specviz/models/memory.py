"""How much memory models take: what is held, what a model will need, what a device has left. In bytes."""

import ctypes
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def needed(path: Path, dtype: str) -> int:
    """What the weights of a folder or GGUF file take in a dtype, from their headers.

    Returns 0 for files that cannot be read; loading them says why.
    """
    from specviz.models import gguf, weights
    from specviz.models.errors import LoadError

    try:
        found = gguf.find(path, path.name) if path.is_file() else weights.find(path, path.name)
    except (LoadError, OSError):
        return 0
    return found.numbers * BYTES[dtype]


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


def give_back() -> None:
    """Let the C library return freed memory to the system, where it can be told to.

    It keeps what lies below anything that is still in use: 300 MiB behind the loading of the built-in pair.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            _libc().malloc_trim(0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL("libc.so.6")


def total(device: str) -> int | None:
    """What a device has; None if it does not say."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[1]
    return _system("MemTotal")


def available(device: str) -> int | None:
    """What a device has left ("auto": all GPUs together); None if it does not say."""
    if device == "auto":
        import torch

        return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in range(torch.cuda.device_count()))
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
