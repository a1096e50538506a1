"""The speeds that README quotes are those of a run of `bench engines` that is kept beside it."""

import json
from pathlib import Path

import pytest

from specviz.lessons import facts
from specviz.speed import accepted, engines
from specviz.speed.engines import Comparison

ROOT = Path(__file__).parent.parent
KEPT = sorted((ROOT / ".github" / "bench").glob("engines-*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_the_table_in_readme_is_that_of_the_run(path):
    result = Comparison.from_dict(json.loads(path.read_text(encoding="utf-8"))["engines"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert engines.table(result) in readme
    assert result.machine.date[:10] in readme
    assert result.machine.processor and result.machine.torch and result.machine.transformers
    assert all(difference.near_tie for difference in result.differences)


def test_readme_says_what_both_rules_and_trees_keep():
    """The figures stand once, beside the lessons and in the recording; README quotes them."""
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for kept in facts.measured()["rules"]["kept"]:
        assert f"{kept['block']:.3f} instead of {kept['token']:.3f}" in readme or (
            f"{kept['block']:.3f} tokens a round instead of {kept['token']:.3f}" in readme
        )
    for kept in accepted.recorded().kept:
        assert kept.interval in readme, kept.way


def test_a_run_is_kept():
    assert KEPT
