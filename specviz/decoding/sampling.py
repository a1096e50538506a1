"""Sampling controls, and the effective distribution that sampling really uses.

The controls are those of transformers, in the order in which `generate` applies them: repetition penalty,
banned tokens, temperature, top-k, top-p, min-p. The filters keep what its warpers keep; they are written here
because sorting whole vocabularies would take longer than all else in a round. Both models go through the same
function, each with its own controls; the output follows the target's distribution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

# What took a token's probability, by code. "vocabulary" marks tokens that a trimmed or narrower draft
# cannot propose.
REMOVED = ("", "banned", "top-k", "top-p", "min-p", "greedy", "vocabulary")


# Less than any score that matters, in place of -inf: its exponential is 0, and so is their product.
NOTHING = -1e4
FEW = 2048
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
        log_probs: (R, V) float64 natural logs of `probs` where those are positive, any finite number
            elsewhere; None for greedy rows.
    """

    probs: np.ndarray
    removed: np.ndarray | None
    logsumexp: np.ndarray
    log_probs: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        parts = (self.probs, self.removed, self.logsumexp, self.log_probs)
        return sum(part.nbytes for part in parts if part is not None)


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
        logits: (R, V) of any float type; computed with in float64.
        prefixes: R token sequences, everything before each row; only the repetition penalty reads them.
        sampling: the controls.
        available: ids that the model can emit at all, or None for all; the others get probability 0,
            and their logits are not looked at.

    Raises:
        NonFiniteLogits: if an available logit is NaN or infinite.
        ValueError: if every token is banned.
    """
    scores, removed = _available_scores(logits, available)
    scores, removed = _penalised(sampling, scores, removed, prefixes)
    if not sampling.greedy and sampling.temperature != 1.0:
        scores /= sampling.temperature
    highest = scores.max(axis=1, keepdims=True)
    if not np.isfinite(highest).all():
        raise ValueError("every token is banned: no distribution is left")
    if sampling.greedy:
        return _greedy(scores, removed)
    scores -= highest
    if removed is not None:
        np.maximum(scores, NOTHING, out=scores)
    weights = np.exp(scores)
    if sampling.top_k or sampling.top_p < 1.0 or sampling.min_p:
        if removed is None:
            removed = np.zeros(scores.shape, dtype=np.uint8)
        for row in range(len(scores)):
            _filter(sampling, scores[row], weights[row], removed[row])
    total = weights.sum(axis=1, keepdims=True)
    weights /= total
    log_total = np.log(total)
    scores -= log_total
    return Effective(weights, removed, (highest + log_total)[:, 0], scores)


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


def _penalised(
    sampling: SamplingConfig,
    scores: np.ndarray,
    removed: np.ndarray | None,
    prefixes: Sequence[Sequence[int]],
) -> tuple[np.ndarray, np.ndarray | None]:
    """The scores after repetition penalty and bans, by transformers' processors."""
    if sampling.repetition_penalty == 1.0 and not sampling.banned:
        return scores, removed  # and no reason to import transformers
    import torch
    from transformers.generation import logits_process as hf

    tensor = torch.from_numpy(scores)
    if sampling.repetition_penalty != 1.0:
        # Rows have prefixes of different lengths, and the penalty depends on them.
        penalty = hf.RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty))
        rows = zip(prefixes, tensor.split(1), strict=True)
        tensor = torch.cat([penalty(torch.tensor([list(prefix)]), row) for prefix, row in rows])
    if sampling.banned:
        tensor = hf.SuppressTokensLogitsProcessor(sampling.banned)(None, tensor)
        if removed is None:
            removed = np.zeros(scores.shape, dtype=np.uint8)
        gone = torch.isneginf(tensor).numpy() & (removed == 0)
        removed[gone] = REMOVED.index("banned")
    return tensor.numpy(), removed


def _filter(sampling: SamplingConfig, scores: np.ndarray, weights: np.ndarray, removed: np.ndarray) -> None:
    """Apply top-k, top-p and min-p to a row in place: what they remove gets weight 0 and their code.

    They keep what transformers' warpers keep, without sorting the vocabulary for it.

    Args:
        scores: (V,) less the largest.
        weights: (V,) their exponentials; the largest is 1.
        removed: (V,) codes so far.
    """
    held: np.ndarray | None = None  # ids that are left; None for all
    kept = weights
    if 0 < sampling.top_k < len(scores):
        held = np.flatnonzero(scores >= kth_largest(scores, sampling.top_k))
        held, kept = _drop_others(held, weights, removed, "top-k")
    if sampling.top_p < 1.0:
        leading = _nucleus(kept, sampling.top_p)
        held, kept = _drop_others(leading if held is None else held[leading], weights, removed, "top-p")
    if sampling.min_p:
        likely = np.flatnonzero(kept >= sampling.min_p)
        held, kept = _drop_others(likely if held is None else held[likely], weights, removed, "min-p")
    if held is not None:
        weights.fill(0.0)
        weights[held] = kept


def _drop_others(
    ids: np.ndarray, weights: np.ndarray, removed: np.ndarray, reason: str
) -> tuple[np.ndarray, np.ndarray]:
    """Mark all tokens but `ids` as removed, unless another control was first.

    Returns:
        Those of `ids` that no control has removed, and their weights.
    """
    ids = ids[removed[ids] == 0]
    np.putmask(removed, removed == 0, REMOVED.index(reason))
    removed[ids] = 0
    return ids, weights[ids]


def kth_largest(values: np.ndarray, k: int) -> float:
    """The k-th largest of `values` (V,), k < V."""
    blocks = 8 * k
    if blocks < len(values):
        # At least k values reach the k-th largest of the blocks' maxima: the others need no sorting.
        maxima = np.maximum.reduceat(values, np.arange(0, len(values), -(-len(values) // blocks)))
        values = values[values >= np.partition(maxima, -k)[-k]]
    return float(np.partition(values, -k)[-k])


def _nucleus(weights: np.ndarray, top_p: float) -> np.ndarray:
    """The places in `weights` (n,) of the smallest set of leading tokens with at least this share of them.

    As transformers does, a token goes if it and all lighter ones have at most 1 - top_p together; of equal
    ones those that come first go first.
    """
    total = float(weights.sum())
    spare = 1.0 - top_p
    # Tokens so light that they go all together need not be sorted: those below the first border usually,
    # those below the second surely, were it not for rounding.
    for border in (spare / FEW, spare / len(weights), 0.0):
        leading = np.flatnonzero(weights > border * total)
        tail = 1.0 - float(weights[leading].sum()) / total
        if tail <= spare:
            break
    order = leading[np.argsort(weights[leading], kind="stable")]
    kept = max(0.0, tail) + np.cumsum(weights[order]) / total > spare
    kept[-1] = True
    return np.sort(order[kept])


def _greedy(scores: np.ndarray, removed: np.ndarray | None) -> Effective:
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)  # the first of equal scores
    probs = np.zeros(scores.shape)
    probs[rows, best] = 1.0
    if removed is None:
        removed = np.full(scores.shape, REMOVED.index("greedy"), dtype=np.uint8)
    else:
        removed[removed == 0] = REMOVED.index("greedy")
    removed[rows, best] = 0
    return Effective(probs, removed, np.full(len(scores), np.nan))
