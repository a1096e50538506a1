"""Recorded audits of the built-in pair: what the Debug page shows before anything has run.

`python -m specviz audit record` makes them again.
"""

import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis import tables
from specviz.diagnosis.audit import Audit
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.prompts import read
from specviz.diagnosis.report import Report
from specviz.diagnosis.setting import Setting

FOLDER = Path(__file__).parent
DIGITS = 3  # of a recorded number
WARM = SamplingConfig(temperature=0.7)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded audit.

    Attributes:
        name: of its folder, and in the address.
        title: for people.
        setting: what was measured.
    """

    name: str
    title: str
    setting: Setting


def _setting(drafter: str, **more: Any) -> Setting:
    return Setting(
        drafter=drafter, sampling=WARM, draft_sampling=WARM, max_new_tokens=32, self_checks=2, **more
    )


RECORDED = (
    Recorded("model", "Small model (10 M)", _setting("model", second="eagle")),
    Recorded("eagle", "EAGLE", _setting("eagle")),
    Recorded("early-exit", "First 25 of 30 layers", _setting("early-exit")),
)


@lru_cache(maxsize=4)
def load(name: str) -> Report:
    """A recorded audit by name.

    Raises:
        KeyError: if there is none of that name.
    """
    found = {recorded.name: recorded for recorded in RECORDED}[name]
    return Report.of(FOLDER / found.name)


def record(recorded: Recorded, pair: Any, folder: Path = FOLDER) -> Path:
    """Make one again: its runs, and the tables with few digits. Returns its folder."""
    goal = folder / recorded.name
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        work = Audit(made, read(FOLDER / "prompts.jsonl"), recorded.setting)
        while not work.finished:
            work.step(Bench(pair, recorded.setting))
        work.close()
        shutil.rmtree(goal, ignore_errors=True)
        goal.mkdir(parents=True)
        for name in ("audit.json", "checks.json"):
            content = json.loads((made / name).read_text(encoding="utf-8"))
            (goal / name).write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")
        shutil.copytree(made / "traces", goal / "traces")
        tables.shorten(made, goal, DIGITS)
    return goal
