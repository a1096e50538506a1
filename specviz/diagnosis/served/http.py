"""Requests to the server of a target: its key, time-outs, waiting, and what its errors say."""

import json
import os
import random
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import urllib3

KEY = "SPECVIZ_SERVED_KEY"  # the only place that a key is read from
TRIES = 6
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; each wait is twice the one before
PATIENCE = 600.0  # seconds that a server may ask to wait; more, and the audit stops
CONNECT, READ = 10.0, 600.0  # seconds
MOST_BYTES = 2**30  # of an answer
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
NEVER = frozenset({401, 403, 404, 405, 501})  # wrong for every request, and not for this one alone
SAID = 300  # characters of a server's message


class ServerError(RuntimeError):
    """The server cannot be used now, or not like this: the audit stops; started again, it goes on."""


class Refused(ValueError):
    """The server refuses this one request, as one that is too long; the message is its own."""


class Server:
    """A server under one address.

    Args:
        url: http or https; "/v1" behind it is taken off.
        key: sent as a bearer token; that of the environment if None. It appears in no message.
        said: told why and for how long there is a wait.
        sleep: waits so many seconds; time.sleep if None.

    Raises:
        ValueError: for an address that cannot be used, or one that holds a key.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        said: Callable[[str], None] = lambda text: None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.url = address(url)
        self._key = os.environ.get(KEY, "").strip() if key is None else key
        if not self._key.isascii() or any(sign.isspace() for sign in self._key):
            raise ValueError(f"{KEY} holds something that cannot be a key: spaces or letters beyond ASCII")
        self._said, self._sleep = said, sleep or time.sleep
        self._pool = urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(connect=CONNECT, read=READ), maxsize=1
        )

    def find(self, path: str) -> Any:
        """The JSON under a path; None where the server has nothing there, or no JSON."""
        text = self.text(path)
        try:
            return None if text is None else json.loads(text)
        except (ValueError, RecursionError):
            return None

    def text(self, path: str) -> str | None:
        """What stands under a path; None where the server has nothing for us there."""
        status, body = self._asked("GET", path, None)
        if status in (401, 403):
            raise ServerError(f"{self.url}{path} answers {status}: {self._message(body)}{_hint(status)}")
        return body.decode("utf-8", "replace") if status == 200 else None

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            Refused: if the server does not take this request.
            ServerError: if it takes none, answers with something else, or is not reached for long.
        """
        status, content = self._asked("POST", path, body)
        if status in NEVER:
            raise ServerError(f"{self.url}{path} answers {status}: {self._message(content)}{_hint(status)}")
        if status != 200:
            raise Refused(f"the server refuses it ({status}): {self._message(content)}")
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            raise ServerError(f"{self.url}{path} answers with something that is not JSON") from None
        if not isinstance(answer, dict):
            raise ServerError(f"{self.url}{path} answers with something else than a JSON object")
        return answer

    def _asked(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        """Status and body; what may pass is tried again, and waited for."""
        trouble = ""
        for attempt in range(TRIES):
            asked_to_wait = 0.0
            try:
                status, content, after = self._once(method, path, body)
            except urllib3.exceptions.SSLError as error:  # waiting mends no certificate
                raise ServerError(
                    f"{self.url} has no certificate to trust: {self._clean(str(error))}"
                ) from None
            except urllib3.exceptions.HTTPError as error:
                trouble = f"cannot be reached ({self._clean(_reason(error))})"
            else:
                if status not in AGAIN:
                    return status, content
                trouble = f"answers {status}: {self._message(content)}"
                asked_to_wait = after
            if asked_to_wait > PATIENCE:
                raise ServerError(
                    f"{self.url} asks to wait {asked_to_wait:,.0f} s ({trouble}); the same command goes on "
                    "later"
                )
            if attempt + 1 < TRIES:
                wait = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt) * (0.75 + random.random() / 2)
                wait = max(wait, asked_to_wait)
                self._said(f"{self.url} {trouble}; again in {wait:.0f} s ({attempt + 1} of {TRIES - 1})")
                self._sleep(wait)
        raise ServerError(f"{self.url} {trouble}, {TRIES} times; the same command goes on when it is back")

    def _once(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, bytes, float]:
        headers = {"Accept": "application/json, text/plain"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        # A redirect is not followed: the key is for this server alone.
        response = self._pool.request(
            method, self.url + path, json=body, headers=headers, redirect=False, preload_content=False
        )
        try:
            content = response.read(MOST_BYTES + 1)
        finally:
            response.close()
        if len(content) > MOST_BYTES:
            raise ServerError(
                f"{self.url}{path} answers with more than {MOST_BYTES // 2**30} GiB: ask for fewer "
                "leading tokens (--served-leading)"
            )
        if 300 <= response.status < 400:
            raise ServerError(
                f"{self.url}{path} sends elsewhere ({response.status}): give the address it stands at"
            )
        return response.status, content, _seconds(response.headers.get("Retry-After"))

    def _message(self, content: bytes) -> str:
        """What an error says, in the forms of the three engines, FastAPI and proxies."""
        text = content[:100_000].decode("utf-8", "replace")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = text
        for name in ("error", "message", "detail"):
            if isinstance(found, dict) and name in found:
                found = found[name]
        return self._clean(found if isinstance(found, str) else json.dumps(found)) or "nothing more"

    def _clean(self, text: str) -> str:
        """A server's words on one line, without what could move a terminal, and without the key."""
        text = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
        if self._key:
            text = text.replace(self._key, "[the key]")
        return text if len(text) <= SAID else f"{text[:SAID]}…"


def address(url: str) -> str:
    """The server's address, without "/" or "/v1" at its end.

    Raises:
        ValueError: if it is none, or carries a key.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port  # raises where it is none
    except ValueError:
        raise ValueError("the server's address cannot be read: it looks like http://127.0.0.1:8000") from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"a key does not belong into an address: put it into the variable {KEY}")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"the server's address looks like http://127.0.0.1:8000, not {url.strip()[:100]!r}")
    return re.sub(r"(/v1)?/*$", "", f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"))


def _seconds(header: str | None) -> float:
    """What Retry-After asks for: seconds, or a date; 0 for none, or nonsense."""
    try:
        return (
            0.0
            if header is None
            else max(0.0, urllib3.Retry(retry_after_max=10**9).parse_retry_after(header))
        )
    except urllib3.exceptions.InvalidHeader:
        return 0.0


def _reason(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return f"no connection within {CONNECT:.0f} s"
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return f"no answer within {READ:.0f} s"
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return "there is no such host"
    return str(error).rpartition(": ")[2] or type(error).__name__


def _hint(status: int) -> str:
    if status in (401, 403):
        return f"; its key is read from the variable {KEY}"
    return "; is this the address of vLLM, SGLang or llama.cpp?"
