"""β of every drafter under every token of a text: lines of tokens with a row of cells for each drafter."""

import json
from collections.abc import Callable, Sequence
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


def lines(
    tokens: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float]]],
    chosen: int,
    choose: Callable[[int], None],
    key: str,
) -> None:
    """Draw β alone, and the second row less the first if there are two. A token is chosen by a click or by
    arrow keys.

    Args:
        tokens: their texts, with nothing invisible in them.
        rows: a name for people, and β of each token; NaN where nothing is proposed.
        chosen: the token that the page shows, from 0.
        choose: called before the rerun with the token that was chosen here.
        key: names the component; another one for each text.
    """

    def said() -> int | None:
        given = (st.session_state.get(key) or {}).get("chosen")
        token = given.get("token") if isinstance(given, dict) else None
        return token if type(token) is int and 0 <= token < len(tokens) else None

    def changed() -> None:
        token = said()
        if token is not None:
            choose(token)

    _MOUNT(
        key=key,
        data={
            "strips": json.dumps(betas(tokens, rows)),
            "chosen": None if said() == chosen else chosen,  # what the browser said is no news to it
        },
        on_chosen_change=changed,
    )


def betas(tokens: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]) -> dict:
    """What the browser needs of them; β and its change in whole thousandths, None where there is none."""
    found: list[dict] = [{"name": name, "beta": [_thousandths(b) for b in row]} for name, row in rows]
    if len(rows) == 2:
        changes = [_thousandths(after - before) for before, after in zip(rows[0][1], rows[1][1], strict=True)]
        found.append({"name": "difference", "change": changes})
    return {"tokens": list(tokens), "rows": found}


def _thousandths(value: float) -> int | None:
    return None if value != value else round(1000 * value)


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
                "beta": [_thousandths(b) for b in strip.first.tolist()],
                "q": [laws(row) for row in strip.leading],
                "outside": [number(mass) if mass else "" for mass in strip.outside.tolist()],
            }
            for strip in measured.strips
        ],
    }
