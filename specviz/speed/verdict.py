"""Whether speculation gains here, in words, and what would have to change."""

from dataclasses import dataclass

from specviz.speed import formulas
from specviz.speed.report import Report, Run

EVEN = 0.02  # nearer to 1 than this is called even
FULL = 0.75  # of K: a drafter that proposes less on average often has nothing to propose


@dataclass(frozen=True, slots=True)
class Scale:
    """A round beside the plain passes that give the same tokens, in seconds.

    Attributes:
        drafts, k: all drafting of an average round, and how many tokens it drafted.
        verify: the target pass.
        rest: sampling, judging, recording.
        plain: plain decoding of one token.
        tokens: that the round brings.
    """

    drafts: float
    k: float
    verify: float
    rest: float
    plain: float
    tokens: float

    @property
    def round(self) -> float:
        return self.drafts + self.verify + self.rest

    @property
    def passes(self) -> float:
        """What the round costs, in plain tokens."""
        return self.round / self.plain

    @property
    def speedup(self) -> float:
        return self.tokens / self.passes

    @property
    def c(self) -> float:
        """A draft token in plain tokens; 0 if nothing was drafted."""
        return self.drafts / self.k / self.plain if self.k else 0.0

    @property
    def v(self) -> float:
        """Everything but the drafting, in plain tokens."""
        return (self.verify + self.rest) / self.plain


def scale(run: Run, plain: Run) -> Scale:
    """An average round of a run, beside plain decoding."""
    n = run.rounds
    return Scale(
        drafts=run.draft / n,
        k=run.drafted / n,
        verify=run.verify / n,
        rest=run.rest / n,
        plain=plain.seconds / plain.tokens,
        tokens=run.length,
    )


def gains(ratio: float) -> str:
    """ "faster", "slower", or "even"."""
    if abs(ratio - 1.0) < EVEN:
        return "even"
    return "faster" if ratio > 1.0 else "slower"


def headline(ratio: float, where: str = "here") -> str:
    """The verdict in one line."""
    kind = gains(ratio)
    if kind == "even":
        return f"= {ratio:.2f}×: as fast as plain decoding {where}"
    if kind == "faster":
        return f"✓ {ratio:.2f}× faster than plain decoding {where}"
    return f"✗ {ratio:.2f}×: speculation loses {where}"


def reason(scale: Scale) -> str:
    """Why: what a round costs and what it brings."""
    joint = "and" if scale.tokens >= scale.passes else "but"
    return (
        f"A round costs {scale.passes:.2f} plain passes {joint} brings {scale.tokens:.2f} tokens: "
        f"{scale.drafts / scale.round:.0%} of its time is drafting, {scale.verify / scale.round:.0%} the "
        f"check, {scale.rest / scale.round:.0%} everything else."
    )


def wanted(scale: Scale, k: int) -> str:
    """What would have to change for a round of K drafts to pay, or how much room there is."""
    if scale.k < FULL * k:
        return (
            f"It drafted {scale.k:.1f} tokens a round on average, as it often finds nothing to propose; it "
            f"gains while a round brings more than {scale.passes:.2f} tokens (now {scale.tokens:.2f})."
        )
    alpha = formulas.break_even_alpha(k, scale.c, scale.v) if k else None
    enough = (scale.tokens - scale.v) / scale.k if scale.k else 0.0
    if alpha is None:
        high = f"At this cost no draft could gain with K = {k}: even if every token were kept, "
        return high + f"{k + 1} tokens would cost {k * scale.c + scale.v:.2f} plain passes."
    if scale.speedup >= 1.0:
        return (
            f"It goes on paying while the mean overlap α stays above {alpha:.2f}, or at these tokens while a "
            f"draft token costs less than {enough:.2f} plain passes (now {scale.c:.2f})."
        )
    said = f"It would gain with a mean overlap α above {alpha:.2f} at this cost"
    if enough > 0:
        return f"{said}, or with a draft token below {enough:.2f} plain passes (now {scale.c:.2f})."
    return f"{said}; a draft that costs nothing would not be enough, as the check alone costs {scale.v:.2f}."


def of_drafter(report: Report, drafter: str) -> str:
    """A few words for a line of the table."""
    best = report.best(drafter)
    if best is None:
        return "not measured"
    gain = report.speedup(best)
    if gains(gain) == "slower":
        return "✗ slower at every K that was run"
    if gains(gain) == "even":
        return f"= as fast as plain at its best, K = {best.k}"
    now = report.run(drafter, report.setting.k)
    return "✓ faster" if now is best else f"✓ faster with K = {best.k}: {gain:.2f}×"
