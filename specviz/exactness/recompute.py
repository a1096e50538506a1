"""The full distributions of any recorded round, computed again by an uncached pass."""

from dataclasses import dataclass

import numpy as np

from specviz.decoding.controls import bind
from specviz.decoding.drafters import Proposal, make_drafter
from specviz.decoding.faults import Spot
from specviz.decoding.position import Position
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import ChosenDrafts
from specviz.decoding.run import Rows
from specviz.decoding.sampling import Effective, effective_probs
from specviz.decoding.trace import Round, Trace
from specviz.reading.reduced import reduced


class RowsUnavailable(ValueError):
    """The rows of this round cannot be computed with this pair."""


@dataclass(frozen=True, slots=True)
class Block:
    """One round's rows, by an uncached pass of the target and a fresh drafter, and what led to them.

    Attributes:
        round: the recorded round.
        target_logits: (K + 1, V) raw logits.
        target: the effective distributions of the same rows.
        proposal: the drafter's rows for the recorded tokens.
        committed: the tokens before the round.
        spots: one for each of the K drafted rows.
    """

    round: Round
    target_logits: np.ndarray
    target: Effective
    proposal: Proposal
    committed: tuple[int, ...]
    spots: tuple[Spot, ...]

    @property
    def rows(self) -> Rows:
        return Rows(self.round.number, self.target.probs, self.proposal.probs)


def recompute(pair: Pair, trace: Trace, number: int) -> Block:
    """Compute the rows of round `number` (from 1) again.

    The target sees all tokens in one pass without a cache. The drafter is a new one that is led through
    the recorded draft tokens, whatever its q would draw now.

    Raises:
        RowsUnavailable: if there is no such round, or the pair is not the one that made the trace.
        DraftUnavailable: if the pair lacks what the trace's drafter needs.
    """
    if not 1 <= number <= len(trace.rounds):
        raise RowsUnavailable(f"the trace has rounds 1 to {len(trace.rounds)}, not {number}")
    if pair.vocab_size != trace.pair.vocab_size or pair.info.fingerprint != trace.pair.fingerprint:
        raise RowsUnavailable(
            f"the trace was made with {trace.pair.name}, not with the pair {pair.info.name} that is loaded"
        )
    round = trace.rounds[number - 1]
    committed = (*trace.prompt_ids, *trace.output_ids)[: round.start]
    drafts = round.draft_tokens
    prefixes = [(*committed, *drafts[:row]) for row in range(round.k + 1)]

    begins = len(trace.prompt_ids) - trace.written
    sampling, draft_sampling = (
        bind(controls, pair, begins) for controls in (trace.sampling, trace.draft_sampling)
    )
    drafter = make_drafter(trace.drafter, pair, draft_sampling)
    fed = [*committed, *drafts]
    output = pair.target.forward(fed, pair.target.new_cache(), round.k + 1, drafter.wants_features)
    target = effective_probs(output.logits, prefixes, sampling, pair.target.available)
    if number > 1:  # as after a round: the last committed token has been fed to nothing
        known = None if output.features is None else output.features[: len(committed) - 1]
        drafter.observe(list(committed), known)
    proposal = drafter.propose(list(committed), round.k, ChosenDrafts(lambda row, _: drafts[row]))
    if tuple(proposal.tokens) != drafts:
        raise RowsUnavailable(f"round {number}: the drafter proposes other tokens than it did then")
    spots = tuple(
        Spot(
            p=target.probs[row],
            q=proposal.probs[row],
            p_before=target.probs[row - 1] if row else None,
            target_logits=output.logits[row],
            draft_logits=None if proposal.logits is None else proposal.logits[row],
            committed=committed,
            drafts=drafts[:row],
            sampling=sampling,
            draft_sampling=draft_sampling,
            target_available=pair.target.available,
        )
        for row in range(round.k)
    )
    return Block(round, output.logits, target, proposal, committed, spots)


@dataclass(frozen=True, slots=True)
class TableSpot:
    """A drafted position as a saved trace holds it; see `specviz.reading.reduced`.

    Under the exact rule every single token has its true kept and corrected mass. Faults that bend the
    accept test treat a lump as one token, and their distributions are those of the lumps.

    Attributes:
        ids: token of each column; the last two are None, the lumps.
        spot: p and q of the columns.
    """

    ids: tuple[int | None, ...]
    spot: Spot


def table_spot(position: Position) -> TableSpot:
    """A drafted position without a model.

    Raises:
        RowsUnavailable: for the bonus row, which has no draft token.
    """
    if position.token is None:
        raise RowsUnavailable("the bonus row has no draft token to accept or refuse")
    row = reduced(position)
    return TableSpot(row.ids, Spot(row.p / row.p.sum(), row.q / row.q.sum()))
