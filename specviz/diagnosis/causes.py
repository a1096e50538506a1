"""Why one draft token was rejected: stated rules on its numbers, tried in order; the first that holds wins.

A rejection costs the rejected token and those discarded behind it. Causes are weighted by that.
"""

from collections.abc import Callable
from dataclasses import dataclass

LUCK = 0.5  # a chance of being kept above this, and rejected all the same
CERTAIN = 0.8  # the target's largest probability above which it is certain
REPAIRED = 0.25  # share of the missing overlap that a change has to bring back to be the cause
COPIED = 2  # tokens of a suffix that is looked up in the text


@dataclass(frozen=True, slots=True)
class Rejection:
    """The numbers of a rejected draft token. Probabilities are effective ones, entropies in nats.

    Attributes:
        p, q: of the rejected token x under target and draft.
        beta: Σ min(p, q) where it was drafted.
        beta_controls: β if the draft had the target's sampling controls; None if it has them.
        beta_fresh: β if the draft had begun its block here, right after the committed text; None if unknown.
        p_top: the target's largest probability; p_entropy, q_entropy: of both distributions.
        removed: the target's control that took x, "" for none.
        lacking: the draft can never propose what came instead (trimmed vocabulary, full context).
        same_text: what the draft went on to write is letter for letter what was committed, in other tokens,
            or differs in white space alone.
        copyable: what came instead follows an earlier copy of the last `COPIED` tokens.
    """

    p: float
    q: float
    beta: float
    beta_controls: float | None
    beta_fresh: float | None
    p_top: float
    p_entropy: float
    q_entropy: float
    removed: str = ""
    lacking: bool = False
    same_text: bool = False
    copyable: bool = False

    @property
    def chance(self) -> float:
        """Probability that x would be kept: min(1, p/q)."""
        return min(1.0, self.p / self.q)

    def repaired(self, beta: float | None) -> bool:
        """Whether a change that gives this β brings back enough of what is missing."""
        return beta is not None and beta - self.beta >= REPAIRED * (1.0 - self.beta) > 0.0


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause, as the page and the command line describe it.

    Attributes:
        key: in tables.
        title: for people.
        rule: how it is decided, in words.
        example: a constructed case.
        remedy: what to do, as a sentence without its full stop.
        holds: the rule.
        sample: the numbers of the constructed case; the tests and the page use it.
    """

    key: str
    title: str
    rule: str
    example: str
    remedy: str
    holds: Callable[[Rejection], bool]
    sample: Rejection


def _case(**numbers) -> Rejection:
    usual = {
        "p": 0.1,
        "q": 0.4,
        "beta": 0.5,
        "beta_controls": None,
        "beta_fresh": None,
        "p_top": 0.4,
        "p_entropy": 1.5,
        "q_entropy": 1.0,
    }
    return Rejection(**{**usual, **numbers})


CAUSES = (
    Cause(
        "outside",
        "outside the draft's vocabulary or context",
        "The token that came instead is one that the draft can never propose: its head has no row for it, or "
        "its context was full. Rounds that drafted less because of the context count too.",
        "A draft with 8,192 ids meets a German word made of others.",
        "Give the draft a larger head, or one chosen on this kind of text",
        lambda r: r.lacking,
        _case(lacking=True),
    ),
    Cause(
        "filtered",
        "filtered out by the target's controls",
        "The target's top-k, top-p, min-p or ban gives the drafted token probability 0.",
        "Target with top-k 5, draft without: the draft draws the sixth.",
        "Give the draft the same top-k and top-p",
        lambda r: r.removed in ("top-k", "top-p", "min-p", "banned", "min new tokens", "grammar", "forced"),
        _case(p=0.0, removed="top-k", p_top=0.9),
    ),
    Cause(
        "controls",
        "the draft's sampling controls differ",
        f"With the target's controls on the draft's own scores, at least {REPAIRED:.0%} of the "
        "missing overlap "
        "(1 − β) would be there.",
        "Draft at temperature 0.2, target at 1: q is a spike where p is broad.",
        "Give both the same temperature, top-k and top-p",
        lambda r: r.repaired(r.beta_controls),
        _case(beta=0.4, beta_controls=0.8),
    ),
    Cause(
        "same-text",
        "same text, other tokens",
        "The draft's tokens from here on spell what was committed, cut into other tokens, or the two tokens "
        "differ in white space alone.",
        "Draft “Über”, “weis”; target “Ü”, “ber”, “weis”.",
        "Check the template, spaces at its end, and the tokenizer's version",
        lambda r: r.same_text,
        _case(same_text=True),
    ),
    Cause(
        "drift",
        "drift along the block",
        "Asked afresh after the committed text, the draft would have had at least "
        f"{REPAIRED:.0%} of the missing overlap: it knows better at the start of a block than this far in.",
        "EAGLE on its own features: β .8 as the first of a block, .3 as the fourth. A small model "
        "always knows "
        "as much, unless its cache is wrong.",
        "Try a lower K; for a small model look at its cache",
        lambda r: r.repaired(r.beta_fresh),
        _case(beta=0.3, beta_fresh=0.8),
    ),
    Cause(
        "copyable",
        "copyable from the text",
        f"What came instead is what followed an earlier copy of the last {COPIED} tokens.",
        "The order number 48213 stands in the prompt, and the draft guesses other digits.",
        "Try prompt lookup, with the draft where nothing matches",
        lambda r: r.copyable,
        _case(copyable=True, p=0.01, p_top=0.95),
    ),
    Cause(
        "luck",
        "bad luck",
        f"The token would have been kept with a chance above {LUCK:g}; its coin fell on the other side.",
        "Chance .82, u = .91.",
        "Nothing to do: this is what exactness costs",
        lambda r: r.chance > LUCK,
        _case(p=0.41, q=0.5),
    ),
    Cause(
        "certain",
        "the target was certain of another token",
        f"The target's largest probability is {CERTAIN:g} or more, on another token.",
        "p: “Thursday” .99; the draft said “Tuesday”.",
        "Train the draft on such text",
        lambda r: r.p_top >= CERTAIN,
        _case(p=0.01, p_top=0.97, p_entropy=0.2),
    ),
    Cause(
        "confident",
        "the draft was over-confident",
        "The draft's distribution is narrower than the target's (entropy of q below that of p), and it drew "
        "where it gives more than p does.",
        "q .94 on “refund”, p .11 on it and the rest spread.",
        "Calibrate it: a higher draft temperature, or training against the target's distributions",
        lambda r: r.q_entropy < r.p_entropy,
        _case(p=0.11, q=0.94, q_entropy=0.3, p_entropy=2.0),
    ),
    Cause(
        "unsure",
        "both unsure",
        "None of the others: the draft is at least as unsure as the target, and they spread differently.",
        "Entropies of 5.1 and 4.8 bits over different words.",
        "Try a lower K here, or stop drafting where the draft is unsure",
        lambda r: True,
        _case(p=0.02, q=0.06, q_entropy=3.5, p_entropy=3.3),
    ),
)

CAUSE = {cause.key: cause for cause in CAUSES}


def cause_of(rejection: Rejection) -> str:
    """The key of the first cause whose rule holds."""
    return next(cause.key for cause in CAUSES if cause.holds(rejection))


def same_text(drafted: list[bytes], committed: list[bytes]) -> bool:
    """Whether what was drafted from a rejected token on spells what was committed from there on.

    Args:
        drafted: bytes of the rejected token and of those discarded behind it.
        committed: bytes of the token that came instead and of those behind it.
    """
    if not drafted or not committed:
        return False
    ours, theirs = drafted[0], committed[0]
    if ours.strip() == theirs.strip() and ours != theirs:
        return True
    needed = max(len(ours), len(theirs))
    a, b = b"".join(drafted), b"".join(committed)
    if ours == theirs or min(len(a), len(b)) < needed or not min(len(ours), len(theirs)):
        return False
    return a[:needed] == b[:needed]
