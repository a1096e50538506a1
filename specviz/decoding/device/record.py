"""The record of a round from rows on a device: sums are made there, and come over in one copy."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from specviz.decoding.controls import BY_TEXT, SamplingConfig
from specviz.decoding.device.rules import Judged
from specviz.decoding.device.transfer import bring, ids_on
from specviz.decoding.drafters.base import Proposal
from specviz.decoding.position import Position, Rest, Table
from specviz.decoding.record import LEADING, NO_DRAFT, state_of
from specviz.decoding.sampling import REMOVED, Effective
from specviz.decoding.verify import Prefix, Verdict

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Landed:
    """A judged round on the host.

    Attributes:
        tokens: the K draft tokens.
        verdict: the judgement.
        columns: by name, what `columns` made.
    """

    tokens: list[int]
    verdict: Verdict
    columns: Columns

    def log_probs(self, name: str, count: int) -> tuple[float | None, ...]:
        """Of the first `count` verified tokens, the logarithms "effective" or "raw"; None for -inf."""
        return tuple(_finite(value) for value in self.columns[name][:count])


@torch.inference_mode()
def land(
    proposal: Proposal,
    logits: torch.Tensor,
    target: Effective,
    judged: Judged,
    available: torch.Tensor | None,
    draft_available: torch.Tensor | None,
    controls: tuple[SamplingConfig, SamplingConfig],
) -> Landed:
    """Everything that the host has to know of a round, in one copy.

    Args:
        proposal: the draft block, on the device.
        logits: (K + 1, V) of the target.
        target: effective distributions of the same rows.
        judged: the judgement.
        available, draft_available: ids that the models can emit, None for all.
        controls: of target and draft.
    """
    k, width = len(proposal.tokens), logits.shape[1]
    p: Any = target.probs
    none = torch.zeros(1, dtype=torch.long, device=p.device)  # the bonus row has no token: 0 stands for it
    tokens = torch.cat([ids_on(proposal.tokens, p.device), none]) if k else none
    q = torch.cat([_tensor(proposal.probs), torch.zeros_like(p[:1])])
    draft_logits = None if proposal.logits is None else _tensor(proposal.logits)
    made = {
        "tokens": tokens,
        "kept": judged.kept,
        "token": judged.token,
        "empty": judged.empty,
        "mass": judged.mass,
        "target_trouble": _not_finite(logits, available),
        "target_sum": p.sum(1),
        **_figures(p, q, tokens, logits, target, judged, available),
    }
    if judged.weights is not None and judged.passes is not None:
        made |= {"weights": judged.weights, "passes": judged.passes}
    if draft_logits is not None:
        made |= {"draft_trouble": _not_finite(draft_logits, draft_available), "draft_sum": q[:k].sum(1)}
        draft_logits = torch.cat([draft_logits, torch.full_like(draft_logits[:1], -torch.inf)])
    if proposal.logsumexp is not None:
        made["draft_logsumexp"] = _tensor(proposal.logsumexp)
    candidates = _candidates(p, q, tokens, judged, logits, draft_logits, target, proposal, controls)
    made |= _tables(candidates, p, q, logits, draft_logits, target.removed, proposal.removed)
    found = bring(made)
    return Landed(
        [int(token) for token in found["tokens"][:k]], _verdict(found, k), {**found, "width": np.array(width)}
    )


def _tensor(value: Any) -> torch.Tensor:
    return value


def _not_finite(logits: torch.Tensor, available: torch.Tensor | None) -> torch.Tensor:
    """(R,) the first available logit of each row that is NaN or infinite; 0 where there is none."""
    seen = logits.double() if available is None else logits.index_select(1, available).double()
    width = seen.shape[1]
    places = torch.arange(width, device=seen.device)
    first = torch.where(torch.isfinite(seen), width, places).amin(1, keepdim=True)
    values = seen.gather(1, first.clamp(max=width - 1))
    return torch.where(first < width, values, 0.0)[:, 0]


def _figures(
    p: torch.Tensor,
    q: torch.Tensor,
    tokens: torch.Tensor,
    logits: torch.Tensor,
    target: Effective,
    judged: Judged,
    available: torch.Tensor | None,
) -> dict[str, torch.Tensor]:
    """The sums over whole rows that `position.Position` and `trace.Round` keep."""
    root, own = p.sqrt(), torch.special.xlogy(p, p).sum(1)
    p_token, q_token = p.gather(1, tokens[:, None]), q.gather(1, tokens[:, None])
    rows = torch.arange(len(p), device=p.device)
    verified = torch.where(rows == judged.kept, judged.token, tokens)[:, None]
    seen = logits.double() if available is None else logits.index_select(1, available).double()
    return {
        "p": p_token[:, 0],
        "q": q_token[:, 0],
        "p_entropy": -own,
        "q_entropy": -torch.special.xlogy(q, q).sum(1),
        "kl": (torch.special.xlogy(p, p) - torch.special.xlogy(p, q)).sum(1),
        "p_root_sum": root.sum(1),
        "p_sesqui_sum": (p * root).sum(1),
        "residual_mass": (p - q).clamp(min=0.0).sum(1),
        "p_rank": 1 + (p > p_token).sum(1),
        "q_rank": 1 + (q > q_token).sum(1),
        "target_logsumexp": _tensor(target.logsumexp),
        "effective": p.gather(1, verified)[:, 0].log(),
        "raw": logits.double().gather(1, verified)[:, 0] - seen.logsumexp(1),
    }


def _candidates(
    p: torch.Tensor,
    q: torch.Tensor,
    tokens: torch.Tensor,
    judged: Judged,
    logits: torch.Tensor,
    draft_logits: torch.Tensor | None,
    target: Effective,
    proposal: Proposal,
    controls: tuple[SamplingConfig, SamplingConfig],
) -> torch.Tensor:
    """Ids (K + 1, n) of each row's table, some of them more than once; V stands for none."""
    width = p.shape[1]
    found = [_leading(p, 0.0), _leading(q, 0.0), _leading((p - q).clamp(min=0.0), 0.0)]
    if controls[0].greedy or controls[0].placed:
        found.append(_leading_logits(logits, target.removed, controls[0].greedy))
    if draft_logits is not None and (controls[1].greedy or controls[1].placed):
        ids = _leading_logits(draft_logits[:-1], proposal.removed, controls[1].greedy)
        found.append(torch.cat([ids, torch.full_like(ids[:1], width)]))
    rows = torch.arange(len(p), device=p.device)
    drawn = torch.where(rows == judged.kept, judged.token, width)
    drafted = torch.where(rows < len(p) - 1, tokens, width)
    return torch.cat([*found, drawn[:, None], drafted[:, None]], dim=1)


def _leading_logits(logits: torch.Tensor, removed: Any, every: bool) -> torch.Tensor:
    """Ids (R, 2·LEADING) of the largest logits (R, V), in every row or where a control looked at the text."""
    logits = logits.double()
    if removed is None:
        return _leading(logits, -torch.inf)
    ids = _leading(logits.masked_fill(removed == REMOVED.index("vocabulary"), -torch.inf), -torch.inf)
    if every:
        return ids
    by_text = torch.stack([(removed == code).any(1) for code in BY_TEXT]).any(0)
    return torch.where(by_text[:, None], ids, logits.shape[1])


def _leading(values: torch.Tensor, above: float) -> torch.Tensor:
    """Ids (R, 2·LEADING) of the LEADING largest of each row that exceed `above`, ties by lower id.

    Which of equal values `topk` returns is not said, so those at the border are picked by their ids.
    """
    width = values.shape[1]
    count = min(LEADING, width)
    largest, ids = values.topk(count)
    border = largest[:, -1:]
    over = largest > border
    equal = torch.where(values == border, width - torch.arange(width, device=values.device), 0)
    firsts = equal.topk(count).values
    places = torch.arange(count, device=values.device)
    fits = (firsts > 0) & (places < count - over.sum(1, keepdim=True)) & (border > above)
    return torch.cat(
        [torch.where(over & (largest > above), ids, width), torch.where(fits, width - firsts, width)], dim=1
    )


def _tables(
    ids: torch.Tensor,
    p: torch.Tensor,
    q: torch.Tensor,
    logits: torch.Tensor,
    draft_logits: torch.Tensor | None,
    removed: Any,
    draft_removed: Any,
) -> dict[str, torch.Tensor]:
    """The columns of every row's table, and the mass of the tokens outside it by the sign of p − q."""
    width = p.shape[1]
    rest = torch.ones(len(p), width + 1, dtype=torch.bool, device=p.device).scatter(1, ids, False)[:, :width]
    over = p > q
    over[-1] = True  # as the host's record has it in the bonus row
    at = ids.clamp(max=width - 1)
    made = {
        "ids": ids,
        "table_p": p.gather(1, at),
        "table_q": q.gather(1, at),
        "target_logits": logits.gather(1, at),
    }
    if draft_logits is not None:
        made["draft_logits"] = draft_logits.gather(1, at)
    if removed is not None:
        made["target_removed"] = removed.gather(1, at)
    if draft_removed is not None:
        made["draft_removed"] = draft_removed.gather(1, at[: len(draft_removed)])
    for name, probs in (("p", p), ("q", q)):
        made[f"{name}_over"] = torch.where(rest & over, probs, 0.0).sum(1)
        made[f"{name}_under"] = torch.where(rest & ~over, probs, 0.0).sum(1)
    return made


def _verdict(found: Columns, k: int) -> Verdict:
    kept = int(found["kept"][0])
    prefixes: tuple[Prefix, ...] = ()
    if "passes" in found:
        pairs = zip(found["weights"], found["passes"], strict=True)
        prefixes = tuple(Prefix(float(weight), float(passes)) for weight, passes in pairs)
    return Verdict(
        kept,
        "bonus" if kept == k else "corrected",
        int(found["token"][0]),
        bool(found["empty"][0]),
        prefixes,
    )


def positions(landed: Landed, proposal: Proposal, randomness: Any) -> tuple[Position, ...]:
    """The K + 1 positions of a round; see `record.positions`."""
    return tuple(_position(row, landed, proposal, randomness) for row in range(len(landed.tokens) + 1))


def _position(row: int, landed: Landed, proposal: Proposal, randomness: Any) -> Position:
    k, verdict = len(landed.tokens), landed.verdict
    values = {name: column[row] for name, column in landed.columns.items() if name in FIGURES}
    table = _table(row, landed.columns, row == k)
    rest = Rest(
        int(landed.columns["width"]) - len(table.ids),
        *(float(landed.columns[name][row]) for name in ("p_over", "q_over", "p_under", "q_under")),
    )
    common: dict[str, Any] = {
        "state": state_of(row, k, verdict.accepted),
        "p_entropy": max(0.0, float(values["p_entropy"])),
        "p_root_sum": float(values["p_root_sum"]),
        "p_sesqui_sum": float(values["p_sesqui_sum"]),
        "target_logsumexp": _finite(values["target_logsumexp"]),
    }
    if row == k:
        return Position(**common, **NO_DRAFT, table=table, rest=rest)
    kl, logsumexp = _finite(values["kl"]), landed.columns.get("draft_logsumexp")
    return Position(
        **common,
        token=landed.tokens[row],
        p=float(values["p"]),
        q=float(values["q"]),
        u=randomness.accept_u(row),
        draft_u=randomness.draft_u(row) if proposal.drawn else None,
        p_rank=int(values["p_rank"]),
        q_rank=int(values["q_rank"]),
        beta=sum(map(min, table.p, table.q)) + rest.q_over + rest.p_under,
        residual_mass=float(values["residual_mass"]),
        kl=None if kl is None else max(0.0, kl),
        q_entropy=max(0.0, float(values["q_entropy"])),
        draft_logsumexp=None if logsumexp is None else _finite(logsumexp[row]),
        table=table,
        rest=rest,
        prefix_weight=verdict.prefixes[row].weight if verdict.prefixes else None,
        prefix_passes=verdict.prefixes[row].passes if verdict.prefixes else None,
    )


FIGURES = {
    *("p", "q", "p_entropy", "q_entropy", "kl", "p_root_sum", "p_sesqui_sum", "residual_mass"),
    *("p_rank", "q_rank", "target_logsumexp"),
}


def _table(row: int, columns: Columns, last: bool) -> Table:
    ids, places = np.unique(columns["ids"][row].astype(np.int64), return_index=True)
    ids, places = ids[ids < columns["width"]], places[ids < columns["width"]]
    p, q = columns["table_p"][row, places], columns["table_q"][row, places]
    order = np.lexsort((ids, -q, -p))
    places = places[order]
    none: tuple[Any, ...] = (None,) * len(ids)
    drafted = not last
    return Table(
        ids=tuple(ids[order].tolist()),
        p=tuple(p[order].tolist()),
        q=tuple(q[order].tolist()),
        target_logits=_logits(columns["target_logits"][row, places]),
        draft_logits=_logits(columns["draft_logits"][row, places])
        if drafted and "draft_logits" in columns
        else none,
        target_removed=_removed(columns.get("target_removed"), row, places),
        draft_removed=_removed(columns.get("draft_removed") if drafted else None, row, places),
    )


def _logits(values: np.ndarray) -> tuple[float | None, ...]:
    return tuple(_finite(value) for value in values)


def _removed(codes: np.ndarray | None, row: int, places: np.ndarray) -> tuple[Any, ...]:
    if codes is None:
        return ("",) * len(places)
    return tuple(REMOVED[int(code)] for code in codes[row, places])


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
