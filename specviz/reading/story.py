"""What happened in a run, in a sentence with its numbers."""

from specviz.decoding.trace import Trace
from specviz.reading.metrics import metrics
from specviz.reading.prose import count


def happened(trace: Trace) -> str:
    """A sentence or two about a run: what was drafted and kept, and what a pass of the target gave."""
    m = metrics(trace.rounds)
    if not m.rounds:
        return "No round has been made yet."
    rounds, emitted = count(m.rounds, "round"), count(m.emitted, "token")
    said = f"{rounds.capitalize()}, nothing drafted. "
    if m.drafted:
        share = f"{m.draft_acceptance_rate:.0%}"
        said = f"{rounds} kept {m.accepted} of {count(m.drafted, 'draft token')} ({share}). "
    verified = m.accepted + m.rounds
    if verified > m.emitted:
        return f"{said}Verified: {count(verified, 'token')}; emitted: {m.emitted}, for the text ended there."
    return (
        f"{said}With one more from each pass that is {emitted}, {m.emitted / m.rounds:.2f} a pass; without a "
        "draft it is 1."
    )
