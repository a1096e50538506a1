"""Causes on constructed numbers, and the helpers that feed them."""

import pytest

from specviz.decoding.trace import TokenText
from specviz.diagnosis.causes import CAUSE, CAUSES, Rejection, cause_of, same_text
from specviz.diagnosis.kinds import KINDS, kind_of


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.key)
def test_the_constructed_example_of_each_cause_gets_that_cause(cause):
    assert cause_of(cause.sample) == cause.key


def test_every_rejection_gets_exactly_one_cause():
    for p in (0.0, 0.01, 0.3, 0.49):
        for q in (0.5, 0.9, 1.0):
            for p_top in (0.5, 0.99):
                for h in (0.0, 1.0, 4.0):
                    found = Rejection(p, q, 0.5, None, None, p_top, 1.0, h)
                    assert cause_of(found) in CAUSE


def test_the_order_of_the_rules_settles_what_fits_several():
    lucky_and_filtered = Rejection(0.0, 0.5, 0.2, 0.9, 0.9, 0.99, 1.0, 0.1, "top-k", True, True, True)
    assert cause_of(lucky_and_filtered) == "outside"
    without = Rejection(0.0, 0.5, 0.2, 0.9, 0.9, 0.99, 1.0, 0.1, "top-k", False, True, True)
    assert cause_of(without) == "filtered"
    greedy = Rejection(0.0, 1.0, 0.0, None, 0.0, 1.0, 0.0, 0.0, "greedy")
    assert cause_of(greedy) == "certain"


def test_a_change_has_to_bring_back_a_quarter_of_what_is_missing():
    def at(beta_fresh):
        return cause_of(Rejection(0.01, 0.5, 0.6, None, beta_fresh, 0.5, 1.0, 2.0))

    assert at(0.69) == "unsure" and at(0.71) == "drift"


@pytest.mark.parametrize(
    "drafted, committed, same",
    [
        ([b" un", b"happy"], [b" unhappy", b" man"], True),
        ([b" unhappy"], [b" un", b"happy"], True),
        ([b" a"], [b" apple"], False),  # the draft meant another word
        ([b" a", b" b"], [b" apple"], False),
        ([b"\n"], [b"\n\n"], True),  # white space alone
        ([b"The"], [b" The"], True),
        ([b"cat"], [b"dog"], False),
        ([b"\xc3", b"\x9cber"], [b"\xc3\x9c", b"ber"], True),
        ([], [b"a"], False),
        ([b""], [b"a"], False),
        ([b"a"], [b"a"], False),
    ],
)
def test_same_text_in_other_tokens(drafted, committed, same):
    assert same_text(drafted, committed) is same


@pytest.mark.parametrize(
    "data, special, kind",
    [
        (b" house", False, "word start"),
        (b"ing", False, "word part"),
        (b"The", False, "word start"),
        (b" 48", False, "number"),
        (b"3rd", False, "number"),
        (b",", False, "punctuation"),
        (b"();", False, "code symbol"),
        (b"\n\n", False, "newline"),
        (b".\n", False, "newline"),
        (b"   ", False, "space"),
        (b"<|im_end|>", True, "special"),
        (b"\xc3", False, "word part"),
        (" Ü".encode(), False, "word start"),
    ],
)
def test_kinds_of_token(data, special, kind):
    assert kind in KINDS and kind_of(TokenText(data, special)) == kind
