"""`specviz facts`: what the lessons say about other projects, and which of it should be read again."""

import argparse
from datetime import date

HALF_A_YEAR = 183


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "facts",
        help="list what the lessons cite from other projects, and since when it has not been read again",
        description="Engines change. This lists documentation, code and threads that the lessons rely on, "
        "oldest first, if they were last opened more than so many days ago. Exits 1 if there are any.",
    )
    parser.add_argument(
        "--older",
        type=int,
        default=HALF_A_YEAR,
        metavar="DAYS",
        help=f"list what was read more than so many days ago (default {HALF_A_YEAR}; 0 lists all)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from specviz.lessons import library

    if args.older < 0:
        raise ValueError("--older needs a number of days, 0 or more")
    found = library.ageing(date.today(), args.older if args.older else -1)
    for name, where, day in found:
        print(f"{day}  {name}: {where}")
    total = len(library.ageing(date.today(), -1))
    print(f"{len(found)} of {total} facts about other projects were read more than {args.older} days ago.")
    return 1 if found and args.older else 0
