"""Everything there is to say about one place of a run, as values. Who shows them chooses the looks.

A place is a round and a position: 1 … K are the draft tokens, K + 1 is the token that the round adds
itself. After a rejection that token was drawn from the residual of the rejected row, so its numbers are
those of that row; the target's last row was computed and not used.
"""

from dataclasses import dataclass
from typing import Literal

from specviz.decoding.block import BLOCK
from specviz.decoding.controls import Removed
from specviz.decoding.position import Position
from specviz.decoding.randomness import accepts
from specviz.decoding.record import LEADING
from specviz.decoding.trace import Round, TokenText, Trace

State = Literal["accepted", "rejected", "discarded", "corrected", "bonus"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token of the row's table.

    Attributes:
        token: its id.
        p, q: its probabilities; q is None in the bonus row.
        residual: max(0, p - q) over the residual mass; None without a residual.
        p_rank, q_rank, residual_rank: 1 for the largest; None where the table does not tell.
        target_removed, draft_removed: the control that took its probability, "" if none did.
    """

    token: int
    p: float
    q: float | None
    residual: float | None
    p_rank: int | None
    q_rank: int | None
    residual_rank: int | None
    target_removed: Removed
    draft_removed: Removed

    @property
    def ratio(self) -> float | None:
        """p/q; None where q is 0 or missing."""
        return self.p / self.q if self.q else None

    @property
    def overlap(self) -> float:
        return 0.0 if self.q is None else min(self.p, self.q)


@dataclass(frozen=True, slots=True)
class Others:
    """All tokens that are not shown one by one, added up. Fields as in `Candidate`."""

    count: int
    p: float
    q: float | None
    residual: float | None
    overlap: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """One place of a run.

    Attributes:
        round: the round.
        position: 1 … K + 1, the place that was asked for.
        state: what became of the token at that place.
        token: the token at that place.
        row: the row whose numbers are shown; for a corrected token the rejected row.
        row_position: 1 … K + 1, where that row is.
        added: the corrected or bonus token if it was drawn from this row, else None.
        added_probability: its share of what the exact rule draws it from; None if the rule of this round
            drew from something else and the exact one has nothing to draw.
        ended_at: position of the rejected token; None if all were accepted.
        emitted: True if the token is part of the text. An accepted one may not be: the text is cut at its
            end.
        chosen: True if the draft token was not drawn at random (n-gram, temperature 0).
        candidates: the tokens of the row's table, as sorted there.
        rest: the tokens outside the table.
        rejected_mass: sum of max(0, q - p), equal to the residual mass; None in the bonus row.
        drafter: kind of drafter.
        draft_greedy, target_greedy: temperature 0.
        tokens: the text of the tokens of the trace.
    """

    round: Round
    position: int
    state: State
    token: int
    row: Position
    row_position: int
    added: int | None
    added_probability: float | None
    ended_at: int | None
    emitted: bool
    chosen: bool
    candidates: tuple[Candidate, ...]
    rest: Others
    rejected_mass: float | None
    drafter: str
    draft_greedy: bool
    target_greedy: bool
    tokens: dict[int, TokenText]

    @property
    def exact(self) -> bool:
        """Whether the token rule judged this round, with no mistake in it."""
        return self.round.verifier == "exact"

    @property
    def by_blocks(self) -> bool:
        """Whether block verification judged this round; it is exact too."""
        return self.round.verifier == BLOCK

    @property
    def in_tree(self) -> bool:
        """Whether the round has a tree of candidates, which is judged by a rule of its own."""
        return bool(self.round.tree)

    @property
    def weight_before(self) -> float:
        """r of the beginning of the block before the row whose numbers are shown; 1 under other rules."""
        return _weight_before(self.round, self.row_position - 1)

    @property
    def residual_mass(self) -> float | None:
        """Of what a correction at the row would be drawn from; None in the bonus row."""
        return residual(self.round, self.row_position - 1)[1]

    def keeps(self, u: float) -> bool | None:
        """What the rule says of the row's draft token, or of the beginning that ends with it, if u falls
        there. None without one."""
        row = self.row
        if row.p is None or row.q is None:
            return None
        return accepts(u, row.p, row.q) if row.prefix_passes is None else u < row.prefix_passes

    @property
    def would_accept(self) -> bool | None:
        """What the exact rule says with the recorded u; None without a draft token, or without u."""
        return None if self.row.u is None else self.keeps(self.row.u)

    def candidate(self, token: int | None) -> Candidate | None:
        return next((c for c in self.candidates if c.token == token), None)

    def text(self, token: int) -> TokenText:
        """The token's bytes."""
        return self.tokens[token]


def inspect_position(trace: Trace, number: int, position: int) -> Inspection:
    """The place `position` (1 … K + 1) of round `number` (from 1).

    Raises:
        ValueError: if the trace has no such place.
    """
    if not 1 <= number <= len(trace.rounds):
        raise ValueError(f"the trace has rounds 1 … {len(trace.rounds)}, not {number}")
    round = trace.rounds[number - 1]
    if not 1 <= position <= round.k + 1:
        raise ValueError(f"round {number} has positions 1 … {round.k + 1}, not {position}")
    ended_at = round.accepted + 1 if round.accepted < round.k else None
    last = position == round.k + 1
    row_position = ended_at if last and ended_at is not None else position
    row = round.positions[row_position - 1]
    added = round.token if row_position == round.accepted + 1 else None
    token = round.token if last or row.token is None else row.token
    state = _state(position, round)
    kept = state not in ("rejected", "discarded")
    candidates = _candidates(row, residual(round, row_position - 1))
    return Inspection(
        round=round,
        position=position,
        state=state,
        token=token,
        row=row,
        row_position=row_position,
        added=added,
        added_probability=_added_probability(row, round, candidates) if added is not None else None,
        ended_at=ended_at,
        emitted=kept and min(position, round.accepted + 1) <= len(round.committed),
        chosen=row.q == 1.0 and row.draft_u is None,
        candidates=candidates,
        rest=_rest(row, candidates),
        rejected_mass=_rejected_mass(row),
        drafter=trace.drafter,
        draft_greedy=trace.draft_sampling.greedy,
        target_greedy=trace.sampling.greedy,
        tokens=trace.tokens,
    )


def telling(inspection: Inspection, limit: int = 8) -> tuple[tuple[Candidate, ...], Others]:
    """The candidates that say most, in the order of the table, and all other tokens added up.

    Chosen by the largest of p, q and residual; the drawn tokens are always among them.
    """
    drawn = {inspection.row.token, inspection.added}
    ranked = sorted(
        inspection.candidates,
        key=lambda c: (c.token in drawn, max(c.p, c.q or 0.0, c.residual or 0.0)),
        reverse=True,
    )
    kept = set(ranked[:limit])
    dropped = [c for c in inspection.candidates if c not in kept]
    rest = inspection.rest
    others = Others(
        count=rest.count + len(dropped),
        p=rest.p + sum(c.p for c in dropped),
        q=None if rest.q is None else rest.q + sum(c.q or 0.0 for c in dropped),
        residual=None if rest.residual is None else rest.residual + sum(c.residual or 0.0 for c in dropped),
        overlap=rest.overlap + sum(c.overlap for c in dropped),
    )
    return tuple(c for c in inspection.candidates if c in kept), others


def _state(position: int, round: Round) -> State:
    if position == round.k + 1:
        return round.outcome
    state = round.positions[position - 1].state
    assert state in ("accepted", "rejected", "discarded")
    return state


def _added_probability(row: Position, round: Round, candidates: tuple[Candidate, ...]) -> float | None:
    if round.share is not None:
        return round.share
    candidate = next(c for c in candidates if c.token == round.token)
    from_p = round.outcome == "bonus" or round.residual_empty
    return candidate.p if from_p else candidate.residual


def _weight_before(round: Round, row: int) -> float:
    weight = round.positions[row - 1].prefix_weight if row else None
    return 1.0 if weight is None else weight


def residual(round: Round, row: int) -> tuple[float, float | None]:
    """r and the mass of max(0, r·p − q) at a row (from 0): 1 and the residual mass under the token rule.

    Behind a beginning with r < 1 the mass follows from h = Z / (Z + 1 − r).
    """
    weight = _weight_before(round, row)
    if weight == 1.0 or row == round.k:
        return weight, round.positions[row].residual_mass
    passes = round.positions[row - 1].prefix_passes
    assert passes is not None
    return weight, passes * (1.0 - weight) / (1.0 - passes) if passes < 1.0 else None


def _candidates(row: Position, scaled: tuple[float, float | None]) -> tuple[Candidate, ...]:
    table = row.table
    drafted = row.token is not None
    weight, mass = scaled
    excess = [max(0.0, weight * p - q) for p, q in zip(table.p, table.q, strict=True)]
    p_ranks, q_ranks, ranks = _ranks(table.p), _ranks(table.q), _ranks(excess)
    result = []
    for i, token in enumerate(table.ids):
        judged = token == row.token
        result.append(
            Candidate(
                token=token,
                p=table.p[i],
                q=table.q[i] if drafted else None,
                residual=min(1.0, excess[i] / mass) if mass else None,
                p_rank=row.p_rank if judged else p_ranks[i],
                q_rank=row.q_rank if judged else q_ranks[i] if drafted else None,
                residual_rank=ranks[i] if mass else None,
                target_removed=table.target_removed[i],
                draft_removed=table.draft_removed[i],
            )
        )
    return tuple(result)


def _ranks(values: "tuple[float, ...] | list[float]") -> list[int | None]:
    """Ranks among the whole vocabulary, as far as a table that holds the leading tokens can tell."""
    ranks = [1 + sum(other > value for other in values) for value in values]
    return [r if r <= LEADING and v > 0.0 else None for r, v in zip(ranks, values, strict=True)]


def _rest(row: Position, candidates: tuple[Candidate, ...]) -> Others:
    rest = row.rest
    known = [c.residual for c in candidates if c.residual is not None]
    drafted = row.token is not None
    return Others(
        count=rest.count,
        p=rest.p_over + rest.p_under,
        q=rest.q_over + rest.q_under if drafted else None,
        residual=max(0.0, 1.0 - sum(known)) if known else None,
        overlap=rest.q_over + rest.p_under if drafted else 0.0,
    )


def _rejected_mass(row: Position) -> float | None:
    if row.token is None:
        return None
    listed = sum(max(0.0, q - p) for p, q in zip(row.table.p, row.table.q, strict=True))
    return listed + max(0.0, row.rest.q_under - row.rest.p_under)
