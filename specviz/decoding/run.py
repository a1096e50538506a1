"""A decoding run: propose, score, verify, commit, cut, repeat.

A run is an object that can be stepped, stopped between or inside steps, and resumed. It knows token
ids only; what they look like is recorded for whoever shows them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from specviz.decoding import cache as caches
from specviz.decoding import rounds, tree_round
from specviz.decoding.arguments import prompt_ids, require_limits
from specviz.decoding.controls import SamplingConfig, bind, unbound
from specviz.decoding.drafters import Drafter, make_drafter
from specviz.decoding.ending import Cutter, Ends, cut
from specviz.decoding.protocols import Pair
from specviz.decoding.randomness import Randomness, SeededRandomness
from specviz.decoding.record import Recorder, record
from specviz.decoding.rounds import Picked, Rows, RunError
from specviz.decoding.sampling import Scorer, effective_probs
from specviz.decoding.trace import (
    Conversation,
    Finish,
    PairInfo,
    Round,
    TokenText,
    Trace,
)
from specviz.decoding.tree import Shape, TreeVerifier, verify_tree
from specviz.decoding.verify import Verifier, verifier_name, verify_block

if TYPE_CHECKING:
    from specviz.decoding.device import Stage


_RECORD = record


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
        self.controls = target_controls
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
        self.recipe: tuple[tuple[str, str], ...] = ()  # for the trace, by whoever starts the run from one
        self.created = datetime.now(UTC).isoformat(timespec="seconds")
        self._texts: dict[int, TokenText] = {}
        self._tail = b""  # end of the emitted bytes, as long as a stop string may reach back
        self._owed: _Owed | None = None
        self.note(self.prompt_ids)

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
            number = len(self.rounds) + 1
            done = tree_round.make(self, number, self.tree) if self.tree else rounds.make(self, number)
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

    def ends(self) -> Ends:
        """What may end the text in this round."""
        return Ends(
            eos_ids=frozenset() if self.ignore_eos else self.pair.eos_ids,
            stop=tuple(text.encode() for text in self.stop),
            limit=self.max_new_tokens - self.emitted,
            context=self.pair.target.context_length - len(self.tokens),
            tail=self._tail,
        )

    def text(self, token: int) -> TokenText:
        """What a token looks like; the trace keeps it."""
        self.note([token])
        return self._texts[token]

    def note(self, tokens: Iterable[int]) -> None:
        """Keep what these tokens look like for the trace."""
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
            recipe=self.recipe,
        )


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
