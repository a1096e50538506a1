"""One prompt of an audit: its run, the numbers along the text that came out, and what they say.

The result is a plain value that JSON can hold (a *part*), so that an audit is as safe as its last part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from specviz.decoding.controls import SamplingConfig, bind
from specviz.decoding.drafters import COPYING, make_drafter
from specviz.decoding.faults import get_fault
from specviz.decoding.faults.bookkeeping import WrappedDrafter
from specviz.decoding.protocols import Pair
from specviz.decoding.run import DecodingRun, RunError
from specviz.decoding.trace import Trace
from specviz.diagnosis import rows, tables
from specviz.diagnosis.along import Along, along
from specviz.diagnosis.prompts import Prompt, answer_ids, encode
from specviz.diagnosis.served.target import ServedTarget
from specviz.diagnosis.setting import STYLES, Setting
from specviz.diagnosis.walkers import EQUAL, NOW, Source
from specviz.exactness.cache_check import check_caches
from specviz.exactness.evidence import emitted, leak_test


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
        runs: the prompts' runs if they were made elsewhere (`specviz.capture`); () to make them here.
    """

    pair: Pair
    setting: Setting
    second: Pair | None = None
    draft_tokenizer: Any = None
    runs: tuple[Trace, ...] = ()


Observed = tuple[dict[str, Any], Trace | None]
"""The part, and the trace of the run; None for a text that was served."""


def observe(bench: Bench, prompt: Prompt) -> Iterator[Observed | None]:
    """Run and measure one prompt, a little at a time: None after each piece of work, the result at the end.

    What cannot be measured is named in the part's `error`.
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
    served = bench.pair.target if isinstance(bench.pair.target, ServedTarget) else None
    try:
        if bench.runs:
            trace = bench.runs[prompt.index]
            ids, answer, leads = list(trace.prompt_ids), list(trace.output_ids), {}
        else:
            ids = encode(bench.pair, prompt, setting.style(bool(prompt.messages)))
            leads = _leads(bench, prompt, ids)
        if not bench.runs and prompt.answer is None and served is None:
            run = _run(bench, prompt, ids, leads.get(setting.draft_prompt))
            for _ in run:
                yield None
            trace = run.trace()
            if prompt.index < setting.self_checks:
                part["caches"] = _caches(run, setting)
                yield None
            answer = list(trace.output_ids)
        elif not bench.runs and prompt.answer is not None:
            answer = _answer(bench, prompt, ids)
        if served is not None:
            if prompt.answer is None:
                answer, part["engine"] = served.write(
                    ids, setting.sampling, _room(bench, ids), setting.seed + prompt.index, setting.ignore_eos
                )
                yield None
            for _ in served.read([*ids, *answer], len(ids)):
                yield None
        row |= {"prompt_tokens": len(ids), "tokens": len(answer)}
        measuring = _measure(bench, prompt, ids, answer, leads)
        for measured in measuring:
            if measured is None:
                yield None
        assert measured is not None
        texts = [bench.pair.token_text(token) for token in answer]
        row["answer"] = b"".join(t.data for t in texts if not t.special).decode("utf-8", "replace")[:4000]
        if trace is None:
            rows.served(bench.pair, setting, prompt.index, ids, answer, measured, columns, row)
        else:
            limit = make_drafter(setting.drafter, bench.pair, setting.draft_sampling).context_length
            rows.run(trace, ids, measured, limit, columns, row)
            part["emitted"] = [
                rows.short([e.p, e.q, e.root_sum, e.sesqui_sum]) for r in trace.rounds for e in emitted(r)
            ]
            row["log_evidence"] = leak_test([trace]).log_evidence[-1] if part["emitted"] else 0.0
        rows.tokens(bench.pair, setting, prompt.index, ids, answer, measured, columns)
    except (ValueError, RunError) as error:
        row["error"] = str(error)[:500]
    row["seconds"] = perf_counter() - began
    for name, value in row.items():
        columns["prompts"][name].append(value)
    yield part, trace


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
        draft_sampling=bind(setting.draft_sampling, bench.pair, len(ids if lead is None else lead)),
        max_new_tokens=setting.max_new_tokens,
        seed=setting.seed + prompt.index,
        ignore_eos=setting.ignore_eos,
        chat=setting.style(bool(prompt.messages)) == "chat",
    )
    run.prompt = prompt.text
    if lead is not None:
        run.drafter = OwnPrompt(run.drafter, len(ids), lead)
    return run


def _answer(bench: Bench, prompt: Prompt, ids: list[int]) -> list[int]:
    assert prompt.answer is not None
    # A server is given the text whole, and one more position to answer in.
    room = bench.pair.target.context_length - len(ids) - isinstance(bench.pair.target, ServedTarget)
    answer = answer_ids(bench.pair, prompt.answer)[: max(0, room)]
    if not answer:
        raise ValueError("the answer has no tokens, or the prompt fills the target's context")
    return answer


def _room(bench: Bench, ids: list[int]) -> int:
    room = min(bench.setting.max_new_tokens, bench.pair.target.context_length - len(ids) - 1)
    if room < 1:
        raise ValueError("the prompt fills the target's context")
    return room


def _caches(run: DecodingRun, setting: Setting) -> list[dict[str, Any]]:
    """The caches at the end of a run against uncached passes. One check covers all rounds: what a cut got
    wrong stays in the cache."""
    found = []
    for check in check_caches(run):
        if check.role == "draft" and setting.draft_prompt != "same":
            continue  # it holds another prompt, on purpose
        found.append({"role": check.role, "ok": check.ok, "sentence": check.sentence})
    return found


def _bound(bench: Bench, start: int) -> Setting:
    """The setting for texts whose prompt has `start` tokens."""
    setting, pair = bench.setting, bench.pair
    return replace(
        setting,
        sampling=bind(setting.sampling, pair, start),
        draft_sampling=bind(setting.draft_sampling, pair, start),
    )


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
) -> Iterator[Along | None]:
    setting = _bound(bench, len(ids))
    grid = (
        {NOW: setting.draft_sampling} if setting.drafter.partition(":")[0] in COPYING else samplings(setting)
    )

    def source(name: str, lead: list[int] | None) -> Source:
        own = setting if lead is None else _bound(bench, len(lead))  # the draft's text begins elsewhere
        drafter = make_drafter(setting.drafter, bench.pair, own.draft_sampling)
        controls = {NOW: own.draft_sampling, **samplings(own)}
        tried = {name: controls[name] for name in grid}
        return Source(name, drafter, tried, None if lead is None else tuple(lead))

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
