"""Everything that was measured about the speed of a pair, as one value."""

from dataclasses import dataclass, field

from specviz.speed import formulas
from specviz.speed.clock import Spread
from specviz.speed.formulas import Machine as Limits
from specviz.speed.formulas import Shape
from specviz.speed.machine import Machine


@dataclass(frozen=True, slots=True)
class Setting:
    """What was measured.

    Attributes:
        pair, dtype, device: of the target.
        why: reason for the dtype, "" if it was asked for.
        clock: what "second" means.
        drafter, k, temperature: what the page is about.
        texts: names of the texts that were run.
        tokens: most new tokens a text.
    """

    pair: str
    dtype: str
    device: str
    why: str
    clock: str
    drafter: str
    k: int
    temperature: float
    texts: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Run:
    """One kind of drafter at one K, really run over all texts.

    Attributes:
        drafter, k: most tokens that a round drafts; K = 0 is plain decoding.
        adaptive: K was chosen before each round, up to `k`.
        ratio: speed over that of plain decoding of the same text in the same turn, as a spread over
            texts and turns; None for plain decoding.
        by_text: the median of each text; () for plain decoding.
        tokens, seconds: of all runs together.
        rounds: how many.
        blocks: rounds by the tokens they drafted, from 0; fewer than K where a drafter found no more.
        drafted, accepted: draft tokens.
        rates: per-position acceptance rates.
        alpha: mean β, None if nothing was drafted.
        draft, verify, rest: seconds in all that drafting, target passes, and everything else took.
    """

    drafter: str
    k: int
    adaptive: bool
    ratio: Spread | None
    by_text: tuple[float, ...]
    tokens: int
    seconds: float
    rounds: int
    blocks: tuple[int, ...]
    drafted: int
    accepted: int
    rates: tuple[float, ...]
    alpha: float | None
    draft: float
    verify: float
    rest: float

    @property
    def length(self) -> float:
        """Tokens a round."""
        return self.tokens / self.rounds

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Pass:
    """A target pass over `rows` rows of `batch` sequences behind `context` cached positions, in seconds."""

    rows: int
    context: int
    batch: int
    seconds: Spread


@dataclass(frozen=True, slots=True)
class Draft:
    """A block of `k` drafts of one drafter, in seconds, drawing included."""

    drafter: str
    k: int
    seconds: Spread


@dataclass(slots=True)
class Report:
    """Figures so far; a sweep that goes on adds to them.

    Attributes:
        setting, machine: what, where and when.
        shape, rates: for the floors.
        passes: T_target at batch 1 and the context of the prompts.
        drafts: blocks of every drafter.
        prefill: passes over whole prompts.
        runs: really run.
        grid: passes over contexts and batches.
        refused: what was left out of the grid, and why.
    """

    setting: Setting
    machine: Machine
    shape: Shape
    rates: Limits
    passes: list[Pass] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    prefill: list[Pass] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    grid: list[Pass] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def seconds(self, rows: int) -> float | None:
        """Median of a target pass over so many rows; between two that were measured, on the line."""
        return _on_line([(p.rows, p.seconds.median) for p in self.passes], rows)

    def floor(self, rows: int, context: int = 0, batch: int = 1) -> formulas.Pass:
        """What a pass cannot be faster than."""
        return formulas.roofline(self.shape, self.rates, batch, context, rows)

    def v(self, k: int) -> float | None:
        """A pass over K + 1 rows in passes over one."""
        one, many = self.seconds(1), self.seconds(k + 1)
        return None if one is None or many is None else many / one

    def drafting(self, drafter: str, k: int) -> float | None:
        """Seconds that a block of K drafts takes."""
        if k == 0:
            return 0.0
        return _on_line([(d.k, d.seconds.median) for d in self.drafts if d.drafter == drafter], k)

    def c(self, drafter: str, k: int | None = None) -> float | None:
        """A draft token in plain target passes; heads and the like are taken at as many as they have."""
        longest = max((d.k for d in self.drafts if d.drafter == drafter), default=1)
        k = min(k or self.setting.k or 1, longest)
        one, block = self.seconds(1), self.drafting(drafter, k)
        return None if one is None or block is None else block / k / one

    def run(self, drafter: str, k: int) -> Run | None:
        if k == 0:
            return self.plain
        return next((r for r in self.fixed(drafter) if r.k == k), None)

    def fixed(self, drafter: str) -> list[Run]:
        """The runs of a drafter whose K was the same in every round, by K."""
        found = [r for r in self.runs if r.drafter == drafter and r.k and not r.adaptive]
        return sorted(found, key=lambda r: r.k)

    def adaptive(self, drafter: str) -> Run | None:
        """The run of a drafter whose K was chosen before each round."""
        return next((r for r in self.runs if r.drafter == drafter and r.adaptive), None)

    @property
    def plain(self) -> Run | None:
        return next((r for r in self.runs if r.k == 0), None)

    @property
    def drafters(self) -> list[str]:
        """Those that were run, in their order."""
        return list(dict.fromkeys(r.drafter for r in self.runs if r.k))

    def host(self, drafter: str, k: int) -> float:
        """Seconds a round beside the passes: of the nearest K that was run."""
        known = self.fixed(drafter) if k else [self.plain] if self.plain is not None else []
        if not known:
            return 0.0
        nearest = min(known, key=lambda r: abs(r.k - k))
        return nearest.rest / nearest.rounds

    def position_rates(self, drafter: str) -> tuple[float, ...]:
        """Per-position acceptance rates from the longest drafts that were run."""
        return max((r.rates for r in self.fixed(drafter)), key=len, default=())

    def predicted(self, drafter: str, k: int) -> float | None:
        """Speed-up from measured parts: (1 + Σ rᵢ) plain rounds over a round's draft, verify and rest."""
        own = self.run(drafter, k)
        if own is not None:
            return self.explained(own)
        rates = self.position_rates(drafter)
        one, verify, draft = self.seconds(1), self.seconds(k + 1), self.drafting(drafter, k)
        if one is None or verify is None or draft is None or len(rates) < k:
            return None
        tokens = 1.0 + sum(rates[:k])
        return tokens * (one + self.host(drafter, 0)) / (draft + verify + self.host(drafter, k))

    def explained(self, run: Run) -> float | None:
        """The speed-up of a run from its rounds and from blocks and passes that were measured apart.

        A drafter that finds nothing to copy, and a K that is chosen before each round, draft now more and
        now less: every round is charged for the block and the rows that it had.
        """
        one, cost = self.seconds(1), run.rest
        for k, rounds in enumerate(run.blocks):
            if rounds:
                verify, draft = self.seconds(k + 1), self.drafting(run.drafter, k)
                if verify is None or draft is None:
                    return None
                cost += rounds * (verify + draft)
        return None if one is None else run.tokens * (one + self.host(run.drafter, 0)) / cost

    def alpha(self, drafter: str) -> float | None:
        """Mean β of the drafts at the K nearest to the setting's."""
        known = [r for r in self.fixed(drafter) if r.alpha is not None]
        return min(known, key=lambda r: abs(r.k - self.setting.k)).alpha if known else None

    def kept(self, drafter: str) -> float | None:
        """The chance of keeping a draft token that explains the tokens a round, were it the same everywhere.

        Of the run with the K nearest to the setting's. Unlike the mean β it knows of rounds in which a
        drafter found nothing to propose.
        """
        known = self.fixed(drafter)
        if not known:
            return None
        run = min(known, key=lambda r: abs(r.k - self.setting.k))
        return formulas.break_even_alpha(run.k, 0.0, run.length)

    def independent(self, drafter: str, k: int) -> float | None:
        """Speed-up by the formula with independent acceptance at the measured rate and c, and v = 1."""
        alpha = self.kept(drafter)
        c = self.c(drafter)
        return None if alpha is None or c is None else formulas.speedup(alpha, k, c)

    def speedup(self, run: Run) -> float:
        """Speed over that of plain decoding, over all texts and turns; 1 if there is no plain run."""
        return run.speed / self.plain.speed if self.plain is not None else 1.0

    def best(self, drafter: str) -> Run | None:
        """The fastest K that was run, K = 0 aside."""
        runs = [r for r in self.fixed(drafter) if r.ratio is not None]
        return max(runs, key=self.speedup, default=None)


def _on_line(points: list[tuple[int, float]], x: int) -> float | None:
    """The value at x: measured, or on the line between its neighbours; None outside."""
    known = dict(points)
    if x in known:
        return known[x]
    below = max((a for a in known if a < x), default=None)
    above = min((a for a in known if a > x), default=None)
    if below is None or above is None:
        return None
    return known[below] + (known[above] - known[below]) * (x - below) / (above - below)
