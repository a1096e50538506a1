"""What the engine asks of models and pairs. The real ones live in `specviz.models`; tests have tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specviz.decoding.cache import Cache
from specviz.decoding.features import Features
from specviz.decoding.trace import ModelInfo, PairInfo, TokenText


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """What a pass over some tokens returns.

    Attributes:
        logits: (rows, V) float32 or better, on the CPU, cut or padded to the pair's vocabulary.
        features: hidden states of all fed tokens, (fed, width), on the model's device; None unless asked
            for.
    """

    logits: np.ndarray
    features: Any = None


@dataclass(frozen=True, slots=True)
class Places:
    """Where fed tokens stand, if they are not one text but branch.

    Attributes:
        positions: (n,) position id of each.
        visible: (n, cached + n) what each may see of the cache and of the fed tokens, itself included.
    """

    positions: np.ndarray
    visible: np.ndarray


class LanguageModel(Protocol):
    """A causal model. Logits row i is about the token after fed token i.

    Attributes:
        name: shown in errors.
        context_length: most positions it can be fed.
        available: ids it can emit, None for the whole vocabulary.
        tolerance: largest logit difference that rounding explains between a cached and an uncached pass.
        forward_seconds: time spent in `forward` so far.
    """

    name: str
    context_length: int
    available: np.ndarray | None
    tolerance: float
    forward_seconds: float

    def new_cache(self) -> Cache: ...

    def forward(
        self, tokens: Sequence[int], cache: Cache, rows: int, features: Features = False
    ) -> ModelOutput:
        """Feed `tokens` behind what `cache` holds; return the logits of the last `rows` of them, and the
        hidden states that `features` names."""


class BranchingModel(LanguageModel, Protocol):
    """A language model that can be fed a tree."""

    def forward_branching(
        self, tokens: Sequence[int], cache: Cache, places: Places, rows: int, features: Features = False
    ) -> ModelOutput:
        """`forward` for tokens that branch: each stands at its place and sees what that says."""

    def branching_problem(self) -> str:
        """Why this model cannot, in one sentence; "" if it can."""


class OwnModel(LanguageModel, Protocol):
    """A language model that can say what it is."""

    def info(self) -> ModelInfo: ...


class MedusaHeads(Protocol):
    """Heads on the target's last hidden state.

    Attributes:
        count: number of heads.
        available: ids they can propose, None for all.
    """

    count: int
    available: np.ndarray | None

    def forward(self, feature: Any) -> np.ndarray:
        """Logits (count, V) from a feature (width,); row i is for the token i + 2 further."""

    def info(self) -> ModelInfo: ...


class EagleModel(Protocol):
    """A model of the target's features, which are hidden states of it.

    Attributes:
        reads: which hidden states those are.
        context_length: most positions it can be fed.
        available: ids it can propose, None for all.
        no_feature: stands before the first token of a text; None if the model drafts nothing from that
            token alone.
    """

    reads: Features
    context_length: int
    available: np.ndarray | None
    no_feature: Any

    def new_cache(self) -> Cache: ...

    def forward(self, tokens: Sequence[int], before: Sequence[Any], cache: Cache) -> ModelOutput:
        """Feed tokens, each with the feature of the token before it, behind what `cache` holds. That is the
        target's, or what this model predicted for a token it was fed last.

        Returns:
            logits (1, V) of what follows the last token, and as features what is predicted for it.
        """

    def info(self) -> ModelInfo: ...


class Pair(Protocol):
    """A target, usually with drafts that share its vocabulary.

    Attributes:
        medusa, eagle, mtp: drafts on the target's features; None if there are none for this target.
        vocab_size: V, the real ids; every logits row of both models has this width.
        eos_ids: ids that end a text.
        special_ids: control tokens, which a drafter must not copy out of a prompt.
    """

    vocab_size: int
    eos_ids: frozenset[int]
    special_ids: frozenset[int]
    info: PairInfo

    @property
    def target(self) -> LanguageModel: ...

    @property
    def draft(self) -> LanguageModel | None: ...

    @property
    def medusa(self) -> MedusaHeads | None: ...

    @property
    def eagle(self) -> EagleModel | None: ...

    @property
    def mtp(self) -> EagleModel | None: ...

    def encode(self, prompt: str, chat: bool, **conversation: Any) -> list[int]:
        """Token ids of a prompt, with exactly one BOS where the model wants one.

        `conversation` has what stands around it in the chat template: system, earlier, settings.
        """

    def token_text(self, token: int) -> TokenText: ...

    def early_exit(self, layers: int | None) -> OwnModel:
        """The target's first layers with its final norm and head; None chooses a number of layers.

        Raises:
            ValueError: if the target does not have more layers than that, or cannot be cut like this.
        """
