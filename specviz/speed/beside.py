"""Plain decoding beside a run, a round now and then, so that both meet the machine in the same state."""

from collections.abc import Callable
from statistics import median
from typing import Any

from specviz.decoding.trace import Trace
from specviz.speed.verdict import Scale

LEAST = 3  # rounds of either: fewer say nothing
EVERY = 2  # from there on: rounds of the run for one of plain decoding
MOST = 8  # rounds of plain decoding that are timed
FAR = 3.0  # a round that takes more medians than this was held up by something else


class Beside:
    """Times plain decoding of the same prompt with the same models, between the rounds of a run.

    Args:
        start: makes the run that drafts nothing; called when its first round is due.

    Attributes:
        seconds: of its rounds so far, the first aside: that one reads the prompt.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start: Callable[[], Any] | None = start
        self._plain: Any = None
        self.seconds: tuple[float, ...] = ()

    def after(self, rounds: int, over: bool = False) -> None:
        """The run has made so many rounds: make one of plain decoding, if one is due and the run goes on."""
        if over:
            self.end()
        if self._start is None or (rounds > LEAST and rounds % EVERY):
            return
        try:
            if self._plain is None:
                self._plain = self._start()
                self._plain.step()
            self.seconds += (self._plain.step().seconds,)
            over = len(self.seconds) == MOST or self._plain.finish is not None
        except Exception:  # the run itself must not suffer: its figure stays away
            over = True
        if over:
            self.end()

    def end(self) -> None:
        """Time no more, and hold no models."""
        self._start = self._plain = None


def against_plain(trace: Trace) -> Scale | None:
    """An average round of a run beside plain decoding as it was measured meanwhile.

    None if too little was measured. The first round is left out, as it reads the prompt; one that was held
    up counts as long as the longest that is no outlier.
    """
    rounds, plain = trace.rounds[1:], trace.plain_seconds
    tokens = sum(len(round.committed) for round in rounds)
    if min(len(rounds), len(plain)) < LEAST or not tokens:
        return None
    limit = FAR * median(round.seconds for round in rounds)
    shares = [min(1.0, limit / round.seconds) if round.seconds else 1.0 for round in rounds]
    n = len(rounds)

    def mean(name: str) -> float:
        return sum(share * getattr(round, name) for share, round in zip(shares, rounds, strict=True)) / n

    cut = FAR * median(plain)
    return Scale(
        drafts=mean("draft_seconds"),
        k=sum(round.k for round in rounds) / n,
        verify=mean("verify_seconds"),
        rest=mean("other_seconds"),
        plain=sum(min(seconds, cut) for seconds in plain) / len(plain),
        tokens=tokens / n,
    )
