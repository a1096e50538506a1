"""`python -m specviz record`: make the recorded runs again."""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from specviz.cli import options
from specviz.decoding import codec


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("record", help="make the recorded runs of the gallery again")
    parser.add_argument("names", nargs="*", help="which (default: all)")
    parser.add_argument("--folder", type=Path, help="where to put them (default: in the package)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from specviz.models.pair import load_pair
    from specviz.speed.beside import Beside
    from specviz.traces import RECORDINGS, recording

    names = [entry.name for entry in RECORDINGS]
    unknown = [name for name in args.names if name not in names]
    if unknown:
        raise ValueError(f"there is no recording {unknown[0]!r}; there are {', '.join(names)}")
    if args.folder is not None:
        options.require_writable(args.folder / "x")
    chosen = [recording(name) for name in args.names] or list(RECORDINGS)
    pairs = {}
    for entry in chosen:
        key = (entry.recipe.target, entry.recipe.draft)
        if key not in pairs:
            pairs[key] = load_pair(key[0], key[1] or None, dtype="float32", progress=options.progress_line())
            options.end_progress_line()
        decoding = entry.recipe.start(pairs[key])
        plain = replace(entry.recipe, drafter="ngram", k=0)
        beside = Beside(partial(plain.start, pairs[key]))
        rounds = []
        for round in decoding:
            rounds.append(round)
            beside.after(len(rounds), over=decoding.finish is not None)
        path = args.folder / entry.path.name if args.folder else entry.path
        codec.save(replace(decoding.trace(), plain_seconds=beside.seconds), path)
        print(f"{path}: {len(rounds)} rounds, {path.stat().st_size / 1024:.0f} KiB")
    return 0
