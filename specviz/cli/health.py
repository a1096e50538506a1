"""`specviz health`: ask a running server whether it is ready."""

import argparse
import json
import sys
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

PATH = "/specviz/health"


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "health",
        help="ask a running server whether it is ready",
        description="Exits 0 if the server answers and its pair is ready, 1 otherwise.",
    )
    parser.add_argument("--port", type=int, default=8501)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{args.port}{PATH}", timeout=4) as answer:
            status, body = answer.status, answer.read()
    except HTTPError as error:
        status, body = error.code, error.read()
    except (URLError, OSError) as error:
        print(f"no server answers on port {args.port}: {error}", file=sys.stderr)
        return 1
    try:
        said = json.loads(body)
    except ValueError:
        print(f"what answers on port {args.port} is not SpecViz", file=sys.stderr)
        return 1
    print(": ".join(str(said[name]) for name in ("state", "reason") if name in said))
    return int(status != 200)
