"""The figures of a run, by the names that engines use. Computed from the rounds of a trace.

Draft acceptance rate and mean acceptance length are defined as in vLLM (which leaves steps that drafted
nothing out of the latter; here every round counts). Its rate at a position divides by all drafts, ours by
those long enough to have the position: the same for a fixed K. alpha is the papers' (Leviathan et al. 2023):
from distributions, not events.
Counts are of *verified* tokens: a text cut at EOS or a limit emits fewer.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.decoding.trace import Round


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures over some rounds. None where nothing was drafted: there is no rate to give.

    Attributes:
        rounds: rounds counted.
        emitted: tokens committed to the text.
        drafted, accepted: draft tokens proposed, all candidates of a tree among them, and accepted.
        draft_acceptance_rate: accepted / drafted; bonus and corrected tokens never count.
        mean_acceptance_length: 1 + accepted / rounds, in 1 … K + 1.
        per_position: rate i (from 1) = rounds with at least i accepted / rounds that drafted at least i.
        conditional: the same numerator / rounds with at least i - 1 accepted that drafted at least i.
        histogram: number of rounds by accepted tokens, index 0 … K.
        alpha: mean of beta = sum of min(p, q) over all drafted positions, judged or not.
        seconds, draft_seconds, verify_seconds: wall time.
    """

    rounds: int
    emitted: int
    drafted: int
    accepted: int
    draft_acceptance_rate: float | None
    mean_acceptance_length: float | None
    per_position: tuple[float, ...]
    conditional: tuple[float | None, ...]
    histogram: tuple[int, ...]
    alpha: float | None
    seconds: float
    draft_seconds: float
    verify_seconds: float

    @property
    def tokens_per_second(self) -> float | None:
        return self.emitted / self.seconds if self.seconds > 0 else None


def metrics(rounds: Sequence[Round]) -> Metrics:
    drafted = sum(r.drafted for r in rounds)
    accepted = sum(r.accepted for r in rounds)
    longest = max((r.k for r in rounds), default=0)
    tried = [sum(r.k >= i for r in rounds) for i in range(1, longest + 1)]
    reached = [sum(r.accepted >= i for r in rounds) for i in range(1, longest + 1)]
    eligible = [sum(r.k >= i and r.accepted >= i - 1 for r in rounds) for i in range(1, longest + 1)]
    counts = Counter(r.accepted for r in rounds)
    betas = [row.beta for r in rounds for row in r.positions if row.beta is not None]
    return Metrics(
        rounds=len(rounds),
        emitted=sum(len(r.committed) for r in rounds),
        drafted=drafted,
        accepted=accepted,
        draft_acceptance_rate=accepted / drafted if drafted else None,
        mean_acceptance_length=1 + accepted / len(rounds) if rounds else None,
        per_position=tuple(a / b for a, b in zip(reached, tried, strict=True)),
        conditional=tuple(a / b if b else None for a, b in zip(reached, eligible, strict=True)),
        histogram=tuple(counts[a] for a in range(longest + 1)) if rounds else (),
        alpha=sum(betas) / len(betas) if betas else None,
        seconds=sum(r.seconds for r in rounds),
        draft_seconds=sum(r.draft_seconds for r in rounds),
        verify_seconds=sum(r.verify_seconds for r in rounds),
    )
