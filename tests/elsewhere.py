"""A device that is not the CPU, on a CPU: it counts what is copied and what has to wait for a value.

Its tensors refuse `numpy()` and `tolist()`, and refuse to meet the CPU's in one operation, as CUDA's do.
Every operation is done by the CPU's kernels, so that results can be compared.
"""

from dataclasses import fields, replace
from functools import cache

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from specviz.decoding.run import DecodingRun

NAME = "elsewhere"
HERE = torch.device("cpu")
# What CUDA has to wait for before the program can go on: values, or sizes that depend on them.
WAITS = (
    "aten::_local_scalar_dense",
    "aten::item",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::unique",
    "aten::_unique",
    "aten::equal",
    "aten::repeat_interleave.Tensor",
    "aten::bincount",
    "aten::argwhere",
)


@cache
def _device():
    """The device, made known to torch once a process."""
    from torch.utils import backend_registration as registration

    registration._setup_privateuseone_for_python_backend(NAME)
    module = getattr(torch, NAME)
    # Others fork and restore the state of every device's generator; this one has none.
    module.get_rng_state = lambda device=0: torch.zeros(1, dtype=torch.uint8)
    module.set_rng_state = lambda state, device=0: None
    return torch.device(NAME, 0)


class There(torch.Tensor):
    """A tensor on the device, around one of the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            raw.shape,
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=_device(),
        )

    def __init__(self, raw):
        self.raw = raw

    def __repr__(self):
        return f"There({self.raw})"

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        raise RuntimeError(f"{op.name()} on the device while nobody counts")


class Elsewhere(TorchDispatchMode):
    """Counts while it is entered.

    Attributes:
        up, down: copies to the device and to the host.
        waits: names of the operations that had to wait for a value.
    """

    def __init__(self):
        super().__init__()
        self.device = _device()
        self._made = _Made()
        self.clear()

    def clear(self):
        self.up, self.down, self.waits = 0, 0, []

    def __enter__(self):
        self._made.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        return self._made.__exit__(*error)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        there = [value for value in leaves if isinstance(value, There)]
        named = [value for value in leaves if isinstance(value, torch.device)]
        if not there and not any(device.type == NAME for device in named):
            return op(*args, **kwargs)
        here = [v for v in leaves if isinstance(v, torch.Tensor) and not isinstance(v, There)]
        name = op.name()
        moves = name.startswith(("aten::to.", "aten::_to_copy", "aten::copy_"))
        if here and not moves and any(tensor.dim() for tensor in here):
            raise RuntimeError(f"{name}: tensors on two devices")
        goes_there = named[0].type == NAME if named else isinstance(args[0], There) or not moves
        if moves and here and goes_there:
            self.up += 1
        if moves and there and (not goes_there):
            self.down += 1
        if name.startswith(WAITS) or (name.startswith("aten::index.") and _masked(args[1])):
            self.waits.append(name)
        with _disable_current_modes():
            out = op(*tree_map(_raw, args), **tree_map(_raw, kwargs))
        if not goes_there:
            return out
        held = {id(tensor.raw): tensor for tensor in there}  # what was changed in place

        def wrapped(value):
            if not isinstance(value, torch.Tensor):
                return value
            return held[id(value)] if id(value) in held else There(value)

        return tree_map(wrapped, out)


class _Made(TorchFunctionMode):
    """`torch.tensor(…, device=…)` as a copy to the device, which is what it is."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if func is torch.tensor and device is not None and torch.device(device).type == NAME:
            return torch.tensor(*args, **{**kwargs, "device": HERE}).to(device)
        return func(*args, **kwargs)


def _masked(indices):
    return any(isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in indices)


def _raw(value):
    if isinstance(value, There):
        return value.raw
    return HERE if isinstance(value, torch.device) and value.type == NAME else value


def move(pair, device=None):
    """The pair of `drafts.llama_drafts` with all its models on the device."""
    device = device or _device()
    with Elsewhere() if device.type == NAME else torch.no_grad():
        for model in (pair.target, pair.draft):
            _move(model.model, device)
            model.device = device
        for part in (pair.medusa.heads, pair.eagle.core):
            _move(part, device)
        head = pair.medusa.head
        _move(head.head.model, device)
        head._ids_there = head._ids_there.to(device)
        pair.eagle.no_feature = pair.eagle.no_feature.to(device)
    return pair


def move_checkpoint(draft, target):
    """A draft of `specviz.models.checkpoints` and its target on the device."""
    device = _device()
    parts = [getattr(draft, name) for name in ("body", "embedding") if hasattr(draft, name)]
    parts += [block for chain in getattr(draft, "chains", ()) for block in chain]
    heads = getattr(draft, "matrices", None) or [draft.head]
    with Elsewhere():
        for part in (target.model, *parts, *(head.linear for head in heads)):
            _move(part, device)
    target.device = device


def _move(module, device):
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and tensor.device != device:
                    tensors[name] = tensor.detach().to(device)


def same(value, other):
    """Equal, floats within rounding of sums; types too."""
    if isinstance(value, float) and isinstance(other, float):
        return value == pytest.approx(other, rel=1e-9, abs=1e-12)
    if isinstance(value, tuple) and isinstance(other, tuple):
        return len(value) == len(other) and all(map(same, value, other))
    if hasattr(value, "__dataclass_fields__"):
        return type(value) is type(other) and all(
            same(getattr(value, f.name), getattr(other, f.name)) for f in fields(value)
        )
    return type(value) is type(other) and value == other


def timeless(round):
    times = ("draft_seconds", "verify_seconds", "other_seconds", "record_seconds")
    return replace(round, **dict.fromkeys(times, 0.0))


def require_same_there(pair, prompt, **settings):
    """The rounds computed as on a device are those of the host."""
    here, there = (DecodingRun(pair, prompt, on_device=stays, **settings) for stays in (False, True))
    assert here.stage is None and there.stage is not None
    for one, other in zip(here, there, strict=True):
        assert same(timeless(one), timeless(other))
    assert here.tokens == there.tokens
