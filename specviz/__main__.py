"""The command line: specviz COMMAND. Errors are one clear line and a non-zero exit."""

import argparse
import importlib
import sys

import specviz
from specviz.models.errors import LoadError

COMMANDS = (
    "app",
    "health",
    "pair",
    "trace",
    "exact",
    "audit",
    "record",
    "bench",
    "speed",
    "train-drafts",
    "convert-draft",
    "export-draft",
    "fetch",
    "facts",
    "doctor",
)


def parser() -> argparse.ArgumentParser:
    """The parser of every command; the parsed arguments carry their command as `run`."""
    made = argparse.ArgumentParser(prog="specviz", description=specviz.__doc__)
    subparsers = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f"specviz.cli.{name.replace('-', '_')}").add_parser(subparsers)
    return made


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except (LoadError, ValueError, RuntimeError, OSError) as error:
        print(f"specviz: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
