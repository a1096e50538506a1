"""EAGLE drafts as published: the layouts of SafeAILab/EAGLE and of vllm-project/speculators.

Names of tensors, as these two write them and vLLM reads them (vllm/model_executor/models/llama_eagle.py,
llama_eagle3.py):

- EAGLE-1 and -2: fc.weight [H, 2H], fc.bias unless the config says "bias": false, layers.I.self_attn.*,
  layers.I.mlp.*, layers.I.post_attention_layernorm.weight, and layers.I.input_layernorm.weight but for the
  first layer; embed_tokens.weight may be there. The head is the target's.
- EAGLE-3: fc.weight [H, 3H], midlayer.* with hidden_norm beside the usual norms and projections from 2H,
  norm.weight, lm_head.weight [draft_vocab_size, H], and, where that is smaller than the vocabulary, d2t and
  t2d. It reads the states that go into layers 2, n // 2 and n - 3 of a target with n layers.
- speculators "eagle3": the same with layers.0.* for midlayer.*, perhaps further layers, and in the config
  transformer_layer_config, norm_before_residual, norm_before_fc (input_norm.weight), fc_norm
  (fc_norm.I.weight), norm_output, eagle_aux_hidden_state_layer_ids.
- speculators "eagle" (up to version 0.3): fusion_fc.*, transformer.*.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.decoding.features import Features
from specviz.decoding.protocols import EagleModel
from specviz.models.errors import LoadError, first_line
from specviz.models.language_model import TransformersModel

Given = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Layout:
    """An EAGLE checkpoint before its weights are read.

    Attributes:
        version: 1 (and 2) or 3.
        name: of the layout, for people.
        source: what was asked for.
        layer: config of its layers, as a dict of transformers.
        flags: switches of `stack.EagleThree`.
        layers_read: the target's layers whose input it takes; None for EAGLE's own choice.
        target_width: of the target's hidden states.
        draft_vocab: ids that it can propose; None for all, with the target's head.
        vocabulary: ids that it was made for.
        biased, merge_bias: whether the projections of the attention, and fc, have a bias.
        first: what the first layer is called in the file, in place of "layers.0".
        renamed: names in the file by those in the module, where they differ otherwise.
    """

    version: int
    name: str
    source: str
    layer: dict[str, Any]
    flags: dict[str, bool]
    layers_read: tuple[int, ...] | None
    target_width: int
    draft_vocab: int | None
    vocabulary: int
    biased: bool
    merge_bias: bool
    first: str
    renamed: dict[str, str]

    def in_file(self, name: str) -> str:
        """The file's name of a tensor of the module."""
        for ours, theirs in self.renamed.items():
            if name.startswith(ours):
                return theirs + name[len(ours) :]
        return name.replace("layers.0.", f"{self.first}.", 1) if name.startswith("layers.0.") else name

    def reads(self, depth: int) -> Features:
        """What it takes of a target with `depth` layers.

        Raises:
            LoadError: if that target does not have such layers.
        """
        if self.version == 1:
            return True
        wanted = self.layers_read or (2, depth // 2, depth - 3)
        if not all(0 <= layer < depth for layer in wanted) or (self.layers_read is None and depth < 3):
            raise LoadError(
                f"{self.source} reads what goes into layers {', '.join(map(str, wanted))} of its target "
                f"(counted from 0), and this one has {depth}"
            )
        return wanted

    def load(self, found: dict[str, tuple[int, ...]], given: Given, target: TransformersModel) -> EagleModel:
        """The draft, on the target's device and in its dtype.

        Args:
            found: shapes of the tensors in its files.
            given: reads the tensors.

        Raises:
            LoadError: naming what does not fit.
        """
        from specviz.models.checkpoints.eagle_draft import build

        return build(self, found, given, target)


def recognise(config: dict[str, Any], names: Sequence[str], source: str) -> Layout | None:
    """The layout of a checkpoint, by its config and the names of its tensors; None if it is no EAGLE draft.

    Raises:
        LoadError: if it is one, and its config does not say enough.
    """
    try:
        if "speculators_model_type" in config:
            return _speculators(config, source)
        if "fc.weight" not in names or any(name.startswith("model.") for name in names):
            return None
        if any(name.startswith("midlayer.") for name in names):
            return _safe_three(config, source)
        return _safe_one(config, source) if any(name.startswith("layers.0.") for name in names) else None
    except (KeyError, TypeError, ValueError) as error:
        raise LoadError(f"the config of {source} does not say {first_line(error)}") from error


def _safe_one(config: dict[str, Any], source: str) -> Layout:
    return Layout(
        version=1,
        name="EAGLE-1/-2, in the layout of SafeAILab/EAGLE",
        source=source,
        layer={**config, "model_type": "llama", "attention_bias": False},
        flags={},
        layers_read=None,
        target_width=int(config["hidden_size"]),
        draft_vocab=None,
        vocabulary=int(config["vocab_size"]),
        biased=bool(config.get("qkv_bias", False)),
        merge_bias=bool(config.get("bias", True)),
        first="layers.0",
        renamed={},
    )


def _safe_three(config: dict[str, Any], source: str) -> Layout:
    layer = {**config, "model_type": "llama", "num_hidden_layers": 1}
    vocabulary = int(config["vocab_size"])
    flags = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
    return Layout(
        version=3,
        name="EAGLE-3, in the layout of SafeAILab/EAGLE",
        source=source,
        layer=layer,
        flags={flag: bool(config[flag]) for flag in flags if flag in config},
        layers_read=_ids((config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")),
        target_width=int(config.get("target_hidden_size") or config["hidden_size"]),
        draft_vocab=int(config.get("draft_vocab_size") or vocabulary),
        vocabulary=vocabulary,
        biased=bool(config.get("attention_bias", False)),
        merge_bias=False,
        first="midlayer",
        renamed={},
    )


def _speculators(config: dict[str, Any], source: str) -> Layout | None:
    kind = config["speculators_model_type"]
    layer = dict(config["transformer_layer_config"])
    if kind == "eagle3":
        flags = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
        return Layout(
            version=3,
            name="EAGLE-3, in the speculators format",
            source=source,
            layer=layer,
            flags={flag: bool(config.get(flag, False)) for flag in flags},
            layers_read=_ids(config.get("eagle_aux_hidden_state_layer_ids")),
            target_width=int(config.get("target_hidden_size") or layer["hidden_size"]),
            draft_vocab=int(config["draft_vocab_size"]),
            vocabulary=int(layer["vocab_size"]),
            biased=bool(layer.get("attention_bias", False)),
            merge_bias=False,
            first="layers.0",
            renamed={},
        )
    if kind == "eagle" and not config.get("layernorms", False):
        return Layout(
            version=1,
            name="EAGLE-1/-2, in the speculators format",
            source=source,
            layer={**layer, "num_hidden_layers": 1},
            flags={},
            layers_read=None,
            target_width=int(layer["hidden_size"]),
            draft_vocab=None,
            vocabulary=int(layer["vocab_size"]),
            biased=bool(layer.get("attention_bias", False)),
            merge_bias=bool(config.get("fusion_bias", False)),
            first="transformer",
            renamed={"fc.": "fusion_fc."},
        )
    return None


def _ids(given: Any) -> tuple[int, ...] | None:
    return None if given is None else tuple(int(layer) for layer in given)
