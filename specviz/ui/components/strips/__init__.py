"""β of every drafter under every token of a text: lines of tokens with a row of cells for each drafter."""

import json
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from specviz.overlap import Leading, Measured
from specviz.reading.prose import Notation, letters, number
from specviz.ui.components.script import script

_HERE = Path(__file__).parent
_MOUNT = st.components.v2.component(
    "specviz.strips",
    css=(_HERE / "strips.css").read_text(encoding="utf-8"),
    js=script(_HERE / "strips.js"),
)


def strips(
    measured: Measured, show: Callable[[int], str], name: Callable[[str], str], notation: Notation, key: str
) -> None:
    """Draw the strips; a token under the pointer or chosen by arrow keys shows the leading tokens of p and q.

    Args:
        measured: the strips.
        show: the text of a token, with nothing invisible in it.
        name: a drafter's name for people.
        notation: which letters stand for target and draft.
        key: names the component.
    """
    _MOUNT(key=key, data={"strips": json.dumps(payload(measured, show, name, notation))})


def payload(
    measured: Measured, show: Callable[[int], str], name: Callable[[str], str], notation: Notation
) -> dict:
    """What the browser needs; β in whole thousandths, None where nothing is proposed."""

    def laws(leading: Leading) -> list[list[str]]:
        return [[show(token), number(mass)] for token, mass in leading]

    p, q = letters(notation)
    return {
        "letters": [p, q],
        "tokens": [show(token) for token in measured.tokens[measured.first :]],
        "p": [laws(row) for row in measured.leading],
        "rows": [
            {
                "name": name(strip.kind),
                "beta": [None if b != b else round(1000 * b) for b in strip.first.tolist()],
                "q": [laws(row) for row in strip.leading],
                "outside": [number(mass) if mass else "" for mass in strip.outside.tolist()],
            }
            for strip in measured.strips
        ],
    }
