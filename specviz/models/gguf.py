"""Local GGUF files, which transformers dequantises when it reads them."""

import math
from pathlib import Path
from typing import Any

from specviz.models.errors import LoadError, first_line
from specviz.models.weights import Weights

SUFFIX = ".gguf"


def find(path: Path, source: str) -> Weights:
    """The file as weights, after a look at its header.

    Raises:
        LoadError: if it is no GGUF file, is cut short, or is one of several parts.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
    except Exception as error:  # the reader raises what numpy and struct raise
        raise LoadError(f"{source} is damaged, cut short or no GGUF file: {first_line(error)}") from error
    parts = _value(reader, "split.count")
    if parts and int(parts) > 1:
        raise LoadError(f"{source} is one of {parts} parts: merge them into one file first")
    if not reader.tensors:
        raise LoadError(f"{source} holds no tensors")
    return Weights((path,), sum(math.prod(int(n) for n in tensor.shape) for tensor in reader.tensors))


def mend_tokenizer(tokenizer: Any, path: Path) -> None:
    """Cut texts as the file says by a name that transformers' reader does not know.

    "smollm" makes every digit a word of its own; without it "a  2" would be cut differently.
    """
    from gguf import GGUFReader

    if _value(GGUFReader(path), "tokenizer.ggml.pre") == "smollm":
        split_digits(tokenizer.backend_tokenizer)


def split_digits(backend: Any) -> None:
    """Make every digit a word of its own."""
    from tokenizers import pre_tokenizers

    digits = pre_tokenizers.Digits(individual_digits=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])


def _value(reader: Any, name: str) -> Any:
    field = reader.get_field(name)
    return None if field is None else field.contents()
