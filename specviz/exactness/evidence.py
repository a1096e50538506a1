"""Exactness on the run: evidence against it from the tokens that were really emitted.

Bet against exactness and count the money. Each alternative law a starts with 1 and is multiplied by
a(x)/p(x) at every emitted token x. If the tokens follow p, each factor is 1 on average whatever came
before, so the average over the alternatives is a nonnegative martingale, and passes 20 with probability
at most 1/20, however long one watches (Ville's inequality). If they follow an alternative, it grows.

Alternatives: the draft leaks, (1 − λ)p + λq for six λ; p at temperature 2 and at temperature 2/3.

p is the distribution that the engine judged by, as the trace records it. So this tests the rule, not
whether the target was scored rightly; that is what the caches' audit and whole continuations are for.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, log

import numpy as np
from scipy.special import logsumexp

from specviz.decoding.trace import Round, Trace
from specviz.reading.reduced import reduced

LEAKS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)
ALTERNATIVES = (*(f"leak {leak:g}" for leak in LEAKS), "flattened", "sharpened")
THRESHOLD = 20.0
HALF_CHI_SQUARE = 1.9207  # half of the 95% quantile of chi-square with one degree of freedom
CEILING = 700.0  # log evidence is cut here: beyond it exp overflows, and nobody needs more


@dataclass(frozen=True, slots=True)
class Emitted:
    """One emitted token.

    Attributes:
        p: its probability under the target.
        q: under the draft; None for a bonus token.
        root_sum, sesqui_sum: sums of p^(1/2) and p^(3/2) at its position.
    """

    p: float
    q: float | None
    root_sum: float
    sesqui_sum: float


@dataclass(frozen=True, slots=True)
class LeakTest:
    """Evidence over all emitted tokens of some runs, in the order in which they were emitted.

    Attributes:
        log_evidence: natural logarithm of the evidence after each token.
        run_ends: number of tokens after each run that counted.
        log_alternatives: final logarithm of each of `ALTERNATIVES`.
        crossed_at: number of tokens after which the evidence first passed 20; None if it never did.
        leak: the λ of (1 − λ)p + λq that fits the tokens best, in 0 … 1; None without drafted positions.
        leak_low, leak_high: its 95% profile-likelihood interval.
        apart: mean total variation distance between p and q over the rows that were judged; None without any.
        tokens_to_catch: about how many drafted tokens it would take on rows like these until the evidence
            passes 20 if the draft's tokens were all kept unjudged. An estimate from above, as the tokens
            that the trace keeps only as a sum count as two. None if it never would.
        left_out: indices of runs that do not count, as they repeat the seed of an earlier one: the same
            uniforms say nothing new.
    """

    log_evidence: tuple[float, ...]
    run_ends: tuple[int, ...]
    log_alternatives: tuple[float, ...]
    crossed_at: int | None
    leak: float | None
    leak_low: float | None
    leak_high: float | None
    apart: float | None
    tokens_to_catch: int | None
    left_out: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return len(self.log_evidence)

    @property
    def evidence(self) -> float:
        """After the last token; 1 before the first."""
        return exp(self.log_evidence[-1]) if self.log_evidence else 1.0

    @property
    def highest(self) -> float:
        return exp(max(self.log_evidence, default=0.0))

    @property
    def ok(self) -> bool:
        """The evidence never passed the threshold."""
        return self.crossed_at is None

    @property
    def reach(self) -> str:
        """What the evidence could have seen here at all; "" without drafted tokens."""
        if self.apart is None:
            return ""
        text = f"On average p and q are {self.apart:.2g} apart here. Were every draft token kept unjudged, "
        if self.tokens_to_catch is None:
            return text + "the line would never pass 20: it can catch no leak of this draft."
        text += f"the line would pass 20 after about {self.tokens_to_catch:,} "
        text += f"{'token' if self.tokens_to_catch == 1 else 'tokens'} (estimated)"
        if self.tokens_to_catch > self.tokens:
            return text + f", more than these {self.tokens:,}: a line that stays low says little here."
        return text + "."

    @property
    def sentence(self) -> str:
        """What the test says, with its numbers."""
        if not self.tokens:
            return "No token has been emitted yet: the evidence stands at 1."
        text = f"After {self.tokens:,} tokens the evidence against exactness is {self.evidence:.3g}"
        if self.crossed_at is None:
            text += f", never above {self.highest:.3g}."
        else:
            text += f"; it passed 20 at token {self.crossed_at:,}."
        text += " Exact decoding lets it pass 20 in at most 1 of 20 runs, however long they are."
        if self.leak is not None:
            text += (
                f" The share of tokens that follow the draft instead is estimated at {self.leak:.3f} "
                f"({self.leak_low:.3f} to {self.leak_high:.3f}). {self.reach}"
            )
        return text


def leak_test(traces: Sequence[Trace]) -> LeakTest:
    """The test over whole runs, one after the other."""
    seeds: set[int] = set()
    left_out, run_ends = [], []
    tokens: list[Emitted] = []
    for index, trace in enumerate(traces):
        if trace.seed in seeds:
            left_out.append(index)
            continue
        seeds.add(trace.seed)
        tokens += [token for round in trace.rounds for token in emitted(round)]
        run_ends.append(len(tokens))
    factors = np.array([log_factors(token) for token in tokens]).reshape(-1, len(ALTERNATIVES))
    logs = np.clip(factors, -CEILING, CEILING).cumsum(axis=0)
    evidence = np.minimum(logsumexp(logs, axis=1) - log(len(ALTERNATIVES)), CEILING).tolist()
    crossed = (i for i, value in enumerate(evidence, 1) if value > log(THRESHOLD))
    leak, low, high = estimated_leak(tokens)
    counted = [trace for index, trace in enumerate(traces) if index not in left_out]
    apart, needed = _reach(round for trace in counted for round in trace.rounds)
    return LeakTest(
        log_evidence=tuple(evidence),
        run_ends=tuple(run_ends),
        log_alternatives=tuple(logs[-1].tolist() if tokens else [0.0] * len(ALTERNATIVES)),
        crossed_at=next(crossed, None),
        leak=leak,
        leak_low=low,
        leak_high=high,
        apart=apart,
        tokens_to_catch=needed,
        left_out=tuple(left_out),
    )


def _reach(rounds: Iterable[Round]) -> tuple[float | None, int | None]:
    """`apart` and `tokens_to_catch` of a `LeakTest`.

    If tokens follow q, the logarithm of a leak's evidence grows by Σ q·log((1 − λ)p + λq)/p a token on
    average. The mean over the alternatives passes 20 at the latest when the best one passes 20 times their
    number.
    """
    rows = [position for round in rounds for position in round.positions[: round.accepted + 1]]
    rows = [position for position in rows if position.beta is not None]
    if not rows:
        return None, None
    columns = [reduced(position) for position in rows]
    p, q = (np.concatenate(parts) for parts in ([c.p for c in columns], [c.q for c in columns]))
    p, q = p[q > 0.0], q[q > 0.0]
    with np.errstate(divide="ignore"):
        growth = max(float((q * np.log(1.0 - leak + leak * (q / p))).sum()) for leak in LEAKS) / len(rows)
    apart = 1.0 - float(np.mean([r.beta for r in rows]))
    needed = log(THRESHOLD * len(ALTERNATIVES)) / growth if growth > 1e-9 else inf
    return max(0.0, apart), None if needed == inf else max(1, ceil(needed))


def emitted(round: Round) -> Iterator[Emitted]:
    """The committed tokens of a round; those behind the cut do not count."""
    for row in range(len(round.committed)):
        position = round.positions[row]
        p, q = position.p, position.q
        if row == round.accepted:  # drawn from the residual or, behind all drafts, from p
            column = position.table.ids.index(round.token)
            p = position.table.p[column]
            q = None if round.outcome == "bonus" else position.table.q[column]
        assert p is not None
        yield Emitted(p, q, position.p_root_sum, position.p_sesqui_sum)


def log_factors(token: Emitted) -> np.ndarray:
    """log a(x)/p(x) for each of `ALTERNATIVES`. Bonus tokens have no q: 0 for the leaks."""
    p, q = token.p, token.q
    if p <= 0.0:  # exact decoding never emits it: whoever bet on it wins without limit
        leaks = [0.0 if q is None else inf if q > 0.0 else -inf] * len(LEAKS)
        return np.array([*leaks, inf, -inf])
    leaks = [0.0 if q is None else log(1.0 - leak + leak * q / p) for leak in LEAKS]
    return np.array([*leaks, -log(p) / 2 - log(token.root_sum), log(p) / 2 - log(token.sesqui_sum)])


def estimated_leak(tokens: Sequence[Emitted]) -> tuple[float | None, float | None, float | None]:
    """λ of (1 − λ)p + λq with the highest likelihood, and where it is at most 1.92 lower in logarithm."""
    from scipy.optimize import brentq

    drafted = [(t.p, t.q) for t in tokens if t.q is not None and (t.p > 0.0 or t.q > 0.0)]
    if not drafted:
        return None, None, None
    p, q = np.array(drafted).T

    def slope(leak: float) -> float:
        with np.errstate(divide="ignore"):
            return float(((q - p) / ((1.0 - leak) * p + leak * q)).sum())

    def likelihood(leak: float) -> float:
        with np.errstate(divide="ignore"):
            return float(np.log((1.0 - leak) * p + leak * q).sum())

    # At an end where the likelihood is 0 brentq starts a hair beside it: it wants finite values.
    least, most = 0.0 if p.all() else 1e-12, 1.0 if q.all() else 1.0 - 1e-12
    # The log-likelihood is concave, so its slope falls and has at most one root.
    best = 0.0 if slope(least) <= 0.0 else 1.0 if slope(most) >= 0.0 else brentq(slope, least, most)
    floor = likelihood(best) - HALF_CHI_SQUARE
    low = 0.0 if likelihood(least) >= floor else brentq(lambda x: likelihood(x) - floor, least, best)
    high = 1.0 if likelihood(most) >= floor else brentq(lambda x: likelihood(x) - floor, best, most)
    return best, low, high
