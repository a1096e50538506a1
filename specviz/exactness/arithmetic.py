"""Exactness by arithmetic: kept mass and corrected mass of every token, summed, against p."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specviz.decoding.faults import EXACT, Fault, Output, Spot, output
from specviz.decoding.randomness import heaviest

# Rounding of a few sums of V doubles stays well below this.
TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Share:
    """One token, or all tokens not shown together.

    Attributes:
        token: None for the rest.
        kept: probability that the draft proposes the token and it is kept: q(x)·min(1, p(x)/q(x)) under
            the exact rule.
        corrected: probability that it comes out as the correction: (1 − β)·residual(x) under the exact
            rule.
        p: what the two should add up to.
    """

    token: int | None
    kept: float
    corrected: float
    p: float

    @property
    def total(self) -> float:
        return self.kept + self.corrected


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The exact output law of one position against p.

    Attributes:
        shares: the leading tokens by falling p; the last is the rest.
        tokens: V, how many were summed.
        deviation: largest |kept + corrected − p| of any single token of the vocabulary.
        worst: that token.
        tv: total variation distance between the output law and p.
        beta: Σ min(p, q).
        acceptance: probability that the drawn token is kept; β under the exact rule.
    """

    shares: tuple[Share, ...]
    tokens: int
    deviation: float
    worst: int
    tv: float
    beta: float
    acceptance: float

    @property
    def ok(self) -> bool:
        return self.deviation <= TOLERANCE

    @property
    def sentence(self) -> str:
        """What the sums say, with their numbers."""
        verdict = "the output follows p exactly" if self.ok else "the output does not follow p"
        return (
            f"Kept mass and corrected mass differ from p by at most {self.deviation:.2g} over "
            f"{self.tokens:,} tokens: {verdict}."
        )


def arithmetic(spot: Spot, fault: Fault | None = None, tokens: Sequence[int] | None = None) -> Arithmetic:
    """The sums at a position, under the exact rule or a fault.

    Args:
        tokens: the tokens to list; the 8 likeliest if None.

    Raises:
        ValueError: for a fault that one position does not decide.
    """
    law: Output | None = output(EXACT, spot.hand) if fault is None else fault.output(spot)
    if law is None:
        raise ValueError(f"{fault.name if fault else ''} shows over several positions only")
    p = spot.p
    shown = [int(t) for t in heaviest(p, 8)] if tokens is None else list(tokens)
    hidden = np.ones(len(p), dtype=bool)
    hidden[shown] = False
    shares = [Share(t, float(law.kept[t]), float(law.corrected[t]), float(p[t])) for t in shown]
    shares.append(Share(None, *(float(part[hidden].sum()) for part in (law.kept, law.corrected, p))))
    deviations = np.abs(law.law - p)
    return Arithmetic(
        shares=tuple(shares),
        tokens=len(p),
        deviation=float(deviations.max()),
        worst=int(deviations.argmax()),
        tv=float(deviations.sum() / 2),
        beta=float(np.minimum(p, spot.q).sum()),
        acceptance=law.acceptance,
    )
