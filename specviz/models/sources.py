"""Where models come from: the built-in one, a local folder, the Hugging Face hub."""

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specviz.models import builtin, hub
from specviz.models.errors import LoadError
from specviz.models.progress import Progress, Report

DTYPES = ("float32", "bfloat16", "float16")
BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model runs, and in which dtype."""

    device: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory.

    Attributes:
        source: "built-in", a folder or a hub id.
        name: for people.
        place: where it runs.
        model: transformers causal model.
        tokenizer: transformers tokenizer.
        fingerprint: identifies the weights, whatever device and dtype they run in.
    """

    source: str
    name: str
    place: Place
    model: Any
    tokenizer: Any
    fingerprint: str

    @property
    def vocab_size(self) -> int:
        """V: one more than the largest id that the tokenizer knows."""
        return max(self.tokenizer.get_vocab().values()) + 1

    @property
    def width(self) -> int:
        """Rows of the head, padding included."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    def known_ids(self) -> np.ndarray:
        """Sorted ids that stand for a token."""
        return np.unique(np.fromiter(self.tokenizer.get_vocab().values(), dtype=np.int64))

    def is_from(self, source: str, place: Place) -> bool:
        """True if `source` at `place` would be this very model again."""
        return (source, place) == (self.source, self.place)


def place(device: str | None, dtype: str | None) -> Place:
    """The device and dtype to use; see `pair.load_pair`.

    Raises:
        LoadError: for a device that is not there, or an unknown dtype.
    """
    import torch

    if device is None:
        mps = torch.backends.mps.is_available()
        device = "cuda" if torch.cuda.is_available() else "mps" if mps else "cpu"
    if dtype is None:
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    if dtype not in DTYPES:
        raise LoadError(f"unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LoadError(f"the device {device!r} cannot be used: {reason}") from error
    return Place(device, dtype)


def load(source: str, where: Place, report: Report) -> Loaded:
    """Load a model and its tokenizer from "built-in", a local folder or the hub. Runs no code of theirs.

    Raises:
        LoadError: saying what was tried.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    folder = fetch(source, report)
    name = builtin.NAME if source == BUILT_IN else Path(source).name
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise LoadError(f"{source}: no .safetensors weights in {folder}; pickled weights are not read")
    size = sum(path.stat().st_size for path in weights)
    report(Progress(f"loading {name}", 0, size))
    logging.disable_progress_bar()  # what `report` says is enough
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=getattr(torch, where.dtype),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
        )
        model = model.to(where.device).eval()
    except Exception as error:  # whatever the many loaders behind the two calls raise
        raise LoadError(f"{source} cannot be loaded from {folder}: {error}") from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise LoadError(f"the tokenizer of {source} has no fast version (tokenizer.json), which is needed")
    report(Progress(f"loading {name}", size, size))
    identity = builtin.FINGERPRINT if source == BUILT_IN else fingerprint(weights)
    return Loaded(source, name, where, model, tokenizer, identity)


def fetch(source: str, report: Report) -> Path:
    """The folder with a source's files, fetched if need be."""
    if source == BUILT_IN:
        return builtin.fetch(report)
    if not source:
        raise LoadError('a model is named by "built-in", a local folder or a hub id, not by nothing')
    path = Path(source).expanduser()
    return path if path.is_dir() else hub.download(source, report)


def fingerprint(weights: list[Path]) -> str:
    """Identity of safetensors weights: a hash over every file's header and samples of its bytes.

    Reading a large model whole would take minutes; the header fixes names, shapes and dtypes, and the
    samples (64 kB at 64 evenly spaced places of each file) tell trained weights apart.
    """
    digest = hashlib.sha256()
    for path in weights:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            # The tensors' part of the header: metadata such as a format name may change.
            header = json.loads(file.read(min(length, size)))
            header.pop("__metadata__", None)
            digest.update(json.dumps(header, sort_keys=True).encode())
            for sample in range(64):
                file.seek(8 + length + (size - 8 - length) * sample // 64)
                digest.update(file.read(1 << 16))
    return f"sampled-sha256:{digest.hexdigest()}"
