"""The ordering exercise: the lines, how an order is judged, and why two lines stand as they do.

An order is judged by its longest increasing subsequence: the lines that are already in the right order
among themselves stay, and only the fewest lines that must move are marked.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specviz.decoding.trace import Round

STEPS = ("propose", "score", "judge", "added", "commit")

TEXTS = {
    "propose": "The draft writes K tokens, one after the other, and records q for each",
    "score": "The target reads them all in one pass: K + 1 rows of p",
    "judge": "From left to right: keep a token if u < p/q, stop at the first rejection",
    "added": "Draw one token: the correction from max(0, p − q), or the bonus from the last row",
    "commit": "Commit the kept tokens and the added one, cut both caches, start over",
}

DISTRACTORS = {
    "one-pass-each": (
        "The target runs once for every draft token",
        "One pass over K + 1 rows scores them all. A pass for each would be plain decoding plus a draft.",
    ),
    "resample-first": (
        "Resample every draft token from the target before verifying",
        "Then nothing of the draft is left to verify. A token is replaced only after it has been rejected.",
    ),
    "correct-from-draft": (
        "After a rejection, let the draft propose a replacement",
        "The correction comes from the residual max(0, p − q). Drawn from q, the output would lean towards "
        "the draft.",
    ),
    "judge-the-rest": (
        "After a rejection, go on judging the tokens that follow",
        "Their p and q were computed as if the rejected token stood. The round ends at the first rejection.",
    ),
    "keep-caches": (
        "Leave the rejected tokens visible in both caches: they do no harm",
        "The models would attend to words that are not in the text. Entries may stay in memory, to be "
        "overwritten, but nothing may see them: both caches are cut, or their lengths are set back.",
    ),
    "compare-argmax": (
        "Keep a token only if it is the target's most likely one",
        "That is the rule at temperature 0. When sampling, it changes the distribution of the output.",
    ),
}

# Why the first stands before the second.
REASONS = {
    ("propose", "score"): "Row i of the target depends on the draft tokens before i: they must exist first.",
    ("propose", "judge"): "There is nothing to judge before the draft has drawn tokens and recorded q.",
    ("propose", "added"): "Correction or bonus? That depends on what becomes of the draft tokens.",
    ("propose", "commit"): "A round commits what it drafted and kept; the next draft starts after the cut.",
    ("score", "judge"): "Each verdict compares p with q, and p is known only after the target's pass.",
    ("score", "added"): "The residual and the bonus row are both made of the target's rows.",
    (
        "score",
        "commit",
    ): "Tokens are kept by comparing with p, and the pass fills the cache that is cut.",
    ("judge", "added"): "Which row to draw from is known only after the first rejection, or after all K.",
    ("judge", "commit"): "How far the text grows and what is cut from the caches is decided by the judging.",
    ("added", "commit"): "The added token is part of what is committed: every round adds at least this one.",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line to put in order.

    Attributes:
        key: stable name within the exercise.
        text: what it says.
        rank: place in the right order, from 0; None for a distractor.
        why_not: for a distractor, why it does not belong.
    """

    key: str
    text: str
    rank: int | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """A line that must move, and the line that shows why: `first` has to come before `second`."""

    key: str
    first: str
    second: str
    why: str


@dataclass(frozen=True, slots=True)
class Grade:
    """The judgement of an order.

    Attributes:
        moves: the fewest lines that must move, in the order given.
        extra: distractors that were left in.
        missing: lines that were left out and belong in.
        right: nothing to change.
    """

    moves: tuple[Move, ...]
    extra: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def right(self) -> bool:
        return not (self.moves or self.extra or self.missing)


def steps() -> tuple[Line, ...]:
    """The five steps of a round."""
    return tuple(Line(key, TEXTS[key], rank) for rank, key in enumerate(STEPS))


def distractors(count: int, seed: int) -> tuple[Line, ...]:
    """`count` common mistakes, chosen by the seed."""
    import numpy as np

    keys = list(DISTRACTORS)
    chosen = np.random.default_rng([seed, 1]).permutation(len(keys))[:count]
    return tuple(Line(keys[i], DISTRACTORS[keys[i]][0], None, DISTRACTORS[keys[i]][1]) for i in chosen)


def shuffled(lines: Sequence[Line], seed: int) -> tuple[Line, ...]:
    """The lines in an order that is not the right one."""
    import numpy as np

    for attempt in range(100):
        order = np.random.default_rng([seed, 2, attempt]).permutation(len(lines))
        mixed = tuple(lines[i] for i in order)
        ranks = [line.rank for line in mixed if line.rank is not None]
        if ranks != sorted(ranks) or len(ranks) < 2:
            return mixed
    return tuple(reversed(lines))


def from_round(round: Round, show: Callable[[int], str]) -> tuple[Line, ...]:
    """The events of a recorded round, in the order in which they happened."""
    drafted = " ".join(show(token) for token in round.draft_tokens)
    texts = [("propose", f"The draft proposes {drafted}")]
    texts.append(("score", f"The target scores them in one pass: {round.k + 1} rows"))
    for i, row in enumerate(round.positions[: round.k]):
        if row.state == "discarded" or row.token is None or row.p is None or not row.q:
            continue
        verdict = "keep" if row.state == "accepted" else "reject"
        coin = f", u = {row.u:.2f}" if row.u is not None else ""
        texts.append(
            (
                f"judge-{i + 1}",
                f"Position {i + 1}: {verdict} {show(row.token)} (p/q = {row.p / row.q:.2g}{coin})",
            )
        )
    if round.outcome == "bonus":
        texts.append(("added", f"Draw the bonus {show(round.token)} from the target's row {round.k + 1}"))
    else:
        place = round.accepted + 1
        texts.append(
            ("added", f"Draw the correction {show(round.token)} from the residual of position {place}")
        )
    number = len(round.committed)
    tokens = "1 token" if number == 1 else f"{number} tokens"
    cut = f"cut the target's cache to {round.target_cache.kept} positions"
    if round.draft_cache is not None:
        cut += f", the draft's to {round.draft_cache.kept}"
    texts.append(("commit", f"Commit {tokens}, {cut}"))
    return tuple(Line(key, text, rank) for rank, (key, text) in enumerate(texts))


def grade(order: Sequence[Line], all_lines: Sequence[Line]) -> Grade:
    """Judge an order. `order` holds the lines that were kept in, `all_lines` every line of the exercise."""
    placed = [line for line in order if line.rank is not None]
    kept = longest_increasing([line.rank for line in placed if line.rank is not None])
    staying = [placed[i] for i in kept]
    present = {line.key for line in order}
    return Grade(
        moves=tuple(_move(line, placed, staying) for i, line in enumerate(placed) if i not in set(kept)),
        extra=tuple(line.key for line in order if line.rank is None),
        missing=tuple(line.key for line in all_lines if line.rank is not None and line.key not in present),
    )


def longest_increasing(values: Sequence[int]) -> list[int]:
    """Indices of a longest strictly increasing subsequence."""
    tails: list[int] = []  # smallest last value of an increasing run of each length
    ends: list[int] = []  # where that value is
    before: list[int | None] = []
    for i, value in enumerate(values):
        length = bisect_left(tails, value)
        before.append(ends[length - 1] if length else None)
        tails[length : length + 1] = [value]
        ends[length : length + 1] = [i]
    result: list[int] = []
    place: int | None = ends[-1] if ends else None
    while place is not None:
        result.append(place)
        place = before[place]
    return result[::-1]


def reason(first: str, second: str) -> str:
    """Why the line `first` stands before the line `second`; keys as in a `Line`."""
    if first.startswith("judge-") and second.startswith("judge-"):
        return "Judging goes from left to right: a later row is right only if the tokens before it were kept."
    return REASONS[(first.split("-")[0], second.split("-")[0])]


def _move(line: Line, placed: Sequence[Line], staying: Sequence[Line]) -> Move:
    """The nearest line that stays and that `line` is on the wrong side of."""
    at = placed.index(line)

    def wrong(other: Line) -> bool:
        assert line.rank is not None and other.rank is not None
        return (placed.index(other) < at) != (other.rank < line.rank)

    other = min((s for s in staying if wrong(s)), key=lambda s: abs(placed.index(s) - at))
    assert line.rank is not None and other.rank is not None
    first, second = (line, other) if line.rank < other.rank else (other, line)
    return Move(line.key, first.key, second.key, reason(first.key, second.key))
