"""`bench host`: what a round costs beside its passes, for two sizes of vocabulary and several controls.

The models are rows of logits made beforehand: their passes cost nothing, and all that is left is effective
distributions, draws, verification and record.
"""

import argparse
from collections.abc import Sequence
from statistics import median
from time import thread_time
from typing import Any

import numpy as np

from specviz.decoding.features import Features
from specviz.decoding.protocols import ModelOutput
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import ModelInfo, PairInfo, TokenText

VOCABULARIES = (49_152, 151_936)
K = 4
ROUNDS = 15
CONTROLS = {
    "greedy": SamplingConfig(0.0),
    "plain (T = 1)": SamplingConfig(),
    "T = 0.7": SamplingConfig(0.7),
    "top-k 50": SamplingConfig(0.7, top_k=50),
    "top-p 0.9": SamplingConfig(0.7, top_p=0.9),
    "min-p 0.05": SamplingConfig(0.7, min_p=0.05),
    "top-k 50, top-p 0.9": SamplingConfig(0.7, top_k=50, top_p=0.9),
    "penalty 1.1": SamplingConfig(0.7, repetition_penalty=1.1),
}


def measure(args: argparse.Namespace) -> dict[str, str]:
    """Median milliseconds of this thread a round, by vocabulary and controls."""
    return {
        f"V = {size:,}, {name}": f"{1e3 * median(seconds(size, sampling)):.1f} ms"
        for size in VOCABULARIES
        for name, sampling in CONTROLS.items()
    }


def seconds(vocab_size: int, sampling: SamplingConfig, rounds: int = ROUNDS, **more: Any) -> list[float]:
    """CPU time of each of some rounds.

    Args:
        vocab_size: V.
        sampling: the controls of both models.
        rounds: how many, after two to warm up.
        more: arguments of `DecodingRun`.
    """
    pair = Rows(vocab_size)
    run = DecodingRun(pair, (1, 2, 3), k=K, sampling=sampling, max_new_tokens=10_000, **more)
    taken = []
    for _ in range(rounds + 2):
        began = thread_time()
        run.step()
        taken.append(thread_time() - began)
    return taken[2:]


class _Layer:
    def __init__(self) -> None:
        self.length = 0

    def get_seq_length(self) -> int:
        return self.length

    def crop(self, tokens: int) -> None:
        self.length += tokens


class _Cache:
    def __init__(self) -> None:
        self.layers = [_Layer()]


class Model:
    """Logits that depend on nothing but the place in the text.

    Args:
        logits: (n, V) float32; the row behind n tokens is row n modulo their number.
    """

    context_length = 1 << 20
    available: np.ndarray | None = None
    tolerance = 0.0
    forward_seconds = 0.0

    def __init__(self, name: str, logits: np.ndarray) -> None:
        self.name = name
        self.logits = logits

    def new_cache(self) -> Any:
        return _Cache()

    def forward(
        self, tokens: Sequence[int], cache: Any, rows: int, features: Features = False
    ) -> ModelOutput:
        end = cache.layers[0].length = cache.layers[0].length + len(tokens)
        return ModelOutput(self.logits[np.arange(end - rows, end) % len(self.logits)])

    def info(self) -> ModelInfo:
        return ModelInfo(self.name, 0, "cpu", "float32", 1, self.logits.shape[1])


class Rows:
    """A pair of such models: language-like rows, about half of the draft's tokens accepted at T = 1."""

    eos_ids: frozenset[int] = frozenset()
    special_ids: frozenset[int] = frozenset()
    medusa = eagle = mtp = None

    def __init__(self, vocab_size: int) -> None:
        random = np.random.default_rng(0)
        target = random.normal(0.0, 3.0, (7, vocab_size)).astype(np.float32)
        draft = target + random.normal(0.0, 1.0, target.shape).astype(np.float32)
        self.target = Model("rows", target)
        self.draft = Model("rows", draft)
        self.vocab_size = vocab_size
        self.info = PairInfo("rows", self.target.info(), self.draft.info(), vocab_size, vocab_size)

    def encode(self, prompt: str, chat: bool, **conversation: Any) -> list[int]:
        raise NotImplementedError

    def early_exit(self, layers: int | None) -> Any:
        raise NotImplementedError

    def token_text(self, token: int) -> TokenText:
        return TokenText(str(token).encode(), False)
