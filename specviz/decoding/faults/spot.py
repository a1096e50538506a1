"""One drafted position with everything that a faulty engine may get wrong about it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specviz.decoding.faults.rules import Hand
from specviz.decoding.sampling import SamplingConfig, effective_probs


@dataclass(frozen=True, slots=True)
class Spot:
    """A drafted position.

    Attributes:
        p: (V,) the target's effective distribution, which the output should follow.
        q: (V,) the draft's effective distribution, from which the token is drawn.
        p_before: (V,) p of the row before in the same block; None in the first row.
        target_logits, draft_logits: (V,) raw logits; None where there are none to score again.
        committed: the tokens before the block.
        drafts: the draft tokens before this row.
        sampling, draft_sampling: the controls of target and draft.
        target_available: ids that the target can emit, None for all.
    """

    p: np.ndarray
    q: np.ndarray
    p_before: np.ndarray | None = None
    target_logits: np.ndarray | None = None
    draft_logits: np.ndarray | None = None
    committed: Sequence[int] = ()
    drafts: Sequence[int] = ()
    sampling: SamplingConfig = field(default=SamplingConfig())
    draft_sampling: SamplingConfig = field(default=SamplingConfig())
    target_available: np.ndarray | None = None

    @property
    def hand(self) -> Hand:
        """What a correct engine deals."""
        return Hand(self.p, self.q, self.q)

    def target_scored(self, sampling: SamplingConfig, prefix: Sequence[int]) -> np.ndarray:
        """(V,) p under other controls or another history; p itself without logits."""
        if self.target_logits is None:
            return self.p
        return _scored(self.target_logits, prefix, sampling, self.target_available)

    def draft_scored(self, sampling: SamplingConfig) -> np.ndarray:
        """(V,) q under other controls; q itself for a drafter without logits."""
        if self.draft_logits is None:
            return self.q
        prefix = [*self.committed, *self.drafts]
        return _scored(self.draft_logits, prefix, sampling, emittable(self.draft_logits))


def _scored(
    logits: np.ndarray, prefix: Sequence[int], sampling: SamplingConfig, available: np.ndarray | None
) -> np.ndarray:
    return effective_probs(logits[None], [prefix], sampling, available).probs[0]


def emittable(logits: np.ndarray) -> np.ndarray | None:
    """The ids for which a draft has logits (V,) at all; None for all of them."""
    finite = np.isfinite(logits)
    return None if finite.all() else np.flatnonzero(finite)


def unfiltered(sampling: SamplingConfig) -> SamplingConfig:
    """The controls without those that remove unlikely tokens."""
    return replace(sampling, top_k=0, top_p=1.0, min_p=0.0)


def untempered(sampling: SamplingConfig) -> SamplingConfig:
    """The controls at temperature 1.

    Which tokens top-p and min-p keep depends on the temperature, and a drawn token must keep its q, so
    these two are left out as well. Top-k keeps the same tokens at any temperature.
    """
    return replace(sampling, temperature=1.0, top_p=1.0, min_p=0.0)
