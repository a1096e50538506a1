"""Feeding a model a tree: an attention mask of four dimensions and position ids, through its own forward.

Most families of transformers take both; some do not, and say nothing. So every model is tried once.
"""

from typing import Any

import numpy as np

from specviz.decoding.protocols import Places
from specviz.decoding.tree import ROOT, Tree, places
from specviz.models.errors import first_line

# Implementations that read no mask of four dimensions: flash attention has none, flex attention wants blocks.
WITHOUT_MASKS = ("flash", "flex")


def tensors(where: Places, like: Any) -> tuple[Any, Any]:
    """The mask (1, 1, n, all), added to the attention scores, and the position ids (1, n).

    Args:
        like: has the dtype and the device.
    """
    import torch

    visible = torch.from_numpy(where.visible).to(like.device)
    mask = torch.zeros(visible.shape, dtype=like.dtype, device=like.device)
    mask.masked_fill_(~visible, torch.finfo(like.dtype).min)
    return mask[None, None], torch.from_numpy(where.positions).to(like.device)[None]


def without_first(where: Places, device: Any) -> tuple[Any, Any]:
    """What each may see (n, all) and the places (1, n), for drafts in whose cache the row of a text's first
    token is no position: nothing looks at it."""
    import torch

    visible = torch.from_numpy(where.visible).to(device)
    visible[:, 0] = False
    return visible, torch.from_numpy(where.positions).to(device)[None]


def windowed(name: str, config: Any, context_length: int) -> str:
    """Why layers that see a window only cannot be fed a tree; "" if there are none, or the window is no
    shorter than the context."""
    window = getattr(config, "sliding_window", None)
    slides = "sliding" in str(getattr(config, "layer_types", None) or "sliding")
    if slides and window and window < context_length:
        return (
            f"{name} has layers that see {window:,} tokens back, and a mask of a tree would take the "
            "place of that window"
        )
    return ""


def problem(model: Any) -> str:
    """Why this model cannot be fed a tree, in one sentence; "" if it can.

    Args:
        model: a `TransformersModel`.
    """
    config = model.model.config.get_text_config()
    kind = getattr(config, "_attn_implementation", None)
    if any(name in str(kind) for name in WITHOUT_MASKS):
        return (
            f"{model.name} runs with {kind} attention, which takes no mask of a tree: load it with eager or "
            "sdpa"
        )
    if why := windowed(model.name, config, model.context_length):
        return why
    try:
        apart = _largest_difference(model)
    except Exception as error:  # whatever a family does with a mask that it does not expect
        return f"{model.name} cannot be fed a tree: {first_line(error)}"
    if not apart <= model.tolerance:
        return (
            f"{model.name} does not follow the mask of a tree: its logits differ by {apart:.2g} from those "
            f"of its paths one by one (rounding explains {model.tolerance:g})"
        )
    return ""


def _largest_difference(model: Any) -> float:
    """Between the logits of a small tree in two cached passes, and those of each of its paths alone."""
    ids = np.arange(model.vocab_size) if model.available is None else model.available
    text = [int(id) for id in ids[np.linspace(0, len(ids) - 1, 5).astype(int)]]
    tree = Tree(tuple(text[:4]) + tuple(text[3:]), (ROOT, ROOT, 0, 0, 1, 4), ())
    cache, rows = model.new_cache(), []
    model.forward(text[:-1], cache, 1)
    for nodes, fed, cached in (((0, 1), text[-1:], len(text) - 1), ((2, 3, 4, 5), [], len(text) + 2)):
        where = places(tree, nodes, len(text), cached)
        tokens = [*fed, *(tree.tokens[node] for node in nodes)]
        rows.append(model.forward_branching(tokens, cache, where, len(nodes)).logits)
    alone = [model.forward([*text, *tree.path(node)], model.new_cache(), 1).logits[0] for node in range(6)]
    branched, apart = np.concatenate(rows), np.stack(alone)
    differ = branched != apart
    return float(np.abs(np.subtract(branched, apart, where=differ, out=np.zeros(differ.shape))).max())
