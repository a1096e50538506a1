"""Kinds of token, told by their text: where β is looked up by kind."""

from specviz.decoding.trace import TokenText

KINDS = ("word start", "word part", "number", "punctuation", "code symbol", "newline", "space", "special")
CODE = set("{}[]()<>=+*/\\|&^%$#@~`_;")


def kind_of(token: TokenText) -> str:
    """The kind of a token: newlines first, then digits, then letters; the rest by its signs."""
    if token.special:
        return "special"
    text = token.data.decode("utf-8", errors="replace")
    bare = text.strip()
    if not bare:
        return "newline" if "\n" in text or "\r" in text else "space"
    if "\n" in text:
        return "newline"
    if any(ch.isdigit() for ch in bare):
        return "number"
    if any(ch.isalpha() or ch == "\ufffd" for ch in bare):
        # Byte-level vocabularies write the space in front of a word into its first token.
        return "word start" if text[0].isspace() or bare[0].isupper() else "word part"
    return "code symbol" if any(ch in CODE for ch in bare) else "punctuation"
