"""The bytes of tokens: joined, they are the text, whatever the text."""

import pytest
from tiny import SPECIAL, byte_tokenizer, sentencepiece_tokenizer

from specviz.decoding.trace import TokenText
from specviz.models.tokens import TokenTexts, byte_alphabet, special_ids

TEXTS = [
    "plain words, and  two spaces",
    "🦙👩‍👩‍👧‍👦 emoji with joiners",
    "推测解码验证",
    "فك التشفير",
    "é as two: e\u0301, n\u0303o",
    "line\nline\r\n\ttab\u00a0nbsp\u200b",
    "\x00\x07 control, <script>alert(1)</script>",
]


def joined(tokenizer, text: str) -> bytes:
    texts = TokenTexts(tokenizer)
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
    return b"".join(texts(id).data for id in ids)


def test_the_alphabet_names_every_byte_once():
    assert sorted(byte_alphabet().values()) == list(range(256))
    assert byte_alphabet()["Ġ"] == ord(" ") and byte_alphabet()["Ċ"] == ord("\n")


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_tokens_join_to_the_text(text):
    tokenizer = byte_tokenizer(" ".join(TEXTS))
    assert joined(tokenizer, text) == text.encode()


def test_a_token_can_be_a_part_of_a_character():
    tokenizer = byte_tokenizer("nothing but ascii here")
    texts = TokenTexts(tokenizer)
    ids = tokenizer("é", add_special_tokens=False).input_ids
    assert [texts(id).data for id in ids] == [b"\xc3", b"\xa9"]


@pytest.mark.parametrize("text", TEXTS)
def test_sentencepiece_tokens_join_to_the_text_behind_its_space(text):
    assert joined(sentencepiece_tokenizer(), text) == b" " + text.encode()


def test_control_tokens_are_marked_and_keep_their_name():
    tokenizer = byte_tokenizer("some text")
    texts = TokenTexts(tokenizer)
    for token in SPECIAL:
        id = tokenizer.convert_tokens_to_ids(token)
        assert texts(id) == TokenText(token.encode(), special=True)
        assert id in special_ids(tokenizer)
    assert not texts(tokenizer("s", add_special_tokens=False).input_ids[0]).special


def test_an_id_outside_the_vocabulary_has_no_bytes():
    assert TokenTexts(byte_tokenizer("some text"))(999_999) == TokenText(b"", special=True)


@pytest.mark.pair
@pytest.mark.parametrize("text", TEXTS)
def test_the_built_in_tokens_join_to_the_text(built_in_pair, text):
    ids = built_in_pair.encode(text, chat=False)
    assert b"".join(built_in_pair.token_text(id).data for id in ids) == text.encode()


@pytest.mark.pair
def test_every_built_in_id_has_bytes(built_in_pair):
    texts = [built_in_pair.token_text(id) for id in range(built_in_pair.vocab_size)]
    assert all(text.data for text in texts)
    assert sum(text.special for text in texts) == len(built_in_pair.special_ids) == 17


@pytest.mark.pair
def test_the_built_in_target_splits_numbers_as_it_was_trained(built_in_pair):
    ids = built_in_pair.encode("in  2026", chat=False)
    assert [built_in_pair.token_text(id).data for id in ids] == [b"in", b"  ", b"2", b"0", b"2", b"6"]
