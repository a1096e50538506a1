"""The training loop: one kind of draft, resumable, with β on held-out texts as it goes."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specviz.training.objective import Measured, Objective, collate
from specviz.training.states import Example
from specviz.training.trainees import Trainee

TEXTS_A_STEP = 8  # with 4 a CPU sees a fifth fewer tokens a second
RATE = 1e-3
WARM_UP = 30  # steps
SOME = 24  # held-out texts that measure the curve; all of them measure the result
SAVE_SECONDS = 120.0
AVERAGED = 0.995  # decay of the averaged weights a step: about the last 200 steps count


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to train: until either is used up. `seconds` counts training only, over all sessions."""

    tokens: float = math.inf
    seconds: float = math.inf

    def used(self, tokens: int, seconds: float) -> float:
        """Share of the budget that is used, in 0 … 1."""
        return min(1.0, max(tokens / self.tokens, seconds / self.seconds))


@dataclass
class Progress:
    """Where training stands.

    Attributes:
        step, tokens, seconds: done so far, over all sessions.
        curve: (tokens, β of the first prediction) on some held-out texts.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    curve: list[tuple[int, float]] = field(default_factory=list)


Report = Callable[[Progress, Measured], None]


class Average:
    """The exponential average of a module's weights along the run.

    It forgets one part of one draft's noise in the last steps without a lower learning rate; early on it
    looks back over fewer steps, so that the start does not weigh.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.weights = {name: value.clone() for name, value in module.state_dict().items()}

    @torch.no_grad()
    def add(self, module: torch.nn.Module, step: int) -> None:
        """Take in the weights after `step` steps."""
        decay = min(AVERAGED, (1 + step) / (10 + step))
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                self.weights[name].lerp_(value, 1 - decay)


def fit(
    trainee: Trainee,
    objective: Objective,
    training: Sequence[Example],
    held_out: Sequence[Example],
    budget: Budget,
    checkpoint: Path,
    report: Report,
    *,
    seed: int = 0,
    every: float = 120.0,
) -> Progress:
    """Train until the budget is used, from where the checkpoint left off.

    In the end the draft has its last weights or their average along the run, whichever has the higher β
    on the held-out texts.

    Args:
        trainee, objective: on one device.
        training, held_out: examples of the two halves of the split.
        budget: what the learning rate falls over, to 0 (cosine).
        checkpoint: written every two minutes and at the end; read if it exists.
        report: told the curve every `every` seconds of training, and at the end.
        seed: of the order of the texts.
    """
    optimiser = torch.optim.AdamW(
        trainee.trained.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.01, fused=True
    )
    average = Average(trainee.trained)
    progress = _resume(checkpoint, trainee, optimiser, average)
    curve_texts = held_out[:SOME]
    if not progress.curve:
        _note(progress, objective.measure(trainee, curve_texts), report)
    saved = noted = progress.seconds
    while (used := budget.used(progress.tokens, progress.seconds)) < 1.0:
        began = time.perf_counter()
        for group in optimiser.param_groups:
            group["lr"] = (
                RATE * min(1.0, (progress.step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * used))
            )
        progress.tokens += _step(trainee, objective, optimiser, _pick(training, progress.step, seed))
        progress.step += 1
        average.add(trainee.trained, progress.step)
        progress.seconds += time.perf_counter() - began
        if progress.seconds - noted >= every:
            noted = progress.seconds
            _note(progress, objective.measure(trainee, curve_texts), report)
        if progress.seconds - saved >= SAVE_SECONDS:
            saved = progress.seconds
            _save(checkpoint, trainee, optimiser, average, progress)
    _save(checkpoint, trainee, optimiser, average, progress)
    _note(progress, _keep_the_better(trainee, average, objective, curve_texts), report)
    return progress


def _keep_the_better(
    trainee: Trainee, average: Average, objective: Objective, texts: Sequence[Example]
) -> Measured:
    """Leave the draft with its last weights or the averaged ones; returns how those do."""
    last = {name: value.clone() for name, value in trainee.trained.state_dict().items()}
    as_trained = objective.measure(trainee, texts)
    trainee.trained.load_state_dict(average.weights)
    averaged = objective.measure(trainee, texts)
    if averaged.beta[0] >= as_trained.beta[0]:
        return averaged
    trainee.trained.load_state_dict(last)
    return as_trained


def _step(trainee: Trainee, objective: Objective, optimiser: Any, examples: Sequence[Example]) -> int:
    """One step of the optimiser; returns the tokens seen."""
    device = objective.head.device
    with torch.autocast(device.type, torch.bfloat16, enabled=fast_bfloat16(device)):
        loss = objective.loss(trainee, collate(examples, device))
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trainee.trained.parameters(), 1.0)
    optimiser.step()
    return sum(len(example.text.ids) for example in examples)


def fast_bfloat16(device: torch.device) -> bool:
    """True where bfloat16 products are faster than float32 ones."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    found = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def _pick(examples: Sequence[Example], step: int, seed: int) -> list[Example]:
    """The texts of a step: every pass goes through all of them once, in an order of its own."""
    a_pass = max(1, len(examples) // TEXTS_A_STEP)
    order = np.random.default_rng([seed, step // a_pass]).permutation(len(examples))
    first = step % a_pass * TEXTS_A_STEP
    return [examples[i] for i in order[first : first + TEXTS_A_STEP]]


def _note(progress: Progress, measured: Measured, report: Report) -> None:
    progress.curve.append((progress.tokens, round(measured.beta[0], 4)))
    report(progress, measured)


def _save(path: Path, trainee: Trainee, optimiser: Any, average: Average, progress: Progress) -> None:
    state = {
        "trained": trainee.trained.state_dict(),
        "optimiser": optimiser.state_dict(),
        "average": average.weights,
        "progress": vars(progress),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)  # a crash while writing leaves the one before


def _resume(path: Path, trainee: Trainee, optimiser: Any, average: Average) -> Progress:
    if not path.exists():
        return Progress()
    state = torch.load(path, map_location="cpu", weights_only=True)
    trainee.trained.load_state_dict(state["trained"])
    optimiser.load_state_dict(state["optimiser"])
    average.weights = state.get("average", average.weights)  # older checkpoints have none
    return Progress(**state["progress"])
