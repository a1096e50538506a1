"""Trained draft weights, shipped or trained on this machine, and the drafts built around them.

A file holds only what was trained. Its metadata says the kind, the target it was trained for and how
well it does; the structure (depth, vocabulary) is read from the file, so that a better draft of another
size only replaces the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.decoding.trace import ModelInfo
from specviz.models import builtin
from specviz.models.errors import LoadError
from specviz.models.language_model import TransformersModel
from specviz.models.target_drafts import EagleDraft, MedusaDraft
from specviz.models.trimmed import TrimmedDraft, TrimmedHead

FOLDER = Path(__file__).parent.parent / "drafts"
FORMAT = "1"


@dataclass(frozen=True, slots=True)
class DraftFile:
    """Draft weights as read from a file.

    Attributes:
        path: the file.
        metadata: what the file says about itself (strings): format, kind, target, target_fingerprint,
            tokens_seen, beta_heldout_T1, greedy_agreement_heldout (a number a head or step), date, and
            layers or heads.
        tensors: torch tensors by name.
    """

    path: Path
    metadata: dict[str, str]
    tensors: dict[str, Any]


def draft_path(kind: str, target_fingerprint: str) -> Path | None:
    """The weights of a kind of draft for a target: those trained on this machine, or those that ship
    with SpecViz for the built-in target; None if there are neither."""
    trained = trained_path(kind, target_fingerprint)
    if trained.exists():
        return trained
    return FOLDER / f"{kind}.safetensors" if target_fingerprint == builtin.FINGERPRINT else None


def trained_path(kind: str, target_fingerprint: str) -> Path:
    """Where drafts trained on this machine are kept."""
    return builtin.home() / "drafts" / target_fingerprint.rpartition(":")[2][:16] / f"{kind}.safetensors"


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


def write_draft(path: Path, kind: str, target_fingerprint: str, tensors: dict[str, Any], about: dict) -> None:
    """Write draft weights in float16, so that `read_draft` accepts them for this target.

    Args:
        path: the file; an older one is replaced only once the new one is complete.
        tensors: torch tensors by name; `draft_vocab` holds ids and stays as it is.
        about: further metadata, strings.
    """
    from safetensors.torch import save_file

    halves = {
        name: (tensor.int() if name == "draft_vocab" else tensor.half()).cpu().contiguous()
        for name, tensor in tensors.items()
    }
    metadata = {**about, "format": FORMAT, "kind": kind, "target_fingerprint": target_fingerprint}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(halves, partial, metadata)
    partial.replace(path)


def model_draft(target: TransformersModel, fingerprint: str) -> TrimmedDraft | None:
    """The small language model trained for a target, on its device and in its dtype; None if there is
    none."""
    import torch

    from specviz.models import parts, products

    found = _weights("model", target, fingerprint)
    if found is None:
        return None
    file, weights, head = found
    embedding = target.model.get_input_embeddings()
    with refusing(file.path):
        layers = int(file.metadata["layers"])
        body = parts.body(target.body, layers, embedding.weight.dtype).to(target.device).eval()
        body.load_state_dict(weights)
        body.set_input_embeddings(embedding)
    ids = torch.tensor([[0, 1, 2]], device=target.device)
    products.pack(body, lambda: body(ids, use_cache=False).last_hidden_state)
    return TrimmedDraft(body, head, f"specviz-{layers}-layers", _size(weights))


def medusa_draft(target: TransformersModel, fingerprint: str) -> MedusaDraft | None:
    """The Medusa heads trained for a target, or None."""
    import torch

    from specviz.models import parts, products

    found = _weights("medusa", target, fingerprint)
    if found is None:
        return None
    file, weights, head = found
    with refusing(file.path):
        made = parts.MedusaHeads(head.width, int(file.metadata["heads"]))
        made = made.to(target.device, head.dtype).eval()
        made.load_state_dict(weights)
    state = torch.ones(head.width, device=target.device, dtype=head.dtype)
    products.pack(made, lambda: torch.stack(made(state)))
    return MedusaDraft(made, head, _info("specviz-medusa", target, weights, head))


def eagle_draft(target: TransformersModel, fingerprint: str) -> EagleDraft | None:
    """The EAGLE-style draft trained for a target, or None."""
    from specviz.models import parts, products

    found = _weights("eagle", target, fingerprint)
    if found is None:
        return None
    file, weights, head = found
    embedding = target.model.get_input_embeddings()
    with refusing(file.path):
        core = parts.EagleCore(target.body, head.width, embedding.weight.dtype).to(target.device).eval()
        core.load_state_dict(weights)
    rows = embedding.weight[:3][None]
    products.pack(core, lambda: core(rows, rows))
    info = _info("specviz-eagle", target, weights, head, layers=1)
    return EagleDraft(core, embedding, head, info, target.context_length)


def _weights(
    kind: str, target: TransformersModel, fingerprint: str
) -> tuple[DraftFile, dict[str, Any], TrimmedHead] | None:
    """The file, its tensors but for the ids, and the target's head for these."""
    path = draft_path(kind, fingerprint)
    if path is None:
        return None
    file = read_draft(path, kind, fingerprint)
    weights = dict(file.tensors)
    with refusing(path):
        ids = weights.pop("draft_vocab").long()
        head = TrimmedHead(target.logits_of, ids, target.vocab_size)
    return file, weights, head


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file's content into a LoadError that names the file."""
    try:
        yield
    except (KeyError, ValueError, IndexError, RuntimeError) as error:
        raise LoadError(f"the draft weights {path} do not fit their own description: {error}") from error


def _size(weights: dict[str, Any]) -> int:
    return sum(tensor.numel() for tensor in weights.values())


def _info(
    name: str, target: TransformersModel, weights: dict[str, Any], head: TrimmedHead, layers: int = 0
) -> ModelInfo:
    return ModelInfo(name, _size(weights), str(target.device), target.dtype, layers, len(head))
