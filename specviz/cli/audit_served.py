"""`audit --target-served URL`: options and pair of an audit whose target another engine serves."""

import argparse
import sys
from pathlib import Path
from typing import Any

from specviz.cli import options


def _leading(text: str) -> int:
    return 0 if text == "all" else options.whole(1)(text)


_leading.__name__ = "whole number"


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "a served target",
        "--target names the model that is served, for its tokenizer; the draft is loaded here",
    )
    group.add_argument(
        "--target-served",
        default="",
        metavar="URL",
        help="take p from vLLM, SGLang or llama.cpp at this address; a key is read from SPECVIZ_SERVED_KEY",
    )
    group.add_argument(
        "--served-leading",
        type=_leading,
        default=-1,
        metavar="N",
        help="likeliest tokens a position to ask for, or all (default: 20, of llama.cpp 100); beta is an "
        "interval where there are others",
    )
    group.add_argument(
        "--served-engine",
        nargs="?",
        const=Path(),
        type=Path,
        metavar="LOG",
        help="put beside it what the server says of its own speculation in each request and in /metrics, and "
        "in this file of its log if one is named",
    )


def log_of(args: argparse.Namespace) -> Path | None:
    """The server's log that was named; None without one.

    Raises:
        ValueError: if it is not there, or there is no server.
    """
    if not args.target_served and (args.served_engine is not None or args.served_leading != -1):
        raise ValueError("--served-engine and --served-leading need --target-served URL")
    log: Path | None = args.served_engine
    if log is None or log == Path():
        return None
    if not log.is_file():
        raise ValueError(f"there is no log {log}: --served-engine FILE names one, or leave the file out")
    return log


def load_bench(args: argparse.Namespace, setting: Any) -> Any:
    """The draft, and the server as its target.

    Raises:
        LoadError, ServerError, ValueError: saying what cannot be audited, or reached.
    """
    from specviz.diagnosis.served import engines
    from specviz.diagnosis.served.http import Server
    from specviz.diagnosis.served.pairs import served_bench
    from specviz.models import sources

    server = Server(setting.served, said=lambda text: print(f"\n{text}", file=sys.stderr, flush=True))
    engine = engines.find(server, None if setting.leading < 0 else setting.leading)
    place = sources.place(args.draft_device or args.device, args.draft_dtype or args.dtype)
    listen = args.served_engine is not None
    bench = served_bench(engine, setting, place, options.progress_line(), listen)
    options.end_progress_line()
    shown = engine.leading or "all"
    print(f"p from {engine.name} ({engine.model}), {shown} leading tokens a position", file=sys.stderr)
    return bench
