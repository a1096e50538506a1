"""Key-value caches: the second surface of correctness. Rolling back, and the audit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Cache(Protocol):
    """What transformers' DynamicCache offers: layers with `get_seq_length()` and `crop(-n)`."""

    layers: list[Any]


class UncuttableCache(ValueError):
    """The model keeps state that cannot be rolled back (recurrent, hybrid, quantised cache)."""


def length(cache: Cache) -> int:
    """Positions that every layer holds. Layers differ only after an interrupted forward pass."""
    return min((layer.get_seq_length() for layer in cache.layers), default=0)


def keep(cache: Cache, n: int) -> None:
    """Cut every layer to its first `n` positions; a layer that holds fewer is left alone.

    Each layer is cut by its own surplus, so a pass that was interrupted between layers leaves no
    ragged cache behind.
    """
    for layer in cache.layers:
        surplus = layer.get_seq_length() - n
        if surplus > 0:
            layer.crop(-surplus)


def pick(cache: Cache | None, full: int, rows: Sequence[int]) -> None:
    """Keep the first rows of a cache and some of a tree behind them. Broken off, it can be repeated.

    Args:
        full: positions that the cache holds now. A part that holds another number is left alone: it has been
            done, or holds no keys.
        rows: indices of those that stay, rising.
    """
    if cache is None:
        return
    places = list(rows)
    for layer in cache.layers:
        for name in ("keys", "values"):
            held = getattr(layer, name)
            if held.shape[-2] == full and len(places) < full:
                setattr(layer, name, held[..., places, :])


def lengths(cache: Cache | None) -> tuple[int, ...]:
    """Positions in each layer, for `restore`. A cache makes its layers in its first pass: none before."""
    return () if cache is None else tuple(layer.get_seq_length() for layer in cache.layers)


def restore(cache: Cache | None, before: tuple[int, ...]) -> None:
    """Take back everything that was cached since `lengths` gave `before`, wherever a pass broke off.

    A broken pass leaves layers of different lengths behind, layers that were not there, and perhaps one
    layer whose keys have grown and whose values have not.
    """
    if cache is None:
        return
    del cache.layers[len(before) :]
    for layer, n in zip(cache.layers, before, strict=True):
        if n == 0 and hasattr(layer, "reset"):
            layer.reset()
            continue
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is not None and values is not None:
            layer.keys = keys[..., : values.shape[-2], :]
        surplus = layer.get_seq_length() - n
        if surplus > 0:
            layer.crop(-surplus)


def require_cuttable(cache: Cache, model: str) -> None:
    """Refuse a cache that cannot be cut. Call it after a first pass: only then do layers exist.

    Raises:
        UncuttableCache: with the kind of layer that cannot be rolled back.
    """
    for layer in cache.layers:
        if not getattr(layer, "is_croppable", True) or not hasattr(layer, "crop"):
            raise UncuttableCache(
                f"{model} keeps state of kind {type(layer).__name__} that cannot be rolled back after a "
                "rejection (recurrent and hybrid models do). Choose a model whose layers all use "
                "attention with a key-value cache."
            )


@dataclass(frozen=True, slots=True)
class CacheAudit:
    """A cached model compared with an uncached pass over the same tokens.

    Attributes:
        cached: positions in the cache.
        expected: positions there should be.
        max_abs_diff: (rows,) largest |difference of logits| a row, over the rows compared.
        tolerance: largest difference that rounding explains for this dtype and device.
    """

    cached: int
    expected: int
    max_abs_diff: tuple[float, ...]
    tolerance: float

    @property
    def ok(self) -> bool:
        return self.cached == self.expected and all(d <= self.tolerance for d in self.max_abs_diff)


def audit(model: Any, cache: Cache, tokens: Sequence[int], expected: int) -> CacheAudit:
    """Feed the tokens that are not cached, compare with an uncached pass, and cut the cache again.

    The logits of the newly fed rows depend on every cached key and value, so a wrong, missing or
    doubled cache entry shows in them.

    Args:
        model: offers `forward(tokens, cache, rows)`, `new_cache()` and `tolerance`.
        cache: the cache under test; unchanged when the call returns.
        tokens: the committed tokens.
        expected: positions that the cache should hold.
    """
    cached = length(cache)
    fed = list(tokens[cached:])
    if not fed:  # nothing to feed: the length alone is wrong
        return CacheAudit(cached, expected, (), model.tolerance)
    try:
        with_cache = model.forward(fed, cache, len(fed)).logits
    finally:
        keep(cache, cached)
    without = model.forward(list(tokens), model.new_cache(), len(fed)).logits
    # Ids that a model cannot emit have -inf on both sides, and no difference.
    differ = with_cache != without
    worst = np.abs(np.subtract(with_cache, without, where=differ, out=np.zeros(differ.shape))).max(axis=1)
    return CacheAudit(cached, expected, tuple(float(d) for d in worst), model.tolerance)
