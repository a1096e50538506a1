"""Lines to put in order by mouse, finger or keys. The browser moves them; the server hears the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from specviz.lessons.ordering import Line
from specviz.ui.components.script import script
from specviz.ui.state import keys

LEFT = 32  # exercises whose order is kept while another is shown
_HERE = Path(__file__).parent
_MOUNT = st.components.v2.component(
    "specviz.ordering",
    css=(_HERE / "ordering.css").read_text(encoding="utf-8"),
    js=script(_HERE / "ordering.js"),
)


@dataclass(frozen=True, slots=True)
class Order:
    """The keys of the lines kept in, in the reader's order, and of those left out."""

    kept: tuple[str, ...]
    out: tuple[str, ...]


def ordering(
    lines: Sequence[Line],
    *,
    exercise: str,
    key: str,
    out: Sequence[Line] = (),
    bin: bool = False,
    marks: Mapping[str, str] | None = None,
    locked: bool = False,
) -> Order:
    """Show `lines` to be put in order, and return the order they have now.

    Args:
        lines: in the order to start with.
        exercise: names the exercise; one that was shown before has the order in which it was left.
        key: names the component.
        out: lines that are left out to start with.
        bin: there are lines that do not belong, and a place to put them.
        marks: by key, words on a line that is wrong, or "" on one that is at its right place.
        locked: nothing can be moved.
    """
    memory = st.session_state.setdefault(
        keys.of(key, keys.MEMORY), {"exercise": None, "order": None, "left": {}}
    )
    everything = [*lines, *out]
    if memory["exercise"] != exercise:
        left: dict[str, Order] = memory["left"]
        left[memory["exercise"]] = memory["order"]
        while len(left) > LEFT:
            left.pop(next(iter(left)))
        start = Order(tuple(line.key for line in lines), tuple(line.key for line in out))
        memory.update(exercise=exercise, order=left.get(exercise, start))

    def moved() -> None:
        order = _order(
            st.session_state[key].get("order"), memory["exercise"], {line.key for line in everything}
        )
        memory["order"] = order or memory["order"]

    # While the exercise is the same, the browser's order stands and this one is not read.
    _MOUNT(
        key=key,
        data={
            "lines": [{"key": line.key, "text": line.text} for line in everything],
            "order": list(memory["order"].kept),
            "out": list(memory["order"].out),
            "version": exercise,
            "bin": bin,
            "marks": None if marks is None else dict(marks),
            "locked": locked,
        },
        on_order_change=moved,
    )
    return memory["order"]


def _order(value: Any, exercise: str, keys: set[str]) -> Order | None:
    """What the browser says, or None if it is not an order of these lines of this exercise."""
    if not isinstance(value, dict) or value.get("version") != exercise:
        return None
    kept, out = value.get("kept"), value.get("out")
    if not isinstance(kept, list) or not isinstance(out, list):
        return None
    given = [*kept, *out]
    if not all(isinstance(k, str) for k in given) or len(given) != len(keys) or set(given) != keys:
        return None
    return Order(tuple(kept), tuple(out))
