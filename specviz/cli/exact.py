"""`python -m specviz exact`: check exactness on any pair, or show that a fault is caught."""

import argparse
import json
import math
import sys
from dataclasses import asdict
from typing import Any

from specviz.cli import options
from specviz.decoding.block import EXACT_RULES
from specviz.decoding.faults import FAULTS, Fault, Spot, get_fault, starter
from specviz.decoding.trace import Trace
from specviz.decoding.verify import verify_block
from specviz.exactness.arithmetic import arithmetic
from specviz.exactness.cache_check import CacheCheck, check_caches
from specviz.exactness.continuations import LONGEST, EndToEnd
from specviz.exactness.evidence import leak_test
from specviz.exactness.greedy import greedy_checks
from specviz.exactness.recompute import recompute
from specviz.exactness.sampling import SamplingTest
from specviz.recipe import EXACT

# A control that nine times in ten needs fewer draws than this share of those made has to be caught.
CONTROL_SHARE = 0.5


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "exact",
        help="check exactness: arithmetic, draws, evidence, whole continuations, caches",
        description="Runs the prompt and checks that its output follows the target's distribution. Exits 1 "
        "if a check fails. A correct engine fails by chance in at most 1 of 20 runs, by the evidence on the "
        "run alone; draws and continuations give a false alarm in about 1 of 1,000 at most.",
    )
    options.add_run_options(parser)
    options.add_pair_options(parser)
    parser.add_argument(
        "--position", type=_position, metavar="ROUND:ROW", help="both from 1 (default: the first drafted row)"
    )
    parser.add_argument(
        "--verifier",
        default=EXACT,
        metavar="NAME",
        help=f"exact, block (block verification), or a fault: {', '.join(FAULTS)}; also lenience=X and "
        "top-p-set=X",
    )
    parser.add_argument(
        "--control",
        default="correction-from-p",
        metavar="NAME",
        help="the fault that has to be caught in the same draws (default: correction-from-p)",
    )
    parser.add_argument(
        "--draws", type=options.whole(1), default=200_000, help="at the position (default: 200000)"
    )
    parser.add_argument(
        "--continuations", type=options.whole(0), default=1000, help="0 for none (default: 1000)"
    )
    parser.add_argument(
        "--length",
        type=options.whole(1, LONGEST),
        default=3,
        help=f"tokens of a continuation, at most {LONGEST} (default: 3)",
    )
    parser.add_argument(
        "--rechecks", type=options.whole(0), default=10, help="re-run without look-ups (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    recipe = options.recipe(args, rule=args.verifier)
    verifier = EXACT_RULES.get(args.verifier)
    fault = None if verifier else get_fault(args.verifier)
    control = get_fault(args.control)
    if not control.one_position:
        raise ValueError(f"{control.name} shows over several positions only and is no control for draws")
    pair = options.load(args)
    options.end_progress_line()
    decoding = recipe.start(pair, **options.stops(args))
    report = _Report(args.json)
    report.say(f"target {pair.info.target.name} · drafter {args.drafter} · verifier {args.verifier}")

    caches: list[CacheCheck] = []
    for _ in decoding:
        caches += check_caches(decoding)
    trace = decoding.trace()
    report.about = {"pair": asdict(trace.pair), "output_ids": trace.output_ids, "verifier": args.verifier}

    place = args.position or _first_drafted(trace)
    if place is None:
        report.say("no position was drafted, so there is none to draw at")
    else:
        number, row = place
        spots = recompute(pair, trace, number).spots
        if not 1 <= row <= len(spots):
            raise ValueError(f"round {number} has {len(spots)} drafted positions, not {row}")
        report.about["position"] = {"round": number, "row": row}
        _at_position(report, spots[row - 1], fault, control, args.draws, args.seed)
    prompt, (sampling, draft_sampling) = recipe.prompt_ids(pair), recipe.samplings(pair)
    if sampling.greedy:
        greedy = greedy_checks(
            pair,
            prompt,
            start=starter(args.verifier),
            drafter=recipe.drafter,
            sampling=sampling,
            draft_sampling=draft_sampling,
            ignore_eos=recipe.ignore_eos,
            max_new_tokens=recipe.max_tokens,
            stop=args.stop,
        )
        said = " ".join(check.sentence for check in greedy)
        report.add("greedy", all(c.ok for c in greedy), said, [asdict(check) for check in greedy])
    evidence = leak_test([trace])
    report.add("run", evidence.ok, evidence.sentence, {**asdict(evidence), "evidence": evidence.evidence})
    if args.continuations:
        test = EndToEnd(
            pair,
            prompt,
            fault=fault,
            verifier=verifier or verify_block,
            drafter=recipe.drafter,
            k=recipe.k,
            sampling=sampling,
            draft_sampling=draft_sampling,
            length=args.length,
            seed=recipe.seed,
        )
        test.advance(args.continuations)
        test.recheck(args.rechecks if test.lookups else 0)
        check = test.check()
        report.add("end_to_end", check.ok, check.sentence, asdict(check))
    bad = [check for check in caches if not check.ok]
    worst = bad[0] if bad else max(caches, key=lambda check: check.logit_diff or 0.0, default=None)
    report.add(
        "caches",
        not bad,
        f"{len(caches) - len(bad)} of {len(caches)} cache checks passed"
        + (f"; {worst.sentence}" if worst else "."),
        [asdict(check) for check in caches],
    )
    report.close()
    return 0 if report.ok else 1


def _at_position(
    report: "_Report", spot: Spot, fault: Fault | None, control: Fault, draws: int, seed: int
) -> None:
    """Checks 1 and 2, and the negative control of the second."""
    if fault is not None and not fault.one_position:
        report.say(f"{fault.name} shows over several positions: no arithmetic and no draws at one")
    else:
        sums = arithmetic(spot, fault)
        report.add("arithmetic", sums.ok, sums.sentence, asdict(sums))
        test = SamplingTest(spot, fault, seed)
        test.add(draws)
        check = test.check()
        said = None if check.says == "too few" else check.says == "agrees"
        report.add("sampling", said, check.sentence, {**asdict(check), "says": check.says})
    wrong = SamplingTest(spot, control, seed)
    wrong.add(draws)
    check = wrong.check()
    needed = wrong.draws_to_catch()
    due = needed is not None and needed <= CONTROL_SHARE * draws
    sentence = f"control {control.name}: {'caught' if check.caught else 'not caught'}. {check.sentence}"
    if not check.caught:
        sentence += (
            f" It would take about {needed:,} draws." if needed else " It changes nothing at this position."
        )
    values = {**asdict(check), "says": check.says, "draws_to_catch": needed}
    report.add("control", check.caught or not due, sentence, values)


def _first_drafted(trace: Trace) -> tuple[int, int] | None:
    return next(((r.number, 1) for r in trace.rounds if r.k), None)


def _position(text: str) -> tuple[int, int]:
    """Of "3:2": round 3, row 2."""
    number, _, row = text.partition(":")
    try:
        return int(number), int(row)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROUND:ROW, such as 1:2") from None


class _Report:
    """What the checks found, as lines while it goes or as one JSON object at the end."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.about: dict[str, Any] = {}
        self.results: dict[str, Any] = {}

    @property
    def ok(self) -> bool:
        return all(result["ok"] is not False for result in self.results.values())

    def say(self, line: str) -> None:
        if not self.as_json:
            print(line, flush=True)

    def add(self, name: str, ok: bool | None, sentence: str, values: Any) -> None:
        """`ok` is None if nothing can be said either way."""
        self.results[name] = {"ok": ok, "sentence": sentence, "values": values}
        glyph = "…" if ok is None else "✓" if ok else "✗"
        self.say(f"{glyph} {name.replace('_', ' ')}: {sentence}")

    def close(self) -> None:
        if self.as_json:
            print(json.dumps(_plain({"ok": self.ok, **self.about, "checks": self.results}), allow_nan=False))
        else:
            failed, undecided = self._named(False), self._named(None)
            passed = "all checks passed" + (f", nothing to be said of: {undecided}" if undecided else "")
            print(passed if self.ok else f"failed: {failed}", file=sys.stdout)

    def _named(self, ok: bool | None) -> str:
        """The checks that found this."""
        return ", ".join(
            name.replace("_", " ") for name, result in self.results.items() if result["ok"] is ok
        )


def _plain(value: Any) -> Any:
    """JSON has no infinity: the evidence of an alternative that an emitted token refutes becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
