"""At temperature 0 the text has to be the target's own, token by token, whatever K is.

This is a claim of its own and rests on the target giving the same logits for a block as token by token. In
low precision it does so only nearly, and where the two leading logits are closer than that, either may win:
a near-tie. It is not a fault of the rule, and it is not hidden: every difference is named with its position,
the gap and the dtype.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specviz.decoding.controls import SamplingConfig, bind
from specviz.decoding.protocols import Pair
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import effective_probs

BLOCKS = (1, 4, 8)


@dataclass(frozen=True, slots=True)
class GreedyCheck:
    """A greedy run with blocks of K beside one without drafts.

    Attributes:
        k: draft tokens a round.
        tokens: how many tokens the run without drafts has.
        position: the first that differs, from 1; None if none does.
        plain, found: the token there without and with drafts, as text; "" where a text has ended.
        gap: difference of the target's two leading logits there, after the controls, by an uncached pass.
        dtype: of the target.
        tolerance: largest difference of logits that rounding explains for this dtype.
    """

    k: int
    tokens: int
    position: int | None
    plain: str
    found: str
    gap: float | None
    dtype: str
    tolerance: float

    @property
    def near_tie(self) -> bool:
        return self.gap is not None and self.gap <= self.tolerance

    @property
    def ok(self) -> bool:
        return self.position is None or self.near_tie

    @property
    def sentence(self) -> str:
        """What the comparison says, with its numbers."""
        if self.position is None:
            return f"K = {self.k}: the same {self.tokens} tokens as without drafts."
        text = (
            f"K = {self.k}: token {self.position} is {self.found!r} instead of {self.plain!r}. The target's "
            f"two leading logits are {self.gap:.3g} apart there in {self.dtype}, "
        )
        if self.near_tie:
            return f"{text}a near-tie: rounding explains up to {self.tolerance:g}."
        return f"{text}more than the {self.tolerance:g} that rounding explains."


def greedy_checks(
    pair: Pair,
    prompt: str | Sequence[int],
    *,
    start: Callable[..., DecodingRun] = DecodingRun,
    blocks: Sequence[int] = BLOCKS,
    sampling: SamplingConfig,
    **settings: Any,
) -> tuple[GreedyCheck, ...]:
    """Greedy runs with blocks of these sizes against one without drafts.

    Args:
        start: makes the runs with drafts: the engine, or a faulty one.
        sampling: the controls, at temperature 0.
        settings: as for `DecodingRun`, without `k`.

    Raises:
        ValueError: for a temperature above 0.
    """
    if sampling.temperature != 0.0:
        raise ValueError("greedy runs have temperature 0")
    plain = DecodingRun(pair, prompt, k=0, sampling=sampling, **settings)
    list(plain)
    checks = []
    for k in blocks:
        run = start(pair, prompt, k=k, sampling=sampling, **settings)
        list(run)
        checks.append(_compared(pair, sampling, k, plain, run))
    return tuple(checks)


def _compared(
    pair: Pair, sampling: SamplingConfig, k: int, plain: DecodingRun, run: DecodingRun
) -> GreedyCheck:
    ours, theirs, start = run.tokens, plain.tokens, len(plain.prompt_ids)
    length = max(len(ours), len(theirs))
    at = next((i for i in range(start, length) if ours[i : i + 1] != theirs[i : i + 1]), None)
    info = pair.info.target
    tolerance = pair.target.tolerance
    if at is None:
        return GreedyCheck(k, len(theirs) - start, None, "", "", None, info.dtype, tolerance)
    plain_text, found_text = (
        "".join(pair.token_text(t).data.decode(errors="replace") for t in tokens[at : at + 1])
        for tokens in (theirs, ours)
    )
    gap = _gap(pair, sampling, theirs[:at], start)
    return GreedyCheck(
        k, len(theirs) - start, at - start + 1, plain_text, found_text, gap, info.dtype, tolerance
    )


def _gap(pair: Pair, sampling: SamplingConfig, prefix: Sequence[int], start: int) -> float:
    """How far the two leading scores behind `prefix`, written from `start` on, are apart, uncached."""
    logits = pair.target.forward(list(prefix), pair.target.new_cache(), 1).logits
    soft = replace(bind(sampling, pair, start), temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
    probs = effective_probs(logits, [list(prefix)], soft, pair.target.available).probs[0]
    second, first = np.sort(probs)[-2:]
    return float(np.log(first) - np.log(second)) if second > 0.0 else float("inf")
