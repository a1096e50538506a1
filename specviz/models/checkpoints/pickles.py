"""From pickled tensors to safetensors, without running what else a pickle may hold.

torch's `weights_only` unpickler makes tensors and plain containers, and refuses everything else before it is
made. What is written then is read like any other checkpoint.
"""

import shutil
from pathlib import Path

from specviz.models.errors import LoadError, first_line
from specviz.models.hub import MEDUSA
from specviz.models.weights import SINGLE

# What EAGLE's and Medusa's authors published, and what it becomes.
NAMES = {"pytorch_model.bin": SINGLE, "medusa_lm_head.pt": MEDUSA}


def convert(folder: Path, out: Path) -> Path:
    """Write the pickled tensors of a draft checkpoint as safetensors, beside a copy of its config.

    Args:
        folder: with a config.json, and one of the files of `NAMES`.
        out: a folder that is made, or has nothing in it.

    Returns:
        the file that was written.

    Raises:
        LoadError: if there is no such file, or it holds anything but tensors.
    """
    import torch
    from safetensors.torch import save_file

    name = next((name for name in NAMES if (folder / name).is_file()), None)
    if name is None:
        raise LoadError(f"{folder} holds none of {', '.join(NAMES)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LoadError(f"{out} is there already: name a new folder")
    try:
        found = torch.load(folder / name, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the unpickler says of what it does not make
        raise LoadError(
            f"{folder / name} holds more than tensors, or is damaged: {first_line(error)}"
        ) from error
    if not isinstance(found, dict) or not found:
        raise LoadError(f"{folder / name} holds no tensors by name")
    strange = [str(key) for key, value in found.items() if not isinstance(value, torch.Tensor)]
    if strange:
        raise LoadError(f"{folder / name} holds something else than a tensor under {strange[0]!r}")
    out.mkdir(parents=True, exist_ok=True)
    # Copies: heads that share a tensor would share it in the file.
    save_file({str(key): value.clone().contiguous() for key, value in found.items()}, out / NAMES[name])
    if (folder / "config.json").is_file():
        shutil.copyfile(folder / "config.json", out / "config.json")
    return out / NAMES[name]
