"""Sampling controls, and the effective distribution that sampling really uses.

The controls are those of transformers, in the order in which `generate` applies them: what looks at the text
or at single tokens (`controls`), temperature, top-k, top-p, min-p. The filters keep what its warpers keep;
they are written here because sorting whole vocabularies would take longer than all else in a round. Both
models go through the same function, each with its own controls; the output follows the target's
distribution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specviz.decoding.controls import COLDEST as COLDEST
from specviz.decoding.controls import REMOVED as REMOVED
from specviz.decoding.controls import NothingLeft, penalised, removals
from specviz.decoding.controls import SamplingConfig as SamplingConfig

# Less than any score that matters, in place of -inf: its exponential is 0, and so is their product.
NOTHING = -1e4
FEW = 2048


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
        plain: True if `probs` are the softmax of the logits as the model gave them.
    """

    probs: np.ndarray
    removed: np.ndarray | None
    logsumexp: np.ndarray
    log_probs: np.ndarray | None = None
    plain: bool = False

    def at(self, rows: Sequence[int]) -> "Effective":
        """Some of the rows."""
        rows = list(rows)
        return Effective(
            self.probs[rows],
            None if self.removed is None else self.removed[rows],
            self.logsumexp[rows],
            None if self.log_probs is None else self.log_probs[rows],
            self.plain,
        )

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
        prefixes: R token sequences, everything before each row.
        sampling: the controls, bound to the text if they have to be; see `controls.bind`.
        available: ids that the model can emit at all, or None for all; the others get probability 0,
            and their logits are not looked at.

    Raises:
        NonFiniteLogits: if an available logit is NaN or infinite.
        NothingLeft: if the controls remove every token.
    """
    scores, removed = _available_scores(logits, available)
    removed = _constrain(sampling, scores, removed, prefixes, available)
    if not sampling.greedy and sampling.temperature != 1.0:
        scores /= sampling.temperature
    highest = scores.max(axis=1, keepdims=True)
    if not np.isfinite(highest).all():
        raise NothingLeft("the controls leave no token: no distribution is left")
    if sampling.greedy:
        return _greedy(scores, removed)
    scores -= highest
    if removed is not None:
        np.maximum(scores, NOTHING, out=scores)
    weights = np.exp(scores)
    if sampling.filtered:
        if removed is None:
            removed = np.zeros(scores.shape, dtype=np.uint8)
        for row in range(len(scores)):
            _filter(sampling, scores[row], weights[row], removed[row])
    total = weights.sum(axis=1, keepdims=True)
    weights /= total
    log_total = np.log(total)
    scores -= log_total
    plain = sampling.temperature == 1.0 and not (sampling.constrained or sampling.filtered)
    return Effective(weights, removed, (highest + log_total)[:, 0], scores, plain)


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


def _constrain(
    sampling: SamplingConfig,
    scores: np.ndarray,
    removed: np.ndarray | None,
    prefixes: Sequence[Sequence[int]],
    available: np.ndarray | None,
) -> np.ndarray | None:
    """What comes before the temperature, done to `scores` in place; the codes of what it removes."""
    if sampling.bias:
        ids, values = zip(*sampling.bias, strict=True)
        scores[:, list(ids)] += values
    if sampling.repetition_penalty != 1.0:
        import torch

        for row, prefix in zip(scores, prefixes, strict=True):
            seen = np.array(prefix, dtype=np.intp)
            row[seen] = penalised(sampling, torch.from_numpy(row[seen])).numpy()
    codes = removals(sampling, prefixes, scores.shape[1], available)
    if codes is None:
        return removed
    np.copyto(scores, -np.inf, where=codes > 0)
    return codes if removed is None else np.where(removed == 0, codes, removed)


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
        held, kept = _drop_others(None, held, weights, removed, "top-k")
    if sampling.top_p < 1.0:
        leading = _nucleus(kept, sampling.top_p)
        leading = leading if held is None else held[leading]
        held, kept = _drop_others(held, leading, weights, removed, "top-p")
    if sampling.min_p:
        likely = np.flatnonzero(kept >= sampling.min_p)
        likely = likely if held is None else held[likely]
        held, kept = _drop_others(held, likely, weights, removed, "min-p")
    if held is not None:
        weights.fill(0.0)
        weights[held] = kept


def _drop_others(
    held: np.ndarray | None, ids: np.ndarray, weights: np.ndarray, removed: np.ndarray, reason: str
) -> tuple[np.ndarray, np.ndarray]:
    """Mark all tokens but `ids` as removed, unless another control was first.

    Args:
        held: what an earlier filter left, of which `ids` are some; None if there was none.
        ids, weights, removed, reason: what stays; (V,) weights and codes of all; why the others go.

    Returns:
        Those of `ids` that no control has removed, and their weights.
    """
    ids = ids[removed[ids] == 0]
    if held is None:
        np.putmask(removed, removed == 0, REMOVED.index(reason))
    else:
        removed[held] = REMOVED.index(reason)
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
