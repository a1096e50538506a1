"""One row of a round as a trace keeps it; see `trace`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from specviz.decoding.controls import Removed
from specviz.decoding.ranges import Count, Mass, Nats, TokenId, Tokens, Unit

State = Literal["accepted", "rejected", "discarded", "bonus", "unused"]


@dataclass(frozen=True, slots=True)
class Table:
    """The tokens worth drawing at one position, as columns of equal length.

    It is the union of the leading tokens by p, by q and by residual with the tokens drawn, sorted by
    falling p, then falling q, then id. The residual of a row is max(0, p - q).

    Attributes:
        ids: token ids.
        p, q: effective probabilities of target and draft (q is 0 throughout the bonus row).
        target_logits, draft_logits: raw logits before any control; None where the model has none.
        target_removed, draft_removed: the control that took the token's probability, "" if none did.
    """

    ids: Tokens
    p: tuple[Mass, ...]
    q: tuple[Mass, ...]
    target_logits: tuple[float | None, ...]
    draft_logits: tuple[float | None, ...]
    target_removed: tuple[Removed, ...]
    draft_removed: tuple[Removed, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """The mass of the tokens outside the table, split by the sign of p - q.

    The split keeps the residual of the rest exact: it is ``p_over - q_over``.

    Attributes:
        count: number of tokens outside the table.
        p_over, q_over: mass of p and of q on those with p > q.
        p_under, q_under: mass of p and of q on those with p <= q.
    """

    count: Count
    p_over: Mass
    q_over: Mass
    p_under: Mass
    q_under: Mass


@dataclass(frozen=True, slots=True)
class Position:
    """One row of a round: a draft token and its judgement, or the bonus row that has no draft token.

    Attributes:
        state: what became of the row. "unused" is a bonus row behind a rejection.
        token: the draft token; None in the bonus row.
        p, q: probability of that token under target and draft; None in the bonus row.
        u: the uniform of the accept stream, drawn for every row, used or not; None if not recorded.
        draft_u: the uniform that drew the token from q; None for a deterministic drafter.
        p_rank, q_rank: 1 + number of tokens with a larger probability; None in the bonus row.
        beta: sum of min(p, q), the probability that a token drawn from q is accepted here.
        residual_mass: sum of max(0, p - q), equal to 1 - beta up to rounding.
        kl: KL(p || q) in nats; None where it is infinite (p has mass where q has none).
        p_entropy, q_entropy: Shannon entropies in nats.
        p_root_sum, p_sesqui_sum: sums of p^(1/2) and of p^(3/2) over the vocabulary. They normalise p
            flattened to temperature 2 and sharpened to temperature 2/3, against which a run is tested.
        target_logsumexp, draft_logsumexp: log of the sum of exp of the logits that the probabilities
            were normalised with, after all controls; None at temperature 0 or without logits.
        table, rest: the tokens worth drawing, and the mass of all others.
        prefix_weight, prefix_passes: r and h of the beginning of the block that ends with this draft token,
            which block verification judges; None under other rules, and in the bonus row.
    """

    state: State
    token: TokenId | None
    p: Mass | None
    q: Mass | None
    u: Unit | None
    draft_u: Unit | None
    p_rank: Count | None
    q_rank: Count | None
    beta: Mass | None
    residual_mass: Mass | None
    kl: Nats | None
    p_entropy: Nats
    q_entropy: Nats | None
    p_root_sum: Annotated[float, Meta(gt=0.0, le=1e4)]
    p_sesqui_sum: Mass
    target_logsumexp: float | None
    draft_logsumexp: float | None
    table: Table
    rest: Rest
    prefix_weight: Mass | None = None
    prefix_passes: Mass | None = None

    @property
    def tv(self) -> float | None:
        """Total variation distance between p and q, 1 - beta."""
        return None if self.beta is None else 1.0 - self.beta

    @property
    def accept_probability(self) -> float | None:
        """min(1, p/q) of the draft token; None in the bonus row."""
        return None if self.p is None or self.q is None else min(1.0, self.p / self.q)

    @property
    def threshold(self) -> float | None:
        """What u is compared with: min(1, p/q), or h under block verification; None in the bonus row."""
        return self.accept_probability if self.prefix_passes is None else self.prefix_passes
