"""Which check catches a fault, and after how much work. Everything is measured by running."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from specviz.decoding.faults import Fault, Spot
from specviz.decoding.protocols import Pair
from specviz.decoding.run import DecodingRun
from specviz.exactness.arithmetic import TOLERANCE
from specviz.exactness.cache_check import checked
from specviz.exactness.continuations import EndToEnd
from specviz.exactness.evidence import leak_test
from specviz.exactness.sampling import SamplingTest, draws_until_caught
from specviz.reading.metrics import Metrics, metrics

Check = Literal["sampling", "run", "end to end", "caches"]
UNITS: dict[Check, str] = {
    "sampling": "draws",
    "run": "tokens",
    "end to end": "continuations",
    "caches": "rounds",
}


@dataclass(frozen=True, slots=True)
class Caught:
    """What one check made of a fault.

    Attributes:
        check: which check.
        after: draws, tokens, continuations or rounds until the alarm; None if there was none.
        tried: how many were tried.
    """

    check: Check
    after: int | None
    tried: int

    @property
    def sentence(self) -> str:
        """For a table's cell."""
        unit = UNITS[self.check]
        if self.after is None:
            return f"not caught by {self.check} within {self.tried:,} {unit}"
        return f"caught by {self.check} after {self.after:,} {unit}"


@dataclass(frozen=True, slots=True)
class AtSpot:
    """A fault at one position.

    Attributes:
        name: of the fault.
        tv: of its exact law from p; None if one position does not decide it.
        acceptance: exact probability that the draft token is kept; None likewise.
        beta: the same under the exact rule.
        predicted: draws that the sampling check needs to see it nine times in ten; None if it never would.
        measured: what the sampling check made of it; None without a law.
        own_p_value: of the draws against the fault's own exact law; None without a law.
    """

    name: str
    tv: float | None
    acceptance: float | None
    beta: float
    predicted: int | None
    measured: Caught | None
    own_p_value: float | None

    @property
    def shows(self) -> bool:
        """The fault changes the law of this position."""
        return self.tv is not None and self.tv > TOLERANCE


def at_spot(fault: Fault, spot: Spot, most: int = 1_000_000, seed: int = 0) -> AtSpot:
    """The fault's exact law at a position, and draws with it until the sampling check is alarmed."""
    beta = float(np.minimum(spot.p, spot.q).sum())
    law = fault.law(spot)
    if law is None:
        return AtSpot(fault.name, None, None, beta, None, None, None)
    tv = fault.tv(spot)
    predicted = SamplingTest(spot, fault).draws_to_catch()
    after, check = draws_until_caught(spot, fault, most, seed)
    return AtSpot(
        name=fault.name,
        tv=tv,
        acceptance=fault.acceptance(spot),
        beta=beta,
        predicted=predicted,
        measured=Caught("sampling", after, check.draws),
        own_p_value=check.own.p_value,
    )


@dataclass(frozen=True, slots=True)
class OnRuns:
    """A fault in whole runs, beside the correct engine with the same seed.

    Attributes:
        name: of the fault.
        honest, faulty: figures of the two runs: what speed and acceptance look like meanwhile.
        caught: what the evidence on the run, whole continuations and the caches made of it.
    """

    name: str
    honest: Metrics
    faulty: Metrics
    caught: tuple[Caught, ...]

    @property
    def first(self) -> Caught | None:
        """A check that caught it."""
        return next((c for c in self.caught if c.after is not None), None)


def on_runs(
    fault: Fault,
    pair: Pair,
    prompt: str | Sequence[int],
    *,
    tokens: int = 400,
    continuations: int = 2000,
    length: int = 3,
    audited_tokens: int = 60,
    seed: int = 0,
    **settings: Any,
) -> OnRuns:
    """Run with the fault and see which checks notice.

    Args:
        tokens: length of the run for figures and evidence.
        continuations, length: for the check from end to end; 0 leaves it out.
        audited_tokens: length of the run whose caches are checked after every round; 0 leaves it out.
        settings: drafter, k, sampling, draft_sampling, as for `DecodingRun`.
    """
    honest = DecodingRun(pair, prompt, max_new_tokens=tokens, seed=seed, **settings)
    faulty = fault.start(pair, prompt, max_new_tokens=tokens, seed=seed, **settings)
    list(honest), list(faulty)
    evidence = leak_test([faulty.trace()])
    caught = [Caught("run", evidence.crossed_at, evidence.tokens)]
    if continuations:
        caught.append(_by_continuations(fault, pair, prompt, continuations, length, seed, settings))
    if audited_tokens:
        run = fault.start(pair, prompt, max_new_tokens=audited_tokens, seed=seed, **settings)
        rounds, bad = 0, None
        for round, checks in checked(run):
            rounds = round.number
            if not all(check.ok for check in checks):
                bad = rounds
                break
        caught.append(Caught("caches", bad, rounds))
    return OnRuns(fault.name, metrics(honest.rounds), metrics(faulty.rounds), tuple(caught))


def _by_continuations(
    fault: Fault,
    pair: Pair,
    prompt: str | Sequence[int],
    most: int,
    length: int,
    seed: int,
    settings: dict[str, Any],
) -> Caught:
    """Twice as many each time from 125 on."""
    test = EndToEnd(pair, prompt, fault=fault, length=length, seed=seed, **settings)
    goal = 125
    while True:
        test.advance(min(goal, most) - test.done)
        check = test.check()
        if not check.agrees:
            return Caught("end to end", test.done, test.done)
        if test.done >= most:
            return Caught("end to end", None, test.done)
        goal *= 2
