"""Two tokenizers work together only if no id means two things."""

import pytest
from tiny import SPECIAL, VOCAB, letter_tokenizer, llama, save

from specviz.models import IncompatiblePair, load_pair
from specviz.models.compatibility import compatibility


def compared(target, draft, *widths):
    return compatibility(letter_tokenizer(target), letter_tokenizer(draft), *widths)


def test_equal_vocabularies():
    report = compared(VOCAB, VOCAB, 64, 64)
    assert report.ok and report.shared == 64 and str(report) == "64 ids in common"


def test_swapped_ids_are_refused_and_shown():
    swapped = [*VOCAB]
    swapped[10], swapped[20] = swapped[20], swapped[10]
    report = compared(VOCAB, swapped)
    assert not report.ok
    assert report.conflicts == ((10, VOCAB[10], VOCAB[20]), (20, VOCAB[20], VOCAB[10]))
    assert f"id 10: target {VOCAB[10]!r}, draft {VOCAB[20]!r}" in str(report)


def test_a_token_under_another_id_is_refused():
    moved = [*VOCAB[:-1], "Z", VOCAB[-1]]  # the last token moved up by one; its old id got a new token
    report = compared(VOCAB, moved)
    assert not report.ok
    assert report.conflicts == ((63, VOCAB[63], "Z"), (64, None, VOCAB[63]))
    assert "id 64: target has no token" in str(report)


def test_an_id_with_two_meanings_is_refused():
    report = compared(VOCAB, [*VOCAB[:30], "Z", *VOCAB[31:]])
    assert not report.ok and report.conflicts == ((30, VOCAB[30], "Z"),)


def test_only_the_first_conflicts_are_shown():
    report = compared(VOCAB, [*SPECIAL, *reversed(VOCAB[3:])])
    assert [id for id, _, _ in report.conflicts] == [3, 4, 5, 6, 7]


def test_ids_of_one_side_only_are_allowed_and_counted():
    report = compared(VOCAB, VOCAB[:-4], 64, 72)
    assert report.ok and report.target_only == 4 and report.draft_only == 0
    assert str(report) == "60 ids in common, 4 only in the target, heads of 64 and 72 rows"
    report = compared(VOCAB[:-4], VOCAB)
    assert report.ok and report.draft_only == 4


def test_load_pair_refuses_and_names_the_ids(tmp_path):
    swapped = [*VOCAB]
    swapped[10], swapped[20] = swapped[20], swapped[10]
    target = save(tmp_path / "target", llama(1), letter_tokenizer())
    draft = save(tmp_path / "draft", llama(2), letter_tokenizer(swapped))
    with pytest.raises(IncompatiblePair, match="id 10: target"):
        load_pair(target, draft, device="cpu")
