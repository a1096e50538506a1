"""A poll of a class: one answer a browser, counted without names."""

from collections import Counter
from dataclasses import dataclass, field

VOTERS = 500  # answers that are kept at most


@dataclass(frozen=True, slots=True)
class Tally:
    """What a class answered.

    Attributes:
        counts: answers for each option, in the order of the options.
        total: answers in all.
    """

    counts: tuple[int, ...]
    total: int

    def share(self, option: int) -> float:
        """Share of an option, 0 … 1; 0 while nobody has answered."""
        return self.counts[option] / self.total if self.total else 0.0


@dataclass(slots=True)
class Poll:
    """A question that is put to everybody at once.

    Attributes:
        about: what it asks about, as the presenter's screen names it.
        options: what can be answered.
        answer: index of the right option.
        open: answers are taken; afterwards everybody sees the counts and what was right.
    """

    about: tuple
    options: tuple[str, ...]
    answer: int
    open: bool = True
    _votes: dict[str, int] = field(default_factory=dict)
    _final: Tally | None = None

    def vote(self, who: str, option: int) -> bool:
        """Take an answer, or another one instead of it. False if it is too late, or no option.

        `who` tells browsers apart while the poll is open, and is forgotten when it closes.
        """
        full = len(self._votes) >= VOTERS and who not in self._votes
        if not self.open or full or not 0 <= option < len(self.options):
            return False
        self._votes[who] = option
        return True

    def said(self, who: str) -> int | None:
        """What `who` has answered so far."""
        return self._votes.get(who)

    def tally(self) -> Tally:
        """The counts as they stand."""
        if self._final is not None:
            return self._final
        counted = Counter(self._votes.values())
        return Tally(tuple(counted[i] for i in range(len(self.options))), len(self._votes))

    def close(self) -> None:
        """Take no more answers, and forget who gave which."""
        self._final, self.open = self.tally(), False
        self._votes.clear()
