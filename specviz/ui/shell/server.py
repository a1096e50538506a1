"""The app as a server for others: health, headers, logs and a warm start.

`specviz app` runs this; `streamlit run app.py` serves the same pages without it.
"""

import argparse
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import specviz
from specviz.settings import Settings, settings
from specviz.ui.state import saved

HEALTH = "/specviz/health"
# What a browser is told beside every answer. A course platform may show the app in a frame of its own, so
# frames are not forbidden here; a proxy in front of the app can.
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
}
LOG = logging.getLogger("specviz")


@dataclass(slots=True)
class Readiness:
    """Whether visitors find what they came for.

    Attributes:
        state: "ready"; "loading" while a warm start goes on; "failed" if it did not succeed.
        reason: why it failed.
    """

    state: str = "ready"
    reason: str = ""


class JsonLines(logging.Formatter):
    """A log line as one JSON object. It never holds prompts, texts, addresses or keys: none are logged."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class Headers:
    """ASGI middleware that adds `HEADERS` to every answer."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        async def with_headers(message: dict) -> None:
            if message["type"] == "http.response.start":
                held = {name.lower() for name, _ in message.get("headers", [])}
                more = [(name, value) for name, value in HEADERS.items() if name not in held]
                message = {**message, "headers": [*message.get("headers", []), *more]}
            await send(message)

        await self.app(scope, receive, with_headers)


def build(script: Path, held: Settings, warm: Callable[[], None]) -> st.App:
    """The server.

    Args:
        script: app.py.
        held: the settings in force.
        warm: loads the pair; called in a thread of its own where the settings ask for a warm start.
    """
    readiness = Readiness()

    def load() -> None:
        try:
            warm()
        except Exception as error:
            readiness.state, readiness.reason = "failed", str(error)
            LOG.exception("the pair could not be loaded")
        else:
            readiness.state = "ready"
            LOG.info("the pair is loaded")

    @asynccontextmanager
    async def life(app: st.App) -> AsyncIterator[None]:
        LOG.info("started, version %s", specviz.__version__)
        if held.warm_start and not held.read_only:
            readiness.state = "loading"
            Thread(target=load, name="warm start", daemon=True).start()
        saved.restore()
        yield
        saved.save()
        LOG.info("stopped")

    async def health(request: Request) -> JSONResponse:
        answer = {"state": readiness.state, "version": specviz.__version__}
        if readiness.reason:
            answer["reason"] = readiness.reason
        return JSONResponse(answer, status_code=200 if readiness.state == "ready" else 503)

    return st.App(script, lifespan=life, routes=[Route(HEALTH, health)], middleware=[Middleware(Headers)])


def log_to_stderr() -> None:
    """One JSON object a line, for whoever collects logs."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("script", type=Path)
    parser.add_argument("--option", action="append", default=[])
    args = parser.parse_args(argv)
    log_to_stderr()
    options = dict(option.split("=", 1) for option in args.option)
    sys.argv = [str(args.script)]  # Streamlit looks for its configuration beside what was started
    build(args.script, settings(), _warm).run(config=options)


def _warm() -> None:
    """Fetch and load the pair that a page opens with."""
    from specviz.recipe import Recipe
    from specviz.ui.state import pairs

    pairs.load(Recipe(target=settings().target, draft=settings().draft), lambda progress: None)


if __name__ == "__main__":
    main(sys.argv[1:])
