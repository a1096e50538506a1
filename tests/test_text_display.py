"""How tokens are shown: nothing invisible, nothing that acts, whole characters."""

import pytest

from specviz.decoding.trace import TokenText
from specviz.tokens import LONGEST, Piece, groups, pieces, visible


def shown(data: bytes | str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (p.kind, p.text) for p in pieces(TokenText(data if isinstance(data, bytes) else data.encode()))
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (" which", (("space", " "), ("text", "which"))),
        ("\n\n\t x", (("newline", "\n\n"), ("tab", "\t"), ("space", " "), ("text", "x"))),
        (b"\xf0\x9f", (("byte", "f0 9f"),)),
        (b"\x98\x80 a", (("byte", "98 80"), ("space", " "), ("text", "a"))),
        (b"a\xffb", (("text", "a"), ("byte", "ff"), ("text", "b"))),
        ("", ()),
        ("\r\x07", (("control", "U+000D U+0007"),)),
        ("a\u202eb", (("text", "a"), ("control", "U+202E"), ("text", "b"))),
        ("\u2028", (("control", "U+2028"),)),
        ("\u00a0", (("invisible", "\u00a0"),)),
        ("\u200d", (("invisible", "\u200d"),)),
        ("<b>&amp;", (("text", "<b>&amp;"),)),
    ],
)
def test_every_byte_is_shown_as_what_it_is(data, expected):
    assert shown(data) == expected


@pytest.mark.parametrize("text", ["👩\u200d🚀", "❤\ufe0f", "می\u200cخواهم", "👍🏽", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "e\u0301"])
def test_joiners_that_do_their_work_stay_in_the_text(text):
    assert shown(text) == (("text", text),)


def test_a_joiner_at_the_edge_of_a_token_is_shown():
    assert shown("👩\u200d") == (("text", "👩"), ("invisible", "\u200d"))


def test_special_tokens_are_told_from_the_same_text():
    assert pieces(TokenText(b"<|im_end|>", special=True)) == (Piece("special", "<|im_end|>"),)
    assert pieces(TokenText(b"<|im_end|>")) == (Piece("text", "<|im_end|>"),)
    assert pieces(TokenText("\u202e\n".encode(), special=True)) == (Piece("special", "⟨U+202E⟩↵"),)
    assert pieces(TokenText(b"", special=True)) == (Piece("special", "special"),)


def test_tokens_longer_than_any_tokenizer_has_are_cut():
    *_, last = pieces(TokenText(b"x" * (LONGEST + 7)))
    assert last == Piece("control", "… 7 more characters")
    assert sum(len(p.text) for p in pieces(TokenText(b"x" * 10_000_000))) < LONGEST + 50


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b" which", "␣which"),
        (b"\n\t  ", "↵⇥␣␣"),
        (b"\xf0\x9f", "⟨f0 9f⟩"),
        (b"", "∅"),
        ("\u202e".encode(), "⟨U+202E⟩"),
        (" שלום".encode(), "\u2068␣שלום\u2069"),
        ("مرحبا".encode(), "\u2068مرحبا\u2069"),
    ],
)
def test_one_line_for_charts_and_tables(data, expected):
    assert visible(TokenText(data)) == expected


def grouped(*parts: bytes | str) -> list[tuple[int, str]]:
    """The size of each group and its pieces in one line."""
    tokens = [TokenText(p if isinstance(p, bytes) else p.encode()) for p in parts]
    return [(g.stop - g.start, "|".join(p.text for p in g.pieces)) for g in groups(tokens)]


def test_bytes_of_one_character_are_one_group():
    assert grouped("hi", b" \xf0\x9f", b"\x98", b"\x80", "!") == [(1, "hi"), (3, " |😀"), (1, "!")]


def test_a_token_may_end_one_character_and_begin_the_next():
    first, second = "日".encode(), "本".encode()
    assert grouped(first[:2], first[2:] + second[:1], second[1:], "語") == [(3, "日本"), (1, "語")]


def test_marks_joined_emoji_and_flags_are_one_group():
    assert grouped("e", "\u0301", "x") == [(2, "e\u0301"), (1, "x")]
    rocket = "🚀".encode()
    assert grouped("👩", "\u200d", rocket[:3], rocket[3:]) == [(4, "👩\u200d🚀")]
    assert grouped("🇩", "🇪", "🇫", "🇷") == [(2, "🇩🇪"), (2, "🇫🇷")]
    assert grouped("👍", "🏽") == [(2, "👍🏽")]
    assert grouped("می", "\u200cخواهم") == [(2, "می\u200cخواهم")]


def test_marks_do_not_join_white_space():
    assert grouped("\n", "\u0301")[0] == (1, "\n")


def test_bytes_that_never_become_a_character_are_shown_as_bytes():
    assert grouped(b"\xff", "a") == [(1, "ff"), (1, "a")]
    assert grouped(b"\xe2", "x") == [(2, "e2|x")]
    assert grouped("a", b"\xf0\x9f") == [(1, "a"), (1, "f0 9f")]  # the text ends inside a character


def test_special_tokens_stand_alone_and_end_a_character():
    tokens = [TokenText(b"\xf0\x9f"), TokenText(b"<eos>", special=True), TokenText(b"\x98\x80")]
    assert [(g.start, g.stop, g.pieces[0].kind) for g in groups(tokens)] == [
        (0, 1, "byte"),
        (1, 2, "special"),
        (2, 3, "byte"),
    ]


def test_groups_cover_the_text_without_gaps_and_lose_nothing():
    text = "naïve 日本 👩\u200d🚀 مرحبا\n🇩🇪 e\u0301"
    data = text.encode()
    for size in (1, 2, 3, 5):
        tokens = [TokenText(data[i : i + size]) for i in range(0, len(data), size)]
        found = groups(tokens)
        assert [g.start for g in found] == [0, *(g.stop for g in found[:-1])]
        assert found[-1].stop == len(tokens)
        assert "".join(p.text for g in found for p in g.pieces) == text
