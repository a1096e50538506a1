"""The exact bytes of every token id."""

import json
from typing import Any

from specviz.decoding.trace import TokenText


def byte_alphabet() -> dict[str, int]:
    """The characters that stand for bytes in byte-level BPE vocabularies, as in GPT-2.

    Printable Latin-1 characters stand for themselves; the other bytes, in order, for the code points
    from 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


class TokenTexts:
    """Maps token ids to `TokenText`, remembering the answers.

    Byte-level vocabularies are mapped back byte by byte, so that a token that holds part of a character
    keeps exactly that part. In SentencePiece vocabularies ``▁`` is a space and ``<0xNN>`` a byte; there
    the first word of a text carries a space that decoding a whole text would strip.

    Args:
        tokenizer: a transformers tokenizer with a `tokenizers` backend.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokens = {id: token for token, id in tokenizer.get_vocab().items()}
        self._added = dict(tokenizer.added_tokens_decoder)
        self._special = special_ids(tokenizer)
        decoder = tokenizer.backend_tokenizer.decoder
        steps = _steps(json.loads(decoder.__getstate__())) if decoder else []
        self._byte_level = "ByteLevel" in steps
        self._byte_fallback = "ByteFallback" in steps
        self._underscore = bool({"Metaspace", "Replace"} & set(steps))
        self._alphabet = byte_alphabet()
        self._known: dict[int, TokenText] = {}

    def __call__(self, token: int) -> TokenText:
        """The bytes of `token`; none, and special, for an id that the vocabulary does not know."""
        if token not in self._known:
            self._known[token] = TokenText(self._bytes(token), self._is_special(token))
        return self._known[token]

    def _is_special(self, token: int) -> bool:
        return token in self._special or token not in self._tokens

    def _bytes(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token].content.encode()
        piece = self._tokens.get(token, "")
        if self._byte_level and all(character in self._alphabet for character in piece):
            return bytes(self._alphabet[character] for character in piece)
        if self._byte_fallback and len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            return bytes([int(piece[3:5], 16)])
        return (piece.replace("▁", " ") if self._underscore else piece).encode()


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of control tokens: those that the tokenizer names and those marked special."""
    marked = (id for id, token in tokenizer.added_tokens_decoder.items() if token.special)
    return frozenset(tokenizer.all_special_ids) | frozenset(marked)


def _steps(decoder: dict[str, Any]) -> list[str]:
    """The kinds of decoder, with sequences unrolled."""
    if decoder.get("type") == "Sequence":
        return [step for part in decoder["decoders"] for step in _steps(part)]
    return [decoder.get("type", "")]


def vocabulary(tokenizer: Any) -> dict[int, str]:
    """Token by id. Rows that a converter to GGUF only filled up ("[PAD151665]") are not tokens."""
    found = {id: token for token, id in tokenizer.get_vocab().items()}
    return {id: token for id, token in found.items() if token != f"[PAD{id}]"}
