"""The Drafter protocol, and the kinds of drafter by name."""

from specviz.decoding.drafters.base import Drafter, DraftUnavailable, Proposal
from specviz.decoding.drafters.model import ModelDrafter
from specviz.decoding.drafters.ngram import NgramDrafter
from specviz.decoding.protocols import Pair
from specviz.decoding.sampling import SamplingConfig

DRAFTERS = {cls.kind: cls for cls in (ModelDrafter, NgramDrafter)}

__all__ = ["DRAFTERS", "DraftUnavailable", "Drafter", "Proposal", "make_drafter"]


def make_drafter(kind: str, pair: Pair, sampling: SamplingConfig) -> Drafter:
    """A fresh drafter for one run.

    Raises:
        ValueError: if the kind is unknown.
        DraftUnavailable: if the pair lacks what this kind needs.
    """
    if kind not in DRAFTERS:
        raise ValueError(f"unknown drafter {kind!r}; choose one of {', '.join(DRAFTERS)}")
    return DRAFTERS[kind](pair, sampling)
