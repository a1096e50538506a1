"""`bench class`: visitors over the real protocol, on a server whose models are tables."""

import argparse
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from specviz.cli import bench_class

ROOT = Path(__file__).parent.parent


def options(**given):
    parser = argparse.ArgumentParser()
    bench_class.add_options(parser)
    return argparse.Namespace(**vars(parser.parse_args([])) | given)


@pytest.mark.slow
def test_a_small_class_holds(monkeypatch):
    folders = (ROOT / "tests/browser/slow_models", ROOT, ROOT / "tests")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))
    # In a thread of its own: Playwright keeps an event loop in the one that ran browser tests before.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(
            bench_class.measure, options(sessions=5, live=3, browsers=0, minutes=0.15)
        ).result()
    assert found["verdict"] == "held", found
    least, _, most = (int(n) for n in found["rounds of a live session, least / mean / most"].split(" / "))
    assert least > 0 and most - least <= 0.5 * most
    assert re.match(r"\d+ / \d+ ms", found["click in a replay to its answer, p50 / p95"])


@pytest.mark.parametrize(
    "given", [{"live": 0}, {"live": 29, "browsers": 2}, {"minutes": 0.0}, {"minutes": 1e9}, {"browsers": -1}]
)
def test_what_cannot_be_measured_is_refused(given):
    with pytest.raises(ValueError):
        bench_class.measure(options(**given))


def test_a_run_that_differs_or_stands_still_fails():
    live = [bench_class.Live(None, rounds=10, finished=1), bench_class.Live(None, rounds=5, different=1)]
    found = bench_class._report(live, [0.1, 0.2], [], [], 60.0, [1 << 20] * 3, options(minutes=1.0))
    assert found["verdict"] == "FAILED"
    assert found["runs that ended like the same run alone"] == "1 of 2"
    assert found["largest distance from an equal share"] == "33%"
