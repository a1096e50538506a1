"""Every fault is caught by a check that is made for it, and by no other; all of it measured."""

import pytest
from catching import at_spot, on_runs
from tables import table_pair
from test_exactness_sampling import WHERE_IT_SHOWS, opposed

from specviz.decoding.faults import FAULTS, Fault
from specviz.decoding.sampling import SamplingConfig

PROMPT = (0, 0)
BY_SAMPLING = [
    n
    for n, f in FAULTS.items()
    if f.kind in ("law", "lossy") and f.one_position and n not in ("inclusive", "eos-ignored")
]


@pytest.mark.parametrize("name", BY_SAMPLING)
def test_measured_draws_are_what_the_power_predicts(name):
    spot = WHERE_IT_SHOWS.get(name, opposed())
    result = at_spot(FAULTS[name], spot)
    assert result.shows and result.own_p_value > 0.001
    assert result.measured.after == result.measured.tried <= 1_000_000
    # Draws are doubled, and caught before the ninth decile or soon behind it.
    assert result.predicted / 16 <= max(100, result.measured.after) <= max(100, 4 * result.predicted)
    assert f"after {result.measured.after:,} draws" in result.measured.sentence


@pytest.mark.parametrize("name", [n for n in FAULTS if n not in BY_SAMPLING])
def test_the_others_are_not_seen_in_draws_at_one_position(name):
    result = at_spot(FAULTS[name], opposed(), most=50_000)
    assert not result.shows or name == "inclusive"  # by some 1e-8
    assert result.predicted is None
    if not FAULTS[name].one_position:
        assert result.measured is None and result.tv is None
    else:
        assert result.measured.after is None and "not caught" in result.measured.sentence


CACHES = [
    "draft-cache-hole",
    "draft-cache-cut-too-far",
    "target-cache-cut-too-far",
    "target-cache-keeps-rejected",
]


@pytest.mark.parametrize("name", ["no-stop", "block-stops-early", "eos-ignored", "row-shifted", *CACHES])
def test_what_runs_tell(name):
    pair = table_pair(4, seed=5, eos=[2] if name == "eos-ignored" else [])
    result = on_runs(
        FAULTS[name],
        pair,
        PROMPT,
        tokens=50,
        continuations=1000,
        length=4,
        audited_tokens=30,
        k=2,
    )
    by = {c.check: c.after for c in result.caught}
    assert set(by) == {"run", "end to end", "caches"}
    assert (by["caches"] is not None) == (name in CACHES)
    assert (by["end to end"] is not None) == (not name.startswith("draft-cache"))
    assert result.first is not None and result.first.after == by[result.first.check]
    assert result.honest.drafted and result.faulty.drafted


def test_a_correct_engine_is_caught_by_nothing():
    honest = Fault(name="none", title="", kind="law", does=".", timeline=".")
    result = on_runs(
        honest, table_pair(4, seed=5), PROMPT, tokens=50, continuations=500, audited_tokens=30, k=2
    )
    assert result.first is None and all(c.after is None for c in result.caught)
    assert result.honest.accepted == result.faulty.accepted
    assert not at_spot(honest, opposed(), most=20_000).shows


def test_parts_can_be_left_out():
    result = on_runs(
        FAULTS["always-accept"],
        table_pair(8, seed=5),
        PROMPT,
        tokens=60,
        continuations=0,
        audited_tokens=0,
        sampling=SamplingConfig(0.9),
    )
    assert [c.check for c in result.caught] == ["run"]
    assert result.faulty.draft_acceptance_rate == 1.0 > result.honest.draft_acceptance_rate
