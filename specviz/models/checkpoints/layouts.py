"""Drafts trained here, written in the layouts that engines read: `eagle` and `medusa` say what these are."""

import json
from pathlib import Path
from typing import Any

from specviz.models import drafts
from specviz.models.errors import LoadError
from specviz.models.language_model import TransformersModel
from specviz.models.weights import SINGLE

KINDS = ("eagle-1", "medusa")


def eagle_one(target: TransformersModel) -> dict[str, Any]:
    """The config of an EAGLE-1 draft with one layer of Llama's kind, for a target of any family. fc has no
    bias: vLLM reads none.

    Raises:
        LoadError: if the target's hidden states cannot be split into heads of one size.
    """
    text = target.model.config.get_text_config()
    width, heads = target.logits_of.width, text.num_attention_heads
    if width % heads or (width // heads) % 2:
        raise LoadError(
            f"{target.name} has hidden states of {width} numbers and {heads} heads: EAGLE-1's layers need "
            "heads of one even size"
        )
    shared = getattr(text, "num_key_value_heads", None) or heads
    rope = getattr(text, "rope_parameters", None) or {}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": getattr(text, "intermediate_size", None) or 4 * width,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": shared if heads % shared == 0 else heads,
        "hidden_act": "silu",
        "max_position_embeddings": min(target.context_length, 1 << 20),
        "rms_norm_eps": getattr(text, "rms_norm_eps", None) or 1e-5,
        "rope_theta": float(rope.get("rope_theta") or 10_000.0),
        "vocab_size": int(target.model.get_input_embeddings().weight.shape[0]),
        "tie_word_embeddings": False,
        "bias": False,
        "torch_dtype": "float16",
    }


def write(kind: str, weights: Path | None, target: TransformersModel, fingerprint: str, out: Path) -> Path:
    """Write trained weights as a folder that engines load.

    Args:
        kind: one of `KINDS`: EAGLE-1 in the layout of SafeAILab/EAGLE, Medusa heads in vLLM's.
        weights: a file of `train-drafts`; the one that is in use for this target if None.
        target: what they were trained for.
        fingerprint: of the target.
        out: a folder that is made, or has nothing in it.

    Raises:
        LoadError: if there are no such weights, or the layout cannot say what the target does.
    """
    from safetensors.torch import save_file

    path = weights or drafts.draft_path(kind, fingerprint)
    if path is None or not path.is_file():
        raise LoadError(
            f"there are no {kind} weights for {target.name} yet: `python -m specviz train-drafts --kind "
            f"{kind}` makes some"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LoadError(f"{out} is there already: name a new folder")
    file = drafts.read_draft(path, kind, fingerprint)
    tensors = dict(file.tensors)
    ids = tensors.pop("draft_vocab")
    config = eagle_one(target)
    if kind == "medusa":
        config, tensors = _medusa(tensors, ids, int(file.metadata["heads"]), target)
    config["base_model_name_or_path"] = target.name
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    made = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    save_file(made, out / SINGLE, {"format": "pt"})
    return out / SINGLE


def _medusa(
    tensors: dict[str, Any], ids: Any, heads: int, target: TransformersModel
) -> tuple[dict[str, Any], dict[str, Any]]:
    """vLLM's layout: a block a head, and the target's own matrix, its rows of `ids`, for all of them."""
    matrix = target.model.get_output_embeddings()
    _require_plain(matrix, target)
    weight = matrix.weight.detach().cpu()
    config = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": int(weight.shape[1]),
        "vocab_size": int(weight.shape[0]),
        "truncated_vocab_size": len(ids),
        "num_heads": heads,
        "num_hidden_layers": 1,
        "medusa_fc_bias": True,
        "original_lm_head": True,
        "logit_scale": 1.0,
    }
    made = {"lm_head.weight": weight[ids.long()].half()}
    if len(ids) < weight.shape[0]:
        made["token_map"] = ids.long()
    for head in range(heads):
        for part in ("weight", "bias"):
            made[f"blocks.{head}.layers.0.{part}"] = tensors[f"r.{head}.{part}"]
    return config, made


def _require_plain(matrix: Any, target: TransformersModel) -> None:
    """Refuse a target that does more than a matrix product behind its last hidden state."""
    import torch

    weight = matrix.weight.detach()
    some = torch.linspace(-2, 2, weight.shape[1], device=weight.device)
    # The small one shows a bias, the large one a cap.
    states = torch.stack([some, 1000 * some]).to(weight.dtype)
    with torch.inference_mode():
        same = torch.allclose(
            target.logits_of(states).float(), (states @ weight.T).float(), rtol=0.02, atol=0.02
        )
    if not same:
        raise LoadError(
            f"{target.name} puts more than a matrix behind its last hidden state (a bias, a scale or a cap), "
            "and this layout has no place for it"
        )
