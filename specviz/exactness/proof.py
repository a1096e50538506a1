"""The proof of exactness in five lines, with the numbers of one position filled in."""

from dataclasses import dataclass

import numpy as np

from specviz.decoding.faults import Spot


@dataclass(frozen=True, slots=True)
class Line:
    """One step of the proof.

    Attributes:
        claim: what is said, in symbols; x is any token, y runs over the vocabulary.
        numbers: the same with this position's numbers for the chosen token.
        why: one sentence.
        value: the number that the line arrives at.
    """

    claim: str
    numbers: str
    why: str
    value: float


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof for one token of a position.

    Attributes:
        token: the token that the numbers are of.
        p, q, beta: p(x), q(x) and Σ min(p, q).
        lines: five; the last ends at p(x).
        from_p: what comes out if the correction is drawn from p instead: min(p, q) + (1 − β)·p, for this
            token.
        from_p_sentence: why that is a different procedure.
        greedy_sentence: what remains of the claim at temperature 0.
    """

    token: int
    p: float
    q: float
    beta: float
    lines: tuple[Line, ...]
    from_p: float
    from_p_sentence: str
    greedy_sentence: str


GREEDY = (
    "At temperature 0 the target's distribution is one-hot: a draft token is kept exactly if it is the "
    "target's favourite, and the correction is that favourite. The text then equals the target's greedy text "
    "token by token. This is a weaker claim, about one text and not about a distribution, and it rests on "
    "the target computing the same logits for a block as token by token: in low precision a near-tie may "
    "fall either way."
)


def proof(spot: Spot, token: int) -> Proof:
    """The five lines for `token` at a position."""
    p, q = float(spot.p[token]), float(spot.q[token])
    beta = float(np.minimum(spot.p, spot.q).sum())
    kept, excess, refused = min(p, q), max(0.0, p - q), float(np.maximum(spot.p - spot.q, 0.0).sum())
    share = excess / refused if refused else 0.0
    lines = (
        Line(
            "q(x) · min(1, p(x)/q(x)) = min(p(x), q(x))",
            f"{_n(q)} · min(1, {_n(p)}/{_n(q)}) = {_n(kept)}" if q else f"min({_n(p)}, 0) = 0",
            "The draft proposes x and it passes.",
            kept,
        ),
        Line(
            "1 − Σ_y min(p(y), q(y)) = 1 − β",
            f"1 − {_n(beta)} = {_n(refused)}",
            "Whatever was proposed is refused this often.",
            refused,
        ),
        Line(
            "1 − β = Σ_y p(y) − Σ_y min(p(y), q(y)) = Σ_y max(0, p(y) − q(y))",
            f"{_n(refused)}, and so the residual of x is {_n(excess)} / {_n(refused)} = {_n(share)}"
            if refused
            else "0: nothing is ever refused, as p = q",
            "The residual's mass is the probability of needing it, so that the division below cancels.",
            refused,
        ),
        Line(
            "(1 − β) · max(0, p(x) − q(x)) / (1 − β) = max(0, p(x) − q(x))",
            f"{_n(refused)} · {_n(share)} = {_n(refused * share)}",
            "A refusal happens and x is the correction.",
            refused * share,
        ),
        Line(
            "min(p(x), q(x)) + max(0, p(x) − q(x)) = p(x)",
            f"{_n(kept)} + {_n(refused * share)} = {_n(kept + refused * share)}",
            "The two ways for x to come out add up to p(x), for every draft whatsoever.",
            kept + refused * share,
        ),
    )
    from_p = kept + refused * p
    return Proof(token, p, q, beta, lines, from_p, _from_p_sentence(p, q, from_p, refused), GREEDY)


def _from_p_sentence(p: float, q: float, from_p: float, refused: float) -> str:
    text = f"Drawing the correction from p instead gives min(p, q) + (1 − β)·p = {_n(from_p)}"
    if not refused:
        return f"{text}: no difference here, as nothing is ever refused."
    if from_p == p:
        return f"{text}, by chance the same for this token, not for all."
    side = "above" if from_p > p else "below"
    kind = "already had its full share from the draft" if q >= p else "needs the whole residual to reach p"
    return (
        f"{text}, {side} p = {_n(p)}: this token {kind}, and a refusal is news about which tokens have not. "
        "A fresh draw from p forgets it."
    )


def _n(value: float) -> str:
    """Four significant digits, without a needless exponent."""
    return f"{value:.4g}" if value == 0.0 or value >= 1e-4 else f"{value:.2e}"
