"""Medusa heads as published (Cai et al. 2024, arXiv 2401.10774): the layouts of its authors and of vLLM.

A head is one block or more, x + SiLU(W x + b), and a matrix to logits of its own.

- FasterDecoding/Medusa (medusa/model/medusa_model.py): medusa_lm_head.safetensors with I.J.linear.weight,
  I.J.linear.bias and I.L.weight for head I with L blocks; in the config medusa_num_heads, medusa_num_layers
  and base_model_name_or_path. Published configs are known to name fewer heads than the file holds (its own
  loader says so), so the file counts.
- vLLM (vllm/model_executor/models/medusa.py): blocks.I.layers.J.weight (with .bias if "medusa_fc_bias"),
  lm_heads.I.weight, or one lm_head.weight for all if "original_lm_head"; token_map names the target's ids
  of a smaller vocabulary; all perhaps behind "medusa_heads.". In the config num_heads, num_hidden_layers,
  truncated_vocab_size, logit_scale.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.decoding.trace import ModelInfo
from specviz.models.errors import LoadError, first_line
from specviz.models.language_model import TransformersModel

PREFIX = "medusa_heads."


@dataclass(frozen=True, slots=True)
class Layout:
    """A Medusa checkpoint before its weights are read.

    Attributes:
        name: of the layout, for people.
        source: what was asked for.
        count, blocks: heads, and blocks of each.
        biased: whether the blocks have a bias.
        vocabulary: ids that it was made for; None if the config does not say.
        mapped: ids that its heads have, where `token_map` names them; None without.
        scale: of the logits.
        block, matrix: from (head, block) and from (head) to names in the file, without ".weight".
        prefix: in front of every name.
    """

    name: str
    source: str
    count: int
    blocks: int
    biased: bool
    vocabulary: int | None
    mapped: int | None
    scale: float
    block: Callable[[int, int], str]
    matrix: Callable[[int], str]
    prefix: str = ""

    def names(
        self, found: dict[str, tuple[int, ...]], width: int, vocabulary: int
    ) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors, for a target with hidden states of `width` numbers."""
        rows = self.vocabulary or vocabulary
        meant: dict[str, tuple[int, ...]] = {}
        for head in range(self.count):
            for block in range(self.blocks):
                meant[f"{self.block(head, block)}.weight"] = (width, width)
                if self.biased:
                    meant[f"{self.block(head, block)}.bias"] = (width,)
            name = f"{self.matrix(head)}.weight"
            # A matrix may be whole beside a map: only the rows of the map are used then.
            whole = found.get(self.prefix + name) == (rows, width)
            meant[name] = (rows if whole or self.mapped is None else self.mapped, width)
        if self.mapped is not None:
            meant["token_map"] = (self.mapped,)
        return {self.prefix + name: shape for name, shape in meant.items()}

    def load(
        self,
        found: dict[str, tuple[int, ...]],
        given: Callable[[], dict[str, Any]],
        target: TransformersModel,
    ) -> "PublicHeads":
        """The heads, on the target's device and in its dtype; see `eagle.Layout.load`."""
        from specviz.models.checkpoints import files, heads

        width = target.logits_of.width
        rows = self.vocabulary or target.logits_of.rows
        files.require(found, self.names(found, width, rows), self.source)
        like = target.model.get_input_embeddings().weight
        tensors = {
            name.removeprefix(self.prefix): value.to(
                like.device, like.dtype if value.is_floating_point() else None
            )
            for name, value in given().items()
        }
        ids = np.arange(rows)
        if self.mapped is not None:
            ids = tensors["token_map"].long().cpu().numpy()
            if len(np.unique(ids)) != len(ids) or ids.min() < 0 or ids.max() >= rows:
                raise LoadError(f"{self.source}: token_map names an id twice, or one outside the vocabulary")
        chains, made = [], {}
        for head in range(self.count):
            chains.append(
                [
                    _linear(tensors[f"{name}.weight"], tensors.get(f"{name}.bias"))
                    for name in (self.block(head, block) for block in range(self.blocks))
                ]
            )
            name = f"{self.matrix(head)}.weight"
            if name not in made:
                weight = tensors[name]
                made[name] = heads.OwnHead(
                    _linear(weight[ids] if len(weight) > len(ids) else weight), ids, target, self.scale
                )
        matrices = [made[f"{self.matrix(head)}.weight"] for head in range(self.count)]
        own = sum(value.numel() for name, value in tensors.items() if name != "token_map")
        name = self.source.rstrip("/").rpartition("/")[2] or self.source
        info = ModelInfo(name, own, str(target.device), target.dtype, 0, len(ids))
        return PublicHeads(chains, matrices, info)


def recognise(config: dict[str, Any], names: Sequence[str], source: str) -> Layout | None:
    """The layout of a checkpoint, by the names of its tensors; None if it holds no Medusa heads.

    Raises:
        LoadError: if it does, and its config does not say enough.
    """
    try:
        if any(re.fullmatch(r"\d+\.\d+\.linear\.weight", name) for name in names):
            return _authors(config, names, source)
        prefix = PREFIX if any(name.startswith(PREFIX) for name in names) else ""
        if any(re.fullmatch(re.escape(prefix) + r"blocks\.\d+\.layers\.\d+\.weight", name) for name in names):
            return _vllm(config, prefix, source)
    except (KeyError, TypeError, ValueError) as error:
        raise LoadError(f"the config of {source} does not say {first_line(error)}") from error
    return None


def _authors(config: dict[str, Any], names: Sequence[str], source: str) -> Layout:
    held = 1 + max(int(name.partition(".")[0]) for name in names if name.partition(".")[0].isdigit())
    blocks = int(config["medusa_num_layers"])
    return Layout(
        name="Medusa heads, in the layout of FasterDecoding/Medusa",
        source=source,
        count=max(held, int(config["medusa_num_heads"])),
        blocks=blocks,
        biased=True,
        vocabulary=None,
        mapped=None,
        scale=1.0,
        block=lambda head, block: f"{head}.{block}.linear",
        matrix=lambda head: f"{head}.{blocks}",
    )


def _vllm(config: dict[str, Any], prefix: str, source: str) -> Layout:
    vocabulary = int(config["vocab_size"])
    kept = int(config.get("truncated_vocab_size") or vocabulary)
    one = bool(config.get("original_lm_head", False))
    return Layout(
        name="Medusa heads, in vLLM's layout",
        source=source,
        count=int(config["num_heads"]),
        blocks=int(config["num_hidden_layers"]),
        biased=bool(config.get("medusa_fc_bias", False)),
        vocabulary=vocabulary,
        mapped=kept if kept < vocabulary else None,
        scale=float(config.get("logit_scale", 1.0)),
        block=lambda head, block: f"blocks.{head}.layers.{block}",
        matrix=lambda head: "lm_head" if one else f"lm_heads.{head}",
        prefix=prefix,
    )


def _linear(weight: Any, bias: Any = None) -> Any:
    """A linear layer around these tensors, in the layout that costs less on a CPU."""
    import torch

    from specviz.models import products

    made = torch.nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    made.weight = torch.nn.Parameter(weight.contiguous(), requires_grad=False)
    if bias is not None:
        made.bias = torch.nn.Parameter(bias, requires_grad=False)
    holder = torch.nn.Sequential(made)
    products.pack(holder)
    return holder[0]


class PublicHeads:
    """Published Medusa heads; see `specviz.decoding.protocols.MedusaHeads`.

    Args:
        chains: the blocks of each head, in order.
        matrices: `heads.OwnHead` of each.
        info: what they are.
    """

    reads = True  # the last hidden states

    def __init__(self, chains: list[list[Any]], matrices: list[Any], info: ModelInfo) -> None:
        self.chains, self.matrices = chains, matrices
        self.count = len(chains)
        self.available: np.ndarray | None = matrices[0].available
        self._info = info

    def forward(self, feature: Any) -> np.ndarray:
        """Logits (count, V) from a feature (width,)."""
        import torch

        with torch.inference_mode():
            states = [self._states(chain, feature) for chain in self.chains]
            return np.concatenate([matrix(each) for matrix, each in zip(self.matrices, states, strict=True)])

    def forward_there(self, feature: Any) -> Any:
        """As `forward`, with logits that stay on the device."""
        import torch

        with torch.inference_mode():
            states = [self._states(chain, feature) for chain in self.chains]
            rows = [matrix.there(each) for matrix, each in zip(self.matrices, states, strict=True)]
            return torch.cat(rows)

    @staticmethod
    def _states(chain: list[Any], feature: Any) -> Any:
        """Of one head, (1, width)."""
        import torch

        states = torch.stack([feature])
        for block in chain:
            states = states + torch.nn.functional.silu(block(states))
        return states

    def info(self) -> ModelInfo:
        return self._info
