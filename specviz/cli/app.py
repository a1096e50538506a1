"""`specviz app`: serve the app, from a checkout or from an installed package."""

import argparse
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
SERVER = "specviz.ui.shell.server"


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "app",
        help="start the app",
        description="Starts the server and prints its address. The settings come from specviz.toml and the "
        "environment; `specviz doctor` shows them.",
    )
    parser.add_argument("--address", default="localhost", help="0.0.0.0 lets others in (default: localhost)")
    parser.add_argument("--port", type=int, default=8501, help="(default: 8501)")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of Streamlit, as server.baseUrlPath=/specviz; may be repeated",
    )
    parser.set_defaults(run=run)


def script() -> Path:
    """app.py: beside the package in a checkout, inside it where it was installed."""
    installed = PACKAGE / "_app" / "app.py"
    return installed if installed.exists() else PACKAGE.parent / "app.py"


def run(args: argparse.Namespace) -> int:
    from specviz.settings import settings

    settings()  # a wrong setting is said here and not on the first page
    if wrong := [option for option in args.option if "=" not in option]:
        raise ValueError(f"--option {wrong[0]}: write it as NAME=VALUE")
    options = [f"server.address={args.address}", f"server.port={args.port}", *args.option]
    # A process of its own: what serves pages lies above the commands.
    command = [sys.executable, "-m", SERVER, str(script())]
    for option in options:
        command += ["--option", option]
    os.execv(sys.executable, command)
