"""What training minimises and what is measured: β over a trimmed vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from specviz.models.causal import Head
from specviz.training.states import Example
from specviz.training.trainees import Batch, Trainee

BETA_WEIGHT = 2.0
EVALUATED_AT_ONCE = 8  # texts


@dataclass(frozen=True, slots=True)
class Measured:
    """How well a draft does at T = 1, a number for each of its predictions (heads, or steps ahead).

    Attributes:
        beta: mean Σ min(p, q) over the positions where the target wrote the next token.
        agreement: share of those positions where the two greedy tokens are the same.
        tokens: positions of the first prediction.
        outside: mean of p's mass on tokens that the draft cannot propose.
    """

    beta: tuple[float, ...]
    agreement: tuple[float, ...]
    tokens: int
    outside: float


class Objective:
    """Judges predictions over a trimmed vocabulary.

    Args:
        head: a `causal.Head`: what the target puts behind its last hidden state.
        ids: sorted ids of the trimmed vocabulary.
    """

    def __init__(self, head: Head, ids: torch.Tensor) -> None:
        self.ids = ids.to(head.device)
        self.head = head.trimmed(self.ids, torch.float32)

    def loss(self, trainee: Trainee, batch: Batch) -> torch.Tensor:
        """KL(p‖q) + 2·(1−β) up to a constant, and for features their distance; mean over the
        predictions."""
        total = torch.zeros((), device=batch.ids.device)
        count = 0
        with torch.no_grad():
            probs = self._probs(batch)
        for predicted, lead in trainee.predict(batch):
            states, rows = _aligned(predicted, lead, batch)
            p = probs[batch.written_rows[rows]] if lead else probs
            z = self.head(states)
            total = total + Divergence.apply(z, p).mean()
            if trainee.feature_weight:
                far = nn.functional.smooth_l1_loss(states.float(), batch.states.flatten(0, 1)[rows].float())
                total = total + trainee.feature_weight * far
            count += 1
        return total / count

    @torch.inference_mode()
    def measure(self, trainee: Trainee, examples: Sequence[Example]) -> Measured:
        """Means over all written positions of the examples."""
        sums: dict[int, torch.Tensor] = {}
        outside = torch.zeros((), device=self.head.device)
        for first in range(0, len(examples), EVALUATED_AT_ONCE):
            batch = collate(examples[first : first + EVALUATED_AT_ONCE], self.head.device)
            probs = self._probs(batch)
            for number, (predicted, lead) in enumerate(trainee.predict(batch)):
                states, rows = _aligned(predicted, lead, batch)
                p = probs[batch.written_rows[rows]]
                z = self.head(states.float())
                beta = torch.minimum(p, z.softmax(-1)).sum()
                same = (self.ids[z.argmax(-1)] == batch.top.flatten()[rows]).sum()
                sums[number] = sums.get(number, 0) + torch.stack(
                    [beta, same, torch.tensor(len(rows)).to(beta)]
                )
                if number == 0:
                    outside += (1.0 - p.sum(-1)).clamp(min=0.0).sum()
        return Measured(
            tuple(float(s[0] / s[2]) for s in sums.values()),
            tuple(float(s[1] / s[2]) for s in sums.values()),
            int(sums[0][2]),
            float(outside / sums[0][2]),
        )

    def _probs(self, batch: Batch) -> torch.Tensor:
        """p over the trimmed vocabulary at the written positions; its mass elsewhere is missing."""
        logits = self.head(batch.states[batch.written])
        return torch.exp(logits.float() - batch.log_z[batch.written][:, None])


class Divergence(torch.autograd.Function):
    """KL(p‖q) + 2·(1−β) of each row, up to a constant, for q = softmax(z).

    The gradient is written out because the rows are wide and memory is what limits this step: with
    m = 1 where q < p, s = Σ m·q and P = Σ p it is q·(P + 2s) − p − 2·m·q.

    Args:
        z: (rows, n) logits.
        p: (rows, n) float32 or better, constant; may sum to less than 1.
    """

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        ctx.dtype = z.dtype
        z = z.to(p.dtype)
        log_z = z.logsumexp(-1, keepdim=True)
        mass = p.sum(-1, keepdim=True)
        cross = mass * log_z - torch.linalg.vecdot(p, z)[:, None]
        q = (z - log_z).exp_()
        overlap = torch.minimum(p, q).sum(-1, keepdim=True)
        inside = q * (q < p)
        grad = q.mul_(mass + BETA_WEIGHT * inside.sum(-1, keepdim=True))
        ctx.save_for_backward(grad.sub_(p).sub_(inside, alpha=BETA_WEIGHT))
        return (cross - BETA_WEIGHT * overlap)[:, 0]

    @staticmethod
    def backward(ctx: Any, above: torch.Tensor) -> tuple[torch.Tensor, None]:
        (grad,) = ctx.saved_tensors
        return (grad * above[:, None]).to(ctx.dtype), None


def _aligned(predicted: torch.Tensor, lead: int, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Predictions (rows, width) at the written positions that have a target `lead` further, and where
    that is in the flattened batch."""
    length = batch.ids.shape[1]
    both = batch.written[:, : length - lead] & batch.written[:, lead:]
    rows = torch.arange(batch.ids.numel(), device=both.device).view_as(batch.ids)[:, lead:][both]
    return predicted[:, : length - lead][both], rows


def collate(examples: Sequence[Example], device: torch.device) -> Batch:
    """Examples as one padded batch on a device."""
    length = max(len(example.text.ids) for example in examples)
    shape = (len(examples), length)
    ids = torch.zeros(shape, dtype=torch.long)
    states = torch.zeros((*shape, examples[0].states.shape[1]))
    log_z = torch.zeros(shape)
    top = torch.zeros(shape, dtype=torch.long)
    written = torch.zeros(shape, dtype=torch.bool)
    for row, example in enumerate(examples):
        n = len(example.text.ids)
        ids[row, :n] = torch.tensor(example.text.ids)
        states[row, :n] = torch.from_numpy(example.states.astype("float32"))
        log_z[row, :n] = torch.from_numpy(example.log_z.copy())
        top[row, :n] = torch.from_numpy(example.top.astype("int64"))
        written[row, example.text.k - 1 : n - 1] = True
    return Batch(*(tensor.to(device) for tensor in (ids, states, log_z, top, written)))
