"""The target as its own draft: rounding in 16 bits is no fault, and a fault is."""

import pytest

from specviz.diagnosis.faults import keeps_itself


@pytest.mark.parametrize(
    ("accepted", "drafted", "fine"),
    [
        (0, 0, True),  # nothing was tried
        (38, 38, True),
        (15, 17, True),  # seen in bfloat16: one rejection and the token behind it
        (17, 20, True),
        (190, 200, True),
        (3, 9, False),  # a spoilt draft cache keeps every other token at best
        (12, 20, False),
        (160, 200, False),
    ],
)
def test_what_counts_as_a_fault(accepted, drafted, fine):
    assert keeps_itself({"accepted": accepted, "drafted": drafted}) is fine
