"""Where models come from: the built-in one, a local folder or GGUF file, the Hugging Face hub.

A source is opened first (config, tokenizer, headers of the weights), so that a pair that cannot work is
refused before weights are read; then it is loaded.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from specviz.models import builtin, gguf, hub, weights
from specviz.models.errors import LoadError, first_line, why
from specviz.models.progress import Progress, Report
from specviz.models.suitability import require_causal_config
from specviz.models.tokens import vocabulary

DTYPES = ("float32", "bfloat16", "float16")
BUILT_IN = "built-in"
AUTO = "auto"  # spread over all GPUs


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model runs, in which dtype, and why in that one."""

    device: str
    dtype: str
    reason: str = field(default="", compare=False)


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
        revision: the hub's commit, "" for what is not from there.
        ignored: what lies beside the weights and was not read, for people.
    """

    source: str
    name: str
    place: Place
    model: Any
    tokenizer: Any
    fingerprint: str
    revision: str = ""
    ignored: tuple[str, ...] = ()

    @property
    def vocab_size(self) -> int:
        """V: one more than the largest id that the tokenizer knows."""
        return max(vocabulary(self.tokenizer)) + 1

    def is_from(self, source: str, place: Place) -> bool:
        """True if `source` at `place` would be this very model again."""
        return (source, place) == (self.source, self.place)

    def known_ids(self) -> np.ndarray:
        """Sorted ids that stand for a token."""
        return np.unique(np.fromiter(vocabulary(self.tokenizer), dtype=np.int64))


def place(device: str | None, dtype: str | None) -> Place:
    """The device and dtype to use, and why; see `pair.load_pair`.

    Raises:
        LoadError: for a device that is not there, or an unknown dtype.
    """
    import torch

    if device is None:
        mps = torch.backends.mps.is_available()
        device = "cuda" if torch.cuda.is_available() else "mps" if mps else "cpu"
    if dtype not in (None, *DTYPES):
        raise LoadError(f"unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}")
    if device == AUTO:
        if not torch.cuda.is_available():
            raise LoadError("the device 'auto' spreads a model over GPUs, and there are none; choose cpu")
    else:
        try:
            torch.empty(1, device=device)
            if device.startswith("meta"):
                raise RuntimeError("it holds no numbers")
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise LoadError(f"the device {device!r} cannot be used: {first_line(error, 120)}") from error
    if dtype is not None:
        return Place(device, dtype, "asked for")
    return Place(device, *_dtype_for(device))


def _dtype_for(device: str) -> tuple[str, str]:
    """The dtype for a device, and why."""
    import torch

    if device.startswith("cuda") or device == AUTO:
        index = None if device in ("cuda", AUTO) else device
        major, minor = torch.cuda.get_device_capability(index)
        if major >= 8:
            return "bfloat16", f"this GPU (compute capability {major}.{minor}) computes in bfloat16 natively"
        return "float32", (
            f"this GPU (compute capability {major}.{minor}) has no native bfloat16, and float16 overflows in "
            "models trained in bfloat16"
        )
    if device == "mps":
        return "float32", "MPS gains little from less, and float16 overflows in models trained in bfloat16"
    return "float32", "a CPU gains little from less, and float32 rounds least"


@dataclass(frozen=True)
class Opened:
    """A source before its weights are read.

    Attributes:
        source: "built-in", a folder, a GGUF file or a hub id.
        name: for people.
        path: the folder, or the GGUF file.
        config: transformers config.
        tokenizer: transformers tokenizer.
        weights: the files; of a GGUF file, the file itself.
        revision: the hub's commit, or "".
    """

    source: str
    name: str
    path: Path
    config: Any
    tokenizer: Any
    weights: weights.Weights
    revision: str = ""

    @property
    def width(self) -> int:
        """Rows of the head, padding included."""
        return int(self.config.get_text_config().vocab_size)

    @cached_property
    def fingerprint(self) -> str:
        return builtin.FINGERPRINT if self.source == BUILT_IN else fingerprint(self.weights.files)

    def load(self, where: Place, report: Report) -> Loaded:
        """Read the weights to their place.

        Raises:
            LoadError: if they do not fit there, or are not those of the config.
        """
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        from specviz.models.steady import guard_transformers

        weights.require_memory(self.weights.numbers, where.device, where.dtype, self.source)
        size = self.weights.size
        report(Progress(f"loading {self.name}", 0, size))
        logging.disable_progress_bar()  # what `report` says is enough
        guard_transformers()
        where_to = AUTO if where.device == AUTO else {"": where.device}
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                **_named(self.path),
                config=self.config,
                dtype=getattr(torch, where.dtype),
                device_map=where_to,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        except Exception as error:  # whatever the many loaders behind the call raise
            raise LoadError(f"{self.source} cannot be loaded from {self.path}: {why(error)}") from error
        model, info = loaded
        weights.require_all_loaded(info, self.source)
        report(Progress(f"loading {self.name}", size, size))
        return Loaded(
            self.source,
            self.name,
            where,
            model.eval(),
            self.tokenizer,
            self.fingerprint,
            self.revision,
            self.weights.ignored,
        )


def open(source: str, report: Report) -> Opened:
    """Config, tokenizer and headers of "built-in", a local folder or GGUF file, or a hub id (with
    "@revision"). Runs no code of theirs.

    Raises:
        LoadError: saying what was tried.
    """
    path, revision = locate(source, report)
    name = builtin.NAME if source == BUILT_IN else path.stem if path.is_file() else Path(source).name
    name = name if not revision else name.partition("@")[0]
    found = gguf.find(path, source) if path.is_file() else weights.find(path, source)
    config, tokenizer = _described(source, path, name, report)
    return Opened(source, name, path, config, tokenizer, found, revision)


@dataclass(frozen=True, slots=True)
class Words:
    """What a source says of its texts, without its weights.

    Attributes:
        name: for people.
        config, tokenizer: transformers'.
        ends: transformers' generation config, which may name more ids that end a text; None without one.
    """

    name: str
    config: Any
    tokenizer: Any
    ends: Any


def words(source: str, report: Report) -> Words:
    """Config and tokenizer of a source whose weights are not needed here, nor downloaded.

    Raises:
        LoadError: saying what was tried.
    """
    from transformers import GenerationConfig

    path, _ = locate(source, report, with_weights=False)
    name = builtin.NAME if source == BUILT_IN else path.stem if path.is_file() else Path(source).name
    config, tokenizer = _described(source, path, name, report)
    try:
        ends = GenerationConfig.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError):
        ends = None
    return Words(name.partition("@")[0], config, tokenizer, ends)


def _described(source: str, path: Path, name: str, report: Report) -> tuple[Any, Any]:
    """Config and tokenizer of a folder or file.

    Raises:
        LoadError: saying what was tried.
    """
    try:
        from transformers import AutoConfig, AutoTokenizer

        config = AutoConfig.from_pretrained(**_named(path), local_files_only=True, trust_remote_code=False)
        require_causal_config(config, source)
        report(Progress(f"reading the tokenizer of {name}", 0, 0))
        tokenizer = AutoTokenizer.from_pretrained(
            **_named(path), local_files_only=True, trust_remote_code=False
        )
    except LoadError:
        raise
    except Exception as error:  # likewise
        raise LoadError(f"{source} cannot be loaded from {path}: {why(error)}") from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise LoadError(f"the tokenizer of {source} has no fast version (tokenizer.json), which is needed")
    if path.is_file():
        gguf.mend_tokenizer(tokenizer, path)
    return config, tokenizer


def load(source: str, where: Place, report: Report) -> Loaded:
    """Open and load at once."""
    return open(source, report).load(where, report)


def _named(path: Path) -> dict[str, Any]:
    """How transformers is told of a folder, or of a GGUF file."""
    if path.is_dir():
        return {"pretrained_model_name_or_path": path}
    return {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}


def fetch(source: str, report: Report) -> Path:
    """The folder or file with a source's model, fetched if need be."""
    return locate(source, report)[0]


def locate(source: str, report: Report, with_weights: bool = True) -> tuple[Path, str]:
    """The folder or file with a source's model, fetched if need be, and the hub's commit; without its weights
    if these are not wanted and the hub has it."""
    if source == BUILT_IN:
        return builtin.fetch(report), ""
    if not source:
        raise LoadError('a model is named by "built-in", a local folder or a hub id, not by nothing')
    path = Path(source).expanduser()
    if path.is_dir():
        return path, ""
    if path.suffix.lower() == gguf.SUFFIX:
        if not path.is_file():
            raise LoadError(f"there is no file {path}")
        return path, ""
    if path.is_file():
        raise LoadError(f"{source} is a file of a kind that is not read; name its folder, or a .gguf file")
    return hub.download(source, report, with_weights)


def fingerprint(files: Any) -> str:
    """Identity of weights: a hash over every file's header and samples of its bytes.

    Reading a large model whole would take minutes; the header fixes names, shapes and dtypes, and the
    samples (64 kB at 64 evenly spaced places of each file) tell trained weights apart.
    """
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        start = 0
        with path.open("rb") as file:
            if path.suffix != gguf.SUFFIX:
                start = 8 + int.from_bytes(file.read(8), "little")
                digest.update(json.dumps(weights.read_header(path), sort_keys=True).encode())
            for sample in range(64):
                file.seek(start + (size - start) * sample // 64)
                digest.update(file.read(1 << 16))
    return f"sampled-sha256:{digest.hexdigest()}"
