"""Trained draft weights that ship with SpecViz, and the models built around them.

A file holds only what was trained. Its metadata says the kind, the target it was trained for and how
well it does; the structure (depth, vocabulary) is read from the file, so that a better draft of another
size only replaces the file.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.models.errors import LoadError
from specviz.models.language_model import TransformersModel, TrimmedDraft

FOLDER = Path(__file__).parent.parent / "drafts"
FORMAT = "1"


@dataclass(frozen=True, slots=True)
class DraftFile:
    """Draft weights as read from a file.

    Attributes:
        path: the file.
        metadata: what the file says about itself (strings): format, kind, target, target_fingerprint,
            layers, tokens_seen, beta_heldout_T1, greedy_agreement_heldout, date.
        tensors: torch tensors by name.
    """

    path: Path
    metadata: dict[str, str]
    tensors: dict[str, Any]


def draft_path(kind: str) -> Path:
    """Where the weights of a kind of draft for the built-in target are."""
    return FOLDER / f"{kind}.safetensors"


def read_draft(path: Path, kind: str, target_fingerprint: str) -> DraftFile:
    """Read draft weights, and refuse those of another kind, format or target.

    Raises:
        LoadError: if the file is missing, damaged, or not for this target.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 not a dict
    except (OSError, SafetensorError) as error:
        raise LoadError(f"the draft weights {path} cannot be read: {error}") from error
    expected = {"format": FORMAT, "kind": kind, "target_fingerprint": target_fingerprint}
    for key, value in expected.items():
        if metadata.get(key) != value:
            raise LoadError(
                f"the draft weights {path.name} have {key} {metadata.get(key, 'missing')!r}, and this "
                f"target needs {value!r}: they were trained for another model or version"
            )
    return DraftFile(path, metadata, tensors)


def model_draft(target: TransformersModel, fingerprint: str) -> TrimmedDraft:
    """The small language model that ships with SpecViz, built around the target's own embedding.

    It runs on the target's device, in its dtype.
    """
    from transformers import AutoModel

    file = read_draft(draft_path("model"), "model", fingerprint)
    weights = dict(file.tensors)
    ids = weights.pop("draft_vocab").long()
    config = type(target.model.config).from_dict(target.model.config.to_dict())
    config.num_hidden_layers = int(file.metadata["layers"])
    config.vocab_size, config.pad_token_id = 1, None  # its own embedding is thrown away at once
    embedding = target.model.get_input_embeddings()
    body = AutoModel.from_config(config, dtype=embedding.weight.dtype).to(target.device).eval()
    body.set_input_embeddings(embedding)
    body.load_state_dict({**weights, "embed_tokens.weight": embedding.weight})
    head = target.model.get_output_embeddings().weight.detach()[ids.to(target.device)].contiguous()
    return TrimmedDraft(
        body,
        head,
        ids.numpy(),
        f"specviz-{config.num_hidden_layers}-layers",
        target.vocab_size,
        own_parameters=sum(t.numel() for t in weights.values()),
    )
