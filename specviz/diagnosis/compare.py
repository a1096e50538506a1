"""Two audits of the same prompts: what changed, where, and whether it is more than noise."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specviz.diagnosis.causes import CAUSE
from specviz.diagnosis.report import Report
from specviz.diagnosis.walk import intervals, span

CHANGED = 0.1  # of β at one position
MOST = 200  # positions that are listed


@dataclass(frozen=True, slots=True)
class Position:
    """A position that both audits measured behind the same text."""

    prompt: int
    index: int
    text: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second audit against the first.

    Attributes:
        prompts: measured in both.
        before, after: mean acceptance length over these prompts.
        change, low, high: difference with its 95% interval, prompts resampled in pairs.
        positions: tokens that stand behind the same text in both.
        better, worse: of these, those whose β changed by more than 0.1.
        beta_change, beta_low, beta_high: mean change of β over them, likewise.
        causes: (key, share of lost tokens before, after), the largest change first.
        largest: the positions with the largest changes.
    """

    prompts: int
    before: float
    after: float
    change: float
    low: float
    high: float
    positions: int
    better: int
    worse: int
    beta_change: float
    beta_low: float
    beta_high: float
    causes: tuple[tuple[str, float, float], ...]
    largest: tuple[Position, ...]

    @property
    def sure(self) -> bool:
        return self.low > 0.0 or self.high < 0.0

    @property
    def sentence(self) -> str:
        noise = "more than noise" if self.sure else "within noise"
        if self.low != self.low:
            noise = "too few to tell from noise"
        return (
            f"Mean acceptance length {self.before:.2f} → {self.after:.2f} over {self.prompts} prompts: "
            f"{self.change:+.2f} ({span(self.low, self.high, '+.2f')}), {noise}."
        )

    @property
    def text(self) -> str:
        lines = [self.sentence]
        if self.positions:
            lines.append(
                f"Behind the same text, {self.positions:,} positions: β changed by {self.beta_change:+.3f} "
                f"({span(self.beta_low, self.beta_high, '+.3f')}) on average; better by more than "
                f"{CHANGED:g} at "
                f"{self.better:,}, worse at {self.worse:,}."
            )
        for key, before, after in self.causes[:4]:
            lines.append(f"  {CAUSE[key].title}: {before:.0%} → {after:.0%} of the lost tokens")
        for position in self.largest[:10]:
            lines.append(
                f"  prompt {position.prompt}, token {position.index + 1} {position.text}: "
                f"β {position.before:.2f} → {position.after:.2f}"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sure": self.sure, "sentence": self.sentence}


def compare(first: Report, second: Report) -> Comparison:
    """Compare two audits.

    Raises:
        ValueError: if they were not made of the same prompts.
    """
    if first.about["prompts"]["digest"] != second.about["prompts"]["digest"]:
        raise ValueError("the two audits are of different prompts: what changed could be the prompts")
    a, b = (report.measured.set_index("prompt") for report in (first, second))
    both = a.index.intersection(b.index)
    if not len(both):
        raise ValueError("the two audits have no measured prompt in common")
    rows = np.concatenate(
        [frame.loc[both, ["accepted", "rounds"]].to_numpy(float) for frame in (a, b)], axis=1
    )
    drawn = intervals(rows)
    changes = drawn[:, 2] / drawn[:, 3] - drawn[:, 0] / drawn[:, 1]
    low, high = (float(v) for v in np.percentile(changes, [2.5, 97.5]))
    total = rows.sum(axis=0)
    before, after = 1 + total[0] / total[1], 1 + total[2] / total[3]
    positions = _positions(first, second)
    beta = _beta(positions)
    shares = [{share.key: share.share for share in report.causes} for report in (first, second)]
    causes = sorted(
        ((key, shares[0][key], shares[1][key]) for key in CAUSE if shares[0][key] or shares[1][key]),
        key=lambda row: -abs(row[2] - row[1]),
    )
    return Comparison(
        len(both),
        float(before),
        float(after),
        float(after - before),
        low,
        high,
        len(positions),
        sum(p.change > CHANGED for p in positions),
        sum(p.change < -CHANGED for p in positions),
        *beta,
        tuple(causes),
        tuple(sorted(positions, key=lambda p: -abs(p.change))[:MOST]),
    )


def _positions(first: Report, second: Report) -> list[Position]:
    """Tokens behind the same text: up to where the two answers to a prompt part."""
    found = []
    ordered = [report.frames["tokens"].sort_values("index") for report in (first, second)]
    frames = [dict(list(tokens.groupby("prompt"))) for tokens in ordered]
    for prompt in frames[0].keys() & frames[1].keys():
        a, b = frames[0][prompt], frames[1][prompt]
        ours, theirs = a["token"].tolist(), b["token"].tolist()
        same = next(
            (i for i, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y),
            min(len(ours), len(theirs)) - 1,
        )
        values = zip(a["beta"][: same + 1], b["beta"][: same + 1], a["text"], strict=False)
        for index, (before, after, text) in enumerate(values):
            if before == before and after == after:
                found.append(Position(int(prompt), index, text, float(before), float(after)))
    return found


def _beta(positions: list[Position]) -> tuple[float, float, float]:
    """Mean change of β with its interval, whole prompts resampled."""
    if not positions:
        return 0.0, 0.0, 0.0
    sums: dict[int, list[float]] = {}
    for position in positions:
        row = sums.setdefault(position.prompt, [0.0, 0.0])
        row[0] += position.change
        row[1] += 1
    rows = np.array(list(sums.values()))
    drawn = intervals(rows)
    low, high = np.percentile(drawn[:, 0] / np.maximum(drawn[:, 1], 1e-12), [2.5, 97.5])
    return float(rows[:, 0].sum() / rows[:, 1].sum()), float(low), float(high)
