"""`python -m specviz convert-draft`: pickled tensors of a draft checkpoint to safetensors."""

import argparse
from pathlib import Path


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "convert-draft",
        help="rewrite a draft checkpoint's pickled tensors as safetensors",
        description="Reads pytorch_model.bin or medusa_lm_head.pt with torch's unpickler for tensors, which "
        "runs no code and refuses anything else, and writes safetensors and the config into a new folder. "
        "Works offline.",
    )
    parser.add_argument("folder", type=Path, help="folder with the pickle and its config.json")
    parser.add_argument("out", type=Path, help="new folder")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from specviz.models import checkpoints
    from specviz.models.checkpoints.pickles import convert
    from specviz.models.progress import silent

    path = convert(args.folder, args.out)
    print(path)
    found = checkpoints.find(str(args.out), silent)
    print("not a draft checkpoint that is known here" if found is None else found.layout.name)
    return 0
