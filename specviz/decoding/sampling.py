"""Sampling controls, and the effective distribution that sampling really uses.

The controls are transformers' own processors, applied in the order `generate` applies them: repetition
penalty, banned tokens, temperature, top-k, top-p, min-p. Both models go through the same function,
each with its own controls; the law of the output is the target's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# What took a token's probability, by code. "vocabulary" marks tokens that a trimmed or narrower draft
# cannot propose.
REMOVED = ("", "banned", "top-k", "top-p", "min-p", "greedy", "vocabulary")


COLDEST = 1e-5  # a temperature below it would do nothing but overflow; 0 is greedy


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """The controls of one model. The defaults change nothing: the model's own distribution.

    Attributes:
        temperature: 0 (greedy: one-hot at the largest score, lowest id on ties) or 0.00001 … 100.
        top_k: keep the k largest scores (ties at the border are all kept); 0 keeps all.
        top_p: keep the smallest set of leading tokens with at least this mass, in (0, 1]; 1 keeps all.
        min_p: keep tokens with at least this share of the largest probability, in [0, 1]; 0 keeps all.
        repetition_penalty: divides positive and multiplies negative scores of tokens already in the
            prefix (prompt included); in (0, 10], 1 changes nothing.
        banned: token ids that are never emitted.

    Raises:
        ValueError: naming the control that is out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    banned: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        checks = {
            "temperature": (
                self.temperature == 0.0 or COLDEST <= self.temperature <= 100.0,
                f"0 (greedy) or {COLDEST:.5f} … 100",
            ),
            "top_k": (self.top_k >= 0, "0 or more"),
            "top_p": (0.0 < self.top_p <= 1.0, "above 0, at most 1"),
            "min_p": (0.0 <= self.min_p <= 1.0, "0 … 1"),
            "repetition_penalty": (0.0 < self.repetition_penalty <= 10.0, "above 0, at most 10"),
            "banned": (all(i >= 0 for i in self.banned), "token ids of 0 or more"),
        }
        for name, (holds, allowed) in checks.items():
            if not holds:
                raise ValueError(f"{name} must be {allowed}, not {getattr(self, name)}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


class NonFiniteLogits(ValueError):
    """A model returned NaN or infinity. `row` counts from 0 within the rows that were checked."""

    def __init__(self, row: int, value: float) -> None:
        super().__init__(f"row {row}: logit is {value}")
        self.row = row
        self.value = value


@dataclass(frozen=True, slots=True)
class Effective:
    """Effective distributions of R rows over V tokens.

    Attributes:
        probs: (R, V) float64, each row sums to 1.
        removed: (R, V) uint8 index into `REMOVED`: the control that took the token, 0 if none did.
            None if no control can remove a token.
        logsumexp: (R,) log normaliser of the scores behind `probs`; NaN for greedy rows.
    """

    probs: np.ndarray
    removed: np.ndarray | None
    logsumexp: np.ndarray


# Any stand-in for `effective_probs`, with its arguments.
Scorer = Callable[[np.ndarray, Sequence[Sequence[int]], SamplingConfig, np.ndarray | None], Effective]


def effective_probs(
    logits: np.ndarray,
    prefixes: Sequence[Sequence[int]],
    sampling: SamplingConfig,
    available: np.ndarray | None = None,
) -> Effective:
    """The distributions that sampling uses at each row, after all controls.

    Args:
        logits: (R, V) of any float type; computed with in at least float32, normalised in float64.
        prefixes: R token sequences, everything before each row; only the repetition penalty reads them.
        sampling: the controls.
        available: ids that the model can emit at all, or None for all; the others get probability 0,
            and their logits are not looked at.

    Raises:
        NonFiniteLogits: if an available logit is NaN or infinite.
        ValueError: if every token is banned.
    """
    scores, removed = _available_scores(logits, available)
    scores, removed = _apply(sampling, scores, removed, prefixes)
    highest = scores.max(axis=1, keepdims=True)
    if not np.isfinite(highest).all():
        raise ValueError("every token is banned: no distribution is left")
    if sampling.greedy:
        return _greedy(scores, removed)
    weights = np.exp(scores - highest)
    total = weights.sum(axis=1, keepdims=True)
    weights /= total
    return Effective(weights, removed, (highest + np.log(total))[:, 0])


def _available_scores(
    logits: np.ndarray, available: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Float64 scores with -inf outside `available`, after the check for NaN and infinity."""
    seen = logits if available is None else logits[:, available]
    finite = np.isfinite(seen)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        raise NonFiniteLogits(row, float(seen[row, column]))
    if available is None:
        return logits.astype(np.float64), None
    scores = np.full(logits.shape, -np.inf)
    scores[:, available] = seen
    removed = np.full(logits.shape, REMOVED.index("vocabulary"), dtype=np.uint8)
    removed[:, available] = 0
    return scores, removed


def _apply(
    sampling: SamplingConfig,
    scores: np.ndarray,
    removed: np.ndarray | None,
    prefixes: Sequence[Sequence[int]],
) -> tuple[np.ndarray, np.ndarray | None]:
    """The scores after all controls, and which control removed which token."""
    if sampling in (SamplingConfig(), SamplingConfig(temperature=0.0)):
        return scores, removed  # nothing to do, and no reason to import transformers
    import torch
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    tensor = torch.from_numpy(scores)
    if sampling.repetition_penalty != 1.0:
        # Rows have prefixes of different lengths, and the penalty depends on them.
        penalty = RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty))
        rows = zip(prefixes, tensor.split(1), strict=True)
        tensor = torch.cat([penalty(torch.tensor([list(prefix)]), row) for prefix, row in rows])
    for reason, processor in _processors(sampling):
        tensor = processor(None, tensor)
        if reason:
            if removed is None:
                removed = np.zeros(scores.shape, dtype=np.uint8)
            gone = torch.isneginf(tensor).numpy() & (removed == 0)
            removed[gone] = REMOVED.index(reason)
    return tensor.numpy(), removed


def _processors(sampling: SamplingConfig) -> list[tuple[str, Any]]:
    """The active controls that look at a row alone, in order, with the reason each gives for removals."""
    from transformers.generation import logits_process as hf

    active: list[tuple[str, Any]] = []
    if sampling.banned:
        active.append(("banned", hf.SuppressTokensLogitsProcessor(sampling.banned)))
    if sampling.greedy:
        return active
    if sampling.temperature != 1.0:
        active.append(("", hf.TemperatureLogitsWarper(float(sampling.temperature))))
    if sampling.top_k:
        active.append(("top-k", hf.TopKLogitsWarper(sampling.top_k)))
    if sampling.top_p < 1.0:
        active.append(("top-p", hf.TopPLogitsWarper(sampling.top_p)))
    if sampling.min_p:
        active.append(("min-p", hf.MinPLogitsWarper(sampling.min_p)))
    return active


def _greedy(scores: np.ndarray, removed: np.ndarray | None) -> Effective:
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)  # the first of equal scores
    probs = np.zeros(scores.shape)
    probs[rows, best] = 1.0
    if removed is None:
        removed = np.zeros(scores.shape, dtype=np.uint8)
    removed[(probs == 0.0) & (removed == 0)] = REMOVED.index("greedy")
    return Effective(probs, removed, np.full(len(scores), np.nan))
