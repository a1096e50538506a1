"""Runs outlive a restart: written when the server ends, read when it starts again.

What can be looked at is kept, a trace a run; caches and rows are not, so a run that was in progress ends
where it stood. Unless a folder is set nothing is written: prompts are the visitors' own.
"""

import json
import logging
import re
import shutil
from pathlib import Path
from typing import Any

from specviz.decoding import codec
from specviz.recipe import from_link, to_link
from specviz.settings import settings
from specviz.ui.state import jobs, runs, trouble
from specviz.ui.state.shelf import Entry, shelf

LOG = logging.getLogger("specviz")
INDEX = "runs.json"
NAME = re.compile(r"[\w-]{8,32}", re.ASCII)  # what `runs.new_name` makes, and nothing that leaves a folder
SHARE = 8  # of `kept_runs`: files are packed, and on a disk


def save() -> None:
    """Stop what goes on and write every run, the one used last first, until the bound is reached.

    What cannot be written, as on a full disk, is told in the log; what was saved before stays.
    """
    folder = settings().saved_runs
    if folder is None:
        return
    for job in list(shelf().jobs.values()):
        jobs.stop(job)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        count = _write(partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        LOG.error("the runs could not be saved to %s: %s", folder, trouble.failure(error).reason)
    else:
        LOG.info("runs saved: %d", count)


def _write(folder: Path) -> int:
    """Write runs and their index to a new folder; returns how many."""
    folder.mkdir(parents=True, mode=0o700)
    left, known = settings().kept_runs * 2**20 // SHARE, []
    for entry in reversed(list(shelf().entries.values())):
        content = codec.dumps(entry.trace, compress=True)
        left -= len(content)
        if left < 0:
            break
        (folder / f"{entry.name}.json.gz").write_bytes(content)
        known.append(_about(entry))
    said = {"runs": known[::-1], "owners": dict(shelf().mine)}
    (folder / INDEX).write_text(json.dumps(said), encoding="utf-8")
    return len(known)


def restore() -> None:
    """Read what `save` wrote. A file that cannot be read costs its run, not the start."""
    folder = settings().saved_runs
    if folder is None or not (folder / INDEX).is_file():
        return
    try:
        said = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        found = [
            (one, owners)
            for one in said["runs"]
            if (owners := _owners(said["owners"], one["name"])) is not None
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        LOG.warning("the saved runs cannot be read: %s", type(error).__name__)
        return
    made = 0
    for about, owners in found:
        try:
            entry = _entry(about, folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            LOG.warning("a saved run cannot be read: %s", type(error).__name__)
            continue
        for owner in owners:
            runs.keep(entry, owner)
        made += 1
    LOG.info("saved runs that are here again: %d", made)


def _about(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "source": entry.source,
        "recipe": None if entry.recipe is None else to_link(entry.recipe),
        "parent": entry.parent,
    }


def _entry(about: dict[str, Any], folder: Path) -> Entry:
    name, recipe, parent = str(about["name"]), about["recipe"], about["parent"]
    if not NAME.fullmatch(name) or about["source"] not in ("live", "file"):
        raise ValueError(name)
    trace = codec.load(folder / f"{name}.json.gz")
    over = not trace.rounds or trace.rounds[-1].finish is not None or about["source"] == "file"
    return Entry(
        name,
        str(about["title"]),
        about["source"],
        trace,
        None if recipe is None else from_link(recipe),
        parent=None if parent is None else (str(parent[0]), int(parent[1]), int(parent[2])),
        dropped="" if over else "the server was restarted",
    )


def _owners(owners: dict[str, list[str]], name: str) -> list[str]:
    return [owner for owner, names in owners.items() if name in names]
