"""From the tensors of another engine's round to a `Round`: p, q, drafts and verdict as they were there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.decoding.drafters.base import Proposal, empty_proposal, one_hot
from specviz.decoding.record import Made, record
from specviz.decoding.sampling import NOTHING, REMOVED, Effective, SamplingConfig, effective_probs
from specviz.decoding.trace import CacheStep, ModelInfo, Round
from specviz.decoding.verify import Verdict

AGREED = 1e-5  # largest difference of a probability that rounding in float32 explains
BANNED = REMOVED.index("banned")


@dataclass(frozen=True, slots=True)
class Draws:
    """`RoundRandomness` of a round that was drawn elsewhere: only the uniforms that judged are known.

    Attributes:
        us: (K,) uniforms; () where none were compared with anything.
    """

    us: tuple[float, ...]

    def draft(self, row: int, weights: np.ndarray) -> int:
        raise NotImplementedError("a captured round draws nothing")

    def accept(self, row: int, p: float, q: float) -> bool:
        raise NotImplementedError("a captured round draws nothing")

    def correct(self, weights: np.ndarray) -> int:
        raise NotImplementedError("a captured round draws nothing")

    def accept_u(self, row: int) -> float | None:
        return self.us[row] if self.us else None

    def draft_u(self, row: int) -> None:
        return None

    def correct_u(self) -> None:
        return None


@dataclass(slots=True)
class Theirs:
    """A round of transformers, as far as it has come.

    Attributes:
        prefix: tokens before it.
        began: when it began, s.
        drafts: (K,) the candidate tokens.
        draft_scores: (K, V) what they were drawn from, before the softmax; None for a lookup.
        draft_logits: raw logits (V,) of the draft's passes.
        target_logits: (K + 1, V) raw.
        draft_seconds, verify_seconds: wall time of drafting and of the target's pass.
        draft_before, draft_after: positions in the draft's cache; None for a lookup.
    """

    prefix: list[int]
    began: float
    drafts: list[int]
    draft_scores: np.ndarray | None
    draft_logits: list[np.ndarray]
    target_logits: np.ndarray
    draft_seconds: float
    verify_seconds: float
    draft_before: int | None
    draft_after: int | None


def round_of(
    theirs: Theirs,
    scores: np.ndarray,
    verdict: Verdict,
    us: tuple[float, ...],
    committed: tuple[int, ...],
    number: int,
    cached: int,
    sampling: SamplingConfig,
    draft_sampling: SamplingConfig,
    rule: str,
) -> tuple[Round, bool, bool]:
    """The round, and whether the named controls explain its p, and its q.

    Args:
        theirs: what was seen of it.
        scores: (K + 1, V) the target's, after all processors.
        verdict: accepted tokens and the one behind them, before any cut.
        us: (K,) uniforms that judged; () if there were none.
        committed: what was added to the text.
        number: 1 for the first round.
        cached: positions in the target's cache when it began.
        sampling, draft_sampling: the controls that the trace names.
        rule: name of the one that judged it.
    """
    width, k, start = scores.shape[1], len(theirs.drafts), len(theirs.prefix)
    prefixes = [[*theirs.prefix, *theirs.drafts[:row]] for row in range(k + 1)]
    q_explained = True
    target, explained = effective(scores, theirs.target_logits, prefixes, sampling)
    proposal = empty_proposal(width)
    if k and theirs.draft_scores is None:
        proposal = Proposal(theirs.drafts, one_hot(theirs.drafts, width), drawn=False)
    elif theirs.draft_scores is not None and k:
        logits = np.stack(theirs.draft_logits) if len(theirs.draft_logits) == k else theirs.draft_scores
        logits = _fitted(logits, width)
        q, q_explained = effective(_fitted(theirs.draft_scores, width), logits, prefixes[:k], draft_sampling)
        proposal = Proposal(
            theirs.drafts,
            q.probs,
            logits,
            q.removed,
            q.logsumexp,
            None if q.log_probs is None else list(q.log_probs),
            drawn=not sampling.greedy,
        )
    end = start + len(committed)
    draft_cache = None
    if theirs.draft_before is not None and theirs.draft_after is not None:
        # transformers cuts it when the next block begins, to two tokens before its end.
        kept = min(theirs.draft_after, max(0, end - 2))
        draft_cache = CacheStep(theirs.draft_before, theirs.draft_after - theirs.draft_before, kept)
    made = Made(
        number=number,
        start=start,
        proposal=proposal,
        target_logits=theirs.target_logits,
        target_available=None,
        target=target,
        verdict=verdict,
        randomness=Draws(us),
        committed=committed,
        finish=None,
        verifier=rule,
        target_cache=CacheStep(cached, start + k - cached, end - 1),
        draft_cache=draft_cache,
        began=theirs.began,
        draft_seconds=theirs.draft_seconds,
        verify_seconds=theirs.verify_seconds,
    )
    return record(made), explained, q_explained


def effective(
    scores: np.ndarray, logits: np.ndarray, prefixes: Sequence[Sequence[int]], sampling: SamplingConfig
) -> tuple[Effective, bool]:
    """The distributions behind processed `scores` (R, V), and whether `sampling` makes them of `logits`."""
    try:
        ours = effective_probs(logits, prefixes, sampling)
    except ValueError:  # logits that are not finite, which processors may mend
        ours = None
    if sampling.greedy:
        probs = one_hot(scores.argmax(axis=1).tolist(), scores.shape[1])
        logs, total = None, np.full(len(scores), np.nan)
        gone = probs == 0.0
    else:
        scaled = scores.astype(np.float64) - scores.max(axis=1, keepdims=True)
        scaled = np.maximum(scaled, NOTHING)
        probs = np.exp(scaled)
        probs /= probs.sum(axis=1, keepdims=True)
        logs = np.log(np.where(probs > 0.0, probs, 1.0))
        gone = np.isneginf(scores)
        probs[gone] = 0.0
    explained = ours is not None and bool(np.abs(probs - ours.probs).max() <= AGREED)
    codes = np.zeros(scores.shape, dtype=np.uint8) if ours is None or ours.removed is None else ours.removed
    removed = np.where(gone, np.where(codes > 0, codes, BANNED), 0).astype(np.uint8)
    if not sampling.greedy:
        total = ours.logsumexp if explained and ours is not None else np.full(len(scores), np.nan)
    return Effective(probs, removed, total, logs), explained


def sampling_of(config: Any) -> SamplingConfig:
    """The controls that a transformers `GenerationConfig` names, as far as `SamplingConfig` has them."""

    def value(name: str, otherwise: Any) -> Any:
        found = getattr(config, name, None)
        return otherwise if found is None else found

    penalty = float(value("repetition_penalty", 1.0))
    banned = tuple(value("suppress_tokens", None) or ())
    if not config.do_sample:
        return SamplingConfig(temperature=0.0, repetition_penalty=penalty, banned=banned)
    return SamplingConfig(
        temperature=float(value("temperature", 1.0)),
        top_k=int(value("top_k", 0)),
        top_p=float(value("top_p", 1.0)),
        min_p=float(value("min_p", 0.0)),
        repetition_penalty=penalty,
        banned=banned,
    )


def model_info(model: Any) -> ModelInfo:
    """What a transformers model is and where it runs."""
    return ModelInfo(
        name=name_of(model),
        parameters=sum(p.numel() for p in model.parameters()),
        device=str(model.device),
        dtype=str(model.dtype).removeprefix("torch."),
        layers=int(getattr(model.config.get_text_config(), "num_hidden_layers", 0)),
        vocab_size=int(model.config.get_text_config().vocab_size),
    )


def name_of(model: Any) -> str:
    """Where it was loaded from; its class for one made in memory."""
    return getattr(model, "name_or_path", "") or type(model).__name__


def _fitted(rows: np.ndarray, width: int) -> np.ndarray:
    """(R, n) rows of V = `width`: cut, or without anything beyond n."""
    if rows.shape[1] >= width:
        return rows[:, :width]
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-np.inf)
