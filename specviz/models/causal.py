"""A causal model taken apart at the one place where drafts join it: the last hidden state.

In front of it is the body (ids, embedding, layers, final norm). Behind it stands whatever the family puts
between hidden state and logits: a head with or without bias, a scale, a soft cap. Neither side is written
again here: `states` and `Head` run the model's own `forward`, with a body that is watched, shortened or
left out. So a draft that shares the target's head gets the target's logits, in every family.
"""

import copy
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.utils import ModelOutput

from specviz.decoding.features import LAST, Features
from specviz.models import products


class Indivisible(ValueError):
    """The model cannot be taken apart like this. The message says what it lacks."""


def body_path(model: Any) -> str:
    """Where in a causal model the module is whose last hidden state becomes logits, as "model.decoder".

    Found by watching a pass over one token: of the modules that return this very tensor, the innermost.

    Raises:
        Indivisible: if no module returns a last hidden state.
    """
    here = threading.get_ident()  # another session may be using the model meanwhile
    found: list[tuple[str, Any]] = []  # in the order in which they end: the outermost last

    def note(name: str) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            states = getattr(output, "last_hidden_state", None)
            if name and states is not None and threading.get_ident() == here:
                found.append((name, states))

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in model.named_modules()]
    try:
        with torch.inference_mode():
            model(torch.zeros((1, 1), dtype=torch.long, device=model.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    if not found:
        raise Indivisible(f"{type(model).__name__} has no body that returns its last hidden state")
    last = found[-1][1]
    return next(name for name, states in found if states is last)


def with_module(module: Any, path: str, new: Any) -> Any:
    """A copy of `module` in which `new` stands at `path`. Everything else is shared, nothing is changed."""
    made = _copied(module)
    name, _, rest = path.partition(".")
    made._modules[name] = with_module(made._modules[name], rest, new) if rest else new
    return made


def _copied(module: Any) -> Any:
    """The module with containers of its own around the same submodules and weights."""
    made = copy.copy(module)
    made._modules = dict(module._modules)
    for hooks in ("_forward_hooks", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"):
        made.__dict__[hooks] = type(module.__dict__[hooks])(module.__dict__[hooks])
    # Spread over devices, a module's `forward` is bound to the module it was made for.
    for name in ("forward", "_old_forward", "_hf_hook"):
        made.__dict__.pop(name, None)
    return made


def run_watched(
    model: Any, path: str, *args: Any, features: Features = True, **kwargs: Any
) -> tuple[Any, torch.Tensor]:
    """The model's own output, and hidden states (batch, n, width) of the body at `path`: those that
    `features` names, side by side."""
    layers = features if isinstance(features, tuple) else (LAST,)
    seen: dict[int, torch.Tensor] = {}

    def note(layer: int) -> Any:
        def hook(module: Any, args: Any, kwargs: Any) -> None:
            seen[layer] = args[0] if args else kwargs["hidden_states"]

        return hook

    body = model.get_submodule(path)
    inner = set(layers) - {LAST}
    name = layer_list(body) if inner else ""
    for layer in inner:
        watched = _copied(body.get_submodule(f"{name}.{layer}"))
        watched.register_forward_pre_hook(note(layer), with_kwargs=True)
        body = with_module(body, f"{name}.{layer}", watched)
    body = _copied(body)
    body.register_forward_hook(lambda module, args, output: seen.update({LAST: output.last_hidden_state}))
    out = with_module(model, path, body)(*args, **kwargs)
    return out, torch.cat([seen[layer].to(seen[layers[0]].device) for layer in layers], dim=-1)


@dataclass
class _States(ModelOutput):
    """A body's output that has nothing but hidden states."""

    last_hidden_state: torch.Tensor | None = None

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


class _Given(nn.Module):
    """Stands where the body stood, and returns the states it was made with."""

    def __init__(self, states: torch.Tensor) -> None:
        super().__init__()
        self.states = states

    def forward(self, *args: Any, **kwargs: Any) -> _States:
        return _States(last_hidden_state=self.states)


class Head:
    """From last hidden states to logits: the causal model's own `forward` without its body.

    Args:
        model: a causal model.
        path: of its body.
    """

    def __init__(self, model: Any, path: str) -> None:
        output = model.get_output_embeddings()
        if output is None:
            raise Indivisible(f"{type(model).__name__} has no head of its own")
        self.path = path
        self.model = with_module(model, path, nn.Module())
        self._take(output)

    def _take(self, output: Any) -> None:
        weight = output.weight  # of a packed layer this is a copy: it is asked once
        self.output = output
        self.rows, self.width = weight.shape  # logits of a row; width of a hidden state
        self.device, self.dtype = weight.device, weight.dtype

    def __len__(self) -> int:
        """Logits of a row."""
        return self.rows

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Hidden states (rows, width) or (batch, rows, width) to logits, with as many dimensions."""
        batch = states if states.dim() == 3 else states[None]
        ids = torch.zeros(batch.shape[:2], dtype=torch.long, device=batch.device)
        logits = with_module(self.model, self.path, _Given(batch))(ids, use_cache=False).logits
        return logits if states.dim() == 3 else logits[0]

    def trimmed(self, ids: torch.Tensor, dtype: torch.dtype | None = None) -> "Head":
        """The head for some ids only, in another dtype if asked for; its weights are copies.

        Raises:
            Indivisible: if what stands behind this model's head needs all logits.
        """
        ids = ids.to(self.device)
        weight, bias = self.output.weight.detach(), getattr(self.output, "bias", None)
        small = nn.Linear(weight.shape[1], len(ids), bias is not None, device="meta")
        small.weight = nn.Parameter(weight[ids].contiguous(), requires_grad=False)
        if bias is not None:
            small.bias = nn.Parameter(bias.detach()[ids].contiguous(), requires_grad=False)
        made = self._with(small)
        self._check(made, ids)
        if dtype not in (None, self.dtype):
            name = made._output_path()
            made.model = copy.deepcopy(made.model).to(dtype).requires_grad_(False)
            made._take(made.model.get_submodule(name))
        return made

    def packed(self) -> "Head":
        """The same head in the layout that costs less on a CPU; see `specviz.models.products`."""
        holder = nn.Sequential(self.output)
        products.pack(holder)
        return self._with(holder[0])

    def _with(self, output: Any) -> "Head":
        made = copy.copy(self)
        made.model = with_module(self.model, self._output_path(), output)
        made._take(output)
        return made

    def _output_path(self) -> str:
        return next(name for name, module in self.model.named_modules() if module is self.output)

    def _check(self, trimmed: "Head", ids: torch.Tensor) -> None:
        """Compare a few logits of the trimmed head with those of the whole one."""
        steps = torch.linspace(-2, 2, 2 * self.width, dtype=torch.float32, device=self.device)
        states = steps.view(2, self.width).to(self.dtype)
        try:
            with torch.inference_mode():
                same = torch.allclose(
                    trimmed(states).float(), self(states)[:, ids].float(), rtol=0.02, atol=0.02
                )
        except RuntimeError:
            same = False
        if not same:
            raise Indivisible(f"{type(self.model).__name__}'s head cannot be cut to some ids")


def layer_list(body: Any) -> str:
    """Where in a body its list of decoder layers is.

    Raises:
        Indivisible: if there is no such list.
    """
    count = body.config.get_text_config().num_hidden_layers
    for name, child in body.named_modules():
        if isinstance(child, nn.ModuleList) and len(child) == count:
            return name
    raise Indivisible(f"{type(body).__name__} does not keep its {count} decoder layers in one list")


def first_layers(model: Any, path: str, layers: int) -> Any:
    """The causal model with the first `layers` layers of its body, around the model's own modules.

    Raises:
        Indivisible: if the layers are not in one list.
    """
    body = model.get_submodule(path)
    name = layer_list(body)
    cut = with_module(body, name, body.get_submodule(name)[:layers])
    cut.config = shortened(body.config, layers)
    made = with_module(model, path, cut)
    made.config = shortened(model.config, layers)
    return made


def shortened(config: Any, layers: int) -> Any:
    """A copy of the config with fewer layers."""
    made = copy.deepcopy(config)
    text = made.get_text_config()
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    return made
