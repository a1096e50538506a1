"""Weight files: which of a folder's files make up the model, whether they are whole, and how large.

Only the headers are read. Every fault is one sentence that names the file.
"""

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.models.errors import LoadError
from specviz.models.memory import BYTES, available

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
HEADER_LIMIT = 100_000_000  # bytes, as in safetensors itself


@dataclass(frozen=True, slots=True)
class Weights:
    """The files of one model.

    Attributes:
        files: in the order of their names.
        numbers: how many numbers they hold.
        ignored: what lies beside them and is not read, for people.
    """

    files: tuple[Path, ...]
    numbers: int
    ignored: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.files)


def find(folder: Path, source: str) -> Weights:
    """The weights of a folder: those that its index names, or its one file, and nothing else.

    Raises:
        LoadError: if there are none, or some are missing or cut short.
    """
    files = _named(folder, source)
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise LoadError(
            f"{source} is incomplete: its index names {len(files)} files, and {few(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there. Finish the download and load it again"
        )
    numbers = sum(count(read_header(path)) for path in files)
    strays = {path.name for path in folder.glob("*.safetensors")} - {path.name for path in files}
    adapters = {name for name in strays if name.startswith("adapter")}
    ignored = []
    if adapters or (folder / ADAPTER).is_file():
        ignored.append(f"the adapter beside it is not applied ({few(sorted(adapters)) or ADAPTER})")
    if strays - adapters:
        ignored.append(f"files that its index does not name are not read ({few(sorted(strays - adapters))})")
    return Weights(tuple(files), numbers, tuple(ignored))


def _named(folder: Path, source: str) -> list[Path]:
    """The files that make up the model, whether they are there or not."""
    index = folder / INDEX
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise LoadError(f"the index {index} of {source} cannot be read: {error}") from error
        strange = [name for name in names if not isinstance(name, str) or Path(name).name != name]
        if strange or not names:
            raise LoadError(f"the index {index} of {source} names files outside its folder, or none")
        return [folder / name for name in names]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if (folder / ADAPTER).is_file():
        base = _base_of(folder / ADAPTER)
        raise LoadError(
            f"{source} is an adapter{f' for {base}' if base else ''} and no whole model: merge it into its "
            "base, save that, and load the result"
        )
    other = sorted(path.name for path in folder.glob("*.safetensors"))
    if other:
        raise LoadError(
            f"{source} has neither {SINGLE} nor {INDEX} in {folder}; what is there ({few(other)}) does not "
            "say whether it is the model"
        )
    gguf = sorted(path.name for path in folder.glob("*.gguf"))
    if gguf:
        raise LoadError(f"{source} is a folder with GGUF files: name one of them, as {folder / gguf[0]}")
    pickled = any(folder.glob("*.bin")) or any(folder.glob("*.pt"))
    raise LoadError(
        f"{source}: no .safetensors weights in {folder}"
        + ("; pickled weights are not read" if pickled else "")
    )


def _base_of(path: Path) -> str:
    try:
        return str(json.loads(path.read_text()).get("base_model_name_or_path") or "")
    except (ValueError, AttributeError, OSError):
        return ""


def read_header(path: Path) -> dict[str, Any]:
    """The tensors' part of a safetensors header: name to dtype, shape and offsets.

    Raises:
        LoadError: if the file is damaged or cut short.
    """
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(HEADER_LIMIT, size):
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)  # such as a format name; it may change
        end = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise LoadError(f"the weights {path} are damaged: {error}") from error
    if size < end:
        raise LoadError(
            f"the weights {path} are cut short: {size:,} of {end:,} bytes are there. Download the file again"
        )
    return header


def count(header: dict[str, Any]) -> int:
    """Numbers in the tensors of a header."""
    return sum(math.prod(entry["shape"]) for entry in header.values())


def require_memory(numbers: int, device: str, dtype: str, source: str) -> None:
    """Refuse, before it is read, a model that cannot fit.

    Raises:
        LoadError: with what it needs and what is free.
    """
    free = available(device)
    needed = numbers * BYTES[dtype]
    if free is None or needed <= free:
        return
    smaller = next((name for name in ("bfloat16",) if BYTES[name] * numbers <= free < needed), None)
    advice = f"It would fit with dtype {smaller}" if smaller else "Choose a smaller model or another device"
    raise LoadError(
        f"{source} has {numbers / 1e6:,.0f} M numbers and needs {needed / 2**30:.1f} GiB in {dtype}, and "
        f"{free / 2**30:.1f} GiB are free on {device}. {advice}"
    )


def few(names: Iterable[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def require_all_loaded(info: dict[str, Any], source: str) -> None:
    """Refuse a model some of whose tensors the files lack, or some of whose files' tensors it lacks.

    Args:
        info: transformers' loading info.

    Raises:
        LoadError: naming the tensors.
    """
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    mismatched = sorted(str(entry[0]) for entry in info.get("mismatched_keys", ()))
    if missing:
        raise LoadError(
            f"{source} cannot be used: its files lack {len(missing)} of the model's tensors "
            f"({few(missing)}), "
            "which would be random numbers"
        )
    if unexpected:
        raise LoadError(
            f"{source} cannot be used: its files hold {len(unexpected)} tensors that the model has no place "
            "for "
            f"({few(unexpected)}), so they are those of another model than its config says"
        )
    if mismatched:
        raise LoadError(f"{source} cannot be used: the shapes of {few(mismatched)} differ from its config")
