"""Sentences, numbers and pictures of one place, drawn in the browser in one go.

They change with every click, so they have to be cheap: one component with plain shapes takes a fraction
of the time of as many elements of Streamlit and of a charting library. And they need not wait for the
server: the browser can be told `ahead` what belongs to the places near by. Text is data, never markup.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from specviz.reading.prose import Part
from specviz.tokens import Show
from specviz.ui.components.blocks.bands import Bands
from specviz.ui.components.blocks.bars import Bars
from specviz.ui.components.script import script

_HERE = Path(__file__).parent
_PARTS = ("bars", "bands", "blocks")
_MOUNT = st.components.v2.component(
    "specviz.blocks",
    css="\n".join((_HERE / f"{name}.css").read_text(encoding="utf-8") for name in _PARTS),
    js=script(_HERE / "blocks.js"),
)
_AHEAD = st.components.v2.component("specviz.ahead", js=script(_HERE / "ahead.js"), html="<i></i>")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `token`, and the badge `state` with its glyph, may be "" each."""

    text: str
    token: str = ""
    state: str = ""
    glyph: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; `parts` are kinds of `Part` with their text."""

    parts: tuple[tuple[str, str], ...]
    small: bool = False


@dataclass(frozen=True, slots=True)
class Formula:
    """Lines in a fixed width."""

    lines: tuple[str, ...]


Block = Heading | Prose | Formula | Bars | Bands
Place = tuple[int, int]


def prose(parts: Iterable[Part], show: Show, small: bool = False) -> Prose:
    """A sentence as a paragraph; `show` gives the text of a token."""
    return Prose(
        tuple((part.kind, show(part.value) if isinstance(part.value, int) else part.value) for part in parts),
        small,
    )


def blocks(content: Iterable[Block], *, key: str, run: str = "", place: Place = (0, 0)) -> None:
    """Draw `content` from top to bottom.

    Args:
        content: what to draw.
        key: names the component.
        run: the name under which the timeline shows the run that this is about. Then the component follows
            the timeline at once, with what the browser was told `ahead`, until this is drawn again.
        place: the round and position that this is about.
    """
    data: dict[str, Any] = {"blocks": _drawn(content)}
    if run:
        data |= {"key": key, "run": run, "place": _name(place)}
    _MOUNT(key=key, data=data)


def packed(places: Mapping[Place, Mapping[str, Iterable[Block]]]) -> str:
    """For places the content of the components of each key, as `ahead` takes it."""
    return json.dumps(
        {
            _name(place): {key: _drawn(content) for key, content in each.items()}
            for place, each in places.items()
        },
        separators=(",", ":"),
        ensure_ascii=False,
    )


def ahead(run: str, content: str, *, key: str) -> None:
    """Tell the browser what belongs to some places. It draws nothing.

    Args:
        run: what the places are of; telling of another run forgets those of the one before.
        content: see `packed`.
        key: names the component.
    """
    _AHEAD(key=key, data={"run": run, "places": content})


def _name(place: Place) -> str:
    return f"{place[0]},{place[1]}"


def _drawn(content: Iterable[Block]) -> list[dict[str, Any]]:
    return [{"block": type(block).__name__.lower(), **_plain(block)} for block in content]


def _plain(value: Any) -> Any:
    """Plain JSON: six significant digits are more than a picture shows, and what is empty is left out."""
    if is_dataclass(value):
        pairs = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {name: _plain(each) for name, each in pairs if each is not False and each not in ("", ())}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
