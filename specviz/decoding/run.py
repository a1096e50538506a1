"""A decoding run: propose, score, verify, commit, cut, repeat.

A run is an object that can be stepped, stopped between or inside steps, and resumed. It knows token
ids only; what they look like is recorded for whoever shows them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from specviz.decoding import cache as caches
from specviz.decoding import tree_round
from specviz.decoding.arguments import prompt_ids, require_limits
from specviz.decoding.cache import Cache
from specviz.decoding.controls import SamplingConfig, bind, unbound
from specviz.decoding.drafters import Drafter, Proposal, make_drafter
from specviz.decoding.ending import Cutter, Ends, cut
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import Randomness, RoundRandomness, SeededRandomness
from specviz.decoding.record import Made, Recorder, record
from specviz.decoding.sampling import Effective, NonFiniteLogits, Scorer, effective_probs
from specviz.decoding.trace import (
    CacheStep,
    Conversation,
    Finish,
    PairInfo,
    Round,
    TokenText,
    Trace,
)
from specviz.decoding.tree import Shape, TreeVerifier, verify_tree
from specviz.decoding.verify import Verdict, Verifier, verifier_name, verify_block

if TYPE_CHECKING:
    from specviz.decoding.device import Landed, Stage


_RECORD = record
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


class DecodingRun:
    """Speculative decoding of one text.

    Args:
        pair: target and draft.
        prompt: text, or token ids to start from.
        drafter: a kind of drafter, or a drafter made for this pair.
        k: draft tokens a round, 0 or more. May be changed between rounds.
        sampling: the target's controls; the output follows its distribution under them.
        draft_sampling: the draft's controls; the target's if None.
        max_new_tokens: tokens to commit at most, met exactly unless EOS, a stop string or the context
            limit comes first.
        stop: strings that end the text; the token that completes one is the last.
        seed: determines every random draw.
        chat: put the target's chat template around the prompt.
        conversation: system prompt, earlier turns and settings of that template.
        ignore_eos: go on behind an EOS, as a text of a fixed length needs.
        written: how many of the prompt's tokens, at its end, count as written by the run, for controls that
            look at where the text began.
        change_drafter: puts something around the drafter that was made, given the draft's controls.
        verifier: the rule that judges a block.
        randomness: the source of draws; seeded by `seed` if None.
        score, draft_score: from logits to p and to q; `effective_probs` if None.
        tree: shape of a tree of candidates, drafted and judged in place of a block; its levels are K.
        tree_verifier: the rule that judges it.
        cut: where verified tokens end the text.
        record: what a trace keeps of a round.
        on_device: True keeps the rows of a round on the target's device until it is judged, False takes them
            to the host; None does the former on CUDA. Whatever has to look at rows or drafted tokens on the
            host (wrong engines, other scorers and draws) gets them there.

    Raises:
        ValueError: for a prompt that is empty or too long, or arguments out of range.
    """

    def __init__(
        self,
        pair: Pair,
        prompt: str | Sequence[int],
        *,
        drafter: str | Drafter = "model",
        k: int = 4,
        sampling: SamplingConfig | None = None,
        draft_sampling: SamplingConfig | None = None,
        max_new_tokens: int = 128,
        stop: Sequence[str] = (),
        seed: int = 0,
        chat: bool = False,
        conversation: Conversation | None = None,
        ignore_eos: bool = False,
        written: int = 0,
        change_drafter: Callable[[Drafter, SamplingConfig], Drafter] | None = None,
        verifier: Verifier = verify_block,
        tree: Shape | None = None,
        tree_verifier: TreeVerifier = verify_tree,
        randomness: Randomness | None = None,
        score: Scorer | None = None,
        draft_score: Scorer | None = None,
        cut: Cutter = cut,
        record: Recorder = record,
        on_device: bool | None = None,
    ) -> None:
        require_limits(k, max_new_tokens, stop)
        self.pair = pair
        self.k = tree.depth if tree else k
        self.tree = tree
        self.tree_verifier = tree_verifier
        sampling = sampling or SamplingConfig()
        draft_sampling = draft_sampling or sampling
        self.sampling, self.draft_sampling = unbound(sampling), unbound(draft_sampling)
        self.max_new_tokens = max_new_tokens
        self.stop = tuple(stop)
        self.seed = seed
        self.chat = chat
        self.conversation = conversation or Conversation()
        self.ignore_eos = ignore_eos
        self.verifier = verifier
        self.score = score or effective_probs
        self.cut = cut
        self.record = record
        # Other draws, scorers and records look at rows on the host.
        plain = not (tree or randomness or score or draft_score or change_drafter) and record is _RECORD
        self.stage = _stage(self, drafter, on_device) if plain else None
        self.randomness = randomness or SeededRandomness(seed)
        self.prompt = prompt if isinstance(prompt, str) else ""
        self.prompt_ids = prompt_ids(pair, prompt, chat, self.conversation)
        if not 0 <= written <= len(self.prompt_ids):
            raise ValueError(
                f"written must be 0 … {len(self.prompt_ids)}, the prompt's length, not {written}"
            )
        self.written = written
        # Each its own: a grammar's parser stands where its model's text ends.
        target_controls, draft_controls = (
            bind(controls, pair, len(self.prompt_ids) - written) for controls in (sampling, draft_sampling)
        )
        self._controls = target_controls
        self.drafter = (
            make_drafter(
                drafter,
                self.stage.pair if self.stage else pair,  # type: ignore[arg-type]
                draft_controls,
                self.stage.score if self.stage else draft_score,  # type: ignore[arg-type]
            )
            if isinstance(drafter, str)
            else drafter
        )
        if change_drafter is not None:
            self.drafter = change_drafter(self.drafter, draft_controls)
        if tree is not None:
            if verifier is not verify_block:
                raise ValueError(
                    f"the rule {verifier_name(verifier)} judges chains, and a tree has a rule of its own: "
                    "choose one of the two"
                )
            tree_round.require_branching(pair.target, self.drafter, tree)
        self.tokens: list[int] = list(self.prompt_ids)
        self.target_cache = pair.target.new_cache()
        self.rounds: list[Round] = []
        self.recent: Rows | None = None
        self.finish: Finish | None = None
        self.error = ""
        self.created = datetime.now(UTC).isoformat(timespec="seconds")
        self._texts: dict[int, TokenText] = {}
        self._tail = b""  # end of the emitted bytes, as long as a stop string may reach back
        self._owed: _Owed | None = None
        self._note(self.prompt_ids)

    def __iter__(self) -> Iterator[Round]:
        """The remaining rounds, each made when asked for."""
        while self.finish is None:
            yield self.step()

    def __deepcopy__(self, memo: dict[int, Any]) -> "DecodingRun":
        """Another run at the same point: caches and drafter are copied, models and finished rounds shared."""
        drafter: Any = self.drafter
        while hasattr(drafter, "inner"):  # a faulty drafter around a correct one
            drafter = drafter.inner
        models = [getattr(drafter, name, None) for name in ("model", "heads")]
        for shared in (self.pair, self.pair.target, self.pair.draft, *models, *self.rounds):
            memo[id(shared)] = shared
        other = copy(self)
        memo[id(self)] = other
        for name, value in vars(self).items():
            setattr(other, name, deepcopy(value, memo))
        return other

    @property
    def emitted(self) -> int:
        """Tokens committed after the prompt."""
        return len(self.tokens) - len(self.prompt_ids)

    def step(self) -> Round:
        """One round. If it fails or is interrupted, it has not happened and can be repeated.

        Raises:
            RunError: naming model, round and position, if a distribution cannot be used.
            RuntimeError: if the run has finished.
        """
        if self.finish is not None:
            raise RuntimeError(f"the run has finished ({self.finish})")
        self._settle()  # nothing to do, unless an interruption met the very clearing up after another
        self._owed = _Owed((caches.lengths(self.target_cache), caches.lengths(self.drafter.cache)), None)
        try:
            done = self._round(len(self.rounds) + 1)
            self.tokens.extend(done.round.committed)
            self.rounds.append(done.round)
            self.recent, self._tail, self.finish, self.error = done.rows, done.tail, done.round.finish, ""
            self._owed = _Owed(None, done.features, done.picked)
        except RunError as error:
            self.error = str(error)
            raise
        finally:
            self._settle()
        return done.round

    def _settle(self) -> None:
        """Bring caches and drafter in line with the committed tokens, whatever happened. Repeatable.

        After a round both caches hold a prefix of the committed tokens, the last one excluded. After a
        failed one every layer holds what it held before, so that the same passes are made again.
        """
        if self._owed is None:
            return
        if self._owed.before is not None:
            caches.restore(self.target_cache, self._owed.before[0])
            caches.restore(self.drafter.cache, self._owed.before[1])
        for cache, full, rows in self._owed.picked:
            caches.pick(cache, full, rows)
        caches.keep(self.target_cache, len(self.tokens) - 1)
        self.drafter.observe(self.tokens, self._owed.features)
        self._owed = None

    def _round(self, number: int) -> "_Done":
        """Everything a round does, except that the caller commits its tokens and cuts the caches."""
        if self.tree is not None:
            return self._tree_round(number, self.tree)
        began, stage = perf_counter(), self.stage
        mark: Callable[[], Any] = stage.mark if stage else perf_counter
        draws = self.randomness.round(number)
        randomness: Any = stage.uniforms(draws, self.k) if stage else draws
        target: Any = stage.pair.target if stage else self.pair.target
        start, drafter = len(self.tokens), self.drafter
        target_before, draft_before = caches.length(self.target_cache), _length(drafter.cache)

        # 1. The draft proposes up to K tokens.
        marks = [mark()]
        proposal = self._propose(number, randomness)
        marks.append(mark())
        draft_after = _length(drafter.cache)

        # 2. One pass of the target over what it has not cached: K + 1 rows of logits.
        fed = [*self.tokens[target_before:], *proposal.tokens]
        output = target.forward(fed, self.target_cache, len(proposal.tokens) + 1, drafter.wants_features)
        marks.append(mark())

        # 3. Verify from left to right, correct or add the bonus.
        paths = [proposal.tokens[:row] for row in range(len(proposal.tokens) + 1)]
        effective = self._effective(number, output.logits, paths)
        if stage is None:
            verdict = self._verify(number, effective, proposal, randomness)
        else:
            landed = self._land(number, stage, output.logits, effective, proposal, randomness)
            proposal, verdict = replace(proposal, tokens=landed.tokens), landed.verdict
        draft_seconds, verify_seconds = (
            stage.seconds(before, after) if stage else after - before for before, after in pairwise(marks)
        )

        # 4. What is committed: cut at EOS, stop string or limit.
        cut = self.cut([*proposal.tokens[: verdict.accepted], verdict.token], self._ends(), self._text)
        cached = start + len(cut.tokens) - 1  # the last committed token has not been fed to anything
        # What a draft made from its own features, or from gaps, is cut as well.
        draft_kept = cached if drafter.keeps_drafts else start

        made = Made(
            number=number,
            start=start,
            proposal=proposal,
            target_logits=output.logits,
            target_available=self.pair.target.available,
            target=effective,
            verdict=verdict,
            randomness=draws,
            committed=cut.tokens,
            finish=cut.finish,
            verifier=verifier_name(self.verifier),
            target_cache=_cache_step(target_before, target_before + len(fed), cached),
            draft_cache=None if drafter.cache is None else _cache_step(draft_before, draft_after, draft_kept),
            began=began,
            draft_seconds=draft_seconds,
            verify_seconds=verify_seconds,
        )
        round = stage.record(made, landed) if stage else self.record(made)
        self._note([*cut.tokens, *(token for row in round.positions for token in row.table.ids)])
        features = None if output.features is None else output.features[: cached - target_before]
        return _Done(round, Rows(number, effective.probs, proposal.probs), features, cut.tail)

    def _tree_round(self, number: int, shape: Shape) -> "_Done":
        """The same with a tree; what is recorded is a line of it. See `tree_round`."""
        began, randomness = perf_counter(), self.randomness.round(number)
        start, drafter = len(self.tokens), self.drafter
        target_before, draft_before = caches.length(self.target_cache), _length(drafter.cache)
        try:
            drafted = tree_round.draft(drafter, self.tokens, shape, self._room(), randomness)
        except ValueError as error:
            raise RunError(_located(self._draft_name(), number, error)) from error
        tree, drafted_at, draft_after = drafted.tree, perf_counter(), _length(drafter.cache)
        output = tree_round.score(
            self.pair.target, tree, self.tokens, self.target_cache, drafter.wants_features
        )
        scored_at, target_after = perf_counter(), start + len(tree.tokens)
        effective = self._effective(number, output.logits, tree.paths())
        try:
            verdict = self.tree_verifier(effective.probs, tree, randomness)
        except ValueError as error:
            raise RunError(f"round {number}, {error}") from error

        cut = self.cut(
            [*(tree.tokens[node] for node in verdict.nodes), verdict.token], self._ends(), self._text
        )
        cached = start + len(cut.tokens) - 1
        line = tree_round.main_line(tree, verdict)
        rows = [0, *(node + 1 for node in line)]
        path = [start + node for node in verdict.nodes]
        draft_path = [place for place in path if place < draft_after]  # the draft is not fed the last level
        draft_kept = min(start + len(draft_path), cached) if drafter.keeps_drafts else start
        proposal, at_rows = drafted.proposal(line), effective.at(rows)
        round = self.record(
            Made(
                number=number,
                start=start,
                proposal=proposal,
                target_logits=output.logits[rows],
                target_available=self.pair.target.available,
                target=at_rows,
                verdict=Verdict(verdict.accepted, verdict.outcome, verdict.token, verdict.residual_empty),
                randomness=tree_round.LineDraws(randomness, line),
                committed=cut.tokens,
                finish=cut.finish,
                verifier=verifier_name(self.tree_verifier),
                target_cache=_cache_step(target_before, target_after, cached),
                draft_cache=None
                if drafter.cache is None
                else _cache_step(draft_before, draft_after, draft_kept),
                began=began,
                draft_seconds=drafted_at - began,
                verify_seconds=scored_at - drafted_at,
                tree=drafted.nodes(verdict, effective.probs, randomness),
                share=verdict.share if tree.tokens else None,
            )
        )
        self._note([*cut.tokens, *tree.tokens, *(id for row in round.positions for id in row.table.ids)])
        features = tree_round.on_path(output.features, start - target_before, verdict)
        text = tuple(range(start))
        return _Done(
            round,
            Rows(number, at_rows.probs, proposal.probs),
            None if features is None else features[: cached - target_before],
            cut.tail,
            (
                (self.target_cache, target_after, (*text, *path)),
                (drafter.cache, draft_after, (*text, *draft_path)),
            ),
        )

    def _land(
        self, number: int, stage: "Stage", logits: Any, effective: Effective, proposal: Proposal, draws: Any
    ) -> "Landed":
        """Judge a round on the device, and bring over what is kept of it."""
        from specviz.decoding.device import Trouble

        proposal = stage.lifted(proposal)
        judged = stage.verifier(effective.probs, proposal.probs, proposal.tokens, draws)
        model = getattr(self.drafter, "model", getattr(self.drafter, "heads", None))
        available = getattr(model, "available", None)
        greedy = (self.sampling.greedy, self.draft_sampling.greedy)
        try:
            return stage.land(proposal, logits, effective, judged, available, greedy)
        except Trouble as trouble:
            names = {"draft": self._draft_name(), "target": f"target {self.pair.target.name}"}
            if not trouble.model:
                raise RunError(f"round {number}, {trouble.error}") from trouble
            raise RunError(_located(names[trouble.model], number, trouble.error)) from trouble

    def _draft_name(self) -> str:
        return f"draft {self.drafter.info.name if self.drafter.info else self.drafter.kind}"

    def _room(self) -> int:
        """Tokens that a draft may propose, one behind the other."""
        # Never more than can be committed beside the bonus, nor than the contexts hold. None of these
        # limits depends on a drawn token, so the output's distribution does not change.
        room = [self.k, self.max_new_tokens - self.emitted - 1]
        room.append(self.pair.target.context_length - len(self.tokens))
        if self.drafter.context_length is not None:
            room.append(self.drafter.context_length - len(self.tokens) + 1)
        return max(0, min(room))

    def _propose(self, number: int, randomness: RoundRandomness) -> Proposal:
        try:
            return self.drafter.propose(self.tokens, self._room(), randomness)
        except ValueError as error:
            raise RunError(_located(self._draft_name(), number, error)) from error

    def _effective(self, number: int, logits: Any, paths: Sequence[Sequence[Any]]) -> Effective:
        """p of each row, which stands behind the text and a path of draft tokens."""
        prefixes = [[*self.tokens, *path] for path in paths]
        score: Any = self.stage.score if self.stage else self.score
        target: Any = self.stage.pair.target if self.stage else self.pair.target
        try:
            return score(logits, prefixes, self._controls, target.available)
        except ValueError as error:
            raise RunError(_located(f"target {self.pair.target.name}", number, error)) from error

    def _verify(
        self, number: int, effective: Effective, proposal: Proposal, randomness: RoundRandomness
    ) -> Verdict:
        try:
            return self.verifier(effective.probs, proposal.probs, proposal.tokens, randomness)
        except ValueError as error:
            raise RunError(f"round {number}, {error}") from error

    def _ends(self) -> Ends:
        """What may end the text in this round."""
        return Ends(
            eos_ids=frozenset() if self.ignore_eos else self.pair.eos_ids,
            stop=tuple(text.encode() for text in self.stop),
            limit=self.max_new_tokens - self.emitted,
            context=self.pair.target.context_length - len(self.tokens),
            tail=self._tail,
        )

    def _text(self, token: int) -> TokenText:
        self._note([token])
        return self._texts[token]

    def _note(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            if token not in self._texts:
                self._texts[token] = self.pair.token_text(token)

    def _pair_info(self) -> PairInfo:
        """The pair, with the model that drafts in this run."""
        pair, draft = self.pair.info, self.drafter.info
        if draft == pair.draft:
            return pair
        return replace(pair, draft=draft, draft_vocab_size=draft.vocab_size if draft else pair.vocab_size)

    def trace(self) -> Trace:
        """The run so far as a value."""
        return Trace(
            prompt=self.prompt,
            chat=self.chat,
            prompt_ids=self.prompt_ids,
            pair=self._pair_info(),
            drafter=self.drafter.kind,
            k=self.k,
            sampling=self.sampling,
            draft_sampling=self.draft_sampling,
            seed=self.seed,
            max_new_tokens=self.max_new_tokens,
            stop=self.stop,
            rounds=tuple(self.rounds),
            tokens=dict(self._texts),
            created=self.created,
            error=self.error,
            conversation=self.conversation,
            ignore_eos=self.ignore_eos,
            written=self.written,
            draft_context=self.drafter.context_length,
            tree=str(self.tree or ""),
        )


@dataclass(frozen=True, slots=True)
class _Done:
    """A finished round, not yet committed."""

    round: Round
    rows: Rows
    features: Any
    tail: bytes
    picked: tuple[Picked, ...] = ()


@dataclass(frozen=True, slots=True)
class _Owed:
    """What is left to do behind a round.

    Attributes:
        before: positions in each layer of both caches before it; None once it is committed.
        features: what the drafter is to be told of it.
        picked: behind a tree, the rows of each cache that are the path that was kept.
    """

    before: tuple[tuple[int, ...], tuple[int, ...]] | None
    features: Any
    picked: tuple[Picked, ...] = ()


def _stage(run: DecodingRun, drafter: Any, wanted: bool | None) -> "Stage | None":
    """Where the rounds are computed, None for the host; tables and traces need no torch for that."""
    target: Any = run.pair.target
    if wanted is False or not hasattr(target, "forward_there"):
        return None
    if wanted is None and target.device.type != "cuda":
        return None
    from specviz.decoding.device import stage_for

    return stage_for(run.pair, drafter, run.verifier, (run.sampling, run.draft_sampling), wanted)


def _on_host(rows: Any) -> np.ndarray:
    return rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()


def _length(cache: Cache | None) -> int:
    return 0 if cache is None else caches.length(cache)


def _cache_step(before: int, after: int, committed: int) -> CacheStep:
    return CacheStep(before, after - before, min(after, committed))


def _located(model: str, number: int, error: ValueError) -> str:
    if isinstance(error, NonFiniteLogits):
        return f"{model}, round {number}, position {error.row + 1}: the logits contain {error.value}"
    return f"{model}, round {number}: {error}"
