"""K chosen before each round, from what passes cost and what was accepted lately.

The choice looks only at rounds that are over, so whatever it does the next round is an exact one: given the
text so far its tokens follow p for any K. (Stopping a block because of a token just drawn would not be.)
"""

from collections.abc import Iterator, Mapping, Sequence

from specviz.decoding.run import DecodingRun
from specviz.decoding.trace import Round
from specviz.speed.formulas import speedup

FORGET = 0.85  # weight of a judged draft token against one of the round after it
PRIOR_TRIALS, PRIOR_ALPHA = 2.0, 0.6
PROBE = 24  # rounds without a draft after which one token is drafted, to notice that the text has changed
MARGIN = 1.02  # what drafting has to promise, for the host's part of a round is not in c and v


class AdaptiveK:
    """Chooses K for a run.

    Args:
        c: a draft token in plain target passes.
        v: by K, a target pass over K + 1 rows in passes over one; the K that may be chosen.
    """

    def __init__(self, c: float, v: Mapping[int, float]) -> None:
        self.c, self.v = c, dict(v)
        self.kept, self.judged = PRIOR_ALPHA * PRIOR_TRIALS, PRIOR_TRIALS
        self.seen = 0
        self.idle = 0

    @property
    def alpha(self) -> float:
        """Estimated probability that a judged draft token is accepted."""
        return self.kept / self.judged

    def choose(self, rounds: Sequence[Round]) -> int:
        """K of the round that follows these."""
        for round in rounds[self.seen :]:
            if round.k:
                self.kept = FORGET * self.kept + round.accepted
                self.judged = FORGET * self.judged + min(round.accepted + 1, round.k)
        self.seen = len(rounds)
        best = max(self.v, key=lambda k: speedup(self.alpha, k, self.c, self.v[k]))
        if speedup(self.alpha, best, self.c, self.v[best]) >= MARGIN:
            self.idle = 0
            return best
        self.idle += 1
        if self.idle <= PROBE:
            return 0
        self.idle = 0
        return min(self.v)


def decode(run: DecodingRun, chooser: AdaptiveK) -> Iterator[Round]:
    """The rounds of a run whose K is chosen before each."""
    while run.finish is None:
        run.k = chooser.choose(run.rounds)
        yield run.step()
