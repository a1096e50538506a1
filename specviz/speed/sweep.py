"""A whole measurement in small steps, so that it can be watched, stopped, and gone on with."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from specviz.decoding.drafters import COPYING
from specviz.models.memory import available
from specviz.speed import floors, measure
from specviz.speed.adaptive import AdaptiveK
from specviz.speed.clock import Spread, clock_for, one_by_one
from specviz.speed.engines import PROMPTS
from specviz.speed.machine import this_machine
from specviz.speed.measure import Bench, Tally
from specviz.speed.report import Draft, Pass, Report, Setting

PLAIN = "plain"
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17)
BLOCKS = (1, 2, 4, 8, 12)
BY_K = (1, 2, 3, 4, 6, 8, 12)  # of the drafter in question
OTHERS = (1, 2, 4, 8)  # of the rest
CONTEXTS = (0, 2048, 32768)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
MEMORY_SHARE = 0.25  # of the memory that is free now that a cache of the grid may take
GRID_SECONDS = 2.0  # a batch that would take longer a pass is left out, and so are larger ones
PASS_TRIES = 7


Kind = tuple[str, int, bool]  # drafter, K, whether K is chosen before each round
Part = Generator[None, None, None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure.

    Attributes:
        drafter, k, temperature: what the report is about.
        prompts: texts; the built-in three if empty.
        tokens: most new tokens a text.
        turns: how often each text is run by each kind.
        grid: measure contexts and batches too.
    """

    drafter: str = "model"
    k: int = 4
    temperature: float = 0.0
    prompts: tuple[str, ...] = ()
    tokens: int = 32
    turns: int = 2
    grid: bool = True


class Sweep:
    """Measures a pair step by step.

    Attributes:
        report: what is known so far; None before the first step.
        done: steps made.
        total: steps in all.
        now: what the next step measures.
    """

    def __init__(self, pair: Any, plan: Plan) -> None:
        self.pair, self.plan = pair, plan
        self.texts = {_name(text): text for text in plan.prompts} or dict(PROMPTS)
        self.prompts = tuple(self.texts.values())
        self.clock, self.clock_name = clock_for(pair.info.target.device)
        self.report: Report | None = None
        self.kinds = measure.available(pair)
        if plan.drafter not in self.kinds:
            raise ValueError(f"this pair has no drafter {plan.drafter!r}; it has {', '.join(self.kinds)}")
        self.bench: Bench | None = None
        self.tallies: dict[Kind, Tally] = {}
        self.ratios: dict[Kind, dict[int, list[float]]] = {}
        self.slow: set[int] = set()
        self.steps: list[tuple[str, Callable[[], Part]]] = list(self._steps())
        self.done = 0
        self._going: Part | None = None

    @property
    def total(self) -> int:
        return len(self.steps)

    @property
    def now(self) -> str:
        return self.steps[self.done][0] if self.done < self.total else ""

    def step(self) -> None:
        """Measure a little: a pass, a block, a round. After a failure the part begins again."""
        try:
            self._going = self._going or self.steps[self.done][1]()
            next(self._going)
        except StopIteration:
            self._going = None
            self.done += 1
        except BaseException:
            self._going = None
            raise

    def attach(self, pair: Any) -> None:
        """Go on with this pair, which may have been loaded again; the part at work begins again then."""
        if pair is not self.pair:
            self.pair, self.bench, self._going = pair, None, None

    def let_go(self) -> None:
        """Hold no model any more. The report stays, and `attach` goes on."""
        self.attach(None)

    def _steps(self) -> Iterator[tuple[str, Callable[[], Part]]]:
        plan = self.plan
        yield "this machine's rates", self._start
        yield "target passes by rows", self._passes
        yield "prefill", self._prefill
        for kind in self.kinds:
            yield f"draft blocks: {kind}", partial(self._blocks, kind)
        kinds = [plan.drafter, *(kind for kind in self.kinds if kind != plan.drafter)]
        todo = [
            (kind, k, False)
            for kind in kinds
            for k in sorted({*(BY_K if kind == plan.drafter else OTHERS), plan.k} - {0})
        ]
        for turn in range(plan.turns):
            for number in range(1, len(self.prompts) + 1):
                said = f"prompt {number} of {len(self.prompts)}, turn {turn + 1} of {plan.turns}"
                for at in range(0, len(todo), 4):
                    yield f"runs: {said}", partial(self._runs, turn, number - 1, todo[at : at + 4])
                chosen = [(kind, max(measure.CHOICES), True) for kind in kinds]
                yield f"adaptive K: {said}", partial(self._runs, turn, number - 1, chosen)
        if plan.grid:
            for context in CONTEXTS:
                for batch in BATCHES:
                    said = f"context {context:,}, batch {batch}"
                    yield f"batches: {said}", partial(self._grid, context, batch)

    def _known(self) -> tuple[Report, Bench]:
        assert self.report is not None
        if self.bench is None:
            self.bench = Bench(self.pair, self.prompts[0], self.plan.temperature)
        return self.report, self.bench

    def _start(self) -> Part:
        pair, plan = self.pair, self.plan
        target = pair.info.target
        self.report = Report(
            setting=Setting(
                pair=target.name,
                dtype=target.dtype,
                device=target.device,
                why=getattr(pair, "dtype_reason", ""),
                clock=self.clock_name,
                drafter=plan.drafter,
                k=plan.k,
                temperature=plan.temperature,
                texts=tuple(self.texts),
                tokens=plan.tokens,
            ),
            machine=this_machine(target.device),
            shape=floors.shape_of(pair.target),
            rates=floors.rates(target.device, target.dtype),
        )
        yield

    def _passes(self) -> Part:
        report, bench = self._known()
        rows = sorted({*ROWS, self.plan.k + 1})
        taken = yield from one_by_one({n: bench.rows(n) for n in rows}, PASS_TRIES, self.clock)
        context = len(bench.ids)
        report.passes = [Pass(n, context, 1, Spread.of(seconds)) for n, seconds in taken.items()]

    def _prefill(self) -> Part:
        report, bench = self._known()
        limit = self.pair.target.context_length
        sizes = [n for n in (32, 128, 512) if n <= limit]
        taken = yield from one_by_one({n: bench.prefill(n) for n in sizes}, 3, self.clock)
        report.prefill = [Pass(n, 0, 1, Spread.of(seconds)) for n, seconds in taken.items()]

    def _blocks(self, kind: str) -> Part:
        report, bench = self._known()
        made: dict[int, Callable[[], Any]] = {}
        for k in sorted({*BLOCKS, self.plan.k} - {0}):
            block = bench.block(kind, k)
            # Heads propose no more than there are heads, and a look-up what it finds.
            if block() == k or kind in COPYING:
                made[k] = block
        taken = yield from one_by_one(made, PASS_TRIES, self.clock)
        report.drafts = [d for d in report.drafts if d.drafter != kind]
        report.drafts += [Draft(kind, k, Spread.of(seconds)) for k, seconds in taken.items()]

    def _runs(self, turn: int, text: int, kinds: list[Kind]) -> Part:
        report, _ = self._known()

        def made(drafter: str, k: int, adaptive: bool) -> Generator[None, None, Tally]:
            plan, chooser = self.plan, self._chooser(drafter) if adaptive else None
            prompt = self.prompts[text]
            return measure.decode(
                self.pair, prompt, drafter, k, plan.temperature, turn, plan.tokens, self.clock, chooser
            )

        kinds = [kind for kind in kinds if self._reaches(*kind)]
        half = len(kinds) // 2
        taken: list[Tally] = []
        # The plain run stands in the middle of those that are compared with it.
        for kind in (*kinds[:half], (PLAIN, 0, False), *kinds[half:]):
            taken.append((yield from made(*kind)))
        plain = taken[half]
        base = plain.tokens / plain.seconds if plain.tokens else 0.0
        for tally in taken:
            key = tally.drafter, tally.k, tally.adaptive
            if not tally.tokens or not base:
                continue
            if tally.k:
                speed = tally.tokens / tally.seconds
                self.ratios.setdefault(key, {}).setdefault(text, []).append(speed / base)
            known = self.tallies.get(key)
            if known is None:
                self.tallies[key] = tally
            else:
                known.rounds += tally.rounds
                for name in ("tokens", "seconds", "draft", "verify"):
                    setattr(known, name, getattr(known, name) + getattr(tally, name))
        report.runs = [tally.run(self.ratios.get(key, {})) for key, tally in self.tallies.items()]

    def _reaches(self, drafter: str, k: int, adaptive: bool) -> bool:
        """Whether K is more than a name: heads propose no more tokens than there are heads."""
        report, _ = self._known()
        return drafter in COPYING or adaptive or report.drafting(drafter, k) is not None

    def _chooser(self, drafter: str) -> AdaptiveK:
        report, _ = self._known()
        c = report.c(drafter, 2)
        usable = [k for k in measure.CHOICES if self._reaches(drafter, k, False)]
        v = {k: value for k in usable if (value := report.v(k)) is not None}
        return AdaptiveK(0.0 if c is None else c, v)

    def _grid(self, context: int, batch: int) -> Part:
        report, _ = self._known()
        size = report.floor(1, context, batch).cache_bytes
        room = MEMORY_SHARE * (available(self.pair.info.target.device) or report.rates.memory)
        where = f"context {context:,}, batch {batch}"
        if context > self.pair.target.context_length:
            if batch == 1:
                report.refused.append(
                    f"context {context:,}: the model takes at most {self.pair.target.context_length:,}"
                )
            return
        if room and size > room:
            report.refused.append(
                f"{where}: its cache takes {size / 2**30:.1f} GiB, more than a quarter of the free memory"
            )
            return
        if context in self.slow:
            return
        rows = (1, self.plan.k + 1)
        target = self.pair.target
        taken = yield from one_by_one(measure.grid_passes(target, context, batch, rows), 2, self.clock)
        report.grid += [Pass(n, context, batch, Spread.of(seconds)) for n, seconds in taken.items()]
        if 2 * max(map(max, taken.values())) > GRID_SECONDS:
            self.slow.add(context)
            report.refused.append(
                f"context {context:,} beyond batch {batch}: a pass would take more than {GRID_SECONDS:.0f} s"
            )


def _name(text: str) -> str:
    """A text's beginning, to name it by."""
    words = " ".join(text.split())
    return words[:40] + "…" if len(words) > 40 else words
