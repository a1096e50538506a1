"""Transformers models behind the engine's `LanguageModel` protocol."""

import copy
import inspect
from collections.abc import Sequence
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from specviz.decoding.cache import Cache
from specviz.decoding.features import Features
from specviz.decoding.protocols import ModelOutput, Places
from specviz.decoding.trace import ModelInfo
from specviz.models.context import context_limit
from specviz.models.errors import LoadError, first_line
from specviz.models.steady import STEADY

# Largest logit difference that rounding explains between a cached and an uncached pass, by dtype. Over ten
# prompts fed in blocks of 1 to 5 tokens, the built-in target on a CPU differs by at most 0.00011, 0.24 and
# 1.7, at logits up to 41.
TOLERANCE = {"float64": 1e-4, "float32": 1e-3, "float16": 0.5, "bfloat16": 4.0}


class TransformersModel:
    """A causal model of transformers; see `specviz.decoding.protocols.LanguageModel`.

    Args:
        model: a transformers causal model in eval mode, on one device.
        name: shown in errors and results.
        vocab_size: V. Logits beyond it are cut; ids that the model has no logit for are not available.
        known: sorted ids below V that may be emitted; None for all. Padded rows stand for no token.
        stand_in: fed in place of ids that the embedding does not have, which only a draft can be asked to
            take: q may be any distribution. None if such ids are an error.
    """

    def __init__(
        self,
        model: Any,
        name: str,
        vocab_size: int,
        known: np.ndarray | None = None,
        stand_in: int | None = None,
    ) -> None:
        from specviz.models import products

        self.model = model
        self.parameters = products.parameters(model)  # packed later, a tied head has weights of its own
        self.name = name
        self.vocab_size = vocab_size
        self.context_length, self.context_reason = context_limit(model.config.get_text_config())
        self.device = model.device
        self.dtype = str(model.dtype).removeprefix("torch.")
        if self.dtype not in TOLERANCE:
            raise LoadError(
                f"{name} was loaded as {self.dtype}, for which it is not known what rounding explains: "
                f"choose one of {', '.join(TOLERANCE)}"
            )
        self.tolerance = TOLERANCE[self.dtype]
        self.forward_seconds = 0.0
        self.width = self._width()
        self.embedded = self._embedded()
        ids = np.arange(vocab_size) if known is None else known
        # What the model writes it has to read again.
        ids = ids[ids < min(self.width, self.embedded)]
        self.stand_in = stand_in
        self.gap = gap(model.config)
        self.available: np.ndarray | None = None if len(ids) == vocab_size else ids

    def _width(self) -> int:
        return int(self.model.get_output_embeddings().weight.shape[0])

    def _embedded(self) -> int:
        """Ids that can be fed: rows of the embedding."""
        embedding = self.model.get_input_embeddings()
        weight = getattr(embedding, "weight", None)
        return self.vocab_size if weight is None else int(weight.shape[0])

    @cached_property
    def _keeps_rows(self) -> bool:
        """True if the model can be asked for the last rows of logits only."""
        return "logits_to_keep" in inspect.signature(self.model.forward).parameters

    @cached_property
    def body_path(self) -> str:
        """Where the model's body is; see `specviz.models.causal`.

        Raises:
            ValueError: if it has none.
        """
        from specviz.models import causal

        return causal.body_path(self.model)

    @property
    def body(self) -> Any:
        """The module from ids to last hidden states."""
        return self.model.get_submodule(self.body_path)

    @cached_property
    def logits_of(self) -> Any:
        """The `causal.Head`: whatever stands between last hidden state and logits."""
        from specviz.models import causal

        return causal.Head(self.model, self.body_path)

    def states(self, fed: Any) -> Any:
        """Last hidden states (batch, n, hidden) of token ids (batch, n), without a cache."""
        return self._pass(fed, self.new_cache(), 1, True)[1]

    def first_layers(self, layers: int) -> Any:
        """The model with its first layers only, around the same weights.

        Raises:
            ValueError: if the model does not work with fewer layers.
        """
        import torch

        from specviz.models import causal

        try:
            cut = causal.first_layers(self.model, self.body_path, layers)
            with torch.inference_mode():
                cut(torch.zeros((1, 1), dtype=torch.long, device=self.device), use_cache=False)
        except Exception as error:  # whatever a family does that counts on all its layers
            raise ValueError(
                f"{self.name} cannot end after {layers} of its layers: {first_line(error)}"
            ) from error
        return cut

    def new_cache(self) -> Any:
        from specviz.models.attention import GrowingCache

        return GrowingCache()

    def forward(
        self, tokens: Sequence[int], cache: Cache, rows: int, features: Features = False
    ) -> ModelOutput:
        """Feed `tokens` behind what `cache` holds; return the logits of the last `rows` of them."""
        began = perf_counter()
        output = self._forward(self._readable(tokens), cache, rows, features)
        logits = output.logits.cpu().numpy()
        self.forward_seconds += perf_counter() - began
        return ModelOutput(self.on_all(logits), output.features)

    def forward_there(
        self, tokens: Sequence[Any], cache: Cache, rows: int, features: Features = False
    ) -> ModelOutput:
        """As `forward`, with logits that stay on the device, and without a wait for it.

        Args:
            tokens: ids known here, and behind them ids that are tensors (1,) on the device.
        """
        import torch

        from specviz.decoding.device.transfer import ids_on

        with torch.inference_mode():
            fed = ids_on(tokens, self.device)
            if self.embedded < self.vocab_size:
                fed = torch.where(fed < self.embedded, fed, self.stand_in or 0)
            output = self._forward(fed, cache, rows, features)
            logits = self.on_all_there(output.logits.to(self.device))
            return ModelOutput(logits, output.features)

    def _forward(self, tokens: Any, cache: Cache, rows: int, features: Features) -> Any:
        """Logits (rows, width) in float32 and features as tensors."""
        import torch

        with STEADY.passing(), torch.inference_mode():
            fed = tokens[None] if isinstance(tokens, torch.Tensor) else torch.tensor([tokens])
            logits, states = self._pass(fed.to(self.device), cache, rows, features)
            # Half precision goes to float32 before anything is computed from it.
            return ModelOutput(logits[0].float(), states[0] if features else None)

    def forward_branching(
        self, tokens: Sequence[int], cache: Cache, places: Places, rows: int, features: Features = False
    ) -> ModelOutput:
        """`forward` for tokens that branch: each stands at its place and sees what that says."""
        import torch

        from specviz.models import branching

        began = perf_counter()
        with STEADY.passing(), torch.inference_mode():
            fed = torch.tensor([self._readable(tokens)], device=self.device)
            mask, positions = branching.tensors(places, self.model)
            logits, states = self._pass(
                fed, cache, rows, features, attention_mask=mask, position_ids=positions
            )
            output = ModelOutput(
                self.on_all(logits[0].float().cpu().numpy()), states[0] if features else None
            )
        self.forward_seconds += perf_counter() - began
        return output

    def branching_problem(self) -> str:
        """Why the model cannot be fed a tree, in one sentence; "" if it can."""
        return self._branching_problem

    @cached_property
    def _branching_problem(self) -> str:
        from specviz.models import branching

        return branching.problem(self)

    def after_each(self, endings: Sequence[Sequence[int]], cache: Cache) -> np.ndarray:
        """Logits (n, V) of what follows each of n endings of one length, in one pass.

        Args:
            endings: tokens that stand behind what `cache` holds.
            cache: is not changed.
        """
        import torch

        repeated = copy.deepcopy(cache)
        with STEADY.passing(), torch.inference_mode():
            repeated.batch_repeat_interleave(len(endings))  # type: ignore[attr-defined]
            fed = torch.tensor([self._readable(ending) for ending in endings], device=self.device)
            logits, _ = self._pass(fed, repeated, 1, False)
            return self.on_all(logits[:, 0].float().cpu().numpy())

    def _readable(self, tokens: Sequence[int]) -> list[int]:
        """The tokens, each one that the embedding has.

        Raises:
            ValueError: for an id that it does not have, if nothing stands in for it.
        """
        if max(tokens, default=0) < self.embedded:
            return list(tokens)
        if self.stand_in is None:
            raise ValueError(
                f"{self.name} cannot be fed token id {max(tokens)}: its embedding has {self.embedded:,} rows"
            )
        return [token if token < self.embedded else self.stand_in for token in tokens]

    def _pass(self, fed: Any, cache: Cache, rows: int, features: Features, **more: Any) -> tuple[Any, Any]:
        """Feed token ids (batch, n); `more` are arguments of the model's forward.

        Returns:
            logits (batch, rows, width) and, if asked for, hidden states (batch, n, hidden of all asked for).
        """
        kept = {"logits_to_keep": rows} if self._keeps_rows else {}
        asked = {"cache": cache, "use_cache": True, **kept, **more}
        if features:
            from specviz.models import causal

            out, states = causal.run_watched(self.model, self.body_path, fed, features=features, **asked)
        else:
            out, states = self.model(fed, **asked), None
        return out.logits[:, -rows:], states  # a family may ignore how many rows are asked for

    def on_all(self, logits: np.ndarray) -> np.ndarray:
        """(rows, width) to (rows, V); what the model cannot emit is -inf."""
        missing = self.vocab_size - logits.shape[1]
        if missing <= 0:
            return logits[:, : self.vocab_size]
        return np.pad(logits, ((0, 0), (0, missing)), constant_values=-np.inf)

    def on_all_there(self, logits: Any) -> Any:
        """The same with tensors on the device."""
        import torch

        missing = self.vocab_size - logits.shape[1]
        if missing <= 0:
            return logits[:, : self.vocab_size]
        return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)

    def info(self) -> ModelInfo:
        return ModelInfo(
            name=self.name,
            parameters=self.parameters,
            device=str(self.device),
            dtype=self.dtype,
            layers=self.model.config.get_text_config().num_hidden_layers,
            vocab_size=self.width,
        )


def gap(config: Any) -> int | None:
    """The token that a draft trained for parallel drafting is fed for what is not known yet, by the names
    that vLLM reads (`pard_token`, `ptd_token_id`); None if its config names none."""
    for name in ("pard_token", "ptd_token_id"):
        found = getattr(config, name, None)
        if isinstance(found, int):
            return found
    return None
