"""Whether speculative decoding is right with a model: asked of its config, then of a few short passes.

The engine needs a causal model whose cache can be cut anywhere and continued, and whose logits at a row
depend on the tokens before it alone. What a family calls itself does not matter: each of these is tried.
Whatever a family does or raises instead becomes one sentence.
"""

from typing import Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.models.errors import LoadError, first_line
from specviz.models.language_model import TransformersModel

PROBE = 8  # tokens of the trial passes
# Share of the logits' range that rounding explains between two passes, by dtype.
ROUNDING = {"float64": 1e-6, "float32": 1e-3, "float16": 0.02, "bfloat16": 0.1}


def require_causal_config(config: Any, name: str) -> None:
    """Refuse, before any weights are read, what is no causal language model.

    Raises:
        LoadError: with the reason.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    kind = config.model_type
    if config.is_encoder_decoder:
        raise LoadError(
            f"{name} is an encoder–decoder model ({kind}): its text has two sides, and SpecViz decodes "
            "models with one (decoder-only)"
        )
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise LoadError(f"{name} ({kind}) is not a causal language model, so it cannot continue a text")


def require_suitable(model: TransformersModel) -> None:
    """Try a model on a few tokens.

    Raises:
        LoadError: with what it lacks.
    """
    try:
        _require_cuttable(model)
        _require_right_passes(model)
    except LoadError:
        raise
    except Exception as error:  # whatever a family raises that is not built for this
        raise LoadError(
            f"{model.name} cannot be decoded speculatively: feeding it a few tokens fails with "
            f"{type(error).__name__} ({first_line(error)})"
        ) from error
    model.forward_seconds = 0.0


def _require_cuttable(model: TransformersModel) -> None:
    from transformers import DynamicCache

    try:
        # Made from the config, a cache has the kinds of layer that the model really keeps.
        cache: Any = DynamicCache(config=model.model.config)
        if any(cache.is_linear):
            raise caches.UncuttableCache(
                f"{model.name} keeps a running state in some of its layers (it is recurrent or a hybrid), "
                "which cannot be rolled back after a rejection. Choose a model whose layers all use attention"
            )
        model.forward([0], cache, rows=1)
        caches.require_cuttable(cache, model.name)
    except caches.UncuttableCache as error:
        raise LoadError(str(error)) from error
    cache = model.new_cache()
    try:
        model.forward([0], cache, rows=1)
    except Exception as error:
        raise LoadError(
            f"{model.name} needs a cache of a kind of its own, which cannot be rolled back after a rejection "
            f"({first_line(error)})"
        ) from error
    if caches.length(cache) != 1:
        raise LoadError(f"{model.name} does not fill a key-value cache, so it cannot be rolled back")


def _require_right_passes(model: TransformersModel) -> None:
    """The same rows in several ways: with another end, with fewer tokens, over a cache that was cut."""
    most = min(PROBE, model.context_length)
    tokens = [(5 * i + 3) % model.embedded for i in range(most)]
    half = most // 2

    def rows(fed: list[int]) -> np.ndarray:
        return model.forward(fed, model.new_cache(), len(fed)).logits

    whole = rows(tokens)
    if whole.shape[0] != most:
        raise LoadError(f"{model.name} does not give logits for every token it is fed")
    seen = whole[np.isfinite(whole)]
    limit = ROUNDING[model.dtype] * float(np.ptp(seen)) if seen.size else 0.0

    other = rows([*tokens[:-1], (tokens[-1] + 1) % model.embedded])
    if _differ(whole[:-1], other[:-1], limit):
        raise LoadError(
            f"{model.name} is not causal: what it says about earlier tokens changes with a later one, as in "
            "models that fill in blanks"
        )
    if _differ(whole[:half], rows(tokens[:half]), limit):
        raise LoadError(
            f"{model.name} changes what it says about earlier tokens when the text gets longer, so a draft "
            "block cannot be scored in one pass"
        )
    cache = model.new_cache()
    model.forward(tokens[:-1], cache, rows=1)
    caches.keep(cache, half)
    again = model.forward(tokens[half:], cache, most - half).logits
    if _differ(whole[half:], again, limit) or caches.length(cache) != most:
        raise LoadError(
            f"{model.name} does not go on rightly after its cache was cut: it keeps state that cannot be "
            "rolled back after a rejection"
        )


def _differ(a: np.ndarray, b: np.ndarray, limit: float) -> bool:
    """True if finite logits differ by more than `limit`; ids that cannot be emitted are -inf in both."""
    both = np.isfinite(a) & np.isfinite(b)
    return not both.any() or float(np.abs(a[both] - b[both]).max()) > limit
