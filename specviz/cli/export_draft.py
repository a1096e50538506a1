"""`python -m specviz export-draft`: trained draft weights as a folder that engines load."""

import argparse
from pathlib import Path

from specviz.cli import options

KINDS = ("eagle-1", "medusa")


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "export-draft",
        help="write trained draft weights in a layout that engines load",
        description="Writes what train-drafts made: EAGLE-1 in the layout of SafeAILab/EAGLE, Medusa heads "
        "in vLLM's. The folder is read back and compared; --draft takes it too.",
    )
    parser.add_argument("out", type=Path, help="new folder")
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--target", default="built-in", help="built-in, a hub id or a local folder")
    parser.add_argument("--weights", type=Path, help="file of train-drafts (default: the one in use)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, mps (default: the fastest there is)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from specviz.models import checkpoints, sources
    from specviz.models.checkpoints import layouts
    from specviz.models.language_model import TransformersModel
    from specviz.models.progress import silent

    loaded = sources.load(args.target, sources.place(args.device, None), options.progress_line())
    options.end_progress_line()
    target = TransformersModel(loaded.model, loaded.name, loaded.vocab_size, loaded.known_ids())
    path = layouts.write(args.kind, args.weights, target, loaded.fingerprint, args.out)
    found = checkpoints.find(str(args.out), silent)
    assert found is not None
    found.load(target, silent)
    print(f"{path}\n{found.layout.name}, {found.weights.numbers / 1e6:,.2f} M numbers; read back")
    return 0
