"""How a model's products run on a CPU.

A pass over a few rows reads every weight once, so it should cost what one row costs. PyTorch's path for few
float32 rows does not: three rows can cost two passes. oneDNN can put a weight into its own block layout
beforehand, and then does: on an AMD EPYC with AVX-512, 1 / 2 / 3 / 5 / 9 rows of a 135M model cost
1 / 1.04 / 1.08 / 1.13 / 1.32 instead of 1 / 1.59 / 1.95 / 1.71 / 2.00, and one row 0.7 of before. In bfloat16
one row costs 0.7 of before too. Other processors and builds may differ, so this is measured on each model
when it is loaded, and a layer that would not gain, or whose result rounding does not explain, stays as it is.

Small packed layers that are fed the same rows (queries, keys and values; gate and up) are multiplied in one
product: the same numbers, bit by bit, in 0.8 of the time of a whole pass's products in bfloat16.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from time import thread_time
from typing import Any

import torch
from torch import nn

from specviz.models import attention
from specviz.models.packed import JointLinear, PackedLinear, linear

SMALLEST = 1 << 16  # weights of a layer; below this the call costs more than the product
SAMPLE_BYTES = 16 << 20  # of the layers of one shape that are timed: more than stays in a near cache
TRIES = 3
PASSES = ([0, 1, 2], [1, 2, 0], [2])  # that a whole model is tried with
WORTH = 0.9  # of the time in float32: what bfloat16 may take at most to be chosen


def pack(model: nn.Module, trial: Callable[[], torch.Tensor] | None = None) -> int:
    """Pack the linear layers of a module that gain from it.

    Args:
        model: in eval mode; nothing happens unless it is on a CPU whose PyTorch has oneDNN.
        trial: some pass through it, to see which layers are fed the same rows; without it none are joined.

    Returns:
        the number of layers that were packed.
    """
    shapes: dict[tuple[int, int, torch.dtype], list[nn.Linear]] = defaultdict(list)
    for layer in _layers(model):
        if layer.weight.device.type == "cpu" and layer.weight.numel() >= SMALLEST:
            shapes[(*layer.weight.shape, layer.weight.dtype)].append(layer)
    chosen = {id(layer) for layers in shapes.values() if _gain(layers) for layer in layers}
    shared = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    count = _replace(
        model,
        lambda layer: PackedLinear(layer, id(layer.weight) in shared) if id(layer) in chosen else layer,
    )
    if count and trial is not None:
        join(model, trial)
    return count


def join(model: nn.Module, trial: Callable[[], torch.Tensor]) -> int:
    """Let packed layers of one module that are fed the same rows make one product.

    Args:
        model: see `pack`.
        trial: a pass through it; its result has to stay the same to the last bit.

    Returns:
        the number of joint products.
    """
    fed: dict[int, list[torch.Tensor]] = defaultdict(list)
    packed = [layer for layer in model.modules() if isinstance(layer, PackedLinear)]
    hooks = [
        layer.register_forward_pre_hook(lambda layer, rows: fed[id(layer)].append(rows[0]))
        for layer in packed
    ]
    try:
        with torch.inference_mode():
            before = trial()
    finally:
        for hook in hooks:
            hook.remove()
    groups: dict[Any, list[PackedLinear]] = defaultdict(list)
    for parent in model.modules():
        for layer in parent._modules.values():
            if isinstance(layer, PackedLinear) and fed[id(layer)] and layer.small and not layer.tied:
                groups[id(parent), tuple(map(id, fed[id(layer)])), layer.bias is None].append(layer)
    joined = {
        id(layer): made
        for layers in groups.values()
        if len(layers) > 1
        for layer, made in zip(layers, _joint(layers), strict=True)
    }
    apart: dict[int, nn.Module] = {id(made): layer for layer in packed if (made := joined.get(id(layer)))}
    _replace(model, lambda layer: joined.get(id(layer), layer))
    with torch.inference_mode():
        same = torch.equal(trial(), before)
    if not same:
        _replace(model, lambda layer: apart.get(id(layer), layer))
        return 0
    return len({id(made.joint) for made in joined.values()})


def _joint(layers: list[PackedLinear]) -> list[JointLinear]:
    biases = [layer.bias for layer in layers if layer.bias is not None]
    dense = linear(torch.cat([layer.weight for layer in layers]), torch.cat(biases) if biases else None)
    packed, start = PackedLinear(dense), 0
    made = []
    for layer in layers:
        made.append(JointLinear(packed, start, layer.out_features))
        start += layer.out_features
    return made


def packed(weight: torch.Tensor) -> nn.Module:
    """A layer that multiplies by `weight` (out, in), in the layout that costs less."""
    layer = linear(weight)
    holder = nn.Sequential(layer)
    pack(holder)
    return holder[0]


def unpack(model: nn.Module) -> None:
    """Make every layer an ordinary one again."""
    _replace(model, lambda layer: layer.dense() if isinstance(layer, PackedLinear | JointLinear) else layer)


def prepare(model: Any) -> int:
    """Let a causal model's passes cost less where they can, and keep it as it is where they cannot.

    Its attention takes the heads of a group together. Its products are packed if that gains: beside each
    shape of layer the whole pass is checked, for some models read a layer's weight themselves, and would only
    lose. The logits have to agree within what rounding explains, after each of the two.

    Args:
        model: a `TransformersModel`.

    Returns:
        the number of layers that were packed.
    """
    if any(isinstance(layer, PackedLinear) for layer in model.model.modules()):
        return 0  # a draft that is the target

    def run() -> Any:
        cache = model.new_cache()  # a prompt, a block and a token
        return torch.cat([torch.from_numpy(model.forward(fed, cache, len(fed)).logits) for fed in PASSES])

    def agree() -> bool:
        return bool((run() - before)[:, : model.width].abs().max() <= model.tolerance)

    try:
        before = run()
        if attention.group_heads(model.model) and not agree():
            attention.ungroup_heads(model.model)
        slow = _fastest([run])[0]
        count = pack(model.model, run)
        if count and (not agree() or _fastest([run])[0] > slow):
            unpack(model.model)
            return 0
        return count
    finally:
        model.forward_seconds = 0.0


def parameters(model: nn.Module) -> int:
    """How many numbers a module has, in whichever layout."""
    packed = {id(m): m.parameters_count for m in model.modules() if isinstance(m, PackedLinear)}
    return sum(p.numel() for p in model.parameters()) + sum(packed.values())


@cache
def faster_dtype() -> tuple[str, str]:
    """The dtype to run the built-in target in on this CPU, and why, in words; measured once a process.

    bfloat16 rounds logits to three digits, so it has to be worth it.
    """
    shape, count = (1536, 576), 24  # together larger than most caches
    weight = torch.randn(shape)
    layers: dict[str, list[nn.Module]] = {}
    for name in ("float32", "bfloat16"):
        made = [linear(weight.to(getattr(torch, name), copy=True)) for _ in range(count)]
        layers[name] = [PackedLinear(layer) for layer in made] if _gain(made) else list(made)
    rows = torch.randn(3, shape[1])

    def sweep(name: str) -> Callable[[], None]:
        fed = rows.to(getattr(torch, name))

        def run() -> None:
            for layer in layers[name]:
                layer(fed)

        return run

    with torch.inference_mode():
        single, half = _fastest([sweep("float32"), sweep("bfloat16")])
    ratio = half / single
    said = f"measured at load: products in bfloat16 take {ratio:.2f} of the time they take in float32 here"
    return ("bfloat16" if ratio < WORTH else "float32"), said


def _gain(layers: list[nn.Linear]) -> bool:
    """True if layers of one shape cost less when packed, one and three rows together, and are right."""
    each = layers[0].weight.numel() * layers[0].weight.element_size()
    sample = layers[: max(1, SAMPLE_BYTES // each)]
    try:
        packed = [PackedLinear(layer) for layer in sample]
        with torch.inference_mode():
            weight = sample[0].weight
            feeds = [torch.randn(rows, weight.shape[1], dtype=weight.dtype) for rows in (1, 3)]
            if not _agrees(sample[0], packed[0], feeds[1]):
                return False

            def run(stack: Iterable[nn.Module]) -> None:
                for fed in feeds:
                    for layer in stack:
                        layer(fed)

            dense_seconds, packed_seconds = _fastest([lambda: run(sample), lambda: run(packed)])
    except (RuntimeError, AttributeError):  # no oneDNN, or not for this dtype
        return False
    return packed_seconds < dense_seconds


def _agrees(dense: nn.Module, packed: nn.Module, rows: torch.Tensor) -> bool:
    """True if two layers differ by no more than rounding of sums of this length explains."""
    weight = dense.weight
    size = rows.abs().float() @ weight.abs().float().T  # type: ignore[operator]
    unit = 2 * torch.finfo(rows.dtype).eps + 2 * rows.shape[1] ** 0.5 * torch.finfo(torch.float32).eps
    return bool(((dense(rows).float() - packed(rows).float()).abs() <= unit * size).all())


def _fastest(runs: list[Callable[[], Any]]) -> list[float]:
    """The shortest time of each, in seconds of this thread, taken in turns after one run to warm up.

    What this thread waits for the processor does not count: other sessions decode meanwhile.
    """
    for run in runs:
        run()
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(TRIES):
        for run, taken in zip(runs, times, strict=True):
            began = thread_time()
            run()
            taken.append(thread_time() - began)
    return [min(taken) for taken in times]


def _layers(model: nn.Module) -> list[nn.Linear]:
    # Exactly this class: what derives from it may do more than a product.
    return [module for module in model.modules() if type(module) is nn.Linear]


def _replace(model: nn.Module, by: Callable[[Any], nn.Module]) -> int:
    """Put other layers in place, one that stands in several places too; returns how many are packed."""
    made: dict[int, nn.Module] = {}
    for parent in list(model.modules()):
        if isinstance(parent, JointLinear):  # what it shares goes with it
            continue
        for name, child in list(parent._modules.items()):
            if type(child) is nn.Linear or isinstance(child, PackedLinear | JointLinear):
                if id(child) not in made:
                    made[id(child)] = by(child)
                parent._modules[name] = made[id(child)]
    return sum(isinstance(layer, PackedLinear) for layer in made.values())
