"""From the full distributions of a round to the values that a trace keeps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.randomness import RoundRandomness, heaviest
from specviz.decoding.sampling import REMOVED, Effective
from specviz.decoding.trace import CacheStep, Finish, Position, Rest, Round, State, Table
from specviz.decoding.verify import Verdict

# How many leading tokens by p, by q and by residual every table holds. Whoever re-judges a trace may
# rely on it: the first LEADING tokens by any of the three are never among the rest.
LEADING = 8


@dataclass(frozen=True, slots=True)
class Made:
    """A round as it was made: its full rows, before a trace keeps some of them.

    Attributes:
        number: 1 for the first round.
        start: committed tokens, prompt included, when it began.
        proposal: the draft block of K tokens.
        target_logits: (K + 1, V) raw logits.
        target: effective distributions of the same rows.
        verdict: the judgement.
        randomness: the draws that were made.
        committed, finish: after the cut at EOS, stop string or limit.
        verifier: name of the rule.
        target_cache, draft_cache: their movements.
        began: time when the round began.
        draft_seconds, verify_seconds: as in `Round`.
    """

    number: int
    start: int
    proposal: Proposal
    target_logits: np.ndarray
    target: Effective
    verdict: Verdict
    randomness: RoundRandomness
    committed: tuple[int, ...]
    finish: Finish | None
    verifier: str
    target_cache: CacheStep
    draft_cache: CacheStep | None
    began: float
    draft_seconds: float
    verify_seconds: float


Recorder = Callable[[Made], Round]


def record(made: Made) -> Round:
    """The round with everything that a trace keeps."""
    rows = positions(made.target_logits, made.target, made.proposal, made.verdict, made.randomness)
    return outline(made, rows)


def outline(made: Made, rows: tuple[Position, ...] = ()) -> Round:
    """The round with these positions."""
    seconds = perf_counter() - made.began
    return Round(
        number=made.number,
        start=made.start,
        positions=rows,
        accepted=made.verdict.accepted,
        outcome=made.verdict.outcome,
        token=made.verdict.token,
        correct_u=made.randomness.correct_u(),
        residual_empty=made.verdict.residual_empty,
        committed=made.committed,
        finish=made.finish,
        verifier=made.verifier,
        target_cache=made.target_cache,
        draft_cache=made.draft_cache,
        draft_seconds=made.draft_seconds,
        verify_seconds=made.verify_seconds,
        other_seconds=seconds - made.draft_seconds - made.verify_seconds,
    )


def positions(
    target_logits: np.ndarray,
    target: Effective,
    proposal: Proposal,
    verdict: Verdict,
    randomness: RoundRandomness,
) -> tuple[Position, ...]:
    """The K + 1 positions of a round.

    Args:
        target_logits: (K + 1, V) raw logits.
        target: effective distributions of the same rows.
        proposal: the draft block.
        verdict: its judgement.
        randomness: the draws that were made.
    """
    k = len(proposal.tokens)
    p, q = target.probs, proposal.probs
    overlap = np.minimum(p[:k], q).sum(axis=1)
    excess = np.maximum(p[:k] - q, 0.0)
    excess_mass = excess.sum(axis=1)
    p_entropy, q_entropy = _entropy(p), _entropy(q)
    p_root = np.sqrt(p)
    divergence = _kl(p[:k], q, p_entropy[:k])
    result = []
    for row in range(k + 1):
        drafted = row < k
        token = proposal.tokens[row] if drafted else None
        drawn = [] if token is None else [token]
        if row == verdict.accepted:
            drawn.append(verdict.token)
        table, rest = _table(row, drawn, target_logits, target, proposal, excess)
        result.append(
            Position(
                state=state_of(row, k, verdict.accepted),
                token=token,
                p=None if token is None else float(p[row, token]),
                q=None if token is None else float(q[row, token]),
                u=randomness.accept_u(row) if drafted else None,
                draft_u=randomness.draft_u(row) if drafted and proposal.drawn else None,
                p_rank=None if token is None else _rank(p[row], token),
                q_rank=None if token is None else _rank(q[row], token),
                beta=float(overlap[row]) if drafted else None,
                residual_mass=float(excess_mass[row]) if drafted else None,
                kl=divergence[row] if drafted else None,
                p_entropy=float(p_entropy[row]),
                q_entropy=float(q_entropy[row]) if drafted else None,
                p_root_sum=float(p_root[row].sum()),
                p_sesqui_sum=float((p[row] * p_root[row]).sum()),
                target_logsumexp=_finite(target.logsumexp[row]),
                draft_logsumexp=_finite(proposal.logsumexp[row])
                if drafted and proposal.logsumexp is not None
                else None,
                table=table,
                rest=rest,
                prefix_weight=verdict.prefixes[row].weight if drafted and verdict.prefixes else None,
                prefix_passes=verdict.prefixes[row].passes if drafted and verdict.prefixes else None,
            )
        )
    return tuple(result)


def state_of(row: int, k: int, accepted: int) -> State:
    """What becomes of row `row` (from 0) of a round that drafted `k` tokens and kept `accepted`."""
    if row == k:
        return "bonus" if accepted == k else "unused"
    if row < accepted:
        return "accepted"
    return "rejected" if row == accepted else "discarded"


def _rank(probs: np.ndarray, token: int) -> int:
    return 1 + int(np.count_nonzero(probs > probs[token]))


def _entropy(probs: np.ndarray) -> np.ndarray:
    """Shannon entropy of each row (R, V) in nats; 0·log 0 = 0."""
    return -(probs * np.log(np.where(probs > 0.0, probs, 1.0))).sum(axis=1) + 0.0


def _kl(p: np.ndarray, q: np.ndarray, p_entropy: np.ndarray) -> list[float | None]:
    """KL(p || q) of each row in nats; None where p has mass that q lacks.

    KL is not negative; rounding of nearly equal rows is cut off at 0.
    """
    result: list[float | None] = []
    for row in range(len(p)):
        if (q[row][p[row] > 0.0] == 0.0).any():
            result.append(None)
        else:
            cross = -float((p[row] * np.log(np.where(q[row] > 0.0, q[row], 1.0))).sum())
            result.append(max(0.0, cross - float(p_entropy[row])))
    return result


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _table(
    row: int,
    drawn: Sequence[int],
    target_logits: np.ndarray,
    target: Effective,
    proposal: Proposal,
    excess: np.ndarray,
) -> tuple[Table, Rest]:
    drafted = row < len(proposal.tokens)
    p = target.probs[row]
    q = proposal.probs[row] if drafted else None
    leading = [heaviest(p, LEADING), np.asarray(drawn, dtype=np.int64)]
    if q is not None:
        leading += [heaviest(q, LEADING), heaviest(excess[row], LEADING)]
    ids = np.unique(np.concatenate(leading))
    q_ids = np.zeros(len(ids)) if q is None else q[ids]
    order = np.lexsort((ids, -q_ids, -p[ids]))
    ids, q_ids = ids[order], q_ids[order]
    draft_logits = proposal.logits if drafted else None
    table = Table(
        ids=tuple(ids.tolist()),
        p=tuple(p[ids].tolist()),
        q=tuple(q_ids.tolist()),
        target_logits=_logits(target_logits[row, ids]),
        draft_logits=(None,) * len(ids) if draft_logits is None else _logits(draft_logits[row, ids]),
        target_removed=_removed(target.removed, row, ids),
        draft_removed=_removed(proposal.removed if drafted else None, row, ids),
    )
    return table, _rest(p, q, ids)


def _logits(values: np.ndarray) -> tuple[float | None, ...]:
    """Logits as plain floats; None where the model has none (ids outside its vocabulary)."""
    return tuple(v if np.isfinite(v) else None for v in values.tolist())


def _removed(codes: np.ndarray | None, row: int, ids: np.ndarray) -> tuple:
    if codes is None:
        return ("",) * len(ids)
    return tuple(REMOVED[code] for code in codes[row, ids])


def _rest(p: np.ndarray, q: np.ndarray | None, ids: np.ndarray) -> Rest:
    others = np.ones(len(p), dtype=bool)
    others[ids] = False
    if q is None:
        return Rest(len(p) - len(ids), float(p[others].sum()), 0.0, 0.0, 0.0)
    # Products with 0/1 weights: several times faster than picking elements by a mask.
    over = (others & (p > q)).astype(np.float64)
    under = others - over
    return Rest(
        count=len(p) - len(ids),
        p_over=float((p * over).sum()),
        q_over=float((q * over).sum()),
        p_under=float((p * under).sum()),
        q_under=float((q * under).sum()),
    )
