"""`python -m specviz trace`: run speculative decoding and log every round."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specviz.cli import options
from specviz.decoding import codec
from specviz.decoding.controls import SamplingConfig, bind
from specviz.decoding.drafters import COPYING, settings_of
from specviz.decoding.drafters.suffix import LONGEST, SuffixDrafter
from specviz.decoding.run import DecodingRun
from specviz.decoding.trace import ModelInfo, Round, Trace
from specviz.reading.metrics import metrics
from specviz.reading.notes import notes, silence
from specviz.recipe import Recipe
from specviz.speed import adaptive
from specviz.speed.adaptive import AdaptiveK
from specviz.speed.clock import clock_for
from specviz.speed.measure import chooser
from specviz.tokens import visible

MEASURED = 256  # tokens of the prompt that passes are measured behind, at most


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("trace", help="run a prompt and log every round")
    options.add_run_options(parser)
    options.add_pair_options(parser)
    parser.add_argument(
        "--rule",
        default="exact",
        metavar="NAME",
        help="exact: token by token; block: block verification; or a fault of the gallery (default: exact)",
    )
    parser.add_argument(
        "--earlier",
        type=Path,
        action="append",
        default=[],
        metavar="TRACE",
        help="a saved run of this target whose text the drafter suffix searches too; may be repeated",
    )
    parser.add_argument(
        "--adaptive",
        action="store_true",
        help="choose K before each round, from 0 to -k, by what passes cost here (measured first, in about a "
        "second) and by what was accepted lately; the output's distribution stays the target's",
    )
    parser.add_argument("--out", type=Path, help="save the trace (.json or .json.gz)")
    parser.add_argument("--json", action="store_true", help="print a summary as JSON instead of the log")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    recipe = options.recipe(args, rule=args.rule)
    if args.adaptive and recipe.k < 1:
        raise ValueError("--adaptive needs -k 1 or more: the largest K that may be chosen")
    if args.out:
        options.require_writable(args.out)
    pair = options.load(args)
    options.end_progress_line()
    more: dict[str, Any] = {}
    if args.earlier:
        draft_sampling = bind(recipe.samplings(pair)[1], pair, len(recipe.prompt_ids(pair)))
        more["drafter"] = _remembering(args.drafter, args.earlier, pair, draft_sampling)
    decoding = recipe.start(pair, **more, **options.stops(args))
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    if not args.json:
        print(_head(decoding.trace(), args.rule))
    status = 0
    try:
        for round in _adaptive(decoding, recipe) if args.adaptive else decoding:
            if not args.json:
                print(_round_line(round, decoding.trace(), colour), flush=True)
    except KeyboardInterrupt:
        print("stopped; what was done so far follows", file=sys.stderr)
        status = 130
    except Exception as error:  # whatever it was, such as a device out of memory: the rounds before it stand
        decoding.error = decoding.error or f"{type(error).__name__}: {error}"
        print(f"specviz: {decoding.error}", file=sys.stderr)
        status = 1
    trace = decoding.trace()
    if args.out:
        codec.save(trace, args.out)
    print(json.dumps(_summary(trace), ensure_ascii=False) if args.json else _foot(trace, args.out))
    return status


def _adaptive(decoding: DecodingRun, recipe: Recipe) -> Iterator[Round]:
    """The rounds of a run, with K chosen before each; afterwards its K is the largest that was allowed."""
    pair: Any = decoding.pair
    clock, _ = clock_for(pair.info.target.device)
    room = max(1, min(MEASURED, pair.target.context_length - 80))
    costs = chooser(pair, decoding.prompt_ids[:room], recipe.drafter, recipe.temperature, clock)
    allowed = {k: v for k, v in costs.v.items() if k <= recipe.k}
    try:
        yield from adaptive.decode(decoding, AdaptiveK(costs.c, allowed))
    finally:
        decoding.k = recipe.k


def _remembering(kind: str, paths: list[Path], pair: Any, sampling: SamplingConfig) -> SuffixDrafter:
    """The suffix drafter with the texts of earlier runs."""
    name, settings = settings_of(kind)
    if name != SuffixDrafter.kind:
        raise ValueError("--earlier is for the drafter suffix, which searches earlier answers")
    texts = []
    for path in paths:
        trace = codec.load(path)
        if (trace.pair.fingerprint, trace.pair.vocab_size) != (pair.info.fingerprint, pair.vocab_size):
            raise ValueError(f"{path} is a run of {trace.pair.name}, with other token ids perhaps")
        texts.append((*trace.prompt_ids, *trace.output_ids))
    return SuffixDrafter(pair, sampling, earlier=texts, longest=settings.get("longest", LONGEST))


def _head(trace: Trace, rule: str) -> str:
    lines = [f"target {_model(trace.pair.target)}"]
    if trace.pair.draft and trace.drafter.partition(":")[0] not in COPYING:
        lines.append(f"draft  {_model(trace.pair.draft)}")
    size = f"tree {trace.tree}" if trace.tree else f"K = {trace.k}"
    lines.append(f"drafter {trace.drafter} · {size} · T = {trace.sampling.temperature} · seed {trace.seed}")
    if rule != "exact":
        lines[-1] += f" · rule {rule}"
    lines.append(f"prompt {_tokens(trace, trace.prompt_ids)}")
    return "\n".join(lines)


def _model(info: ModelInfo) -> str:
    return f"{info.name} ({info.parameters / 1e6:.1f} M parameters, {info.device}, {info.dtype})"


def _tokens(trace: Trace, ids: tuple[int, ...]) -> str:
    return "".join(visible(trace.tokens[i]) for i in ids)


def _round_line(round: Round, trace: Trace, colour: bool) -> str:
    cells = []
    for row in round.positions[:-1]:
        detail = ""
        if row.state in ("accepted", "rejected") and row.threshold is not None:
            detail = f" {row.threshold:.2f}"
            detail += f" u {row.u:.2f}" if row.u is not None else ""
        cells.append(
            _cell(row.state, _tokens(trace, (row.token,)) if row.token is not None else "", detail, colour)
        )
    cells.append(_cell(round.outcome, _tokens(trace, (round.token,)), "", colour))
    times = f"draft {round.draft_seconds * 1e3:.0f} ms, verify {round.verify_seconds * 1e3:.0f} ms"
    count = len(round.committed)
    end = f" · ends: {round.finish}" if round.finish else ""
    return f"{round.number:>4}  {'  '.join(cells)}  │ {round.accepted} of {round.k} → {count} · {times}{end}"


def _cell(state: str, token: str, detail: str, colour: bool) -> str:
    text = f"{options.GLYPHS[state]}{token}{detail}"
    return f"\x1b[{options.COLOURS[state]}m{text}\x1b[0m" if colour else text


def _foot(trace: Trace, out: Path | None) -> str:
    m = metrics(trace.rounds)
    legend = "  ".join(f"{glyph} {state}" for state, glyph in options.GLYPHS.items())
    lines = [legend, "", _tokens(trace, trace.output_ids), ""]
    if m.rounds:
        lines.append(
            f"{m.rounds} rounds · {m.emitted} tokens · "
            f"draft acceptance rate {_number(m.draft_acceptance_rate)} · "
            f"mean acceptance length {_number(m.mean_acceptance_length)} · α {_number(m.alpha)} · "
            f"{_number(m.tokens_per_second)} tokens/s"
        )
        lines.append("acceptance by position " + (" ".join(f"{r:.2f}" for r in m.per_position) or "–"))
        if found := silence(trace):
            lines.append(f"draft's context full from token {found.first:,} on · {found.rounds} rounds")
    lines += [f"note: {note}" for note in notes(trace)]
    if out:
        lines.append(f"saved {out}")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _summary(trace: Trace) -> dict:
    m, full = metrics(trace.rounds), silence(trace)
    return {
        "text": trace.text(trace.output_ids),
        "output_ids": trace.output_ids,
        "finish": trace.finish,
        "error": trace.error,
        "drafter": trace.drafter,
        "k": trace.k,
        "seed": trace.seed,
        "sampling": asdict(trace.sampling),
        "draft_sampling": asdict(trace.draft_sampling),
        "pair": asdict(trace.pair),
        "metrics": {**asdict(m), "tokens_per_second": m.tokens_per_second},
        "draft_context_full": None if full is None else asdict(full),
        "notes": notes(trace),
        "outcomes": [round.outcome for round in trace.rounds],
        "accepted": [round.accepted for round in trace.rounds],
    }
