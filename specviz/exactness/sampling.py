"""Exactness by sampling: the rule applied a million times at one position, and compared with p."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from specviz.decoding.faults import EXACT, Fault, Hand, Rule, Spot, output
from specviz.decoding.randomness import heaviest
from specviz.exactness.arithmetic import TOLERANCE
from specviz.exactness.chi_square import ChiSquare, goodness_of_fit
from specviz.exactness.guide_table import InverseCdf
from specviz.exactness.noise import Noise, honest_noise
from specviz.exactness.sequential import Evidence, draws_needed, evidence

BATCH = 1 << 17  # the arrays of a batch stay in the processor's cache
Says = Literal["agrees", "contradicts", "too few"]


class Draws:
    """Draws of one position's output, added batch by batch; stop and go on as you like.

    Each draw takes a token from the distribution it is really drawn from, keeps or refuses it, and
    replaces it if refused: what `verify_block` does with the first token of a block, or a fault's
    verifier does in its place, with the same comparison, the same residual, and three random streams.

    Args:
        hand: the distributions at this position.
        rule: the exact rule, or another.
        seed: determines the draws. How they are cut into calls of `add` does not matter.

    Attributes:
        counts: (V,) int64, how often each token came out.
        accepted: how many drawn tokens were kept.
        total: draws so far.
    """

    def __init__(self, hand: Hand, rule: Rule = EXACT, seed: int = 0) -> None:
        self.rule = rule
        self.counts = np.zeros(len(hand.p), dtype=np.int64)
        self.accepted = 0
        self.total = 0
        self._draft = InverseCdf(hand.drawn)
        # By rank among the draft's tokens, which a draw gives and which falls mostly on the first.
        self._a, self._b = (odds[self._draft.ids] for odds in rule.all_odds(hand.p, hand.q))
        self._weights, _ = rule.correction(hand.p, hand.q)
        self._correction = InverseCdf(self._weights)
        streams = np.random.SeedSequence(seed).spawn(3)
        self._draft_us, self._accept_us, self._correct_us = (
            np.random.Generator(np.random.SFC64(stream)) for stream in streams
        )

    def add(self, n: int) -> None:
        """Make n more draws."""
        while n > 0:
            size = min(n, BATCH)
            tokens, kept = self.judge(
                self._draft_us.random(size),
                self._accept_us.random(size),
                lambda refused: self._correct_us.random(len(refused)),
            )
            self.counts += np.bincount(tokens, minlength=len(self.counts))
            self.accepted += kept
            self.total += size
            n -= size

    def judge(
        self,
        draft_us: np.ndarray,
        accept_us: np.ndarray,
        correct_us: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, int]:
        """The tokens (N,) that come out for these uniforms (N,), and how many were kept.

        Args:
            draft_us, accept_us: one of each for every draw.
            correct_us: gives a uniform for each of the refused draws, whose indices it is told.
        """
        ranks = self._draft.ranks(draft_us)
        tokens = self._draft.ids.take(ranks)
        keeps = self.rule.coin.keeps(accept_us, self._a.take(ranks), self._b.take(ranks))
        refused = np.flatnonzero(~keeps)
        if len(refused):
            us = draft_us[refused] if self.rule.reuse_draft_u else correct_us(refused)
            if self.rule.never_again:
                tokens[refused] = self._another(tokens[refused], us)
            else:
                tokens[refused] = self._correction(us)
        return tokens, len(tokens) - len(refused)

    def _another(self, tokens: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Corrections drawn from the weights without each draw's own refused token.

        The uniforms are stretched over what is left, and those behind the gap are moved past it.
        """
        weights, order = self._weights, self._correction.ids
        total = weights.sum()
        starts = np.zeros(len(weights))
        starts[order] = np.cumsum(weights[order]) - weights[order]
        goals = us * (total - weights[tokens])
        goals = np.where(goals < starts[tokens], goals, goals + weights[tokens])
        return self._correction(np.minimum(goals / total, np.nextafter(1.0, 0.0)))


@dataclass(frozen=True, slots=True)
class Bar:
    """One token, or all tokens not shown together.

    Attributes:
        token: None for the rest.
        p: its probability under the target.
        share: its share of the draws.
        low, high: where the shares of 95% of honest runs of this length fall.
        law: what the rule that was drawn with really gives on average; p for the exact rule.
    """

    token: int | None
    p: float
    share: float
    low: float
    high: float
    law: float

    @property
    def inside(self) -> bool:
        return self.low <= self.share <= self.high


@dataclass(frozen=True, slots=True)
class SamplingCheck:
    """What N draws say about a rule.

    Attributes:
        draws: N.
        bars: the leading tokens by falling p; the last is the rest.
        tv: total variation distance between the shares and p, over the whole vocabulary.
        noise: what `tv` is under exactness.
        evidence: against p, by a test that holds however often one looks.
        enough: draws after which a rule that keeps every draft token would be caught 9 times out of 10;
            with fewer, agreement says nothing. None if that many cannot be drawn.
        apart: total variation distance between p and q.
        test: chi-square of the counts against p, for this look alone.
        own: chi-square against the rule's own exact distribution, for this look alone.
        accepted: share of drawn tokens that were kept.
        accepted_low, accepted_high: its exact binomial (Clopper-Pearson) 95% interval.
        acceptance: what the share should be: β under the exact rule, else the fault's own.
        beta: Σ min(p, q), q being what tokens are really drawn from.
    """

    draws: int
    bars: tuple[Bar, ...]
    tv: float
    noise: Noise
    evidence: Evidence
    enough: int | None
    apart: float
    test: ChiSquare
    own: ChiSquare
    accepted: float
    accepted_low: float
    accepted_high: float
    acceptance: float
    beta: float

    @property
    def says(self) -> Says:
        """Whether the draws agree with p, contradict it, or are too few to tell."""
        if self.evidence.alarm:
            return "contradicts"
        return "too few" if self.enough is None or self.draws < self.enough else "agrees"

    @property
    def caught(self) -> bool:
        """The draws do not agree with p: what a faulty verifier's should do."""
        return self.says == "contradicts"

    @property
    def why_too_few(self) -> str:
        """Why these draws cannot tell anything."""
        if self.apart <= TOLERANCE:
            return "p and q are equal here: whatever is done with the draft's tokens, no draws can show it."
        wait = "no number of draws would do" if self.enough is None else f"it takes about {self.enough:,}"
        return (
            f"p and q are {self.apart:.2g} apart here, and to catch even a rule that keeps every draft token "
            f"9 times out of 10 {wait}."
        )

    @property
    def sentence(self) -> str:
        """What the check says, with its numbers."""
        noise = self.noise
        start = (
            f"After {self.draws:,} draws the output is {self.tv:.4f} away from p in total variation; "
            f"chance alone puts it {noise.mean:.4f} away ({noise.low:.4f} to {noise.high:.4f}). "
        )
        if self.evidence.impossible:
            return start + f"{self.evidence.impossible:,} draws gave a token that p excludes."
        start += (
            f"The evidence against p is {self.evidence.words}; exact decoding passes 1,000 in at most 1 of "
            "1,000 series of draws, however often one looks. "
        )
        if self.says == "too few":
            return f"{start}Too few draws to tell: {self.why_too_few}"
        verdict = "agrees with" if self.says == "agrees" else "contradicts"
        return start + f"This {verdict} p. {self.single_look}"

    @property
    def single_look(self) -> str:
        """The chi-square test, which is right for one look that was planned."""
        test = self.test
        if not test.degrees:
            return "Chi-square needs a token that is expected five times beside the others."
        return (
            f"Chi-square, for a single look: {test.statistic:,.1f} on {test.degrees} degrees, p-value "
            f"{test.p_words}."
        )


class SamplingTest:
    """The check of one rule at one position: `add` draws, look at `check()`, add more.

    Args:
        spot: the position.
        fault: the rule to draw with, None for the exact one.
        seed: determines the draws.

    Raises:
        ValueError: for a fault that one position does not show.
    """

    def __init__(self, spot: Spot, fault: Fault | None = None, seed: int = 0) -> None:
        if fault is not None and not fault.one_position:
            raise ValueError(f"{fault.name} shows over several positions only")
        rule = EXACT if fault is None else fault.rule
        hand = spot.hand if fault is None else fault.deal(spot)
        self.spot = spot
        self.fault = fault
        self.apart = float(np.abs(spot.p - spot.q).sum() / 2)
        self.expected = output(rule, hand)
        self.draws = Draws(hand, rule, seed)

    def add(self, n: int) -> None:
        self.draws.add(n)

    @cached_property
    def enough(self) -> int | None:
        """Draws after which a rule that keeps every draft token is caught 9 times out of 10."""
        return draws_needed(self.spot.p, self.spot.q) if self.apart > TOLERANCE else None

    def evidence(self) -> Evidence:
        """Against p, in the draws so far."""
        return evidence(self.draws.counts, self.spot.p)

    def check(self, tokens: Sequence[int] | None = None) -> SamplingCheck:
        """What the draws so far say (at least one).

        Args:
            tokens: the tokens to draw bars for; the 8 likeliest if None.
        """
        from scipy.stats import binomtest

        n, counts, p = self.draws.total, self.draws.counts, self.spot.p
        law = self.expected.law
        shown = [int(t) for t in heaviest(p, 8)] if tokens is None else list(tokens)
        hidden = np.ones(len(p), dtype=bool)
        hidden[shown] = False
        bars = [self._bar(t, p[t], counts[t], law[t]) for t in shown]
        bars.append(self._bar(None, p[hidden].sum(), counts[hidden].sum(), law[hidden].sum()))
        kept = binomtest(self.draws.accepted, n).proportion_ci()
        return SamplingCheck(
            draws=n,
            bars=tuple(bars),
            tv=float(np.abs(counts / n - p).sum() / 2),
            noise=honest_noise(p, n),
            evidence=self.evidence(),
            enough=self.enough,
            apart=self.apart,
            test=goodness_of_fit(counts, p),
            own=goodness_of_fit(counts, law / law.sum()),
            accepted=self.draws.accepted / n,
            accepted_low=float(kept.low),
            accepted_high=float(kept.high),
            acceptance=self.expected.acceptance,
            beta=float(np.minimum(p, self.spot.q).sum()),
        )

    def _bar(self, token: int | None, p: float, count: int, law: float) -> Bar:
        from scipy.stats import binom

        n = self.draws.total
        low, high = binom.ppf([0.025, 0.975], n, min(1.0, p)) / n
        return Bar(token, float(p), float(count / n), float(low), float(high), float(law))

    def draws_to_catch(self, power: float = 0.9) -> int | None:
        """Draws after which this rule's output is told from p with this probability; None if never."""
        law = self.expected.law
        if np.abs(law - self.spot.p).max() <= TOLERANCE:
            return None
        return draws_needed(self.spot.p, law / law.sum(), power)

    def draws_needed(self, bias: float, power: float = 0.9) -> int | None:
        """Draws after which a bias of this total variation distance is seen with this probability.

        The bias is taken to be a leak of the draft: a share of the tokens follows q instead of p. None
        if no leak is that large, as when p and q are closer than that.
        """
        if not 0.0 < bias <= self.apart:
            return None
        leak = bias / self.apart
        return draws_needed(self.spot.p, (1.0 - leak) * self.spot.p + leak * self.spot.q, power)


def draws_until_caught(
    spot: Spot, fault: Fault, most: int = 1_000_000, seed: int = 0
) -> tuple[int | None, SamplingCheck]:
    """Draw with a fault, twice as many each time from 100 on, until the test raises the alarm.

    Returns:
        The draws it took, None if `most` were not enough, and the last check.
    """
    test = SamplingTest(spot, fault, seed)
    goal = 100
    while True:
        test.add(min(goal, most) - test.draws.total)
        caught = test.evidence().alarm
        if caught or test.draws.total >= most:
            return (test.draws.total if caught else None), test.check()
        goal *= 2
