"""Draws and the two exact rules on a device; see `randomness`, `verify` and `block` for what they are.

Every row is judged at once, and the first refusal picked out of the results: nothing waits for a decision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specviz.decoding.block import verify_whole_block
from specviz.decoding.device.transfer import ids_on, upload
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.verify import Verifier, verify_block


class Uniforms:
    """The uniforms of a round, taken to the device before it begins.

    Args:
        here: where they come from; it stays what the trace reads them from.
        k: draft rows.
        reads: True if drafted tokens have to be known on the host, one by one.
    """

    def __init__(self, here: RoundRandomness, k: int, device: torch.device, reads: bool = False) -> None:
        self.draft_u, self.accept_u, self.correct_u = here.draft_u, here.accept_u, here.correct_u
        values = [*(here.draft_u(i) for i in range(k)), *(here.accept_u(i) for i in range(k))]
        self._there = upload([*values, here.correct_u()], device)
        self._k = k
        self._reads = reads

    @torch.inference_mode()
    def draft(self, row: int, weights: torch.Tensor) -> Any:
        """A token drawn from weights (V,): a tensor (1,), or a number if it has to be known."""
        token = draw(weights, self._there[row : row + 1])
        return int(token.cpu()) if self._reads else token

    def accepts(self, rows: int) -> torch.Tensor:
        """(rows,) what the acceptance probabilities are compared with."""
        return self._there[self._k : self._k + rows]

    @property
    def corrects(self) -> torch.Tensor:
        """(1,) what draws the corrected or bonus token."""
        return self._there[-1:]


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict on the device.

    Attributes:
        kept, token: (1,) int64 draft tokens kept; the corrected or bonus token.
        empty: (1,) bool, rounding left no residual mass.
        mass: (1,) sum of the weights that the token was drawn from.
        weights, passes: (K,) r and h of the beginnings of the block; None under the token rule.
    """

    kept: torch.Tensor
    token: torch.Tensor
    empty: torch.Tensor
    mass: torch.Tensor
    weights: torch.Tensor | None = None
    passes: torch.Tensor | None = None


@torch.inference_mode()
def draw(weights: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The token (1,) at u (1,) on the cumulative weights (V,), from the heaviest to the lightest.

    Sums of torch may differ from NumPy's in their last bits, so that a u within about 1e-15 of a border can
    draw its neighbour; the distribution is the same.
    """
    falling, ids = weights.sort(descending=True, stable=True)
    place = torch.searchsorted(falling.cumsum(0), u * weights.sum(), right=True)
    last = torch.count_nonzero(weights)[None] - 1  # rounding may leave the last sum at or below the goal
    return ids.gather(0, torch.minimum(place, last).clamp(min=0))


@torch.inference_mode()
def verify_tokens(p: torch.Tensor, q: torch.Tensor, tokens: Sequence[Any], randomness: Uniforms) -> Judged:
    """`verify.verify_block`: p (K + 1, V), q (K, V), K tokens."""
    k = len(tokens)
    p_drawn, q_drawn = _of(p, q, tokens)
    passing = (randomness.accepts(k) * q_drawn < p_drawn).long()
    kept = passing.cumprod(0).sum()[None]
    return _ended(p, q, kept, torch.ones_like(p[:1, 0]), randomness)


@torch.inference_mode()
def verify_beginnings(
    p: torch.Tensor, q: torch.Tensor, tokens: Sequence[Any], randomness: Uniforms
) -> Judged:
    """`block.verify_whole_block`, with the same arguments."""
    k = len(tokens)
    p_drawn, q_drawn = _of(p, q, tokens)
    one = torch.ones_like(p[:1, 0])
    weights, passes = [one], []
    for row in range(k):
        weights.append(torch.minimum(one, weights[-1] * p_drawn[row] / q_drawn[row]))
        if row == k - 1:
            passes.append(weights[-1])
            continue
        left = (weights[-1] * p[row + 1] - q[row + 1]).clamp(min=0.0).sum()
        passes.append(torch.where(left > 0.0, left / (left + one - weights[-1]), 0.0))
    if not passes:
        return _ended(p, q, torch.zeros_like(one, dtype=torch.long), one, randomness, one[:0], one[:0])
    r, h = torch.cat(weights), torch.cat(passes)
    places = torch.arange(1, k + 1, device=p.device)
    kept = torch.where(randomness.accepts(k) < h, places, 0).amax(0, keepdim=True)
    return _ended(p, q, kept, r.gather(0, kept), randomness, r[1:], h)


def _of(p: torch.Tensor, q: torch.Tensor, tokens: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """p and q (K,) of the draft tokens."""
    if not tokens:
        return p[:0, 0], p[:0, 0]
    ids = ids_on(tokens, p.device)[:, None]
    return p[: len(tokens)].gather(1, ids)[:, 0], q.gather(1, ids)[:, 0]


def _ended(
    p: torch.Tensor,
    q: torch.Tensor,
    kept: torch.Tensor,
    weight: torch.Tensor,
    randomness: Uniforms,
    weights: torch.Tensor | None = None,
    passes: torch.Tensor | None = None,
) -> Judged:
    """Behind `kept` tokens: a draw from max(0, weight·p − q), or from p behind a whole block."""
    k = len(q)
    law = p.index_select(0, kept)[0]
    drawn_from, empty = law, torch.zeros_like(kept, dtype=torch.bool)
    if k:
        left = (weight * law - q.index_select(0, kept.clamp(max=k - 1))[0]).clamp(min=0.0)
        empty = ~left.any()[None] & (kept < k)
        drawn_from = torch.where(empty | (kept == k), law, left)
    token = draw(drawn_from, randomness.corrects)
    return Judged(kept, token, empty, drawn_from.sum()[None], weights, passes)


# By the host's rule.
RULES: dict[Verifier, Callable[..., Judged]] = {
    verify_block: verify_tokens,
    verify_whole_block: verify_beginnings,
}
