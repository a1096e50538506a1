"""What the engine asks of models and pairs. The real ones live in `specviz.models`; tests have tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specviz.decoding.cache import Cache
from specviz.decoding.trace import PairInfo, TokenText


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """What a pass over some tokens returns.

    Attributes:
        logits: (rows, V) float32 or better, on the CPU, cut or padded to the pair's vocabulary.
        features: last hidden states of all fed tokens, (fed, width), on the model's device; None unless
            asked for.
    """

    logits: np.ndarray
    features: Any = None


class LanguageModel(Protocol):
    """A causal model. Logits row i is the law of the token after fed token i.

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

    def forward(self, tokens: Sequence[int], cache: Cache, rows: int, features: bool = False) -> ModelOutput:
        """Feed `tokens` behind what `cache` holds; return the logits of the last `rows` of them."""


class Pair(Protocol):
    """A target, usually with a draft model that shares its vocabulary.

    Attributes:
        vocab_size: V, the real ids; every logits row of both models has this width.
        eos_ids: ids that end a text.
        special_ids: control tokens, which a drafter must not copy out of a prompt.
    """

    target: LanguageModel
    draft: LanguageModel | None
    vocab_size: int
    eos_ids: frozenset[int]
    special_ids: frozenset[int]
    info: PairInfo

    def encode(self, prompt: str, chat: bool) -> list[int]:
        """Token ids of a prompt, with exactly one BOS where the model wants one."""

    def token_text(self, token: int) -> TokenText: ...
