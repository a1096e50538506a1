"""The ranges of what a trace holds, which `codec` holds files to."""

from typing import Annotated

from msgspec import Meta

MAX_K = 1000
MAX_COUNT = 10_000_000
MAX_TEXT = 1_000_000  # characters of a prompt or a stop string

Unit = Annotated[float, Meta(ge=0.0, lt=1.0)]
# A probability or a sum of probabilities: rounding may carry a float64 sum slightly above one.
Mass = Annotated[float, Meta(ge=0.0, le=1.0 + 1e-6)]
Nats = Annotated[float, Meta(ge=0.0, le=1e6)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
TokenId = Count
Tokens = tuple[TokenId, ...]
Seconds = Annotated[float, Meta(ge=0.0, le=1e7)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
