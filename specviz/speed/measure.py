"""Measuring: passes of the target, draft blocks, and whole runs, each by the clock that fits the device."""

import copy
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from specviz.decoding import cache as caches
from specviz.decoding.drafters import DRAFTERS, DraftUnavailable, make_drafter
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.reading.metrics import metrics
from specviz.speed import adaptive
from specviz.speed.adaptive import AdaptiveK
from specviz.speed.clock import Spread, in_turns
from specviz.speed.report import Run

Clock = Callable[[], float]
CHOICES = (1, 2, 3, 4, 6, 8)  # of an adaptive K


class TimedModel:
    """A target whose passes are timed by a clock of ours; in everything else the model itself."""

    def __init__(self, model: Any, clock: Clock) -> None:
        self._model, self._clock = model, clock
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        began = self._clock()
        try:
            return self._model.forward(*args, **kwargs)
        finally:
            self.seconds += self._clock() - began


class TimedDrafter:
    """A drafter whose blocks are timed."""

    def __init__(self, drafter: Any, clock: Clock) -> None:
        self._drafter, self._clock = drafter, clock
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def propose(self, *args: Any, **kwargs: Any) -> Any:
        began = self._clock()
        try:
            return self._drafter.propose(*args, **kwargs)
        finally:
            self.seconds += self._clock() - began


@dataclass(slots=True)
class Tally:
    """What some runs of one drafter and K took and brought."""

    drafter: str
    k: int
    adaptive: bool
    rounds: list[Any]
    tokens: int = 0
    seconds: float = 0.0
    draft: float = 0.0
    verify: float = 0.0

    def run(self, ratios: Mapping[int, Sequence[float]]) -> Run:
        """Args:
        ratios: speeds over plain decoding, by the number of the text.
        """
        figures, blocks = metrics(self.rounds), Counter(round.k for round in self.rounds)
        every = [ratio for values in ratios.values() for ratio in values]
        return Run(
            drafter=self.drafter,
            k=self.k,
            adaptive=self.adaptive,
            ratio=Spread.of(every) if every else None,
            by_text=tuple(median(ratios[text]) for text in sorted(ratios)),
            tokens=self.tokens,
            seconds=self.seconds,
            rounds=len(self.rounds),
            blocks=tuple(blocks[k] for k in range(max(blocks, default=0) + 1)),
            drafted=figures.drafted,
            accepted=figures.accepted,
            rates=figures.per_position,
            alpha=figures.alpha,
            draft=self.draft,
            verify=self.verify,
            rest=self.seconds - self.draft - self.verify,
        )


def decode(
    pair: Any,
    prompt: str,
    drafter: str,
    k: int,
    temperature: float,
    seed: int,
    tokens: int,
    clock: Clock,
    chooser: AdaptiveK | None = None,
) -> Generator[None, None, Tally]:
    """One run, timed, a round at a time.

    The first round is left out: it is the prefill that every kind of decoding shares.

    Args:
        chooser: chooses K before each round, at most `k`.
    """
    timed = copy.copy(pair)
    timed.target = TimedModel(pair.target, clock)
    sampling = SamplingConfig(temperature=temperature)
    # Plain decoding needs no draft: looking up is the drafter that costs nothing.
    made = TimedDrafter(make_drafter(drafter if k else "ngram", pair, sampling), clock)
    run = DecodingRun(timed, prompt, drafter=made, k=k, sampling=sampling, max_new_tokens=tokens, seed=seed)
    run.step()
    yield
    timed.target.seconds = made.seconds = spent = 0.0
    first = run.emitted
    rounds = iter(run) if chooser is None else adaptive.decode(run, chooser)
    while True:
        began = clock()
        if next(rounds, None) is None:
            break
        spent += clock() - began
        yield
    return Tally(
        drafter,
        k,
        chooser is not None,
        run.rounds[1:],
        run.emitted - first,
        spent,
        made.seconds,
        timed.target.seconds,
    )


def available(pair: Any) -> list[str]:
    """The kinds of drafter that this pair has."""
    found = []
    for kind in DRAFTERS:
        try:
            make_drafter(kind, pair, SamplingConfig())
            found.append(kind)
        except (DraftUnavailable, ValueError):
            continue
    return found


class Bench:
    """A prompt that is cached, behind which passes and blocks are made and taken back.

    Args:
        pair, prompt: what to measure on.
        temperature: of the drafts.
    """

    def __init__(self, pair: Any, prompt: str | Sequence[int], temperature: float) -> None:
        self.pair, self.temperature, self.prompt = pair, temperature, prompt
        self.ids = pair.encode(prompt, False) if isinstance(prompt, str) else list(prompt)
        self.cache = pair.target.new_cache()
        pair.target.forward(self.ids, self.cache, 1)
        self.runs: dict[str, DecodingRun] = {}

    def rows(self, n: int) -> Callable[[], None]:
        """A target pass over n rows."""
        fed = [self.ids[i % len(self.ids)] for i in range(n)]

        def run() -> None:
            try:
                self.pair.target.forward(fed, self.cache, n)
            finally:
                caches.keep(self.cache, len(self.ids))

        return run

    def prefill(self, n: int) -> Callable[[], None]:
        fed = [self.ids[i % len(self.ids)] for i in range(n)]
        return lambda: self.pair.target.forward(fed, self.pair.target.new_cache(), 1)

    def block(self, drafter: str, k: int) -> Callable[[], int]:
        """A draft block of at most k; returns how many tokens it drafted."""
        if drafter not in self.runs:
            run = DecodingRun(
                self.pair,
                self.prompt,
                drafter=drafter,
                k=2,
                sampling=SamplingConfig(temperature=self.temperature),
                max_new_tokens=64,
            )
            for _ in range(3):  # features are known, and the draft has read the prompt
                if run.finish is None:
                    run.step()
            self.runs[drafter] = run
        run = self.runs[drafter]

        def propose() -> int:
            draws = run.randomness.round(len(run.rounds) + 1)
            proposal = run.drafter.propose(run.tokens, k, draws)
            run.drafter.observe(run.tokens, None)
            return len(proposal.tokens)

        return propose


def chooser(
    pair: Any, prompt: str | Sequence[int], drafter: str, temperature: float, clock: Clock
) -> AdaptiveK:
    """An adaptive K with c and v as they are measured here, in about a second."""
    bench = Bench(pair, prompt, temperature)
    rows = in_turns({k: bench.rows(k + 1) for k in (0, *CHOICES)}, 5, clock)
    block = bench.block(drafter, 2)
    drafted = max(1, block())
    (seconds,) = in_turns({0: block}, 5, clock).values()
    one = median(rows[0])
    return AdaptiveK(median(seconds) / drafted / one, {k: median(rows[k]) / one for k in CHOICES})


def grid_passes(target: Any, context: int, batch: int, rows: Sequence[int]) -> dict[int, Callable[[], None]]:
    """Passes over so many random tokens of `batch` sequences, all behind one cache of random numbers.

    Random rows are honest here: what they cost does not depend on what they say.
    """
    import torch

    config = target.model.config.get_text_config()
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    cache = target.new_cache()
    dtype = target.model.dtype
    for layer in range(config.num_hidden_layers if context else 0):
        shape = (batch, kv_heads, context, width)
        keys, values = (torch.randn(shape, device=target.device, dtype=dtype) for _ in range(2))
        cache.update(keys, values, layer)

    def run(count: int) -> None:
        fed = torch.randint(target.width, (batch, count), device=target.device)
        try:
            with torch.inference_mode():
                logits, _ = target._pass(fed, cache, count, False)
                logits[0, 0, 0].item()  # waits for a GPU
        finally:
            if context:
                caches.keep(cache, context)
            else:
                cache.layers.clear()

    return {count: partial(run, count) for count in rows}
