"""Ways to draft, and what each would give: the values of `specviz.diagnosis.whatif`."""

from dataclasses import dataclass
from typing import Any, Literal

from specviz.diagnosis.walkers import NOW

Label = Literal["exact", "approximate", "bound"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to draft.

    Attributes:
        source: "draft", "second", or the style of the draft's prompt ("plain", "chat", "own", "same").
        controls: name of the draft's controls: "now", "equal", "t0.8", "open", "open t0.8".
        k: draft tokens a round.
        lookup: ask prompt lookup first, the draft where nothing matches.
        full: as if the draft could propose every token: "" (as it is), "bound" (and were always right
            where it cannot now), "estimate" (as often right there as elsewhere).
        stop: stop a block where the entropy of q is above this many nats; None never.
    """

    source: str = "draft"
    controls: str = NOW
    k: int = 4
    lookup: bool = False
    full: Literal["", "bound", "estimate"] = ""
    stop: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan would give, with 95% intervals from resampled prompts.

    Attributes:
        mean, low, high: mean acceptance length, 1 + accepted / rounds.
        gain, gain_low, gain_high: mean less the present plan's, on the same resampled prompts.
        drafted: draft tokens that the model makes in a round.
        speed, speed_low, speed_high: predicted speed-up over plain decoding; None without costs.
        label: "exact" in expectation on these texts, "approximate", or "bound".
    """

    mean: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    drafted: float
    speed: float | None
    speed_low: float | None
    speed_high: float | None
    label: Label

    @property
    def sure(self) -> bool:
        """Whether it is more, or less, than noise."""
        return self.gain_low > 0.0 or self.gain_high < 0.0


@dataclass(frozen=True, slots=True)
class Option:
    """A change that can be ticked: `changes` are fields of `Plan`."""

    key: str
    title: str
    changes: dict[str, Any]
    source: str  # where the numbers come from
