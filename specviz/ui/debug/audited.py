"""The runs of audits on the Rounds page, by names that an address can hold: `audit-NAME-PROMPT`.

A link to one works wherever its audit is: those that are recorded everywhere, one's own on this server.
"""

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from specviz.decoding import codec
from specviz.decoding.trace import Trace
from specviz.recipe import Recipe, to_link
from specviz.ui.rounds.files import recipe_of
from specviz.ui.state import runs

NAME = re.compile(r"audit-(.+)-(\d{1,6})", re.ASCII)


def address(audit: Any, prompt: int, place: tuple[int, int]) -> dict[str, str]:
    """The parameters that show the run of a prompt at a round and position; {} if it has none.

    They hold its settings too: the Rounds page would write them there, one step more for the back button.

    Args:
        audit: the `shown.Shown`.
    """
    entry = _entry(audit, prompt)
    if entry is None:
        return {}
    settings = {} if entry.recipe is None else to_link(entry.recipe)
    return settings | runs.parameters(entry, place)


def bring() -> None:
    """Put the run that the address names on the shelf, if it is one of an audit that is here."""
    found = NAME.fullmatch(runs.shown_name())
    if found is None or runs.shelf().get(found[0]) is not None:
        return
    from specviz.ui.debug import shown  # with pandas and all: not for every page

    audit = shown.by_name(found[1])
    entry = None if audit is None else _entry(audit, int(found[2]))
    if entry is not None:
        runs.keep(entry)


def _entry(audit: Any, prompt: int) -> runs.Entry | None:
    from specviz.diagnosis.audit import trace_path

    path = trace_path(audit.folder, prompt)
    if not path.exists():
        return None
    trace, recipe = _load(path)
    if recipe is not None and audit.recorded:  # in other numbers its rounds would be others
        recipe = replace(recipe, dtype=trace.pair.target.dtype)
    name = f"audit-{audit.name}-{prompt}"
    return runs.Entry(name, f"prompt {prompt} · {audit.title}", "file", trace, recipe)


@lru_cache(maxsize=8)
def _load(path: Path) -> tuple[Trace, Recipe | None]:
    trace = codec.load(path)
    return trace, recipe_of(trace)
