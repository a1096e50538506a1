"""`python -m specviz train-drafts`: train draft weights for a target, or measure some."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.cli import options

if TYPE_CHECKING:
    from specviz.training.course import Course
    from specviz.training.fit import Progress
    from specviz.training.objective import Measured

KINDS = ("model", "medusa", "eagle", "eagle-1")


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "train-drafts",
        help="train draft weights for a target, or measure some",
        description="The target writes text, one pass over it stores its hidden states, and the draft learns "
        "from these. Every step goes on where it was interrupted when the command is given again.",
    )
    parser.add_argument("--kind", choices=KINDS, required=True, help="eagle-1: as engines serve it")
    parser.add_argument("--target", default="built-in", help="built-in, a hub id or a local folder")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, mps (default: the fastest there is)")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help="of the target")
    parser.add_argument("--text", type=Path, help="texts (.jsonl or .jsonl.gz) instead of newly written ones")
    parser.add_argument(
        "--tokens", type=options.whole(1), default=1_000_000, help="tokens of text (default: 1,000,000)"
    )
    parser.add_argument("--passes", type=options.positive, default=4.0, help="over the text (default: 4)")
    parser.add_argument("--minutes", type=options.positive, help="of training at most")
    parser.add_argument("--start", type=Path, help="weights to start from instead of the target's")
    parser.add_argument(
        "--vocabulary",
        type=options.whole(1),
        help="ids that the draft may propose: the most frequent of the text (default: those of --start)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="folder for text, states and checkpoints")
    parser.add_argument("--out", type=Path, help="file of the weights (default: where load_pair finds them)")
    parser.add_argument(
        "--evaluate",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="FILE",
        help="measure weights (default: those in use) on held-out text instead of training; with --text, on "
        "all of that text",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from specviz.training.course import Course

    if args.out is not None and args.evaluate is None:
        options.require_writable(args.out)
    report = options.progress_line()
    course = Course.open(args.target, args.device, args.dtype, args.kind, args.work, report)
    options.end_progress_line()
    if args.evaluate is not None:
        path, texts, measured = course.evaluate(args.evaluate if args.evaluate.name else None, args.text)
        print(f"{path}\n{texts} texts the target wrote, {_measured(measured, args.kind)}")
        return 0
    return _train(course, args)


def _train(course: "Course", args: argparse.Namespace) -> int:
    texts = course.texts(args.text, args.tokens, args.seed, _counter("writing text"))
    training, held_out = course.look(texts, _counter("storing hidden states"))
    print(f"{len(training)} texts to train on, {len(held_out)} held out", file=sys.stderr)
    progress, measured = course.train(
        training,
        held_out,
        passes=args.passes,
        seconds=None if args.minutes is None else 60 * args.minutes,
        start=args.start,
        vocabulary=args.vocabulary,
        report=lambda progress, measured: _note(progress, measured, args.kind),
        seed=args.seed,
    )
    about = {
        "text_tokens": str(sum(len(example.text.ids) - example.text.k for example in training)),
        "tokens_seen": str(progress.tokens),
        "curve": json.dumps(progress.curve),
        "date": datetime.now(UTC).date().isoformat(),
    }
    path = course.save(args.out, measured, about)
    print(f"{path}\nheld out: {_measured(measured, args.kind)}")
    return 0


def _note(progress: "Progress", measured: "Measured", kind: str) -> None:
    minutes = progress.seconds / 60
    print(
        f"{time.strftime('%H:%M:%S')}  {progress.tokens:>9,} tokens, {minutes:5.1f} min  "
        f"{_measured(measured, kind)}",
        flush=True,
    )


def _measured(measured: "Measured", kind: str) -> str:
    each = {"medusa": "head", "eagle": "step", "eagle-1": "step", "model": ""}[kind]

    def listed(values: Sequence[float]) -> str:
        numbers = [f"{value:.3f}" for value in values]
        return " ".join(f"{each} {i}: {n}" for i, n in enumerate(numbers, 1)) if each else numbers[0]

    return (
        f"{measured.tokens:,} positions, T = 1: β {listed(measured.beta)}, "
        f"same greedy token {listed(measured.agreement)}, p outside the draft's ids {measured.outside:.3f}"
    )


def _counter(stage: str) -> Callable[[int, int], None]:
    """A report of (done, total) tokens that says something every few seconds."""
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > 10 or done >= total:
            last = time.monotonic()
            print(f"{stage}: {done:,} of {total:,} tokens", file=sys.stderr, flush=True)

    return report
