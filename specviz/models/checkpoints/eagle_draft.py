"""An EAGLE checkpoint as a draft: its layers with its weights, its embedding and its head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from specviz.decoding.cache import Cache
from specviz.decoding.device.transfer import ids_on
from specviz.decoding.features import Features
from specviz.decoding.protocols import ModelOutput, Places
from specviz.decoding.trace import ModelInfo
from specviz.models import branching, products
from specviz.models.checkpoints import files, heads, stack
from specviz.models.checkpoints.eagle import Given, Layout
from specviz.models.errors import LoadError, first_line
from specviz.models.language_model import TransformersModel

# Rotary embeddings whose frequencies do not change with the length of a text.
STEADY_ROPE = ("default", "linear", "llama3", "yarn")


def build(
    layout: Layout, found: dict[str, tuple[int, ...]], given: Given, target: TransformersModel
) -> "PublicEagle":
    """The draft of a checkpoint; see `Layout.load`."""
    reads = layout.reads(target.info().layers)
    taken = len(reads) if isinstance(reads, tuple) else 1
    if layout.target_width != target.logits_of.width:
        raise LoadError(
            f"{layout.source} is for a target whose hidden states have {layout.target_width:,} numbers, "
            f"and those of {target.name} have {target.logits_of.width:,}"
        )
    body = _body(layout, taken)
    meant = {layout.in_file(name): tuple(each.shape) for name, each in body.state_dict().items()}
    width = body.config.hidden_size
    own_embedding = found.get("embed_tokens.weight")
    if own_embedding is not None:
        meant["embed_tokens.weight"] = (layout.vocabulary, width)
    elif width != layout.target_width:
        raise LoadError(
            f"{layout.source} lacks embed_tokens.weight: its states have {width:,} numbers and the "
            f"target's {layout.target_width:,}, so it cannot take the target's embedding"
        )
    if layout.draft_vocab is not None:
        meant["lm_head.weight"] = (layout.draft_vocab, width)
        if layout.draft_vocab != layout.vocabulary or {"d2t", "t2d"} & found.keys():
            meant |= {"d2t": (layout.draft_vocab,), "t2d": (layout.vocabulary,)}
    elif "lm_head.weight" in found:  # a copy of the target's, which is used
        meant["lm_head.weight"] = (layout.vocabulary, width)
    files.require(found, meant, layout.source)
    if layout.vocabulary < target.embedded and own_embedding is not None:
        raise LoadError(
            f"{layout.source} has an embedding of {layout.vocabulary:,} rows, and the target one of "
            f"{target.embedded:,}: it cannot be fed all its tokens"
        )
    tensors = given()
    like = target.model.get_input_embeddings().weight
    files.fill(body, tensors, layout.in_file, like)
    head = _head(layout, tensors, target, like)
    # The bare rows, as engines share them: without the scale that some families' embedding adds.
    rows = like.detach() if own_embedding is None else tensors["embed_tokens.weight"].to(like)
    embedding = torch.nn.Embedding.from_pretrained(rows)
    products.pack(body)
    own = sum(tensor.numel() for name, tensor in tensors.items() if name not in ("d2t", "t2d"))
    info = ModelInfo(
        layout.source.rstrip("/").rpartition("/")[2] or layout.source,
        own,
        str(target.device),
        target.dtype,
        len(body.layers),
        len(head),
    )
    return PublicEagle(body, embedding, head, info, target.context_length, reads)


def _body(layout: Layout, taken: int) -> Any:
    from transformers import AutoConfig

    kind = layout.layer.get("model_type", "llama")
    if kind not in stack.FAMILIES:
        raise LoadError(
            f"the layers of {layout.source} are of the family {kind!r}; {' and '.join(stack.FAMILIES)} are "
            "known"
        )
    try:
        config = AutoConfig.for_model(**{**layout.layer, "model_type": kind})
        rope = (config.rope_parameters or {}).get("rope_type", "default")
        if rope not in STEADY_ROPE:
            raise LoadError(
                f"the rotary embedding of {layout.source} ({rope}) changes with the length of the text, so "
                "its cached keys would become wrong"
            )
        if layout.version == 1:
            return stack.EagleOne(config, layout.biased, layout.merge_bias)
        return stack.EagleThree(config, layout.biased, taken * layout.target_width, taken, **layout.flags)
    except LoadError:
        raise
    except Exception as error:  # whatever transformers raises for a config that makes no layer
        raise LoadError(f"the config of {layout.source} makes no layer: {first_line(error)}") from error


def _head(layout: Layout, tensors: dict[str, Any], target: TransformersModel, like: Any) -> Any:
    if layout.draft_vocab is None:
        return heads.TargetHead(target)
    ids = np.arange(layout.draft_vocab)
    if "d2t" in tensors:
        ids = heads.draft_ids(tensors, layout.draft_vocab, layout.vocabulary, layout.source)
    weight = tensors["lm_head.weight"].to(like)
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    linear.weight = torch.nn.Parameter(weight, requires_grad=False)
    holder = torch.nn.Sequential(linear)
    products.pack(holder)
    return heads.OwnHead(holder[0], ids, target)


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a draft predicted for a token, unlike what is known of the target."""

    state: Any


class PublicEagle:
    """A published EAGLE draft; see `specviz.decoding.protocols.EagleModel`.

    Args:
        body: `stack.EagleOne` or `stack.EagleThree`.
        embedding: the target's, or the draft's own.
        head: from states to logits over the target's vocabulary.
        info: what the draft is.
        context_length: the target's.
        reads: which hidden states of the target it takes.
    """

    no_feature = None  # it has no position for the first token of a text

    def __init__(
        self, body: Any, embedding: Any, head: Any, info: ModelInfo, context_length: int, reads: Features
    ) -> None:
        self.body = body
        self.embedding = embedding
        self.head = head
        self.available = head.available
        self.context_length = context_length
        self.reads = reads
        self._info = info

    def new_cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache()

    def forward(self, tokens: Sequence[int], before: Sequence[Any], cache: Cache) -> ModelOutput:
        """Feed tokens, each with the feature of the token before it."""
        with torch.inference_mode():
            last, predicted = self._pass(tokens, before, cache)
            return ModelOutput(self.head(last), predicted)

    def forward_there(self, tokens: Sequence[Any], before: Sequence[Any], cache: Cache) -> ModelOutput:
        """As `forward`, with logits that stay on the device; tokens may be tensors (1,) there."""
        with torch.inference_mode():
            last, predicted = self._pass(tokens, before, cache)
            return ModelOutput(self.head.there(last), predicted)

    def forward_branching(
        self, tokens: Sequence[int], before: Sequence[Predicted], cache: Cache, places: Places
    ) -> ModelOutput:
        """`forward` for nodes of a tree: logits (n, V) behind each, and what is predicted for it."""
        with torch.inference_mode():
            device = self.embedding.weight.device
            embedded = self.embedding(ids_on(tokens, device)[None])
            states = torch.stack([each.state for each in before])[None]
            where = branching.without_first(places, device)
            out, on = self.body(embedded, states, cache, where=where)
            return ModelOutput(self.head(out[0]), [Predicted(state) for state in on[0]])

    def branching_problem(self) -> str:
        return branching.windowed(self._info.name, self.body.config, self.context_length)

    def _pass(
        self, tokens: Sequence[Any], before: Sequence[Any], cache: Cache
    ) -> tuple[torch.Tensor, Predicted]:
        """The last token's state (1, width), and what is predicted for it."""
        embedded = self.embedding(ids_on(tokens, self.embedding.weight.device)[None])
        if isinstance(before[0], Predicted):
            states = torch.stack([each.state for each in before])[None]
        else:
            states = self.body.merged(self._known(before)[None])
        out, on = self.body(embedded, states, cache)
        return out[:, -1], Predicted(on[0, -1])

    def _known(self, before: Sequence[Any]) -> torch.Tensor:
        """The target's features (n, width); zeros where there is none, before the first token."""
        some = next(feature for feature in before if feature is not None)
        rows = [torch.zeros_like(some) if feature is None else feature for feature in before]
        return torch.stack(rows).to(self.embedding.weight)

    def info(self) -> ModelInfo:
        return self._info
