"""What to know before believing a run's figures: where they flatter, and where nothing was drafted."""

from dataclasses import dataclass

from specviz.decoding.trace import Trace

SIZE = 4  # tokens of the runs that are counted
FEWEST = 24  # tokens of text before its repetition means anything
REPEATED = 0.5  # share of distinct 4-grams below which a text repeats itself
# Drafters whose one reason to draft less than K is the end of a context or of the text.
AUTOREGRESSIVE = ("model", "early-exit", "parallel")


@dataclass(frozen=True, slots=True)
class Silence:
    """What the end of the draft's context did to a run.

    Attributes:
        first: the token (from 1, prompt included) from which on nothing was drafted.
        rounds: how many there are from there on, each a pass of the target alone.
    """

    first: int
    rounds: int


def notes(trace: Trace) -> tuple[str, ...]:
    """Sentences to stand beside the figures; none for most runs."""
    return tuple(note for note in (_repetition(trace), _silence(trace)) if note)


def distinct_share(tokens: tuple[int, ...]) -> float | None:
    """Distinct 4-grams of a text / all of them, in (0, 1]; None for a text too short to say."""
    if len(tokens) < FEWEST:
        return None
    grams = [tokens[i : i + SIZE] for i in range(len(tokens) - SIZE + 1)]
    return len(set(grams)) / len(grams)


def _repetition(trace: Trace) -> str:
    share = distinct_share(tuple(trace.output_ids))
    if share is None or share >= REPEATED:
        return ""
    return (
        f"The text repeats itself (distinct 4-grams {share:.2f}), which any draft guesses well: these "
        "figures are higher than on other texts."
    )


def silence(trace: Trace) -> Silence | None:
    """The rounds in which the draft could not draft although there was room; None if there are none."""
    if trace.drafter.partition(":")[0] not in AUTOREGRESSIVE or not trace.k:
        return None
    emitted, silent, first = 0, 0, 0
    for round in trace.rounds:
        # Where the trace says how far the draft's context reaches: constraints too may leave it no token.
        full = trace.draft_context is None or round.start > trace.draft_context
        if round.k == 0 and full and trace.max_new_tokens - emitted > 1:
            first = first or round.start + 1
            silent += 1
        emitted += len(round.committed)
    return Silence(first, silent) if silent else None


def _silence(trace: Trace) -> str:
    found = silence(trace)
    if found is None:
        return ""
    return (
        f"In {found.rounds} of {len(trace.rounds)} rounds the draft proposed nothing, from token "
        f"{found.first:,} on: its context is full. The rates count the other rounds only."
    )
