"""`python -m specviz pair`: what is known of a pair before its first round; which families are supported."""

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import asdict

from specviz.cli import options
from specviz.models.errors import LoadError

MARKS = {"fine": "✓", "handled": "•", "refused": "✗"}


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "pair",
        help="report on a target and a draft: what is fine, handled, or refused",
        description="Loads a pair and reports on it, line by line. Exits 1 if it is refused.",
    )
    parser.add_argument("target", nargs="?", default="built-in", help=options.SOURCES)
    parser.add_argument("draft", nargs="?", help="likewise (default: the draft trained for the target)")
    options.add_place_options(parser)
    parser.add_argument("--json", action="store_true", help="print the lines as JSON")
    parser.add_argument(
        "--families",
        action="store_true",
        help="try every causal family of transformers on a tiny random model instead (two minutes)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.families:
        return _families()
    status, refusal = 0, ""
    try:
        lines = options.load(args).report
    except LoadError as error:
        lines, refusal, status = error.lines, str(error), 1
    options.end_progress_line()
    if args.json:
        print(json.dumps([asdict(line) for line in lines], ensure_ascii=False))
    else:
        width = max((len(line.subject) for line in lines), default=0)
        for line in lines:
            print(f"{MARKS[line.state]} {line.state:<8} {line.subject:<{width}}  {line.text}")
    if refusal and not lines:
        print(f"specviz: {refusal}", file=sys.stderr)
    return status


def _families() -> int:
    """Print a section for the README. Exits 1 if a family is wrong."""
    import transformers

    from specviz.models import families

    transformers.logging.set_verbosity_error()
    found: dict[str, list[str]] = defaultdict(list)
    wrong = []
    every = families.families()
    for number, family in enumerate(every, 1):
        print(f"\r\x1b[2K{number} of {len(every)}: {family}", end="", file=sys.stderr, flush=True)
        finding = families.check(family)
        found[families.summary(finding)].append(family)
        wrong += [f"{family}: {finding.reason}"] if finding.result == "wrong" else []
    print("\r\x1b[2K", end="", file=sys.stderr)
    print(f"| transformers {transformers.__version__}: {len(every)} causal families | |\n|---|---|")
    for summary, names in sorted(found.items(), key=lambda entry: -len(entry[1])):
        print(f"| {summary} ({len(names)}) | {', '.join(names)} |")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0
