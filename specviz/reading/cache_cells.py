"""What the two key-value caches hold around a round, cell by cell, and what the next round feeds."""

from dataclasses import dataclass
from typing import Literal

from specviz.decoding.trace import CacheStep, Round, Trace
from specviz.reading.prose import Sentence, count, sentence, token

Cell = Literal["before", "new", "cut", "unfed"]

SHOWN_BEFORE = 6  # cells before the round's own that a strip lists one by one


@dataclass(frozen=True, slots=True)
class CacheStrip:
    """One model's key-value cache around a round, as cells from left to right.

    Attributes:
        role: whose cache it is.
        model: the model's name.
        before: positions that were cached when the round began and stayed.
        new: positions that the round added and that stayed.
        cut: positions that were computed and removed.
        committed: committed tokens after the round.
        hidden: cells at the left that are not listed.
        cells: kind and token of each other cell; "unfed" ones are committed and not cached.
    """

    role: Literal["target", "draft"]
    model: str
    before: int
    new: int
    cut: int
    committed: int
    hidden: int
    cells: tuple[tuple[Cell, int], ...]

    @property
    def kept(self) -> int:
        """Positions cached after the round."""
        return self.before + self.new

    @property
    def unfed(self) -> int:
        """Committed tokens that the next round feeds, before its own drafts."""
        return self.committed - self.kept


def prefix(trace: Trace, round: Round) -> tuple[int, ...]:
    """The committed tokens, prompt included, when the round began."""
    before = (token for r in trace.rounds[: round.number - 1] for token in r.committed)
    return (*trace.prompt_ids, *before)


def cache_strips(trace: Trace, round: Round) -> tuple[CacheStrip, ...]:
    """The target's strip, and the draft's unless its drafter has no cache."""
    text = prefix(trace, round)
    strips = [_strip("target", trace.pair.target.name, text, round, round.target_cache)]
    if round.draft_cache is not None:
        draft = trace.pair.draft.name if trace.pair.draft else trace.drafter
        strips.append(_strip("draft", draft, text, round, round.draft_cache))
    return tuple(strips)


def figures(strip: CacheStrip) -> str:
    """The strip in numbers."""
    kept = f"{strip.before:,} + {strip.new:,} kept, {strip.cut:,} cut"
    return f"{kept} · {strip.kept:,} cached, {strip.committed:,} committed"


def next_feed(round: Round, strip: CacheStrip) -> Sentence:
    """What the next round feeds to this model, and why."""
    if round.finish is not None:
        return sentence("The text has ended: nothing more is fed.")
    feeds = f"The next round feeds {count(strip.unfed, 'token')}"
    if strip.role == "target":
        feeds += " and the new drafts in one pass"
    added = "bonus" if round.outcome == "bonus" else "correction"
    if strip.unfed == 1:
        return sentence(f"{feeds}: the {added} ", token(round.token), ", which no model has read yet.")
    if strip.role == "draft" and strip.unfed == 2 and round.outcome == "bonus" and round.k:
        return sentence(
            f"{feeds}: the last draft token ",
            token(round.draft_tokens[-1]),
            f", which the draft drew and had no need to read, and the {added} ",
            token(round.token),
            ".",
        )
    return sentence(f"{feeds}: all that was committed since this model last ran.")


def _strip(
    role: Literal["target", "draft"], model: str, text: tuple[int, ...], round: Round, step: CacheStep
) -> CacheStrip:
    during = (*text, *round.draft_tokens)
    after = (*text, *round.committed)
    before = min(step.before, step.kept)
    hidden = min(max(0, round.start - SHOWN_BEFORE), step.kept)
    cells: list[tuple[Cell, int]] = []
    for i, held in enumerate(during[hidden : step.before + step.fed], hidden):
        cells.append(("before" if i < before else "new" if i < step.kept else "cut", held))
    cells += [("unfed", waiting) for waiting in after[step.kept :]]
    return CacheStrip(
        role=role,
        model=model,
        before=before,
        new=step.kept - before,
        cut=step.cut,
        committed=len(after),
        hidden=hidden,
        cells=tuple(cells),
    )
