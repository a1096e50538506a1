"""The files of a draft checkpoint: config, names and shapes first, tensors when they are needed.

A checkpoint is read strictly: every tensor that its layout has must be there under its name and in its
shape, and no other. Engines read less strictly, and a renamed tensor is a random one there.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from specviz.models import weights
from specviz.models.errors import LoadError

# Tables of sines that old versions of transformers saved; they follow from the config.
COMPUTED = "rotary_emb.inv_freq"


def read_config(folder: Path, source: str) -> dict[str, Any]:
    """The folder's config.json; {} if it has none.

    Raises:
        LoadError: if it is no JSON object.
    """
    path = folder / "config.json"
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise LoadError(f"the config of {source} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise LoadError(f"the config of {source} is no JSON object")
    return found


def shapes(files: Iterable[Path]) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor in safetensors files, from their headers."""
    return {
        name: tuple(entry["shape"])
        for path in files
        for name, entry in weights.read_header(path).items()
        if not name.endswith(COMPUTED)
    }


def tensors(files: Iterable[Path], source: str) -> dict[str, Any]:
    """The tensors of safetensors files by name, on the CPU.

    Raises:
        LoadError: if a file is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    found: dict[str, Any] = {}
    for path in files:
        try:
            found |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise LoadError(f"the weights {path} of {source} cannot be read: {error}") from error
    return {name: tensor for name, tensor in found.items() if not name.endswith(COMPUTED)}


def require(found: dict[str, tuple[int, ...]], meant: dict[str, tuple[int, ...]], source: str) -> None:
    """Refuse a checkpoint whose tensors are not those of its layout.

    Args:
        found: shapes by name, as the files have them.
        meant: as the config says.

    Raises:
        LoadError: naming the tensors.
    """
    missing, unknown = sorted(meant.keys() - found.keys()), sorted(found.keys() - meant.keys())
    if missing:
        hint = f" (it holds {weights.few(unknown)}, which has no place)" if unknown else ""
        raise LoadError(f"{source} lacks {weights.few(missing)}, which would be random numbers{hint}")
    if unknown:
        raise LoadError(f"{source} holds {weights.few(unknown)}, which a draft of its kind has no place for")
    for name, shape in meant.items():
        if found[name] != shape:
            raise LoadError(f"{source}: {name} has shape {list(found[name])}, and it should be {list(shape)}")


def fill(module: Any, given: dict[str, Any], named: Callable[[str], str], like: Any) -> None:
    """Put tensors into a module that was made without memory (on "meta"), in the place and dtype of `like`.

    Args:
        given: tensors by their names in the file.
        named: from a name in the module to that in the file.
    """
    state = {
        name: given[named(name)].to(like.device, like.dtype if like.is_floating_point() else None)
        for name in module.state_dict()
    }
    module.load_state_dict(state, assign=True)
    module.eval().requires_grad_(False)
