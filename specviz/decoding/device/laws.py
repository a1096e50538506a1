"""Effective distributions on a device; see `specviz.decoding.sampling` for what they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from specviz.decoding.controls import penalised, removals
from specviz.decoding.device.transfer import Ids, ids_on, upload
from specviz.decoding.sampling import NOTHING, REMOVED, Effective, SamplingConfig


@torch.inference_mode()
def effective_probs(
    logits: torch.Tensor,
    prefixes: Sequence[Sequence[Any]],
    sampling: SamplingConfig,
    available: Ids | None = None,
) -> Effective:
    """`sampling.effective_probs` with tensors on one device, and no wait for it.

    Logits that are not finite raise nothing here: such a row is NaN, and whoever copies the round says so.

    Args:
        logits: (R, V) of any float type.
        prefixes: R sequences of token ids, the drafted ones as tensors (1,); under a grammar, which reads
            them, as numbers.
        sampling: the controls.
        available: ids that the model can emit, None for all.

    Raises:
        NothingLeft: if the controls remove every token.
    """
    scores, removed = _available_scores(logits, None if available is None else available.there)
    removed = _constrain(sampling, scores, removed, prefixes, available)
    if not sampling.greedy:
        scores = scores / sampling.temperature
    highest = scores.amax(1, keepdim=True)
    if sampling.greedy:
        return _greedy(scores, removed, highest)
    scores = (scores - highest).clamp(min=NOTHING)
    weights = scores.exp()
    if sampling.top_k or sampling.top_p < 1.0 or sampling.min_p:
        weights, removed = _filtered(sampling, scores, weights, removed)
    total = weights.sum(1, keepdim=True)
    return Effective(weights / total, removed, (highest + total.log())[:, 0])  # type: ignore[arg-type]


def _code(reason: str) -> int:
    return REMOVED.index(reason)


def _available_scores(
    logits: torch.Tensor, available: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    scores = logits.double()
    if available is None:
        # An infinite logit shows in no sum where it is negative: one NaN marks its row.
        return scores + (scores - scores).sum(1, keepdim=True), None
    seen = scores.index_select(1, available)
    spread = torch.full_like(scores, -torch.inf)
    spread = spread.index_copy(1, available, seen + (seen - seen).sum(1, keepdim=True))
    removed = torch.full_like(scores, _code("vocabulary"), dtype=torch.uint8)
    return spread, removed.index_fill(1, available, 0)


def _constrain(
    sampling: SamplingConfig,
    scores: torch.Tensor,
    removed: torch.Tensor | None,
    prefixes: Sequence[Sequence[Any]],
    available: Ids | None,
) -> torch.Tensor | None:
    """What comes before the temperature, done to `scores` in place; the codes of what it removes.

    What is removed is known on the host and goes up, a byte a token; no row comes down for it.
    """
    device = scores.device
    if sampling.bias:
        ids, values = (upload(np.array(column), device) for column in zip(*sampling.bias, strict=True))
        scores.index_add_(1, ids, values.double().expand(len(scores), -1))
    if sampling.repetition_penalty != 1.0:
        for row, prefix in zip(scores.unbind(), prefixes, strict=True):
            seen = ids_on(prefix, device)
            row.scatter_(0, seen, penalised(sampling, row.gather(0, seen)))
    found = removals(sampling, prefixes, scores.shape[1], None if available is None else available.here)
    if found is None:
        return removed
    codes = upload(found, device)
    scores.masked_fill_(codes > 0, -torch.inf)
    return codes if removed is None else torch.where(removed == 0, codes, removed)


def _filtered(
    sampling: SamplingConfig, scores: torch.Tensor, weights: torch.Tensor, removed: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Top-k, top-p and min-p on rows (R, V): what they remove gets weight 0 and their code."""
    if removed is None:
        removed = torch.zeros_like(scores, dtype=torch.uint8)
    if 0 < sampling.top_k < scores.shape[1]:
        border = scores.topk(sampling.top_k).values[:, -1:]
        weights, removed = _drop(scores < border, weights, removed, "top-k")
    if sampling.top_p < 1.0:
        weights, removed = _drop(~_nucleus(weights, sampling.top_p), weights, removed, "top-p")
    if sampling.min_p:
        weights, removed = _drop(weights < sampling.min_p, weights, removed, "min-p")
    return weights, removed


def _drop(
    gone: torch.Tensor, weights: torch.Tensor, removed: torch.Tensor, reason: str
) -> tuple[torch.Tensor, torch.Tensor]:
    code = torch.where((removed == 0) & gone, _code(reason), removed.long()).to(torch.uint8)
    return torch.where(code == 0, weights, 0.0), code


def _nucleus(weights: torch.Tensor, top_p: float) -> torch.Tensor:
    """(R, V) bool: the smallest set of leading tokens with at least this share, as `sampling` has it."""
    rising, ids = weights.sort(dim=1, stable=True)
    kept = rising.cumsum(1) / rising.sum(1, keepdim=True) > 1.0 - top_p
    kept = torch.cat([kept[:, :-1], torch.ones_like(kept[:, -1:])], dim=1)
    return torch.zeros_like(kept).scatter(1, ids, kept)


def _greedy(scores: torch.Tensor, removed: torch.Tensor | None, highest: torch.Tensor) -> Effective:
    width = scores.shape[1]
    places = torch.arange(width, device=scores.device)
    first = torch.where(scores == highest, places, width).amin(1, keepdim=True)  # the first of equal scores
    best = places == first
    # Where nothing is left, the difference is NaN.
    probs = best.double() + (highest - highest)
    removed = torch.zeros_like(best, dtype=torch.uint8) if removed is None else removed
    removed = torch.where((removed == 0) & ~best, _code("greedy"), removed.long()).to(torch.uint8)
    return Effective(probs, removed, torch.full_like(highest[:, 0], torch.nan))  # type: ignore[arg-type]
