"""`python -m specviz fetch`: get the built-in pair ahead of time."""

import argparse
import sys

from specviz.cli import options


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("fetch", help="fetch and convert the built-in target ahead of time")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from specviz.models import builtin

    folder = builtin.fetch(options.progress_line())
    options.end_progress_line()
    print(f"the built-in target is in {folder}", file=sys.stdout)
    return 0
