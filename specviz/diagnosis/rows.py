"""From a run, or a served text, and the numbers along it to the rows of an audit's tables."""

from math import isfinite
from typing import Any

import numpy as np

from specviz.decoding.drafters.ngram import NgramDrafter
from specviz.decoding.protocols import Pair
from specviz.decoding.trace import TokenText, Trace
from specviz.diagnosis import causes, tables
from specviz.diagnosis.along import Along
from specviz.diagnosis.kinds import kind_of
from specviz.diagnosis.setting import Setting
from specviz.diagnosis.walk import kept, lookups
from specviz.diagnosis.walkers import EQUAL, NOW
from specviz.tokens import visible

DIGITS = 6  # significant digits of a number
AS_RECORDED = ("state", "token", "p", "q", "u", "beta", "p_entropy", "q_entropy", "p_rank", "q_rank")
LONGEST = 60  # characters of a token's text


def run(
    trace: Trace,
    ids: list[int],
    measured: Along,
    limit: int | None,
    columns: dict[str, tables.Columns],
    row: dict[str, Any],
) -> None:
    """The rounds of a run, and a cause for every rejection.

    Args:
        trace: the run.
        ids: tokens of the prompt.
        measured: along the text that it wrote.
        limit: most committed tokens that its drafter can work from.
        columns: of the tables, added to.
        row: of `prompts`, added to.
    """
    output = trace.output_ids
    texts = {token: text.data for token, text in trace.tokens.items()}
    text = [*ids, *output]
    index = row["prompt"]
    begin = 0
    for round in trace.rounds:
        room = min(trace.k, trace.max_new_tokens - begin - 1)
        full = limit is not None and len(ids) + begin + room > limit
        undrafted = max(0, room - round.k) if full else 0
        drafts = round.draft_tokens
        lost = round.k - round.accepted
        _append(
            columns,
            "rounds",
            prompt=index,
            round=round.number,
            start=begin,
            k=round.k,
            accepted=round.accepted,
            committed=len(round.committed),
            short=undrafted,
            draft_seconds=round.draft_seconds,
            verify_seconds=round.verify_seconds,
        )
        for number, position in enumerate(round.positions[:-1], 1):
            cause, instead = "", None
            if position.state == "rejected":
                at = begin + number - 1
                column = (
                    position.table.ids.index(position.token) if position.token in position.table.ids else -1
                )
                removed = position.table.target_removed[column] if column >= 0 else ""
                instead = round.token
                inside = at < len(output)
                committed = [texts.get(t, b"") for t in output[at : at + round.k + 1]]
                cause = _cause(
                    measured if inside else None,
                    at,
                    text[: len(ids) + at],
                    instead,
                    (
                        position.p,
                        position.q,
                        position.beta,
                        position.p_entropy,
                        position.q_entropy,
                        position.table.p[0],
                    ),
                    removed,
                    causes.same_text([texts.get(t, b"") for t in drafts[number - 1 :]], committed),
                )
            _append(
                columns,
                "positions",
                prompt=index,
                round=round.number,
                position=number,
                text=_shown(trace.tokens.get(position.token or 0)),
                **{name: getattr(position, name) for name in AS_RECORDED},
                instead=instead,
                cause=cause,
                lost=lost if position.state == "rejected" else 0,
            )
        row["lost"] += lost + undrafted
        begin += len(round.committed)
    row["rounds"] = len(trace.rounds)
    row["drafted"] = sum(r.k for r in trace.rounds)
    row["accepted"] = sum(r.accepted for r in trace.rounds)
    row["finish"] = trace.finish or ""


def served(
    pair: Pair,
    setting: Setting,
    prompt: int,
    ids: list[int],
    answer: list[int],
    measured: Along,
    columns: dict[str, tables.Columns],
    row: dict[str, Any],
) -> None:
    """Rounds that would have written a served text, drawn from their distribution given that text."""
    column = measured.columns[f"draft|{NOW}"]
    keep = kept(column.q, measured.p)
    draws = np.random.default_rng([setting.seed, prompt, 2])
    texts = [pair.token_text(token).data for token in answer]
    begin = number = 0
    n = len(answer)
    while begin < n:
        number += 1
        deepest = setting.k if column.endless else min(setting.k, len(column.q))
        k = accepted = 0
        refused = None
        for place in range(min(deepest, n - begin - 1)):
            depth, at = min(place, len(column.q) - 1), begin + place
            if np.isnan(column.q[depth, at]):
                break
            k += 1
            if refused is None and draws.random() < keep[depth, at]:
                accepted += 1
            elif refused is None:
                refused = at
        lost = k - accepted
        _append(
            columns,
            "rounds",
            prompt=prompt,
            round=number,
            start=begin,
            k=k,
            accepted=accepted,
            committed=accepted + 1,
            short=0,
        )
        for place in range(accepted + (refused is not None)):
            at = begin + place
            judged = place < accepted
            token = answer[at] if judged else int(measured.refused[at])
            p = measured.p[at] if judged else measured.refused_p[at]
            q = column.q[min(place, len(column.q) - 1), at] if judged else measured.refused_q[at]
            cause = ""
            if not judged and token >= 0:
                beta = measured.beta[f"draft|{NOW}"][at]
                numbers = (p, q, beta, measured.p_entropy[at], measured.q_entropy[at], measured.p_top[at])
                drafted = [pair.token_text(token).data]
                same = causes.same_text(drafted, texts[at : at + setting.k + 1])
                removed = "top-k" if p == 0.0 and not setting.sampling.greedy else ""
                cause = _cause(measured, at, [*ids, *answer[:at]], answer[at], numbers, removed, same)
            _append(
                columns,
                "positions",
                prompt=prompt,
                round=number,
                position=place + 1,
                state="accepted" if judged else "rejected",
                token=token,
                text=_shown(pair.token_text(token)) if token >= 0 else "",
                p=p,
                q=q,
                beta=measured.beta[f"draft|{NOW}"][at],
                p_entropy=measured.p_entropy[at],
                q_entropy=measured.q_entropy[at],
                instead=None if judged else answer[at],
                cause=cause,
                lost=0 if judged else lost,
            )
        row["rounds"] += 1
        row["drafted"] += k
        row["accepted"] += accepted
        row["lost"] += lost
        begin += accepted + 1
    row["finish"] = "score"


def _cause(
    measured: Along | None,
    at: int,
    before: list[int],
    instead: int,
    numbers: tuple[Any, ...],
    removed: str,
    same: bool,
) -> str:
    p, q, beta, p_entropy, q_entropy, p_top = numbers

    def fresh(controls: str) -> float | None:
        row = None if measured is None else measured.beta.get(f"draft|{controls}")
        return None if row is None or not isfinite(row[at]) else float(row[at])

    now, equal = fresh(NOW), fresh(EQUAL)
    # Under other controls the draft differs as a fresh one does: a wrong cache is not a control.
    gain = None if now is None or equal is None else beta + equal - now
    return causes.cause_of(
        causes.Rejection(
            p=p,
            q=q,
            beta=beta,
            beta_controls=gain,
            beta_fresh=now,
            p_top=p_top,
            p_entropy=p_entropy,
            q_entropy=q_entropy,
            removed=removed,
            lacking=bool(measured is not None and measured.lacking[at]),
            same_text=same,
            copyable=_follows_copy(before, instead),
        )
    )


def _follows_copy(before: list[int], token: int) -> bool:
    """Whether the last `COPIED` tokens stood before, most recently followed by `token`."""
    suffix = before[-causes.COPIED :]
    for start in range(len(before) - causes.COPIED - 1, -1, -1):
        if before[start : start + causes.COPIED] == suffix:
            return before[start + causes.COPIED] == token
    return False


def tokens(
    pair: Pair,
    setting: Setting,
    prompt: int,
    ids: list[int],
    answer: list[int],
    measured: Along,
    columns: dict[str, tables.Columns],
) -> None:
    """A row for each committed token."""
    lookup = NgramDrafter(pair, setting.draft_sampling, smallest=causes.COPIED)
    proposed, right = lookups([*ids, *answer], len(ids), lookup)
    starts = columns["rounds"]["start"]
    rounds = (
        np.searchsorted(np.array(starts), np.arange(len(answer)), side="right")
        if starts
        else [0] * len(answer)
    )
    table = columns["tokens"]
    second = measured.beta.get(f"second|{NOW}")
    for i, token in enumerate(answer):
        text = pair.token_text(token)
        _append(
            columns,
            "tokens",
            prompt=prompt,
            index=i,
            round=int(rounds[i]),
            token=token,
            text=_shown(text),
            kind=kind_of(text),
            p=measured.p[i],
            logprob=measured.logprob[i],
            p_top=measured.p_top[i],
            p_entropy=measured.p_entropy[i],
            q_entropy=measured.q_entropy[i],
            q_logprob=measured.q_logprob[i],
            beta=measured.beta[f"draft|{NOW}"][i],
            beta_second=None if second is None else second[i],
            outside=measured.outside[i],
            lacking=bool(measured.lacking[i]),
            looked_up=int(proposed[i]),
            looked_up_right=int(right[i]),
        )
    for name, values in measured.bounds.items():
        table[name] = [short(value) for value in values.tolist()]
    for key, column in measured.columns.items():
        for depth, q in enumerate(column.q):
            table[f"{tables.LAW}{key}|{depth}"] = [short(value) for value in q.tolist()]


def _shown(token: TokenText | None) -> str:
    return "" if token is None else visible(token)[:LONGEST]


def _append(columns: dict[str, tables.Columns], table: str, **values: Any) -> None:
    """Add a row: numbers with few digits, None in the columns that are not named."""
    unknown = values.keys() - tables.TABLES[table].keys()
    assert not unknown, unknown
    for name in tables.TABLES[table]:
        value = values.get(name)
        columns[table][name].append(short(value) if isinstance(value, float) else value)


def short(value: Any) -> Any:
    """A number with few digits; None for what is not finite."""
    if isinstance(value, list):
        return [short(v) for v in value]
    if value is None or not isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")
