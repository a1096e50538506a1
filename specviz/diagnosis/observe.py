"""One prompt of an audit: its run, the numbers along the text that came out, and what they say.

The result is a plain value that JSON can hold (a *part*), so that an audit is as safe as its last part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from time import perf_counter
from typing import Any

import numpy as np

from specviz.decoding.drafters import make_drafter
from specviz.decoding.drafters.ngram import NgramDrafter
from specviz.decoding.faults import get_fault
from specviz.decoding.faults.bookkeeping import WrappedDrafter
from specviz.decoding.protocols import Pair
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import Trace
from specviz.diagnosis import causes, tables
from specviz.diagnosis.along import EQUAL, NOW, Along, Source, along
from specviz.diagnosis.kinds import kind_of
from specviz.diagnosis.prompts import Prompt, answer_ids, encode
from specviz.diagnosis.setting import STYLES, Setting
from specviz.diagnosis.walk import kept, lookups
from specviz.exactness.cache_check import check_caches
from specviz.exactness.evidence import emitted
from specviz.tokens import visible

DIGITS = 6  # significant digits of a number in a part


class OwnPrompt(WrappedDrafter):
    """A drafter that reads another prompt than the target, and the same answer.

    Args:
        inner: a drafter that has seen nothing yet.
        theirs: tokens of the target's prompt.
        lead: the prompt that the drafter reads instead.
    """

    def __init__(self, inner: Any, theirs: int, lead: Sequence[int]) -> None:
        super().__init__(inner)
        self.theirs = theirs
        self.lead = list(lead)
        if self.context_length is not None:
            self.context_length -= len(self.lead) - theirs

    def _own(self, tokens: Sequence[int]) -> list[int]:
        return [*self.lead, *tokens[self.theirs :]]

    def propose(self, prefix: Sequence[int], k: int, randomness: Any) -> Any:
        return self.inner.propose(self._own(prefix), k, randomness)

    def observe(self, committed: Sequence[int], target_features: Any) -> None:
        self.inner.observe(self._own(committed), target_features)


@dataclass(frozen=True, slots=True)
class Bench:
    """What all prompts of an audit share.

    Attributes:
        pair: target and draft.
        setting: of the audit.
        second: a pair whose draft is the second one; None without. Its target is not used.
        draft_tokenizer: the draft's own; None if it is not known.
    """

    pair: Pair
    setting: Setting
    second: Pair | None = None
    draft_tokenizer: Any = None


def observe(bench: Bench, prompt: Prompt) -> tuple[dict[str, Any], Trace | None]:
    """Run and measure one prompt.

    Returns:
        the part, and the trace of the run; None for a text that was served. What cannot be measured is named
        in the part's `error`.
    """
    setting = bench.setting
    columns = {name: tables.empty(name) for name in tables.TABLES}
    part: dict[str, Any] = {"prompt": prompt.index, "tables": columns, "emitted": [], "caches": []}
    row = dict.fromkeys(tables.PROMPTS, 0) | {
        "prompt": prompt.index,
        "group": prompt.group,
        "text": prompt.text[:2000],
        "answer": "",
        "finish": "",
        "seed": setting.seed + prompt.index,
        "log_evidence": 0.0,
        "seconds": 0.0,
        "error": "",
    }
    began = perf_counter()
    trace = None
    try:
        ids = encode(bench.pair, prompt, setting.style(bool(prompt.messages)))
        leads = _leads(bench, prompt, ids)
        if prompt.answer is None:
            run = _run(bench, prompt, ids, leads.get(setting.draft_prompt))
            for _ in run:
                pass
            trace = run.trace()
            if prompt.index < setting.self_checks:
                part["caches"] = _caches(run, setting)
            answer = list(trace.output_ids)
        else:
            answer = _answer(bench, prompt, ids)
        row |= {"prompt_tokens": len(ids), "tokens": len(answer)}
        measured = _measure(bench, prompt, ids, answer, leads)
        texts = [bench.pair.token_text(token) for token in answer]
        row["answer"] = b"".join(t.data for t in texts if not t.special).decode("utf-8", "replace")[:4000]
        if trace is None:
            _rounds_along(bench, prompt, ids, answer, measured, columns, row)
        else:
            _rounds_of(bench, trace, ids, measured, columns, row)
            part["emitted"] = [
                _short([e.p, e.q, e.root_sum, e.sesqui_sum]) for r in trace.rounds for e in emitted(r)
            ]
        _tokens(bench, prompt, ids, answer, measured, columns)
    except (ValueError, RuntimeError) as error:
        row["error"] = str(error)[:500]
    row["seconds"] = perf_counter() - began
    for name, value in row.items():
        columns["prompts"][name].append(value)
    return part, trace


def _leads(bench: Bench, prompt: Prompt, ids: list[int]) -> dict[str, list[int]]:
    """The prompt in every style that the draft might read and that differs from what the target reads."""
    found: dict[str, list[int]] = {}
    for style in STYLES:
        tokenizer = bench.draft_tokenizer if style == "own" else None
        if style == "own" and tokenizer is None:
            continue
        try:
            lead = encode(bench.pair, prompt, "plain" if style == "plain" else "chat", tokenizer)
        except (ValueError, AttributeError):  # no template
            continue
        if lead != ids and lead not in found.values():
            found[style] = lead
    return found


def _run(bench: Bench, prompt: Prompt, ids: list[int], lead: list[int] | None) -> DecodingRun:
    setting = bench.setting
    start = DecodingRun if setting.rule == "exact" else get_fault(setting.rule).start
    run = start(
        bench.pair,
        ids,
        drafter=setting.drafter,
        k=setting.k,
        sampling=setting.sampling,
        draft_sampling=setting.draft_sampling,
        max_new_tokens=setting.max_new_tokens,
        seed=setting.seed + prompt.index,
        chat=setting.style(bool(prompt.messages)) == "chat",
    )
    run.prompt = prompt.text
    if lead is not None:
        run.drafter = OwnPrompt(run.drafter, len(ids), lead)
    return run


def _answer(bench: Bench, prompt: Prompt, ids: list[int]) -> list[int]:
    assert prompt.answer is not None
    room = bench.pair.target.context_length - len(ids)
    answer = answer_ids(bench.pair, prompt.answer)[: max(0, room)]
    if not answer:
        raise ValueError("the answer has no tokens, or the prompt fills the target's context")
    return answer


def _caches(run: DecodingRun, setting: Setting) -> list[dict[str, Any]]:
    """The caches at the end of a run against uncached passes. One check covers all rounds: what a cut got
    wrong stays in the cache."""
    found = []
    for check in check_caches(run):
        if check.role == "draft" and setting.draft_prompt != "same":
            continue  # it holds another prompt, on purpose
        found.append({"role": check.role, "ok": check.ok, "sentence": check.sentence})
    return found


def samplings(setting: Setting) -> dict[str, SamplingConfig]:
    """The draft's controls that are tried, by name: the present ones, the target's, a grid of temperatures,
    and the same without filters where there are any."""
    now = setting.draft_sampling
    found = {NOW: now, EQUAL: setting.sampling}
    found |= {f"t{t:g}": replace(now, temperature=t) for t in setting.temperatures}
    unfiltered = replace(now, top_k=0, top_p=1.0, min_p=0.0)
    if unfiltered != now:
        found["open"] = unfiltered
        found |= {f"open t{t:g}": replace(unfiltered, temperature=t) for t in setting.temperatures}
    return found


def _measure(
    bench: Bench, prompt: Prompt, ids: list[int], answer: list[int], leads: dict[str, list[int]]
) -> Along:
    setting = bench.setting
    grid = {NOW: setting.draft_sampling} if setting.drafter.startswith("ngram") else samplings(setting)

    def source(name: str, lead: list[int] | None) -> Source:
        drafter = make_drafter(setting.drafter, bench.pair, setting.draft_sampling)
        return Source(name, drafter, grid, None if lead is None else tuple(lead))

    first = source("draft", leads.get(setting.draft_prompt))
    sources = [first]
    if hasattr(first.drafter, "model") and not first.drafter.wants_features:
        sources += [source(style, lead) for style, lead in leads.items() if style != setting.draft_prompt]
        if setting.draft_prompt in leads:
            sources.append(source("same", ids))
    if setting.second:
        pair = bench.second or bench.pair
        kind = "model" if bench.second is not None else setting.second
        drafter = make_drafter(kind, pair, setting.draft_sampling)
        sources.append(Source("second", drafter, {NOW: setting.draft_sampling}))
    draws = np.random.default_rng([setting.seed, prompt.index, 1])
    return along(bench.pair, [*ids, *answer], len(ids), setting.sampling, sources, draws)


def _rounds_of(
    bench: Bench,
    trace: Trace,
    ids: list[int],
    measured: Along,
    columns: dict[str, tables.Columns],
    row: dict[str, Any],
) -> None:
    """The rounds of a run, and a cause for every rejection."""
    output = trace.output_ids
    texts = {token: text.data for token, text in trace.tokens.items()}
    text = [*ids, *output]
    index = row["prompt"]
    begin = 0
    limit = _draft_limit(bench)
    for round in trace.rounds:
        room = min(trace.k, trace.max_new_tokens - begin - 1)
        full = limit is not None and len(ids) + begin + room > limit
        short = max(0, room - round.k) if full else 0
        drafts = round.draft_tokens
        lost = round.k - round.accepted
        _append(
            columns["rounds"],
            prompt=index,
            round=round.number,
            start=begin,
            k=round.k,
            accepted=round.accepted,
            committed=len(round.committed),
            short=short,
            draft_seconds=_short(round.draft_seconds),
            verify_seconds=_short(round.verify_seconds),
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
                columns["positions"],
                prompt=index,
                round=round.number,
                position=number,
                state=position.state,
                token=position.token,
                p=_short(position.p),
                q=_short(position.q),
                u=_short(position.u),
                beta=_short(position.beta),
                p_entropy=_short(position.p_entropy),
                q_entropy=_short(position.q_entropy),
                p_rank=position.p_rank,
                q_rank=position.q_rank,
                instead=instead,
                cause=cause,
                lost=lost if position.state == "rejected" else 0,
            )
        row["lost"] += lost + short
        begin += len(round.committed)
    row["rounds"] = len(trace.rounds)
    row["drafted"] = sum(r.k for r in trace.rounds)
    row["accepted"] = sum(r.accepted for r in trace.rounds)
    row["finish"] = trace.finish or ""


def _rounds_along(
    bench: Bench,
    prompt: Prompt,
    ids: list[int],
    answer: list[int],
    measured: Along,
    columns: dict[str, tables.Columns],
    row: dict[str, Any],
) -> None:
    """Rounds that would have written a served text, drawn from their distribution given that text."""
    setting = bench.setting
    column = measured.columns[f"draft|{NOW}"]
    keep = kept(column.q, measured.p)
    draws = np.random.default_rng([setting.seed, prompt.index, 2])
    texts = [bench.pair.token_text(token).data for token in answer]
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
            columns["rounds"],
            prompt=prompt.index,
            round=number,
            start=begin,
            k=k,
            accepted=accepted,
            committed=accepted + 1,
            short=0,
            draft_seconds=None,
            verify_seconds=None,
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
                drafted = [bench.pair.token_text(token).data]
                same = causes.same_text(drafted, texts[at : at + setting.k + 1])
                removed = "top-k" if p == 0.0 and not setting.sampling.greedy else ""
                cause = _cause(measured, at, [*ids, *answer[:at]], answer[at], numbers, removed, same)
            _append(
                columns["positions"],
                prompt=prompt.index,
                round=number,
                position=place + 1,
                state="accepted" if judged else "rejected",
                token=token,
                p=_short(p),
                q=_short(q),
                u=None,
                beta=_short(measured.beta[f"draft|{NOW}"][at]),
                p_entropy=_short(measured.p_entropy[at]),
                q_entropy=_short(measured.q_entropy[at]),
                p_rank=None,
                q_rank=None,
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


def _draft_limit(bench: Bench) -> int | None:
    return make_drafter(bench.setting.drafter, bench.pair, bench.setting.draft_sampling).context_length


def _tokens(
    bench: Bench,
    prompt: Prompt,
    ids: list[int],
    answer: list[int],
    measured: Along,
    columns: dict[str, tables.Columns],
) -> None:
    """A row for each committed token."""
    lookup = NgramDrafter(bench.pair, bench.setting.draft_sampling, smallest=causes.COPIED)
    proposed, right = lookups([*ids, *answer], len(ids), lookup)
    starts = columns["rounds"]["start"] if prompt.answer is None else []
    rounds = (
        np.searchsorted(np.array(starts), np.arange(len(answer)), side="right")
        if starts
        else [0] * len(answer)
    )
    table = columns["tokens"]
    second = measured.beta.get(f"second|{NOW}")
    for i, token in enumerate(answer):
        text = bench.pair.token_text(token)
        _append(
            table,
            prompt=prompt.index,
            index=i,
            round=int(rounds[i]),
            token=token,
            text=visible(text)[:100],
            kind=kind_of(text),
            p=_short(measured.p[i]),
            logprob=_short(measured.logprob[i]),
            p_top=_short(measured.p_top[i]),
            p_entropy=_short(measured.p_entropy[i]),
            q_entropy=_short(measured.q_entropy[i]),
            q_logprob=_short(measured.q_logprob[i]),
            beta=_short(measured.beta[f"draft|{NOW}"][i]),
            beta_second=None if second is None else _short(second[i]),
            outside=_short(measured.outside[i]),
            lacking=bool(measured.lacking[i]),
            looked_up=int(proposed[i]),
            looked_up_right=int(right[i]),
        )
    for key, column in measured.columns.items():
        for depth, q in enumerate(column.q):
            table[f"{tables.LAW}{key}|{depth}"] = [_short(value) for value in q.tolist()]


def _append(columns: tables.Columns, **values: Any) -> None:
    for name, value in values.items():
        columns[name].append(value)


def _short(value: Any) -> Any:
    """A number with few digits; None for what is not finite."""
    if isinstance(value, list):
        return [_short(v) for v in value]
    if value is None or not isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")
