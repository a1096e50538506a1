"""What an audit may point to, as a value."""

from dataclasses import dataclass
from typing import Literal

Sort = Literal["fault", "setting", "draft"]
WORTH = 0.04  # of the present mean length: a change that brings less is not named first


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the numbers point to.

    Attributes:
        key: names it in tests, links and JSON.
        sort: "fault" (something is wrong), "setting" (a choice that costs), "draft" (the draft itself).
        title: the headline.
        sentence: the numbers behind it, and what to do.
        gain: tokens a round that it would bring; None where that is not known.
    """

    key: str
    sort: Sort
    title: str
    sentence: str
    gain: float | None = None
