"""From the full distributions of a round to the values that a trace keeps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from threading import local
from time import perf_counter
from typing import Any

import numpy as np

from specviz.decoding.controls import BY_TEXT, REMOVED
from specviz.decoding.drafters.base import Proposal
from specviz.decoding.position import Position, State
from specviz.decoding.randomness import RoundRandomness, heaviest
from specviz.decoding.sampling import Effective, kth_largest
from specviz.decoding.tables import rest_of, table_of
from specviz.decoding.trace import CacheStep, Finish, Node, Round
from specviz.decoding.verify import Verdict

# How many leading tokens by p, by q and by residual every table holds. Whoever re-judges a trace may
# rely on it: the first LEADING tokens by any of the three are never among the rest.
LEADING = 8
SPARSE = 4  # at most one token in so many has a probability: then the others are left out of all sums
# What the bonus row has none of.
OF_A_DRAFT = ("token", "p", "q", "u", "draft_u", "p_rank", "q_rank")
OF_TWO_ROWS = ("beta", "residual_mass", "kl", "q_entropy", "draft_logsumexp")
NO_DRAFT: dict[str, Any] = dict.fromkeys((*OF_A_DRAFT, *OF_TWO_ROWS))
_local = local()


@dataclass(frozen=True, slots=True)
class Made:
    """A round as it was made: its full rows, before a trace keeps some of them.

    Attributes:
        number: 1 for the first round.
        start: committed tokens, prompt included, when it began.
        proposal: the draft block of K tokens.
        target_logits: (K + 1, V) raw logits.
        target_available: ids that the target can emit, None for all.
        target: effective distributions of the same rows.
        verdict: the judgement.
        randomness: the draws that were made.
        committed, finish: after the cut at EOS, stop string or limit.
        verifier: name of the rule.
        target_cache, draft_cache: their movements.
        tree, share: as in `Round`.
        began: time when the round began.
        draft_seconds, verify_seconds: as in `Round`.
    """

    number: int
    start: int
    proposal: Proposal
    target_logits: np.ndarray
    target_available: np.ndarray | None
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
    tree: tuple[Node, ...] = ()
    share: float | None = None


Recorder = Callable[[Made], Round]


def record(made: Made) -> Round:
    """The round with everything that a trace keeps."""
    began = perf_counter()
    rows = positions(made.target_logits, made.target, made.proposal, made.verdict, made.randomness)
    log_probs, raw_log_probs = _committed_log_probs(made)
    seconds = perf_counter() - began  # before `outline` takes the time of all: it is part of that
    return replace(
        outline(made, rows), log_probs=log_probs, raw_log_probs=raw_log_probs, record_seconds=seconds
    )


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
        tree=made.tree,
        share=made.share,
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
    work = _workspace(target.probs.shape[1])
    return tuple(
        _position(row, target_logits[row], target, proposal, verdict, randomness, work)
        for row in range(len(proposal.tokens) + 1)
    )


def _position(
    row: int,
    target_logits: np.ndarray,
    target: Effective,
    proposal: Proposal,
    verdict: Verdict,
    randomness: RoundRandomness,
    work: np.ndarray,
) -> Position:
    k = len(proposal.tokens)
    full_p, full_q = target.probs[row], proposal.probs[row] if row < k else None
    held = slice(None) if target.removed is None else _held(full_p, full_q)
    p, work = full_p[held], work[:, : len(full_p[held])]
    p_logs = None if target.log_probs is None else target.log_probs[row][held]
    drawn = [verdict.token] if row == verdict.accepted else []
    leading = [_names(held, heaviest(p, LEADING))]
    if p_logs is None or _constrained(target.removed, row):
        leading.append(_leading_logits(target_logits, target.removed, row))
    root = np.sqrt(p, out=work[0])
    common: dict[str, Any] = {
        "state": state_of(row, k, verdict.accepted),
        "p_entropy": _entropy(p, p_logs),
        "p_root_sum": float(root.sum()),
        "p_sesqui_sum": float(p @ root),
        "target_logsumexp": _finite(target.logsumexp[row]),
    }
    if full_q is None:
        ids = np.concatenate([*leading, drawn])
        table = table_of(ids, row, full_p, None, target_logits, target, proposal)
        rest = rest_of(p, None, held, table, len(full_p), work)
        return Position(**common, **NO_DRAFT, table=table, rest=rest)
    q, token = full_q[held], proposal.tokens[row]
    q_logs = None if proposal.log_probs is None else proposal.log_probs[row][held]
    excess = np.subtract(np.maximum(p, q, out=work[0]), q, out=work[0])
    excess_mass = float(excess.sum())
    leading += [_names(held, heaviest(q, LEADING)), _names(held, heaviest(excess, LEADING))]
    if proposal.logits is not None and (q_logs is None or _constrained(proposal.removed, row)):
        leading.append(_leading_logits(proposal.logits[row], proposal.removed, row))
    ids = np.concatenate([*leading, drawn, [token]])
    table = table_of(ids, row, full_p, full_q, target_logits, target, proposal)
    rest = rest_of(p, q, held, table, len(full_p), work)
    return Position(
        **common,
        token=token,
        p=float(full_p[token]),
        q=float(full_q[token]),
        u=randomness.accept_u(row),
        draft_u=randomness.draft_u(row) if proposal.drawn else None,
        p_rank=_rank(p, full_p[token]),
        q_rank=_rank(q, full_q[token]),
        beta=sum(map(min, table.p, table.q)) + rest.q_over + rest.p_under,  # Σ min(p, q), by its parts
        residual_mass=excess_mass,
        kl=_kl(p, q, common["p_entropy"], q_logs),
        q_entropy=_entropy(q, q_logs),
        draft_logsumexp=None if proposal.logsumexp is None else _finite(proposal.logsumexp[row]),
        table=table,
        rest=rest,
        prefix_weight=verdict.prefixes[row].weight if verdict.prefixes else None,
        prefix_passes=verdict.prefixes[row].passes if verdict.prefixes else None,
    )


def _held(p: np.ndarray, q: np.ndarray | None) -> Any:
    """The ids to look at: those with a probability where they are few, as behind a filter; else all.

    Sums over them are those over the whole row (V,), and cost what their number costs.
    """
    likely = p > 0.0
    if q is not None:
        likely |= q > 0.0
    return slice(None) if np.count_nonzero(likely) * SPARSE > len(p) else np.flatnonzero(likely)


def _names(held: Any, places: np.ndarray) -> np.ndarray:
    """The ids at some places among those that are looked at."""
    return places if isinstance(held, slice) else held[places]


def state_of(row: int, k: int, accepted: int) -> State:
    """What becomes of row `row` (from 0) of a round that drafted `k` tokens and kept `accepted`."""
    if row == k:
        return "bonus" if accepted == k else "unused"
    if row < accepted:
        return "accepted"
    return "rejected" if row == accepted else "discarded"


def _rank(probs: np.ndarray, mass: float) -> int:
    return 1 + int(np.count_nonzero(probs > mass))


def _entropy(probs: np.ndarray, logs: np.ndarray | None) -> float:
    """Shannon entropy of a row (V,) in nats; 0·log 0 = 0. `logs` are its logarithms; None for few tokens."""
    if logs is None:
        probs = probs[np.flatnonzero(probs > 0.0)]
        logs = np.log(probs)
    return max(0.0, -float(probs @ logs))


def _kl(p: np.ndarray, q: np.ndarray, p_entropy: float, q_logs: np.ndarray | None) -> float | None:
    """KL(p || q) in nats; None where p has mass that q lacks.

    KL is not negative; rounding of nearly equal rows is cut off at 0.
    """
    if q.min() == 0.0 and ((q == 0.0) & (p > 0.0)).any():
        return None
    if q_logs is None:
        ids = np.flatnonzero(q > 0.0)  # p has nothing elsewhere
        p, q_logs = p[ids], np.log(q[ids])
    return max(0.0, -float(p @ q_logs) - p_entropy)


def _constrained(removed: np.ndarray | None, row: int) -> bool:
    """True if a control took tokens whatever their probability: then the leading ones are of interest too."""
    return removed is not None and bool(np.isin(removed[row], BY_TEXT).any())


def _leading_logits(logits: np.ndarray, removed: np.ndarray | None, row: int) -> np.ndarray:
    """The tokens with the largest raw logits (V,), where probabilities are one-hot and tell none but one."""
    outside = None if removed is None else removed[row] == REMOVED.index("vocabulary")
    if outside is not None and outside.any():
        logits = np.where(outside, -np.inf, logits)
    if len(logits) <= LEADING:
        return np.flatnonzero(np.isfinite(logits))
    ids = np.flatnonzero(logits >= kth_largest(logits, LEADING))
    ids = ids[np.isfinite(logits[ids])]
    return ids[np.argsort(-logits[ids], kind="stable")][:LEADING]


def _committed_log_probs(made: Made) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Of each committed token, the logarithm of its probability, effective and before all controls."""
    effective, raw = [], []
    work = _workspace(made.target_logits.shape[1])[0]
    for row, token in enumerate(made.committed):
        p = float(made.target.probs[row, token])
        effective.append(log(p) if p > 0.0 else None)
        if made.target.plain:
            raw.append(float(made.target_logits[row, token]) - float(made.target.logsumexp[row]))
            continue
        logits = made.target_logits[row]
        if made.target_available is not None:
            logits = logits[made.target_available]
        highest = float(logits.max())
        scores = np.subtract(logits, highest, out=work[: len(logits)], dtype=np.float64)
        raw.append(float(made.target_logits[row, token]) - highest - log(np.exp(scores, out=scores).sum()))
    return tuple(effective), tuple(raw)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _workspace(vocab_size: int) -> np.ndarray:
    """(2, V) float64 to compute in. Fresh memory of this size costs more than the arithmetic in it."""
    held = getattr(_local, "work", None)
    if held is None or held.shape[1] != vocab_size:
        held = _local.work = np.empty((2, vocab_size))
    return held
