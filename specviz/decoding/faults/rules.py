"""Rules for one position: the exact one, and every way to get it wrong in one place.

A rule says when a drawn token is kept and what a refused one is replaced by. From that one description
follow the verifier that the engine runs, the draws that `specviz.exactness.sampling` makes a
million times, and the exact distribution of the output, which is summed here over the whole vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specviz.decoding.randomness import RoundRandomness, accepts, inverse_cdf
from specviz.decoding.verify import Verdict, Verifier, check_pair, residual

# (p, q, x) -> (a, b): the drawn token x is kept iff u·b < a. x is one token id or an array of them.
Odds = Callable[[np.ndarray, np.ndarray, Any], tuple[Any, Any]]
# (p, q) -> the weights that a refused token's replacement is drawn from, and whether rounding left none.
Correction = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, bool]]


@dataclass(frozen=True, slots=True)
class Coin:
    """How the uniform of the accept stream is used.

    Attributes:
        bits: only so many bits of u are kept; None keeps all.
        inclusive: compare u·b ≤ a.
        fixed: u is this number every time.
    """

    bits: int | None = None
    inclusive: bool = False
    fixed: float | None = None

    def keeps(self, u: Any, a: Any, b: Any) -> Any:
        """Whether u keeps a token with odds a : b; arrays or single numbers."""
        if self.fixed is not None:
            u = self.fixed
        if self.bits is not None:
            u = np.floor(u * 2.0**self.bits) / 2.0**self.bits
        return u * b <= a if self.inclusive else accepts(u, a, b)

    def chance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(V,) the exact probability that a token with odds a : b is kept; 1 where b is 0."""
        if self.fixed is not None:
            return np.asarray(self.keeps(self.fixed, a, b), dtype=np.float64)
        ratio = np.divide(a, b, out=np.ones(len(a)), where=b > 0.0)
        if self.bits is not None:
            # The kept uniforms are the multiples of 2^-bits up to the ratio.
            steps = ratio * 2.0**self.bits
            ratio = (np.floor(steps) + 1.0 if self.inclusive else np.ceil(steps)) / 2.0**self.bits
        return np.minimum(ratio, 1.0)


FAIR = Coin()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for one position. The defaults are the exact rule.

    Attributes:
        odds: when a drawn token is kept.
        correction: what replaces a refused one.
        coin: how the accept uniform is used.
        reuse_draft_u: the replacement is drawn with the uniform that drew the token.
        never_again: the refused token is left out of the replacement's weights.
    """

    odds: Odds = field(default=lambda p, q, x: (p[x], q[x]))
    correction: Correction = residual
    coin: Coin = FAIR
    reuse_draft_u: bool = False
    never_again: bool = False

    def all_odds(self, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The odds of every token: two arrays (V,) of float64."""
        a, b = self.odds(p, q, np.arange(len(p)))
        return np.full(len(p), a, dtype=np.float64), np.full(len(p), b, dtype=np.float64)

    def keeps(self, row: int, token: int, p: np.ndarray, q: np.ndarray, randomness: RoundRandomness) -> bool:
        a, b = self.odds(p, q, token)
        if self.coin == FAIR:
            return randomness.accept(row, a, b)
        return bool(self.coin.keeps(_recorded(randomness.accept_u(row)), a, b))

    def corrects(
        self, row: int, token: int, p: np.ndarray, q: np.ndarray, randomness: RoundRandomness
    ) -> Verdict:
        weights, empty = self.correction(p, q)
        if self.never_again:
            weights = weights.copy()
            weights[token] = 0.0
        if self.reuse_draft_u:
            drawn = inverse_cdf(weights, _recorded(randomness.draft_u(row)))
        else:
            drawn = randomness.correct(weights)
        return Verdict(row, "corrected", drawn, empty)


EXACT = Rule()


def _recorded(u: float | None) -> float:
    if u is None:
        raise ValueError("this rule looks at the uniform itself, and there is none")
    return u


def make_verifier(name: str, rule: Rule) -> Verifier:
    """The verifier that judges a block row by row with `rule`. Rounds record it under `name`."""

    def verify(
        target_probs: np.ndarray,
        draft_probs: np.ndarray,
        draft_tokens: Sequence[int],
        randomness: RoundRandomness,
    ) -> Verdict:
        for row, token in enumerate(draft_tokens):
            p, q = target_probs[row], draft_probs[row]
            check_pair(row, float(p[token]), float(q[token]))
            if not rule.keeps(row, token, p, q, randomness):
                return rule.corrects(row, token, p, q, randomness)
        return Verdict(len(draft_tokens), "bonus", randomness.correct(target_probs[len(draft_tokens)]))

    verify.__name__ = name
    return verify


@dataclass(frozen=True, slots=True)
class Hand:
    """What a rule is dealt at one position. Everything is (V,) float64.

    Attributes:
        p: the target's distribution as the verifier sees it.
        q: the draft's distribution as the verifier sees it.
        drawn: the distribution that the token is really drawn from.
    """

    p: np.ndarray
    q: np.ndarray
    drawn: np.ndarray


@dataclass(frozen=True, slots=True)
class Output:
    """The exact distribution of one position's output, in its two parts. All (V,) float64.

    Attributes:
        kept: probability that the draft proposed the token and it was kept.
        corrected: probability that it came out as the correction.
    """

    kept: np.ndarray
    corrected: np.ndarray

    @property
    def law(self) -> np.ndarray:
        return self.kept + self.corrected

    @property
    def acceptance(self) -> float:
        """Probability that the drawn token is kept."""
        return float(self.kept.sum())


def output(rule: Rule, hand: Hand) -> Output:
    """Sum over every drawn token and every correction."""
    kept = hand.drawn * rule.coin.chance(*rule.all_odds(hand.p, hand.q))
    refused = hand.drawn - kept
    weights, _ = rule.correction(hand.p, hand.q)
    if rule.reuse_draft_u:
        return Output(kept, _corrected_by_the_same_uniform(hand.drawn, refused, weights))
    if rule.never_again:
        others = weights.sum() - weights
        share = np.divide(refused, others, out=np.zeros(len(others)), where=refused > 0.0)
        return Output(kept, weights * (share.sum() - share))
    return Output(kept, refused.sum() * weights / weights.sum())


def _corrected_by_the_same_uniform(drawn: np.ndarray, refused: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The distribution of the correction if the uniform that drew the token draws it too.

    Both draws cut [0, 1) into pieces, heaviest token first. On each piece of the common refinement one
    token is drawn and one replaces it.
    """
    parts = []
    for masses in (drawn, weights):
        ids = np.argsort(-masses, kind="stable")
        ids = ids[masses[ids] > 0.0]
        ends = np.cumsum(masses[ids])
        parts.append((ids, ends / ends[-1]))
    (draft_ids, draft_ends), (ids, ends) = parts
    cuts = np.union1d(draft_ends, ends)
    lengths = np.diff(cuts, prepend=0.0)
    middles = cuts - lengths / 2
    token = draft_ids[np.minimum(np.searchsorted(draft_ends, middles), len(draft_ids) - 1)]
    replacement = ids[np.minimum(np.searchsorted(ends, middles), len(ids) - 1)]
    share = np.divide(refused, drawn, out=np.zeros(len(drawn)), where=drawn > 0.0)
    return np.bincount(replacement, lengths * share[token], minlength=len(drawn))
