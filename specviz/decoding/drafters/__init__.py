"""The Drafter protocol, and the kinds of drafter by name."""

from typing import Any

from specviz.decoding.drafters.base import Drafter, DraftUnavailable, Proposal
from specviz.decoding.drafters.combined import CombinedDrafter
from specviz.decoding.drafters.eagle import EagleDrafter, MtpDrafter
from specviz.decoding.drafters.early_exit import EarlyExitDrafter
from specviz.decoding.drafters.medusa import MedusaDrafter
from specviz.decoding.drafters.model import ModelDrafter
from specviz.decoding.drafters.ngram import NgramDrafter
from specviz.decoding.drafters.parallel import ParallelDrafter
from specviz.decoding.drafters.suffix import SuffixDrafter
from specviz.decoding.protocols import Pair
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs

DRAFTERS: dict[str, Any] = {
    cls.kind: cls
    for cls in (
        ModelDrafter,
        NgramDrafter,
        SuffixDrafter,
        EarlyExitDrafter,
        ParallelDrafter,
        MedusaDrafter,
        EagleDrafter,
        MtpDrafter,
        CombinedDrafter,
    )
}
# Drafters without a model: they copy.
COPYING = frozenset({NgramDrafter.kind, SuffixDrafter.kind})

__all__ = [
    "COPYING",
    "DRAFTERS",
    "DraftUnavailable",
    "Drafter",
    "Proposal",
    "make_drafter",
    "named",
    "settings_of",
]


def make_drafter(kind: str, pair: Pair, sampling: SamplingConfig, score: Scorer | None = None) -> Drafter:
    """A fresh drafter for one run.

    Args:
        kind: one of `DRAFTERS`. Four take a setting behind a colon: "early-exit:20" (layers), "suffix:8"
            (tokens of the longest match), "ngram:2-5" (smallest and largest size of the suffix that is looked
            up) and "combined:eagle" (the kind that drafts where nothing is copied). "model" is the pair's own
            draft: of another kind where that is no language model.
        pair: what it drafts for.
        sampling: the draft's controls.
        score: from logits to q; `effective_probs` if None.

    Raises:
        ValueError: if the kind or its setting is unknown or out of range.
        DraftUnavailable: if the pair lacks what this kind needs.
    """
    name, settings = named(pair, kind)
    more = {"make": make_drafter} if name == CombinedDrafter.kind else {}
    return DRAFTERS[name](pair, sampling, score or effective_probs, **settings, **more)


def named(pair: Pair, kind: str) -> tuple[str, dict[str, Any]]:
    """The name in `DRAFTERS` and the settings, where "model" is the kind of the pair's own draft."""
    name, settings = settings_of(kind)
    if name == "model" and pair.draft is None:
        name = next(iter(getattr(pair, "published", ())), name)
    return name, settings


def settings_of(kind: str) -> tuple[str, dict[str, Any]]:
    """The name in `DRAFTERS`, and the settings behind the colon.

    Raises:
        ValueError: if the kind or its setting is not understood.
    """
    name, colon, text = kind.partition(":")
    if name not in DRAFTERS:
        raise ValueError(f"unknown drafter {name!r}; choose one of {', '.join(DRAFTERS)}")
    if not colon:
        return name, {}
    try:
        settings = DRAFTERS[name].settings(text)
        if "second" in settings:
            settings_of(settings["second"])
        return name, settings
    except (AttributeError, ValueError):
        raise ValueError(
            f"the drafter {kind!r} is not understood: settings look like early-exit:20, suffix:8, "
            "combined:eagle or ngram:2-5"
        ) from None
