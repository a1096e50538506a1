"""What an audit asks of the server of a target, whichever engine it is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis.readings import Reading
from specviz.diagnosis.served.http import Refused, Server, ServerError
from specviz.diagnosis.served.rows import Row

Named = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server wrote.

    Attributes:
        ids: token ids.
        readings: what it says of its own speculation in this request.
    """

    ids: list[int]
    readings: tuple[Reading, ...]


class Engine:
    """A server that is known for what it is.

    Attributes:
        name: of the engine.
        model: what it serves, by its own name.
        context_length: most positions; None if it does not say.
        leading: likeliest tokens a position that it is asked for; 0 for all there are.
    """

    name = ""
    usual = 20  # leading tokens, unless others are asked for

    def __init__(self, server: Server, model: str, context_length: int | None, leading: int | None) -> None:
        self.server = server
        self.model = model
        self.context_length = context_length
        self.leading = self.usual if leading is None else leading

    def rows(self, tokens: Sequence[int], first: int, available: np.ndarray) -> Iterator[list[Row]]:
        """Rows for the tokens from index `first` on, in order, after each request those that it brought.

        Args:
            available: (V,) bool: ids that stand for a token.

        Raises:
            Refused: if the server does not take this text.
            ServerError: if it does not answer, or not with what was asked for.
        """
        raise NotImplementedError

    def answer(
        self, prompt: Sequence[int], sampling: SamplingConfig, room: int, seed: int, ignore_eos: bool
    ) -> Answer:
        """An answer of at most `room` tokens, drawn under these controls."""
        raise NotImplementedError

    def encode(self, text: str) -> list[int] | None:
        """The server's own token ids of a text, none added; None if it does not say."""
        raise NotImplementedError

    def metrics(self) -> str:
        """The server's counters as Prometheus text; "" if it has none."""
        return self.server.text("/metrics") or ""

    def asked(self, available: np.ndarray) -> int:
        return self.leading or len(available)

    def row(self, named: Named, available: np.ndarray, leading: int | None = None) -> Row:
        """A row of so many leading tokens, perhaps with the text's own."""
        asked = self.asked(available)
        try:
            return Row.of(named, asked if leading is None else min(asked, leading), available)
        except ValueError as error:
            raise ServerError(f"{self.server.url}: {error}") from None

    def wrong(self, lacking: str) -> ServerError:
        return ServerError(f"the answer of {self.name} at {self.server.url} lacks {lacking}")


def tokenized(server: Server, body: dict[str, Any]) -> list[int] | None:
    try:
        return ids_of(server.ask("/tokenize", body).get("tokens"))
    except (ServerError, Refused):
        return None  # not every version has it


def first_of(values: Any) -> dict[str, Any]:
    found = values[0] if isinstance(values, list) and values else {}
    return found if isinstance(found, dict) else {}


def field_of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def named_of(pairs: Any) -> Named | None:
    """(id, log-probability) of each; None if one of them is something else."""
    found: Named = []
    for id, logprob in pairs:
        if isinstance(id, str) and id.isdigit():
            id = int(id)
        if type(id) is not int or type(logprob) not in (int, float):
            return None
        found.append((id, float(logprob)))
    return found


def ids_of(values: Any) -> list[int] | None:
    usable = isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)
    return values if usable else None
