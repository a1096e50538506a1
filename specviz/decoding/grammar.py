"""Grammars: a text that has to follow a JSON schema, a regular expression or a context-free grammar.

llguidance parses; here its parser is led along a text and back. What a grammar allows depends on the written
tokens alone, whichever way the parser came there: drafts advance it, and after a rejection it is rolled back
to what both texts have in common.
"""

import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from specviz.decoding.protocols import Pair

Kind = Literal["json", "regex", "lark"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_GRAMMAR = 20_000  # characters


class GrammarError(ValueError):
    """A grammar that cannot be used, with the reason."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a text has to follow, from its first written token to its end.

    Attributes:
        kind: "json": `text` is a JSON schema; "regex": a regular expression that the whole text matches;
            "lark": a grammar in Lark's notation, whose first rule is `start`.
        text: the grammar.
    """

    kind: Kind
    text: str

    def __str__(self) -> str:
        return {"json": "a JSON schema", "regex": "a regular expression", "lark": "a grammar"}[self.kind]


@lru_cache(64)
def require_grammar(grammar: Grammar) -> None:
    """
    Raises:
        GrammarError: if it cannot be read.
    """
    from llguidance import LLMatcher

    if grammar.kind not in KINDS:
        raise GrammarError(f"a grammar is one of {', '.join(KINDS)}; not {grammar.kind!r}")
    if len(grammar.text) > MAX_GRAMMAR:
        raise GrammarError(f"a grammar has at most {MAX_GRAMMAR:,} characters, not {len(grammar.text):,}")
    failed, messages = LLMatcher.validate_grammar_with_warnings(_source(grammar))
    if failed:
        message = messages[0].partition("\n   1 |")[0]  # the lines behind it are the grammar's own
        raise GrammarError(f"the grammar cannot be read: {' '.join(message.split())}")


def _source(grammar: Grammar) -> str:
    """The grammar as llguidance takes it.

    Left to itself it allows, where the next bytes are certain, the one token that the tokenizer would write
    there; a model may write them otherwise, and every token that fits is allowed here.
    """
    from llguidance import LLMatcher, regex_to_lark

    text = grammar.text
    if grammar.kind == "lark" and "%llguidance" in text:
        raise GrammarError("leave %llguidance out of the grammar: its settings are made here")
    if grammar.kind == "json":
        try:
            text = f"start: %json {json.dumps(json.loads(text))}"
        except (ValueError, RecursionError) as error:
            raise GrammarError(f"the schema is not JSON: {error}") from None
    elif grammar.kind == "regex":
        text = f"start: /{regex_to_lark(text)}/"
    return LLMatcher.grammar_from_lark(f'%llguidance {{"no_forcing": true}}\n{text}')


class Mask:
    """The tokens that a grammar allows behind a text. One parser, which follows the text it is asked about.

    Args:
        pair: whose tokens are meant.
        grammar: what they follow.

    Raises:
        GrammarError: if the grammar cannot be read, or no token ends a text of this pair.
    """

    def __init__(self, pair: "Pair", grammar: Grammar) -> None:
        from llguidance import LLMatcher

        require_grammar(grammar)
        if not pair.eos_ids:
            raise GrammarError("a grammar needs a model that can end its text, and this one has no EOS token")
        self._ends = frozenset(pair.eos_ids)
        self._width = pair.vocab_size
        self._matcher = LLMatcher(_tokenizer(pair), _source(grammar), log_level=0)
        self._require_sound()
        self._read: list[int] = []  # what the parser has taken in

    def __deepcopy__(self, memo: dict[int, Any]) -> "Mask":
        other = object.__new__(Mask)
        other._ends, other._width, other._read = self._ends, self._width, list(self._read)
        other._matcher = self._matcher.deep_copy()
        return other

    def allowed(self, written: Sequence[int]) -> np.ndarray | None:
        """(V,) bool, the ids that may follow `written`, the tokens behind the prompt.

        None if anything may: the text has ended, or left the grammar already, as behind a draft token that
        the grammar refuses (p is 0 there, so no such row is ever drawn from).

        Raises:
            GrammarError: if the grammar is too complex for this text.
        """
        if not self._follow(list(written)):
            return None
        ends = list(self._ends)
        if self._matcher.is_stopped():  # nothing can follow but the end
            allowed = np.zeros(self._width, dtype=bool)
            allowed[ends] = True
            return allowed
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        self._require_sound()
        allowed = np.unpackbits(bits, count=self._width, bitorder="little").astype(bool)
        # Where the text may end, each of the model's ends will do.
        allowed[ends] = self._matcher.is_accepting()
        return allowed

    def _follow(self, written: list[int]) -> bool:
        """Lead the parser from what it has read to `written`; False if the grammar does not take that."""
        common = 0
        for old, new in zip(self._read, written, strict=False):
            if old != new:
                break
            common += 1
        if len(self._read) > common:
            self._matcher.rollback(len(self._read) - common)
            del self._read[common:]
        for token in written[common:]:
            if token in self._ends or self._matcher.validate_tokens([token]) == 0:
                return False
            self._matcher.consume_token(token)
            self._require_sound()
            self._read.append(token)
        return True

    def _require_sound(self) -> None:
        if self._matcher.is_error():
            reason = self._matcher.get_error().partition("\n")[0]
            raise GrammarError(f"the grammar cannot be followed: {reason}")


_known: "weakref.WeakKeyDictionary[Pair, Any]" = weakref.WeakKeyDictionary()


def _tokenizer(pair: "Pair") -> Any:
    """The pair's tokens as llguidance wants them, made once a pair."""
    from llguidance import LLTokenizer, TokenizerWrapper

    if pair not in _known:
        _known[pair] = LLTokenizer(TokenizerWrapper(_Vocabulary(pair)), eos_token=sorted(pair.eos_ids))
    return _known[pair]


class _Vocabulary:
    """What llguidance asks of a tokenizer. Ids without text, as padded rows, are never allowed."""

    bos_token_id = None

    def __init__(self, pair: "Pair") -> None:
        texts = [pair.token_text(id) for id in range(pair.vocab_size)]
        self.tokens = [text.data for text in texts]
        self.eos_token_id = min(pair.eos_ids)
        control = {id for id, text in enumerate(texts) if text.special}
        self.special_token_ids = sorted(control | pair.special_ids | pair.eos_ids)

    def __call__(self, text: bytes) -> list[int]:
        return []  # only tokens are parsed here, never text
