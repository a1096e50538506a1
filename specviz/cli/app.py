"""`specviz app`: start the app in a browser, from a checkout or from an installed package."""

import argparse
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "app",
        help="start the app",
        description="Starts the server and prints its address. What follows is passed to Streamlit, as "
        "--server.port 8600.",
    )
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="…", help="options of Streamlit")
    parser.set_defaults(run=run)


def script() -> Path:
    """app.py: beside the package in a checkout, inside it where it was installed."""
    installed = PACKAGE / "_app" / "app.py"
    return installed if installed.exists() else PACKAGE.parent / "app.py"


def run(args: argparse.Namespace) -> int:
    from specviz.settings import settings

    settings()  # a wrong setting is said here and not on the first page
    command = [sys.executable, "-m", "streamlit", "run", str(script()), *args.options]
    os.execv(sys.executable, command)
