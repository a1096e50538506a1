"""What a run leaves behind: frozen values that describe every round completely.

Everything the interface shows is read from these values. They hold the scalars computed on the full
distributions, and tables for the tokens worth drawing; `codec` turns them into files and back.

Terms (p is the target's distribution, q the draft's, as in Leviathan et al., arXiv 2211.17192):

proposed   a draft token before judgement
accepted   a draft token that was kept
rejected   the first draft token of a round that was refused
discarded  the draft tokens after the rejected one
corrected  the token drawn from the residual max(0, p - q) after a rejection
bonus      the token drawn from the target's last row when every draft token was accepted
committed  accepted tokens and the corrected or bonus one, after cutting at EOS, stop string or limit
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from specviz.decoding.controls import SamplingConfig
from specviz.decoding.position import Position
from specviz.decoding.ranges import MAX_COUNT, MAX_K, Count, Mass, Seconds, Text, TokenId, Tokens, Unit

Outcome = Literal["corrected", "bonus"]
Finish = Literal["eos", "stop", "length", "context"]


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token as its bytes, which need not be whole characters.

    Attributes:
        data: the exact bytes that the token stands for.
        special: True for control tokens (end of text, chat markers), which are not text.
    """

    data: bytes
    special: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A candidate of a round with a tree.

    Attributes:
        parent: index of the node it stands behind; -1 for the committed text.
        token: the candidate.
        p, q: of this token in the models' own distributions behind the parent.
        drawn: its probability in what it was really drawn from: q without its earlier siblings, normalised,
            where candidates are drawn without replacement; 1 where it was chosen.
        against: what it was judged against: p of the first candidate, then the residual, normalised, that
            its refused siblings left. None if it was not judged.
        state: "kept", "refused", or "unseen" of a candidate that was never judged.
        u: the uniform of the accept stream, used or not; None if not recorded.
        draft_u: the uniform that drew it; None if it was chosen.
    """

    parent: Annotated[int, Meta(ge=-1, le=MAX_K)]
    token: TokenId
    p: Mass
    q: Mass
    drawn: Mass
    against: Mass | None
    state: Literal["kept", "refused", "unseen"]
    u: Unit | None
    draft_u: Unit | None


@dataclass(frozen=True, slots=True)
class CacheStep:
    """How one model's cache moved in a round, in positions.

    Attributes:
        before: cached when the round began.
        fed: positions computed during the round.
        kept: cached after the cut; ``before + fed - kept`` were cut.
    """

    before: Count
    fed: Count
    kept: Count

    @property
    def cut(self) -> int:
        return self.before + self.fed - self.kept


@dataclass(frozen=True, slots=True)
class Round:
    """One draft block and one target pass.

    Attributes:
        number: 1 for the first round.
        start: committed tokens, prompt included, when the round began.
        positions: K drafted rows and the bonus row, K + 1 in all.
        accepted: how many draft tokens the verifier kept (*verified*, before any cut).
        outcome: whether `token` was drawn from the residual or is the bonus.
        token: the corrected or bonus token.
        correct_u: the uniform that drew it; None if not recorded.
        residual_empty: True if rounding left no residual mass and the token came from p instead.
        committed: the tokens this round added to the text (*emitted*, after the cut).
        finish: why the run ended with this round, or None.
        verifier: name of the rule that judged it; "exact" is the token rule, "block" the block rule, and both
            are correct.
        target_cache, draft_cache: cache movements; None for a drafter without a cache.
        draft_seconds, verify_seconds, other_seconds: wall time of drafting (model passes and draws),
            of the target's pass, and of everything else in the round.
        record_seconds: the part of `other_seconds` that making this record took; 0 in files of version 1.0.
        log_probs: natural log of each committed token's effective probability under the target; None where
            that is 0, as under a wrong rule. () in files of version 1.0.
        raw_log_probs: the same under the target's own distribution, before any control.
        tree: the candidates of a round with a tree, parents before their children; () in a chain. The
            positions are then a line of it from the text to a leaf: the kept path and, where it ends in a
            refusal, the first refused candidate with its first descendants.
        share: in a round with a tree, the probability of `token` in what it was drawn from; None in a chain.
    """

    number: Annotated[int, Meta(ge=1, le=MAX_COUNT)]
    start: Count
    positions: tuple[Position, ...]
    accepted: Count
    outcome: Outcome
    token: TokenId
    correct_u: Unit | None
    residual_empty: bool
    committed: Tokens
    finish: Finish | None
    verifier: Text
    target_cache: CacheStep
    draft_cache: CacheStep | None
    draft_seconds: Seconds
    verify_seconds: Seconds
    other_seconds: Seconds
    record_seconds: Seconds = 0.0
    log_probs: tuple[float | None, ...] = ()
    raw_log_probs: tuple[float | None, ...] = ()
    tree: tuple[Node, ...] = ()
    share: Mass | None = None

    @property
    def k(self) -> int:
        """Number of draft tokens in this round, one behind the other: a tree's levels."""
        return len(self.positions) - 1

    @property
    def drafted(self) -> int:
        """Number of draft tokens in this round, a tree's nodes."""
        return len(self.tree) or self.k

    @property
    def draft_tokens(self) -> tuple[int, ...]:
        return tuple(row.token for row in self.positions if row.token is not None)

    @property
    def seconds(self) -> float:
        return self.draft_seconds + self.verify_seconds + self.other_seconds


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model is and where it runs, as shown beside every result."""

    name: str
    parameters: Annotated[int, Meta(ge=0, le=10**14)]
    device: str
    dtype: str
    layers: Count
    vocab_size: Count


@dataclass(frozen=True, slots=True)
class PairInfo:
    """The target and the draft of a run.

    Attributes:
        name: the name the pair was loaded by.
        target: the target model.
        draft: the draft model; None for a drafter without a model of its own.
        vocab_size: real ids of the target's tokenizer; wider logits are cut to it.
        draft_vocab_size: ids that the draft can propose (a trimmed head has fewer).
        fingerprint: identifies the target's weights; "" if unknown.
    """

    name: str
    target: ModelInfo
    draft: ModelInfo | None
    vocab_size: Count
    draft_vocab_size: Count
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What stands around a prompt in the chat template.

    Attributes:
        system: before everything; "" for nothing, or what the template puts there.
        earlier: the turns before the prompt, the user's and the model's in turn.
        settings: further variables of the template as JSON, such as {"enable_thinking": false}; "" for none.
    """

    system: Text = ""
    earlier: tuple[Text, ...] = ()
    settings: Text = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole run: its recipe, its rounds, and the text of every token it mentions.

    Attributes:
        prompt, chat: the prompt as typed, and whether the chat template was put around it.
        prompt_ids: the tokens the run started from.
        pair: the models.
        drafter: kind of drafter ("model", "ngram", ...).
        k: draft tokens asked for in a round (rounds near a limit draft fewer).
        sampling, draft_sampling: the controls of target and draft.
        seed, max_new_tokens, stop: the rest of the recipe.
        rounds: the rounds so far.
        tokens: bytes of every token id that occurs in the trace.
        created: ISO 8601 time of recording.
        error: why the run broke off, or "".
        plain_seconds: what rounds of plain decoding took that were made between these rounds, with the same
            models; () if none were.
        conversation: what stands around the prompt.
        ignore_eos: the text goes on behind an EOS.
        written: how many of `prompt_ids`, at their end, count as written by the run: a branch goes on where
            another run was.
        draft_context: tokens of a text up to which the draft can draft behind it; None if it has no limit.
        tree: shape of the trees of candidates, as a recipe writes it; "" for chains.
        recipe: names and values of the settings as they were written, where they are not the usual ones:
            what was loaded and where, tokens by their texts. The prompt is not repeated. () if the run was
            not started from a recipe alone.
    """

    prompt: Text
    chat: bool
    prompt_ids: Tokens
    pair: PairInfo
    drafter: Text
    k: Annotated[int, Meta(ge=0, le=MAX_K)]
    sampling: SamplingConfig
    draft_sampling: SamplingConfig
    seed: Annotated[int, Meta(ge=0)]
    max_new_tokens: Count
    stop: tuple[Text, ...]
    rounds: tuple[Round, ...]
    tokens: dict[int, TokenText]
    created: Text
    error: Text = ""
    plain_seconds: tuple[Seconds, ...] = ()
    conversation: Conversation = Conversation()
    ignore_eos: bool = False
    written: Count = 0
    draft_context: Count | None = None
    tree: Text = ""
    recipe: tuple[tuple[Text, Text], ...] = ()

    @property
    def output_ids(self) -> tuple[int, ...]:
        """Tokens committed after the prompt."""
        return tuple(token for round in self.rounds for token in round.committed)

    @property
    def finish(self) -> Finish | None:
        return self.rounds[-1].finish if self.rounds else None

    def text(self, ids: tuple[int, ...]) -> str:
        """The text of `ids`; bytes that form no character become U+FFFD, special tokens vanish."""
        parts = (self.tokens[i] for i in ids)
        return b"".join(t.data for t in parts if not t.special).decode("utf-8", errors="replace")

    def save(self, path: str | Path) -> None:
        """Write it to a file; gzipped when the name ends in .gz."""
        from specviz.decoding import codec

        codec.save(self, path)

    @staticmethod
    def load(path: str | Path) -> "Trace":
        """Read one from a file; see `codec.load` for what it refuses."""
        from specviz.decoding import codec

        return codec.load(path)
