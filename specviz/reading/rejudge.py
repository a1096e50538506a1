"""Judge a recorded round again, with other uniforms or by another rule. No model is needed.

The verifier is the engine's own function. It sees reduced rows: a column for every token of the row's
table, and two for the rest, the tokens with p > q and the others, which keep the residual mass exact.
Rows do not share columns, so a verifier must judge each row by that row's numbers alone, and combine
tokens only in ways that sums respect; one that looks at the next row, or passes the residual through a
softmax, cannot be re-judged from a trace.

Draws walk the weights from the heaviest token to the lightest, and a table surely holds the first
`LEADING` tokens by p, by q and by residual. A draw that falls among those is therefore known. One that
falls behind them is a token that the trace does not tell apart, unless it is the recorded one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from specviz.decoding.block import BLOCK, verify_whole_block
from specviz.decoding.position import Position, State
from specviz.decoding.randomness import accepts
from specviz.decoding.record import LEADING, state_of
from specviz.decoding.trace import Outcome, Round, Trace
from specviz.decoding.verify import Verdict, Verifier, residual, verifier_name, verify_block
from specviz.reading.reduced import LUMPS, reduced

Law = Literal["residual", "p", "q"]


class NotRecorded(ValueError):
    """The trace lacks a uniform that a judgement needs."""


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The judgement of one recorded round.

    Attributes:
        number: the round.
        accepted: draft tokens kept, 0 … K.
        outcome: "corrected" or "bonus".
        token: the corrected or bonus token; None if the draw fell behind the leading tokens, or its
            uniform was not recorded and the trace's own token does not follow.
        law: what it was drawn from; None for weights that are none of the row's p, q and residual.
        probability: of `token` under it; for None, of all the tokens that it could be together.
            None if it is unknown what that is.
        states: what became of each of the K + 1 rows.
        residual_empty: the verifier found no residual mass and drew from p.
        recorded: True if verdict and token are those of the trace.
    """

    number: int
    accepted: int
    outcome: Outcome
    token: int | None
    law: Law | None
    probability: float | None
    states: tuple[State, ...]
    residual_empty: bool
    recorded: bool


@dataclass(frozen=True, slots=True)
class TraceRejudged:
    """Every round of a trace under one rule, each from the prefix that it really had.

    Attributes:
        verifier: name of the rule.
        rounds: the judgements.
        first_difference: number of the first round that ends differently, None if none does. Under this
            rule the text would have gone on differently from there. The rounds behind it are
            counterfactual: they say how the rule judges these blocks, not what it would have written.
    """

    verifier: str
    rounds: tuple[Rejudged, ...]
    first_difference: int | None

    @property
    def accepted(self) -> int:
        return sum(r.accepted for r in self.rounds)


def rejudge(
    round: Round,
    verifier: Verifier | None = None,
    accept_us: Mapping[int, float] | None = None,
    correct_u: float | None = None,
) -> Rejudged:
    """Judge one round.

    Args:
        round: a recorded round.
        verifier: the rule; see the module's notes for what it may look at. None for the exact rule that the
            round was judged by: block verification, or the token rule.
        accept_us: uniforms in [0, 1) that replace the recorded ones of these rows (from 0).
        correct_u: replaces the uniform that drew the corrected or bonus token.

    Raises:
        NotRecorded: if the trace lacks a uniform, or the round has a tree.
        VerifyError: if the verifier refuses the numbers.
    """
    if round.tree:
        raise NotRecorded("what each refusal in a tree leaves is not kept in the trace")
    if verifier is None:
        verifier = verify_whole_block if round.verifier == BLOCK else verify_block
    if verifier is verify_whole_block:
        return _whole_block(round, accept_us or {}, correct_u)
    block = _Block(round)
    draws = RecordedRound(block, accept_us or {}, correct_u)
    verdict = block.judge(verifier, draws)
    token, probability = block.ids[verdict.token], draws.probability
    if correct_u is None and _drew_recorded_token(block, verifier, draws):
        token, probability = round.token, draws.share(round.token)
    return Rejudged(
        number=round.number,
        accepted=verdict.accepted,
        outcome=verdict.outcome,
        token=token,
        law=draws.law,
        probability=probability,
        states=tuple(state_of(row, round.k, verdict.accepted) for row in range(round.k + 1)),
        residual_empty=verdict.residual_empty,
        recorded=verdict.accepted == round.accepted and token == round.token,
    )


def _whole_block(round: Round, accept_us: Mapping[int, float], correct_u: float | None) -> Rejudged:
    """Block verification with other uniforms. What they are compared with does not depend on them, and is in
    the trace. The residual behind another beginning is not: its token is known only where nothing changes.

    Raises:
        NotRecorded: for a round that another rule judged, or without uniforms.
    """
    kept = 0
    for row, position in enumerate(round.positions[: round.k]):
        if position.prefix_passes is None:
            raise NotRecorded("what block verification compares with was not recorded: another rule judged")
        u = _given(accept_us.get(row, position.u), f"accept uniform of position {row + 1}")
        kept = row + 1 if u < position.prefix_passes else kept
    same = kept == round.accepted and correct_u is None
    return Rejudged(
        number=round.number,
        accepted=kept,
        outcome="bonus" if kept == round.k else "corrected",
        token=round.token if same else None,
        law=None,
        probability=None,
        states=tuple(state_of(row, round.k, kept) for row in range(round.k + 1)),
        residual_empty=same and round.residual_empty,
        recorded=same,
    )


def rejudge_trace(trace: Trace, verifier: Verifier) -> TraceRejudged:
    """Judge every round of a trace by another rule, with the recorded uniforms.

    Raises:
        NotRecorded, VerifyError: as `rejudge` does.
    """
    rounds = tuple(rejudge(round, verifier) for round in trace.rounds)
    different = (r.number for r in rounds if not r.recorded)
    return TraceRejudged(verifier_name(verifier), rounds, next(different, None))


class RecordedRound:
    """`RoundRandomness` from the uniforms of a recorded round, some of them replaced.

    Attributes:
        weights: what the corrected or bonus token was drawn from, over the block's columns.
        law, probability: see `Rejudged`.
    """

    def __init__(self, block: "_Block", accept_us: Mapping[int, float], correct_u: float | None) -> None:
        self._block = block
        self._accept_us = accept_us
        self._correct_u = block.round.correct_u if correct_u is None else correct_u
        self.weights: np.ndarray | None = None
        self.law: Law | None = None
        self.probability: float | None = None

    def draft(self, row: int, weights: np.ndarray) -> int:
        return self._draw(weights, _given(self.draft_u(row), f"draft uniform of position {row + 1}"))[0]

    def accept(self, row: int, p: float, q: float) -> bool:
        u = self.accept_u(row)
        if u is None and (p == 0.0 or p >= q):
            return p > 0.0  # whatever the uniform
        return accepts(_given(u, f"accept uniform of position {row + 1}"), p, q)

    def correct(self, weights: np.ndarray) -> int:
        self.weights = weights
        self.law = self._block.law(weights)
        if self.correct_u() is None:
            return self._block.columns(self._block.row(weights))[1].start
        column, self.probability = self._draw(weights, _given(self.correct_u(), "correct uniform"))
        return column

    def draft_u(self, row: int) -> float | None:
        return self._block.round.positions[row].draft_u

    def accept_u(self, row: int) -> float | None:
        return self._accept_us.get(row, self._block.round.positions[row].u)

    def correct_u(self) -> float | None:
        return self._correct_u

    def share(self, token: int) -> float | None:
        """The share of `token` in the weights; None if it has no column among them."""
        assert self.weights is not None
        table, _ = self._block.columns(self._block.row(self.weights))
        column = next((c for c in table if self._block.ids[c] == token), None)
        return None if column is None else float(self.weights[column] / self.weights.sum())

    def _draw(self, weights: np.ndarray, u: float) -> tuple[int, float | None]:
        """The column at u, and its share of the weights: a token's, or that of all unknown tokens."""
        row = self._block.row(weights)
        table, rest = self._block.columns(row)
        if self._block.law(weights) is None:
            return rest.start, None
        held = [c for c in table if weights[c] > 0.0]
        held.sort(key=lambda c: (-weights[c], self._block.ids[c]))
        unknown = weights[rest.start : rest.stop].any()
        leading = held[:LEADING] if unknown else held
        total = weights.sum()
        cumulative = np.cumsum(weights[leading])
        place = int(np.searchsorted(cumulative, u * total, side="right"))
        if place == len(leading):
            if unknown:
                behind = total - (cumulative[-1] if leading else 0.0)
                return rest.start, float(behind / total)
            place -= 1  # rounding left the last cumulative sum just below u
        return leading[place], float(weights[leading[place]] / total)


class _Block:
    """The reduced rows of a round. Every column belongs to one row and stands for a token or a rest.

    Attributes:
        round: the recorded round.
        ids: (W,) the token id of each column, None for the two rests of each row.
        target_probs: (K + 1, W) p, zero in the columns of other rows.
        draft_probs: (K, W) q.
        draft_tokens: (K,) the column of each draft token.
    """

    def __init__(self, round: Round) -> None:
        self.round = round
        rows = [reduced(position) for position in round.positions]
        self.ids = [token for row in rows for token in row.ids]
        self._starts = [0, *accumulate(len(row.ids) for row in rows)]
        self.target_probs = np.zeros((round.k + 1, len(self.ids)))
        self.draft_probs = np.zeros((round.k, len(self.ids)))
        for i, row in enumerate(rows):
            columns = slice(self._starts[i], self._starts[i + 1])
            self.target_probs[i, columns] = row.p
            if i < round.k:
                self.draft_probs[i, columns] = row.q
        self.draft_tokens = [
            self.column(row, position) for row, position in enumerate(round.positions[: round.k])
        ]

    def judge(self, verifier: Verifier, randomness: RecordedRound) -> Verdict:
        return verifier(self.target_probs, self.draft_probs, self.draft_tokens, randomness)

    def column(self, row: int, position: Position) -> int:
        """The column of a row's draft token."""
        assert position.token is not None
        return self._starts[row] + position.table.ids.index(position.token)

    def columns(self, row: int) -> tuple[range, range]:
        """The columns of a row's table, and of its rest."""
        end = self._starts[row + 1]
        return range(self._starts[row], end - LUMPS), range(end - LUMPS, end)

    def row(self, weights: np.ndarray) -> int:
        """The row that the heaviest column belongs to."""
        return int(np.searchsorted(self._starts, int(np.argmax(weights)), side="right")) - 1

    def law(self, weights: np.ndarray) -> Law | None:
        """Which of a row's distributions these weights are, up to a factor."""
        row = self.row(weights)
        p = self.target_probs[row]
        laws: dict[Law, np.ndarray] = {"p": p}
        if row < self.round.k:
            excess, empty = residual(p, self.draft_probs[row])
            laws = {"q": self.draft_probs[row], "p": p} | ({} if empty else {"residual": excess})
        for law in reversed(laws):
            other = laws[law]
            if np.allclose(weights / weights.sum(), other / other.sum(), rtol=1e-9, atol=0.0):
                return law
        return None


def _drew_recorded_token(block: _Block, verifier: Verifier, draws: RecordedRound) -> bool:
    """Whether the recorded token was drawn from the very same weights (and so by the same uniform)."""
    if block.round.verifier not in ("exact", verifier_name(verifier)):
        return False  # the trace does not say what its rule drew from
    recorded = RecordedRound(block, {}, None)
    rule = verify_block if block.round.verifier == "exact" else verifier
    if block.judge(rule, recorded).accepted != block.round.accepted:
        return False
    if recorded.weights is None or draws.weights is None:
        return False
    return np.array_equal(recorded.weights, draws.weights)


def _given(u: float | None, name: str) -> float:
    if u is None:
        raise NotRecorded(f"the {name} was not recorded")
    return u
