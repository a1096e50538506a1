"""A round of a run: the draft proposes, the target scores, the rule judges, the end cuts.

`make` is the round of a chain; that of a tree stands in `tree_round`, on the same parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding.cache import Cache
from specviz.decoding.drafters import Proposal
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.record import Made
from specviz.decoding.sampling import Effective, NonFiniteLogits
from specviz.decoding.trace import CacheStep, Round
from specviz.decoding.verify import Verdict, verifier_name

if TYPE_CHECKING:
    from specviz.decoding.device import Landed, Stage
    from specviz.decoding.run import DecodingRun


# A cache, how many positions it holds behind a round with a tree, and which of them stay.
Picked = tuple[Cache | None, int, tuple[int, ...]]


class RunError(RuntimeError):
    """A round that could not be finished. The rounds before it stand, and the caches are cut."""


@dataclass(frozen=True)
class Rows:
    """The full distributions of one round, p (K + 1, V) and q (K, V), float64, wherever they were made.

    They come to the host when somebody asks for them.
    """

    number: int
    target: Any
    draft: Any

    @cached_property
    def target_probs(self) -> np.ndarray:
        return _on_host(self.target)

    @cached_property
    def draft_probs(self) -> np.ndarray:
        return _on_host(self.draft)


@dataclass(frozen=True, slots=True)
class Done:
    """A finished round, not yet committed."""

    round: Round
    rows: Rows
    features: Any
    tail: bytes
    picked: tuple[Picked, ...] = ()


def make(run: "DecodingRun", number: int) -> Done:
    """Everything a round does, except that the caller commits its tokens and cuts the caches.

    Args:
        run: stands behind its last round; caches and drafter move, the rest is left as it is.
        number: of the round, from 1.

    Raises:
        RunError: naming model, round and position, if a distribution cannot be used.
    """
    began, stage = perf_counter(), run.stage
    mark: Callable[[], Any] = stage.mark if stage else perf_counter
    draws = run.randomness.round(number)
    randomness: Any = stage.uniforms(draws, run.k) if stage else draws
    target: Any = stage.pair.target if stage else run.pair.target
    start, drafter = len(run.tokens), run.drafter
    target_before, draft_before = caches.length(run.target_cache), length(drafter.cache)

    # 1. The draft proposes up to K tokens.
    marks = [mark()]
    proposal = _propose(run, number, randomness)
    marks.append(mark())
    draft_after = length(drafter.cache)

    # 2. One pass of the target over what it has not cached: K + 1 rows of logits.
    fed = [*run.tokens[target_before:], *proposal.tokens]
    output = target.forward(fed, run.target_cache, len(proposal.tokens) + 1, drafter.wants_features)
    marks.append(mark())

    # 3. Verify from left to right, correct or add the bonus.
    paths = [proposal.tokens[:row] for row in range(len(proposal.tokens) + 1)]
    effective = target_rows(run, number, output.logits, paths)
    if stage is None:
        verdict = _verify(run, number, effective, proposal, randomness)
    else:
        landed = _land(run, number, stage, output.logits, effective, proposal, randomness)
        proposal, verdict = replace(proposal, tokens=landed.tokens), landed.verdict
    draft_seconds, verify_seconds = (
        stage.seconds(before, after) if stage else after - before for before, after in pairwise(marks)
    )

    # 4. What is committed: cut at EOS, stop string or limit.
    cut = run.cut([*proposal.tokens[: verdict.accepted], verdict.token], run.ends(), run.text)
    cached = start + len(cut.tokens) - 1  # the last committed token has not been fed to anything
    # What a draft made from its own features, or from gaps, is cut as well.
    draft_kept = cached if drafter.keeps_drafts else start

    made = Made(
        number=number,
        start=start,
        proposal=proposal,
        target_logits=output.logits,
        target_available=run.pair.target.available,
        target=effective,
        verdict=verdict,
        randomness=draws,
        committed=cut.tokens,
        finish=cut.finish,
        verifier=verifier_name(run.verifier),
        target_cache=cache_step(target_before, target_before + len(fed), cached),
        draft_cache=None if drafter.cache is None else cache_step(draft_before, draft_after, draft_kept),
        began=began,
        draft_seconds=draft_seconds,
        verify_seconds=verify_seconds,
    )
    round = stage.record(made, landed) if stage else run.record(made)
    run.note([*cut.tokens, *(token for row in round.positions for token in row.table.ids)])
    features = None if output.features is None else output.features[: cached - target_before]
    return Done(round, Rows(number, effective.probs, proposal.probs), features, cut.tail)


def _land(
    run: "DecodingRun",
    number: int,
    stage: "Stage",
    logits: Any,
    effective: Effective,
    proposal: Proposal,
    draws: Any,
) -> "Landed":
    """Judge a round on the device, and bring over what is kept of it."""
    from specviz.decoding.device import Trouble

    proposal = stage.lifted(proposal)
    judged = stage.verifier(effective.probs, proposal.probs, proposal.tokens, draws)
    drafter: Any = getattr(run.drafter, "inner", run.drafter)
    model = getattr(drafter, "model", getattr(drafter, "heads", None))
    available = None if model is None else model.available
    try:
        return stage.land(proposal, logits, effective, judged, available, (run.sampling, run.draft_sampling))
    except Trouble as trouble:
        names = {"draft": draft_name(run), "target": f"target {run.pair.target.name}"}
        if not trouble.model:
            raise RunError(f"round {number}, {trouble.error}") from trouble
        raise RunError(located(names[trouble.model], number, trouble.error)) from trouble


def draft_name(run: "DecodingRun") -> str:
    return f"draft {run.drafter.info.name if run.drafter.info else run.drafter.kind}"


def room(run: "DecodingRun") -> int:
    """Tokens that a draft may propose, one behind the other."""
    # Never more than can be committed beside the bonus, nor than the contexts hold. None of these
    # limits depends on a drawn token, so the output's distribution does not change.
    room = [run.k, run.max_new_tokens - run.emitted - 1]
    room.append(run.pair.target.context_length - len(run.tokens))
    if run.drafter.context_length is not None:
        room.append(run.drafter.context_length - len(run.tokens) + 1)
    return max(0, min(room))


def _propose(run: "DecodingRun", number: int, randomness: RoundRandomness) -> Proposal:
    try:
        return run.drafter.propose(run.tokens, room(run), randomness)
    except ValueError as error:
        raise RunError(located(draft_name(run), number, error)) from error


def target_rows(run: "DecodingRun", number: int, logits: Any, paths: Sequence[Sequence[Any]]) -> Effective:
    """p of each row, which stands behind the text and a path of draft tokens."""
    prefixes = [[*run.tokens, *path] for path in paths]
    score: Any = run.stage.score if run.stage else run.score
    target: Any = run.stage.pair.target if run.stage else run.pair.target
    try:
        return score(logits, prefixes, run.controls, target.available)
    except ValueError as error:
        raise RunError(located(f"target {run.pair.target.name}", number, error)) from error


def _verify(
    run: "DecodingRun", number: int, effective: Effective, proposal: Proposal, randomness: RoundRandomness
) -> Verdict:
    try:
        return run.verifier(effective.probs, proposal.probs, proposal.tokens, randomness)
    except ValueError as error:
        raise RunError(f"round {number}, {error}") from error


def _on_host(rows: Any) -> np.ndarray:
    return rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()


def length(cache: Cache | None) -> int:
    return 0 if cache is None else caches.length(cache)


def cache_step(before: int, after: int, committed: int) -> CacheStep:
    return CacheStep(before, after - before, min(after, committed))


def located(model: str, number: int, error: ValueError) -> str:
    if isinstance(error, NonFiniteLogits):
        return f"{model}, round {number}, position {error.row + 1}: the logits contain {error.value}"
    return f"{model}, round {number}: {error}"
