"""The controls of sampling, and those among them that look at the text: all a function of its tokens.

They come in the order in which transformers' `generate` applies its processors: bias, penalty, then what
removes tokens. Each row is given the tokens before it, drafts included, so the bonus row too; nothing counts
rounds. Only the tokens that a control names are touched: vocabularies are wide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from specviz.decoding.grammar import Grammar, Mask, require_grammar

if TYPE_CHECKING:
    from specviz.decoding.protocols import Pair

# What took a token's probability, by code. "vocabulary" marks tokens that a trimmed or narrower draft
# cannot propose.
Removed = Literal[
    "",
    "banned",
    "top-k",
    "top-p",
    "min-p",
    "greedy",
    "vocabulary",
    "min new tokens",
    "grammar",
    "forced",
]
REMOVED: tuple[Removed, ...] = get_args(Removed)
# Those that look at the text, and not at a token's probability.
BY_TEXT = tuple(REMOVED.index(name) for name in ("min new tokens", "grammar", "forced"))
COLDEST = 1e-5  # a temperature below it would do nothing but overflow; 0 is greedy
MAX_BIAS = 100.0  # as in OpenAI's API, where it means "always" or "never"
MAX_IDS = 10_000  # of a list of tokens


class NothingLeft(ValueError):
    """The controls together leave no token."""


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
        bias: (token id, what is added to its logit), in −100 … 100.
        forced: token ids that the text begins with, behind the prompt.
        min_new_tokens: no EOS before so many tokens are written. A stop string may still end the text.
        grammar: what the text has to follow; None for anything.

    Raises:
        ValueError: naming the control that is out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    banned: tuple[int, ...] = field(default=())
    bias: tuple[tuple[int, float], ...] = field(default=())
    forced: tuple[int, ...] = field(default=())
    min_new_tokens: int = 0
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        ids, biased = (*self.banned, *self.forced), [id for id, _ in self.bias]
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
            "forced": (all(i >= 0 for i in self.forced), "token ids of 0 or more"),
            "bias": (
                all(i >= 0 and -MAX_BIAS <= value <= MAX_BIAS for i, value in self.bias),
                f"token ids of 0 or more with −{MAX_BIAS:g} … {MAX_BIAS:g}",
            ),
            "min_new_tokens": (self.min_new_tokens >= 0, "0 or more"),
        }
        for name, (holds, allowed) in checks.items():
            if not holds:
                raise ValueError(f"{name} must be {allowed}, not {getattr(self, name)}")
        if len(set(biased)) < len(biased):
            raise ValueError("bias names a token twice")
        if len(ids) > MAX_IDS or len(biased) > MAX_IDS:
            raise ValueError(f"at most {MAX_IDS:,} tokens are banned, forced or biased")
        if self.grammar is not None:
            require_grammar(self.grammar)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def placed(self) -> bool:
        """True if a control depends on where the written text begins: `bind` has to be told."""
        return bool(self.forced or self.min_new_tokens or self.grammar)

    @property
    def reads_text(self) -> bool:
        """True if the same logits may get other distributions behind another text."""
        return self.placed or self.repetition_penalty != 1.0

    @property
    def constrained(self) -> bool:
        """True if anything is done to the logits before temperature and filters."""
        return bool(self.reads_text or self.banned or self.bias)

    @property
    def filtered(self) -> bool:
        """True if anything is cut off behind the temperature."""
        return bool(self.top_k or self.top_p < 1.0 or self.min_p)


@dataclass(frozen=True, slots=True)
class Bound(SamplingConfig):
    """Controls that know the text they are for.

    Attributes:
        start: tokens before the written ones: the prompt's.
        ends: EOS ids.
        mask: the grammar's parser.
    """

    start: int = 0
    ends: tuple[int, ...] = ()
    mask: Mask | None = field(default=None, compare=False)


def bind(sampling: SamplingConfig, pair: "Pair", start: int) -> SamplingConfig:
    """The controls for a text whose first `start` tokens were not written by the run; bound ones stay so.

    Raises:
        ValueError: for tokens outside the vocabulary, or a grammar that does not work with this pair.
    """
    ids = (*sampling.banned, *sampling.forced, *(id for id, _ in sampling.bias))
    outside = next((id for id in ids if id >= pair.vocab_size), None)
    if outside is not None:
        raise ValueError(f"token id {outside} is outside the vocabulary of {pair.vocab_size:,} ids")
    if not sampling.placed or isinstance(sampling, Bound):
        return sampling
    mask = None if sampling.grammar is None else Mask(pair, sampling.grammar)
    values = {f.name: getattr(sampling, f.name) for f in fields(SamplingConfig)}
    return Bound(**values, start=start, ends=tuple(sorted(pair.eos_ids)), mask=mask)


def unbound(sampling: SamplingConfig) -> SamplingConfig:
    """The controls alone, as traces keep them."""
    if not isinstance(sampling, Bound):
        return sampling
    return SamplingConfig(**{f.name: getattr(sampling, f.name) for f in fields(SamplingConfig)})


def penalised(sampling: SamplingConfig, seen: Any) -> Any:
    """The scores of tokens that stand in the prefix, (n,) tensor, after the repetition penalty.

    transformers' processor, given these tokens and not the whole vocabulary around them.
    """
    import torch
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    penalty = RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty))
    return penalty(torch.arange(len(seen), device=seen.device)[None], seen[None])[0]


def removals(
    sampling: SamplingConfig,
    prefixes: Sequence[Sequence[Any]],
    vocab_size: int,
    available: np.ndarray | None = None,
) -> np.ndarray | None:
    """What controls take whatever its logit: the first to do so, behind each prefix.

    Args:
        sampling: the controls; bound to a text if any of them is `placed`.
        prefixes: R sequences of token ids. Only a grammar looks at the ids; the others count them.
        vocab_size: V.
        available: ids that the model can emit, None for all.

    Returns:
        (R, V) uint8 codes as in `REMOVED`; None if no control can take any.

    Raises:
        NothingLeft: if a row loses every token that the model can emit.
    """
    if sampling.placed and not isinstance(sampling, Bound):
        raise ValueError("these controls depend on where the text begins: bind them to it first")
    if not (sampling.banned or sampling.placed):
        return None
    codes = np.zeros((len(prefixes), vocab_size), dtype=np.uint8)
    for row, prefix in zip(codes, prefixes, strict=True):
        if isinstance(sampling, Bound):
            written = len(prefix) - sampling.start
            if written < sampling.min_new_tokens:
                row[list(sampling.ends)] = REMOVED.index("min new tokens")
            if (allowed := _by_grammar(sampling, prefix)) is not None:
                row[(row == 0) & ~allowed] = REMOVED.index("grammar")
            if (forced := _forced(sampling, prefix)) is not None:
                kept = row[forced]
                row[row == 0] = REMOVED.index("forced")
                row[forced] = kept
        banned = np.array(sampling.banned, dtype=np.intp)
        row[banned[row[banned] == 0]] = REMOVED.index("banned")
    left = codes if available is None else codes[:, available]
    if left.all(axis=1).any():
        raise NothingLeft("the controls leave no token: no distribution is left")
    return codes


def permits(sampling: SamplingConfig, prefix: Sequence[int], token: int) -> bool:
    """True if no control that removes tokens whatever their logit removes this one behind `prefix`."""
    if token in sampling.banned:
        return False
    if not isinstance(sampling, Bound):
        return True
    if token in sampling.ends and len(prefix) - sampling.start < sampling.min_new_tokens:
        return False
    if _forced(sampling, prefix) not in (None, token):
        return False
    allowed = _by_grammar(sampling, prefix)
    return allowed is None or bool(allowed[token])


def _by_grammar(sampling: Bound, prefix: Sequence[int]) -> np.ndarray | None:
    return None if sampling.mask is None else sampling.mask.allowed(prefix[sampling.start :])


def _forced(sampling: Bound, prefix: Sequence[Any]) -> int | None:
    written = len(prefix) - sampling.start
    return sampling.forced[written] if 0 <= written < len(sampling.forced) else None
