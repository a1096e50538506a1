"""Modules for multi-token prediction that a model brings along in its own files.

transformers leaves them out when it loads a model (their names are in the class's
`_keys_to_ignore_on_load_unexpected`) and has a class of its own for them (`MtpModel`, for DeepSeek-V3, GLM-4
MoE, Mellum and others), which knows the names: enorm, hnorm, eh_proj and a decoder layer. It is loaded here,
strictly, and led by this project's drafter, which keeps its cache in step with what was committed.

A position is a token with the target's last hidden state before it, as in EAGLE, and so the first token of a
text has none: its row is there, and nothing looks at it. Of several modules, one for each token ahead, the
first is used again and again, as engines do with a single one.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.modeling_layers import MtpModel

from specviz.decoding.cache import Cache
from specviz.decoding.cache import length as cached
from specviz.decoding.device.transfer import ids_on
from specviz.decoding.features import Features
from specviz.decoding.protocols import ModelOutput, Places
from specviz.decoding.trace import ModelInfo
from specviz.models import branching, products, weights
from specviz.models.checkpoints import files, heads
from specviz.models.checkpoints.eagle_draft import Predicted
from specviz.models.errors import LoadError, first_line
from specviz.models.language_model import TransformersModel


def brought(target: TransformersModel) -> "MtpDraft | None":
    """The module that a target's files hold; None if they hold none, or its family has none.

    Raises:
        LoadError: naming a tensor that is missing or has no place.
    """
    model = target.model
    folder = Path(model.config.name_or_path or "")
    count = getattr(model.config.get_text_config(), "num_mtp_layers", None)
    if not count or not model._keys_to_ignore_on_load_unexpected or not folder.is_dir():
        return None
    names = _names(model, folder)
    if not names:
        return None
    try:
        made = _Strict.from_pretrained(model, device_map={"": target.device})
    except Exception as error:  # whatever transformers raises on the way
        raise LoadError(
            f"the module for multi-token prediction of {target.name} cannot be loaded: {_said(error)}"
        ) from error
    if made.__dict__["strange"]:
        raise LoadError(
            f"the module for multi-token prediction of {target.name} cannot be used: its files hold "
            f"{weights.few(made.__dict__['strange'])}, which it has no place for"
        )
    made.eval().requires_grad_(False)
    own = sum(weight.numel() for weight in made.layers.parameters())
    products.pack(made.layers)
    head = heads.TargetHead(target)
    info = ModelInfo(f"{target.name} MTP", own, str(target.device), target.dtype, 1, len(head))
    return MtpDraft(made, head, info, target)


def _names(model: Any, folder: Path) -> list[str]:
    """Tensors of the module, by their names in the files."""
    try:
        pattern: re.Pattern = MtpModel.get_mtp_weights_regex(model)
        found = files.shapes(weights.find(folder, str(folder)).files)
    except (ValueError, LoadError):
        return []
    return [name for name in found if pattern.search(name)]


def _said(error: Exception) -> str:
    """The error, with the names of all tensors that it lists."""
    named = re.search(r"\[(.*)\]", str(error), re.DOTALL)
    return f"{first_line(error)} {named.group(0)[:300] if named else ''}".strip()


class _Strict(MtpModel):
    """Remembers the tensors that had no place."""

    def _adjust_missing_and_unexpected_keys(self, loading_info: Any) -> None:
        super()._adjust_missing_and_unexpected_keys(loading_info)
        self.__dict__["strange"] = sorted(loading_info.unexpected_keys)


# transformers looks the names of tensors up by the class's name, unless it is somebody else's.
_Strict.__name__, _Strict.__module__ = MtpModel.__name__, MtpModel.__module__


class MtpDraft:
    """A target's own module; see `specviz.decoding.protocols.EagleModel`.

    Args:
        module: transformers' `MtpModel`.
        head: from its states to logits over the target's vocabulary.
        info: what it is.
        target: whose it is.
    """

    reads: Features = True  # the last hidden states
    no_feature = None

    def __init__(
        self, module: Any, head: heads.TargetHead, info: ModelInfo, target: TransformersModel
    ) -> None:
        self.module = module
        self.head = head
        self.available: np.ndarray | None = head.available
        self.context_length = target.context_length
        self._info = info

    def new_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache()

    def forward(self, tokens: Sequence[int], before: Sequence[Any], cache: Cache) -> ModelOutput:
        """Feed tokens, each with the feature of the token before it."""
        with torch.inference_mode():
            out = self._pass(tokens, before, cache)
            return ModelOutput(self.head(out[:, -1]), Predicted(out[0, -1]))

    def forward_there(self, tokens: Sequence[Any], before: Sequence[Any], cache: Cache) -> ModelOutput:
        """As `forward`, with logits that stay on the device; tokens may be tensors (1,) there."""
        with torch.inference_mode():
            out = self._pass(tokens, before, cache)
            return ModelOutput(self.head.there(out[:, -1]), Predicted(out[0, -1]))

    def forward_branching(
        self, tokens: Sequence[int], before: Sequence[Any], cache: Cache, places: Places
    ) -> ModelOutput:
        """`forward` for nodes of a tree: logits (n, V) behind each, and what is predicted for it."""
        with torch.inference_mode():
            out = self._pass(tokens, before, cache, places)
            return ModelOutput(self.head(out[0]), [Predicted(state) for state in out[0]])

    def branching_problem(self) -> str:
        return branching.windowed(self._info.name, self.module.config, self.context_length)

    def _pass(
        self, tokens: Sequence[Any], before: Sequence[Any], cache: Cache, places: Places | None = None
    ) -> torch.Tensor:
        """States (1, n, width) behind the fed tokens, which may branch."""
        module = self.module
        embedded = module.embed_tokens(ids_on(tokens, module.embed_tokens.weight.device)[None])
        states = torch.stack([self._state(each, embedded) for each in before])[None]
        positions, mask = self._around(embedded, cached(cache), places)
        rotary = {"layer_type": module.config.layer_types[0]} if module.has_per_layer_rope else {}
        out = module.layers[0](
            embedded,
            states,
            position_embeddings=module.rotary_emb(embedded, position_ids=positions, **rotary)
            if module.rotary_emb is not None
            else None,
            attention_mask=mask,
            position_ids=positions,
            cache=cache,
        )
        return module.shared_post_norm(out) if module.use_shared_post_norm else out

    @staticmethod
    def _state(feature: Any, embedded: torch.Tensor) -> torch.Tensor:
        if feature is None:
            return torch.zeros_like(embedded[0, 0])
        return (feature.state if isinstance(feature, Predicted) else feature).to(embedded)

    def _around(
        self, embedded: torch.Tensor, past: int, places: Places | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Position ids (1, n), and what is added to the attention's scores (1, 1, n, all)."""
        rows = torch.arange(past, past + embedded.shape[1], device=embedded.device)
        columns = torch.arange(past + embedded.shape[1], device=embedded.device)
        seen = (columns <= rows[:, None]) & ((columns > 0) | (rows[:, None] == 0))
        kinds = getattr(self.module.config, "layer_types", None)
        if kinds and kinds[0] == "sliding_attention":
            seen &= columns > rows[:, None] - self.module.config.sliding_window
        positions = rows[None]
        if places is not None:
            seen, positions = branching.without_first(places, embedded.device)
        mask = torch.zeros(seen.shape, dtype=embedded.dtype, device=embedded.device)
        return positions, mask.masked_fill(~seen, torch.finfo(embedded.dtype).min)[None, None]

    def info(self) -> ModelInfo:
        return self._info
