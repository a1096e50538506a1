"""Where it goes wrong: β and lost tokens by kind of token, place in the answer, context length, group; the
worst prompts and the worst tokens."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.diagnosis.kinds import KINDS
from specviz.diagnosis.walk import intervals

PLACES = ((0, 16), (16, 64), (64, 128), (128, 10**9))
CONTEXTS = ((0, 256), (256, 512), (512, 1024), (1024, 2048), (2048, 4096), (4096, 16384), (16384, 10**9))


@dataclass(frozen=True, slots=True)
class Cell:
    """Positions of one sort.

    Attributes:
        name: of the sort.
        tokens: committed tokens of it.
        beta, low, high: mean β with its 95% interval (prompts resampled); NaN without a proposal.
        lost: share of all lost tokens.
    """

    name: str
    tokens: int
    beta: float
    low: float
    high: float
    lost: float


@dataclass(frozen=True, slots=True)
class Split:
    """One way to sort the positions."""

    title: str
    cells: tuple[Cell, ...]


def splits(frames: dict[str, Any]) -> list[Split]:
    """All ways, those with a single cell included."""
    tokens = located(frames)
    return [
        Split(title, tuple(_cells(tokens, labels, names))) for title, labels, names in _ways(frames, tokens)
    ]


def of_cell(frames: dict[str, Any], found: Any, title: str, name: str) -> Any:
    """Those of the `rejections` that stand at tokens of one cell.

    Args:
        found: rows of `rejections`.
        title, name: of a split and of a cell of it.
    """
    tokens = frames["tokens"]
    labels = next((labels for way, labels, _ in _ways(frames, tokens) if way == title), None)
    if labels is None:
        return found
    inside = tokens[labels == name][["prompt", "index"]]
    return found.merge(inside, on=["prompt", "index"])


def _ways(frames: dict[str, Any], tokens: Any) -> list[tuple[str, Any, list[str]]]:
    """(title, label of each row of the table of tokens, names of the labels in order)."""
    prompts = frames["prompts"].set_index("prompt")
    context = tokens["prompt"].map(prompts["prompt_tokens"]) + tokens["index"]
    ways = [
        ("Kind of token", tokens["kind"], list(KINDS)),
        ("Place in the answer", tokens["index"].map(lambda i: _range(i, PLACES)), _names(PLACES)),
        ("Context length", context.map(lambda n: _range(n, CONTEXTS)), _names(CONTEXTS)),
    ]
    groups = tokens["prompt"].map(prompts["group"]).fillna("")
    if groups.nunique() > 1:
        ways.append(("Prompt group", groups.replace("", "none"), sorted(groups.replace("", "none").unique())))
    return ways


def located(frames: dict[str, Any]) -> Any:
    """The table of tokens with the tokens lost at each: those of the rejection that it stands for."""
    tokens = frames["tokens"].copy()
    rejected = rejections(frames)
    lost = rejected.groupby(["prompt", "index"])["lost"].sum()
    keys = list(zip(tokens["prompt"], tokens["index"], strict=True))
    tokens["lost"] = [float(lost.get(key, 0.0)) for key in keys]
    return tokens


def rejections(frames: dict[str, Any]) -> Any:
    """Rejected positions with the place in the answer (`index`) and the start of their round."""
    rejected = frames["positions"]
    rejected = rejected[rejected["state"] == "rejected"]
    rounds = frames["rounds"][["prompt", "round", "start"]]
    rejected = rejected.merge(rounds, on=["prompt", "round"], how="left")
    return rejected.assign(index=rejected["start"] + rejected["position"] - 1)


def _cells(tokens: Any, labels: Any, names: list[str]) -> list[Cell]:
    total = max(1.0, float(tokens["lost"].sum()))
    cells = []
    for name in names:
        part = tokens[labels == name]
        if not len(part):
            continue
        known = part[part["beta"].notna()]
        sums = known.groupby("prompt")["beta"].agg(["sum", "count"]).to_numpy(float)
        beta = low = high = float("nan")
        if len(sums):
            drawn = intervals(sums)
            ratios = drawn[:, 0] / np.maximum(drawn[:, 1], 1e-12)
            low, high = (float(v) for v in np.percentile(ratios, [2.5, 97.5]))
            beta = float(sums[:, 0].sum() / sums[:, 1].sum())
        cells.append(Cell(str(name), len(part), beta, low, high, float(part["lost"].sum()) / total))
    return cells


def _range(n: int, ranges: tuple[tuple[int, int], ...]) -> str:
    return next(_name(a, b) for a, b in ranges if a <= n < b)


def _name(a: int, b: int) -> str:
    return f"{a + 1:,} on" if b >= 10**9 else f"{a + 1:,} to {b:,}"


def _names(ranges: tuple[tuple[int, int], ...]) -> list[str]:
    return [_name(a, b) for a, b in ranges]


def sentence(found: list[Split]) -> str:
    """The worst cell of each way that stands out, with its numbers."""
    said = []
    for split in found:
        cells = [c for c in split.cells if c.beta == c.beta and c.tokens >= 20]
        if len(cells) < 2:
            continue
        worst, best = min(cells, key=lambda c: c.beta), max(cells, key=lambda c: c.beta)
        if worst.high < best.low and best.beta - worst.beta >= 0.05:
            said.append(
                f"{split.title.lower()}: worst at {worst.name} (β {worst.beta:.2f}, {worst.lost:.0%} "
                "of the lost "
                f"tokens), best at {best.name} ({best.beta:.2f})"
            )
    if not said:
        return "No kind of token, place or group stands out beyond noise."
    return f"By {'; by '.join(said)}."


def falls_with_context(found: list[Split]) -> str:
    """A sentence if β falls with the length of the context; "" otherwise."""
    split = next(s for s in found if s.title == "Context length")
    cells = [c for c in split.cells if c.beta == c.beta and c.tokens >= 20]
    if len(cells) < 2:
        return ""
    first, last = cells[0], cells[-1]
    if first.beta - last.beta >= 0.1 and last.high < first.low:
        return (
            f"β falls with the context: {first.beta:.2f} at {first.name} tokens, {last.beta:.2f} at "
            f"{last.name}. "
            "Known causes: the draft was trained on shorter texts, its rotary scaling differs, or its window "
            "is short."
        )
    return ""


def worst_prompts(frames: dict[str, Any], count: int = 8) -> Any:
    """The prompts with the most lost tokens: their row, mean acceptance length and main cause."""
    prompts = frames["prompts"]
    prompts = prompts[prompts["rounds"] > 0]
    rejected = rejections(frames)
    main = (
        rejected.groupby(["prompt", "cause"])["lost"].sum().reset_index().sort_values("lost", ascending=False)
    ).drop_duplicates("prompt")
    chosen = prompts.sort_values("lost", ascending=False).head(count)
    chosen = chosen.assign(mean=1 + chosen["accepted"] / chosen["rounds"])
    return chosen.merge(main[["prompt", "cause"]], on="prompt", how="left")


def worst_tokens(frames: dict[str, Any], count: int = 8) -> Any:
    """The draft tokens that cost most: times rejected and drafted (and judged), tokens lost, what mostly came
    instead, and one place where it happened."""
    positions = frames["positions"]
    judged = positions[positions["state"] != "discarded"].groupby("token").size()
    rejected = rejections(frames)
    rows = []
    for token, part in rejected.groupby("token"):
        instead = part["instead"].mode()
        example = part.sort_values("lost", ascending=False).iloc[0]
        rows.append(
            {
                "token": int(token),
                "rejected": len(part),
                "judged": int(judged.get(token, len(part))),
                "lost": int(part["lost"].sum()),
                "instead": int(instead.iloc[0]) if len(instead) else -1,
                "prompt": int(example["prompt"]),
                "round": int(example["round"]),
                "position": int(example["position"]),
            }
        )
    rows.sort(key=lambda row: -row["lost"])
    return rows[:count]
