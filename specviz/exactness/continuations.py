"""Exactness from end to end: whole continuations through the engine, against the exact joint law.

Every continuation is a `DecodingRun` of its own, with its own seed: drafter, caches, verifier, commit and
cut all run. Only passes of the models over texts seen before are looked up, so that ten thousand
continuations are affordable. A few are run again without any look-up and have to give the same tokens.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from typing import Any

import numpy as np

from specviz.decoding.drafters import make_drafter
from specviz.decoding.faults import Fault
from specviz.decoding.protocols import Pair
from specviz.decoding.record import Made, outline
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.decoding.trace import Round
from specviz.decoding.tree import Shape
from specviz.decoding.verify import Verifier, verify_block
from specviz.exactness.chi_square import ALARM_IN_SERIES, ChiSquare, goodness_of_fit, same_law
from specviz.exactness.joint_law import JointLaw
from specviz.exactness.remembered import LookupPair, NotLookedUp, RememberedScore, RememberingModel, Text
from specviz.exactness.sequential import Evidence, evidence

LONGEST = 4
CHUNK = 1000  # continuations that are lost if a call is interrupted
SHOWN = 12
# Continuations, and beginnings, at least this likely are told apart. Always the same ones, whatever their
# number, as the test holds at every look only for cells that are not chosen by looking.
SMALLEST_CELL = 1 / 400


@dataclass(frozen=True, slots=True)
class SequenceBar:
    """One continuation, or all that are not shown together.

    Attributes:
        tokens: None for the rest.
        law: its probability under the target.
        share: its share of the continuations.
        low, high: where the shares of 95% of honest samples of this size fall.
        plain: its share of as many texts sampled from the target alone.
    """

    tokens: Text | None
    law: float
    share: float
    low: float
    high: float
    plain: float

    @property
    def inside(self) -> bool:
        return self.low <= self.share <= self.high


@dataclass(frozen=True, slots=True)
class Control:
    """A continuation run again without look-ups.

    Attributes:
        seed: of the run.
        looked_up, straight: the tokens with and without look-ups.
    """

    seed: int
    looked_up: Text
    straight: Text

    @property
    def same(self) -> bool:
        return self.looked_up == self.straight


@dataclass(frozen=True, slots=True)
class EndToEndCheck:
    """What N whole continuations say.

    Attributes:
        continuations: N.
        length: tokens of each, unless the text ends before.
        bars: the likeliest continuations by falling probability; the last is the rest.
        distinct: how many different ones came out.
        seen_mass: what the target gives to all of those together.
        impossible: how many came out that the target excludes.
        evidence: against the exact joint distribution, by a test that holds however often one looks. Likely
            continuations count each for itself, the others together with those that begin like them.
        test: chi-square on the same cells, for this look alone.
        plain_test: chi-square against as many texts sampled from the target alone, for this look alone.
        controls: those run again without look-ups.
        drafted, accepted: draft tokens in all runs.
        rows_computed, rows_looked_up: rows of both models.
    """

    continuations: int
    length: int
    bars: tuple[SequenceBar, ...]
    distinct: int
    seen_mass: float
    impossible: int
    evidence: Evidence
    test: ChiSquare
    plain_test: ChiSquare
    controls: tuple[Control, ...]
    drafted: int
    accepted: int
    rows_computed: int
    rows_looked_up: int

    @property
    def controls_agree(self) -> bool:
        return all(control.same for control in self.controls)

    @property
    def agrees(self) -> bool:
        """With the joint distribution, as far as can be said."""
        return not self.evidence.alarm and not self.impossible

    @property
    def too_few(self) -> bool:
        """No continuation, nor any beginning, is expected five times."""
        return self.agrees and not self.test.degrees

    @property
    def ok(self) -> bool:
        plain = self.plain_test.p_value >= ALARM_IN_SERIES  # of twenty looks, one in a thousand series fails
        return self.agrees and plain and self.controls_agree

    @property
    def sentence(self) -> str:
        """What the check says, with its numbers."""
        text = f"{self.continuations:,} continuations of {self.length} tokens, {self.distinct:,} distinct: "
        if self.impossible:
            text += f"{self.impossible:,} are texts that the target never writes."
        elif self.too_few:
            text += "too few for a test, as none is expected five times."
        else:
            verdict = "agrees with" if self.agrees else "contradicts"
            text += (
                f"the evidence against exactness is {self.evidence.words} (alarm at 1,000), which {verdict} "
                "the target's joint distribution. For this look alone: chi-square "
                f"{self.test.statistic:,.1f} on {self.test.degrees} degrees, p-value {self.test.p_words}; "
                f"against plain sampling p-value {self.plain_test.p_words}."
            )
        if self.controls:
            same = sum(control.same for control in self.controls)
            text += f" {same} of {len(self.controls)} re-run without look-ups gave the same tokens."
        return text


@dataclass(frozen=True, slots=True)
class _Run:
    """A finished continuation: its tokens, and how many draft tokens it took."""

    output: Text
    drafted: int
    accepted: int


class EndToEnd:
    """The check as something to work on: `advance`, `recheck` and look at `check()`, in any order.

    Nothing is lost if a call is interrupted; the continuations that were not finished are made anew.

    Args:
        pair: target and draft.
        prompt: text, or token ids.
        fault: what is wrong with the engine; None for the correct one.
        verifier: the rule of the correct one.
        tree: the shape of its trees; None for chains. Passes over trees are not looked up.
        drafter, k, sampling, draft_sampling, chat: as for `DecodingRun`. In a short text K is cut to
            what can be committed beside the bonus.
        length: tokens of a continuation, 1 … 4.
        seed: continuation i has the seed `seed + i`.

    Attributes:
        lookups: False for a drafter that wants hidden states, which are not remembered: every pass is
            made, and there is nothing to re-run.
    """

    def __init__(
        self,
        pair: Pair,
        prompt: str | Sequence[int],
        *,
        fault: Fault | None = None,
        verifier: Verifier = verify_block,
        tree: Shape | None = None,
        drafter: str = "model",
        k: int = 4,
        sampling: SamplingConfig | None = None,
        draft_sampling: SamplingConfig | None = None,
        chat: bool = False,
        length: int = 3,
        seed: int = 0,
    ) -> None:
        if not 1 <= length <= LONGEST:
            raise ValueError(f"continuations have 1 to {LONGEST} tokens, not {length}")
        self.pair = pair
        self.prompt = tuple(pair.encode(prompt, chat) if isinstance(prompt, str) else prompt)
        self.fault = fault
        self._verifier = verifier
        self.length = length
        self.seed = seed
        self.sampling = sampling or SamplingConfig()
        self._settings: dict[str, Any] = {
            "drafter": drafter,
            "k": k,
            "sampling": self.sampling,
            "draft_sampling": draft_sampling,
            "max_new_tokens": length,
        }
        if tree is not None:
            self._settings["tree"] = tree
        branching = tree is not None or (fault is not None and fault.tree is not None)
        features = make_drafter(drafter, pair, draft_sampling or self.sampling).wants_features
        self.lookups = not features and not branching
        self._memory = LookupPair(pair, self.prompt)
        self._remembered = {
            "score": RememberedScore((fault and fault.score) or effective_probs),
            "draft_score": RememberedScore(effective_probs),
        }
        # So many runs wait for passes together. One that starts again needs all its rows at hand: each of
        # at most `length` rounds looks at one row for every token still to come.
        self._together = max(1, self._memory.target.capacity // (length * (length + 1) // 2 + 1))
        self._law = JointLaw(self._memory.target, pair, self.prompt, self.sampling, length)
        self._outcomes: list[Text] = []  # in the order of the seeds
        self._controls: list[Control] = []
        self.drafted = self.accepted = 0

    @property
    def done(self) -> int:
        """Continuations finished."""
        return len(self._outcomes)

    @property
    def bytes(self) -> int:
        """What is remembered, in bytes."""
        return self._memory.bytes + sum(score.bytes for score in self._remembered.values())

    def advance(self, n: int) -> None:
        """Make n more continuations."""
        goal = self.done + n
        while self.done < goal:
            runs = self._finished(range(self.done, min(self.done + CHUNK, goal)))
            outcomes = [run.output for run in runs]
            self._law.weigh(outcomes)
            self._outcomes += outcomes
            self.drafted += sum(run.drafted for run in runs)
            self.accepted += sum(run.accepted for run in runs)

    def recheck(self, n: int) -> None:
        """Run n more of the finished continuations again without look-ups, in the order of the seeds."""
        for i in range(len(self._controls), min(len(self._controls) + n, self.done)):
            run = self._run(self.pair, i)
            self._controls.append(Control(self.seed + i, self._outcomes[i], run.output))

    def _finished(self, indices: Iterable[int]) -> list["_Run"]:
        """The runs of these continuations. Where rows are missing they wait, share the passes, and start
        again: a run is determined by its seed, so nothing is drawn twice."""
        pair: Any = self._memory if self.lookups else self.pair
        done: dict[int, _Run] = {}
        waiting = deque(indices)
        while waiting:
            stuck: list[int] = []
            missing: dict[RememberingModel, list[Text]] = {}
            while waiting and len(stuck) < self._together:
                index = waiting.popleft()
                try:
                    done[index] = self._run(pair, index)
                except NotLookedUp as found:
                    missing.setdefault(found.model, []).extend(found.texts)
                    stuck.append(index)
            for model, texts in missing.items():
                model.learn(texts)
            waiting.extendleft(reversed(stuck))
        return [done[index] for index in sorted(done)]

    def _run(self, pair: Pair, index: int) -> "_Run":
        drafted = accepted = 0

        def count(made: Made) -> Round:
            nonlocal drafted, accepted
            drafted += len(made.tree) or len(made.proposal.tokens)
            accepted += made.verdict.accepted
            return outline(made)

        # No trace is wanted, and recording would take longer than all the rest of a round.
        settings = {**self._settings, "seed": self.seed + index, "record": count}
        if pair is self._memory:
            settings |= self._remembered
        start = partial(DecodingRun, verifier=self._verifier) if self.fault is None else self.fault.start
        run = start(pair, self.prompt, **settings)
        list(run)
        return _Run(tuple(run.tokens[len(self.prompt) :]), drafted, accepted)

    def check(self, shown: int = SHOWN) -> EndToEndCheck:
        """What the continuations so far say (at least one). `shown` bars and the rest."""
        from scipy.stats import binom

        n = self.done
        cells = self._law.cells(SMALLEST_CELL)
        law = cells.masses
        drawn = Counter(cells.of(tokens) for tokens in self._outcomes)
        sampled = self._law.sample(cells, n, np.random.default_rng([self.seed, n]))
        whole = sorted(cells.whole, key=lambda tokens: -cells.whole[tokens])
        order = [*whole, *cells.others]
        masses = np.array([law[cell] for cell in order])
        ours, plain = (np.array([counts[cell] for cell in order]) for counts in (drawn, sampled))
        seen = {tokens: self._law.probability(tokens) for tokens in set(self._outcomes)}

        def bar(tokens: Text | None, columns: slice) -> SequenceBar:
            mass = float(masses[columns].sum())
            low, high = binom.ppf([0.025, 0.975], n, min(1.0, mass)) / n
            share, other = (float(counts[columns].sum() / n) for counts in (ours, plain))
            return SequenceBar(tokens, mass, share, float(low), float(high), other)

        bars = [bar(tokens, slice(i, i + 1)) for i, tokens in enumerate(whole[:shown])]
        models = [self._memory.target, self._memory.draft]
        return EndToEndCheck(
            continuations=n,
            length=self.length,
            bars=(*bars, bar(None, slice(len(bars), None))),
            distinct=len(seen),
            seen_mass=min(1.0, fsum(seen.values())),
            impossible=sum(seen[tokens] == 0.0 for tokens in self._outcomes),
            evidence=evidence(ours, masses / masses.sum()),
            test=goodness_of_fit(ours, masses / masses.sum()),
            plain_test=same_law(ours, plain),
            controls=tuple(self._controls),
            drafted=self.drafted,
            accepted=self.accepted,
            rows_computed=sum(m.rows for m in models if m),
            rows_looked_up=sum(m.lookups for m in models if m),
        )
