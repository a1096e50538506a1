"""How many draft tokens the token rule and block verification keep of the very same drafts.

Given what was drafted, the token rule keeps at least i tokens with probability Π min(1, pⱼ/qⱼ), and block
verification with probability rᵢ (see `specviz.decoding.block`). Their sums are what each keeps on average,
without a coin: a difference that would take thousands of rounds to see in counts shows in a few. Never is
one of these sums below the other's: rᵢ is at least the product.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from specviz.decoding.trace import Round


@dataclass(frozen=True, slots=True)
class TwoRules:
    """Accepted draft tokens a round, expected from the drafts that were really made.

    Attributes:
        rounds: with drafts.
        token, block: means under the token rule and under block verification.
        gain: their difference.
        low, high: 95% interval of `gain` over the groups, by Student's t; infinite with fewer than two.
        groups: texts; rounds of one text are not independent of each other.
    """

    rounds: int
    token: float
    block: float
    gain: float
    low: float
    high: float
    groups: int

    @property
    def sentence(self) -> str:
        """The comparison, with its numbers."""
        text = (
            f"Of the drafts of {self.rounds:,} rounds the token rule keeps {self.token:.3f} tokens a round "
            f"on average and block verification {self.block:.3f}"
        )
        if self.low == -inf:
            return f"{text}, {self.gain:.3f} more."
        return f"{text}, {self.gain:.3f} more (95%: {self.low:.3f} to {self.high:.3f}, {self.groups} texts)."


def expected(round: Round) -> tuple[float, float]:
    """Draft tokens of a round that the token rule and block verification keep on average."""
    token = block = 0.0
    product = weight = 1.0
    for position in round.positions[: round.k]:
        assert position.p is not None and position.q is not None
        ratio = position.p / position.q
        product *= min(1.0, ratio)
        weight = min(1.0, weight * ratio)
        token += product
        block += weight
    return token, block


def compare(texts: Iterable[Iterable[Round]]) -> TwoRules | None:
    """The comparison over the rounds of some texts; None if nothing was drafted."""
    groups = [[expected(round) for round in rounds if round.k] for rounds in texts]
    groups = [group for group in groups if group]
    if not groups:
        return None
    sums = np.array([np.sum(group, axis=0) for group in groups])
    sizes = np.array([len(group) for group in groups])
    token, block = sums.sum(axis=0) / sizes.sum()
    low, high = -inf, inf
    if len(groups) > 1:
        from scipy.stats import t

        # The mean is a ratio of sums over the texts.
        off = (sums[:, 1] - sums[:, 0]) - (block - token) * sizes
        n = len(groups)
        half = float(t.ppf(0.975, n - 1)) * sqrt(float((off**2).sum()) * n / (n - 1)) / sizes.sum()
        low, high = float(block - token - half), float(block - token + half)
    return TwoRules(
        int(sizes.sum()), float(token), float(block), float(block - token), low, high, len(groups)
    )
