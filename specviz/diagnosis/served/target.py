"""A served model as an audit's target: led along a text, it says what the server said of it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np

from specviz.decoding.cache import Cache
from specviz.decoding.controls import SamplingConfig
from specviz.decoding.features import Features
from specviz.decoding.protocols import ModelOutput
from specviz.decoding.trace import ModelInfo
from specviz.diagnosis import logs
from specviz.diagnosis.readings import Reading
from specviz.diagnosis.served.engine import Engine
from specviz.diagnosis.served.rows import Row, chance, overlap

PROBE = "The quick brown fox: 48,213 = 3·16071?\n\tÜber {x} ☃"


class Fed:
    """The tokens that were fed: a cache for a model that keeps none here."""

    def __init__(self) -> None:
        self.layers = [self]
        self.tokens: list[int] = []

    def get_seq_length(self) -> int:
        return len(self.tokens)

    def crop(self, surplus: int) -> None:
        del self.tokens[surplus:]


class ServedTarget:
    """A model behind a server; see `specviz.decoding.protocols.LanguageModel`.

    It knows the texts that it was made to `read`, and no others.

    Args:
        engine: the server.
        width: V.
        available: ids that stand for a token; None for all.
        context_length: most positions that the model can be fed; the server may allow fewer.
        model: has the config and generation config, which say what ends a text.
        listen: take down what the server says of its own speculation.
    """

    tolerance = 0.0

    def __init__(
        self,
        engine: Engine,
        width: int,
        available: np.ndarray | None,
        context_length: int,
        model: Any = None,
        listen: bool = False,
    ) -> None:
        self.engine = engine
        self.model = model
        self.name = engine.model or engine.name
        self.vocab_size = width
        self.available = available
        self.context_length = min(context_length, engine.context_length or context_length)
        self.listen = listen
        self.forward_seconds = 0.0
        self.embedded = width
        self._known = np.ones(width, dtype=bool)
        if available is not None:
            self._known[:] = False
            self._known[available] = True
        self.where = ""  # how far it has been asked about a text, in words
        self._tokens: list[int] = []
        self._first = 0
        self._rows: list[Row] = []

    def info(self) -> ModelInfo:
        return ModelInfo(self.name, 0, self.engine.name, "served", 0, self.vocab_size)

    @property
    def about(self) -> dict[str, Any]:
        """What a folder notes of the server, without its address."""
        return {
            "engine": self.engine.name,
            "model": self.engine.model,
            "leading": min(self.engine.leading or self.vocab_size, self.vocab_size),
            "listened": self.listen,
        }

    def read(self, tokens: Sequence[int], first: int) -> Iterator[None]:
        """Ask for p of the tokens from index `first` on: one step a request.

        Raises:
            Refused: if the server does not take this text.
            ServerError: if it cannot be used.
        """
        began = perf_counter()
        rows: list[Row] = []
        for some in self.engine.rows(tokens, first, self._known):
            rows += some
            self.where = f"asked about {len(rows):,} of {len(tokens) - first:,} positions"
            yield
        self.where = ""
        self._tokens, self._first, self._rows = list(tokens), first, rows
        self.forward_seconds += perf_counter() - began

    def write(
        self, prompt: Sequence[int], sampling: SamplingConfig, room: int, seed: int, ignore_eos: bool
    ) -> tuple[list[int], list[dict[str, Any]]]:
        """An answer of the server's, and what it says of its own speculation meanwhile.

        Raises:
            ValueError: if it writes nothing, or what this vocabulary does not have.
        """
        before = logs.scraped(self.engine.metrics()) if self.listen else None
        answer = self.engine.answer(prompt, sampling, room, seed, ignore_eos)
        readings: list[Reading] = list(answer.readings) if self.listen else []
        if self.listen and not readings and before is not None:
            after = logs.scraped(self.engine.metrics())
            change = None if after is None else logs.between(before, after)
            readings = [] if change is None else [change]
        if not answer.ids:
            raise ValueError("the server wrote nothing")
        strange = next((id for id in answer.ids if id >= self.vocab_size or not self._known[id]), None)
        if strange is not None:
            raise ValueError(
                f"the server wrote the token id {strange}, which is none of the target's tokenizer: does it "
                "serve this model?"
            )
        return answer.ids, [asdict(reading) for reading in readings]

    def new_cache(self) -> Cache:
        return Fed()

    def forward(
        self, tokens: Sequence[int], cache: Cache, rows: int, features: Features = False
    ) -> ModelOutput:
        """Log-probabilities in place of logits: those of tokens that the server does not name are spread
        evenly."""
        if features:
            raise ValueError("a server sends no hidden states: a draft that works on them cannot be audited")
        assert isinstance(cache, Fed)
        cache.tokens += tokens
        end = len(cache.tokens)
        if end - rows < self._first - 1 or cache.tokens != self._tokens[:end] or end >= len(self._tokens):
            raise ValueError("the server was not asked about this text")
        wanted = range(end - rows + 1 - self._first, end + 1 - self._first)
        return ModelOutput(np.stack([self._rows[i].scores(self.vocab_size) for i in wanted]))

    def overlap(self, place: int, q: np.ndarray, sampling: SamplingConfig) -> tuple[float, float]:
        """Between what β lies at a place of the answer."""
        return overlap(self._rows[place], q, sampling)

    def chance(self, place: int, sampling: SamplingConfig) -> tuple[float, float]:
        """Between what p of the text's token lies at a place of the answer."""
        return chance(self._rows[place], self._tokens[self._first + place], sampling)

    def require_usable(self, tokenizer: Any) -> None:
        """Ask about a few tokens before the audit begins, and compare the server's ids with the tokenizer's
        where it says what these are.

        Raises:
            ValueError: if they differ.
            ServerError: if it does not give what an audit needs.
        """
        ours = tokenizer(PROBE, add_special_tokens=False).input_ids
        for _ in self.read(ours[:3], 1):
            pass
        theirs = self.engine.encode(PROBE)
        if theirs is not None and ours != theirs:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), len(ours))
            raise ValueError(
                f"the server cuts text into other tokens than --target does (from token {at + 1} of a probe: "
                f"{theirs[at : at + 4]} there, {ours[at : at + 4]} here): name the model that it serves"
            )
