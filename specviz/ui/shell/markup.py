"""Sentences as Streamlit markdown. Only our own words are markup: token text is data and stays inert."""

import re
from collections.abc import Callable, Iterable

from specviz.reading.prose import Part

# The colours of p and q in the charts, as chips whose text is readable on a light and on a dark page.
CHIPS = {
    "target": 'foreground="#ffffff" background="#0072B2"',
    "draft": 'foreground="#1c2430" background="#CC79A7"',
}


def code(text: str) -> str:
    """`text` as a code span, in which nothing is markup: neither HTML nor markdown, colour or TeX."""
    text = re.sub(r"\s", " ", text)  # a line break could end the span
    # Streamlit rewrites the names of icons even here; an invisible joiner keeps this text as it is.
    text = text.replace(":material/", ":\u2060material/")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def plain(text: str) -> str:
    """`text` as words of a sentence, in which nothing is markup."""
    return re.sub(r"([\\`*_\[\]<>!|~$:#])", r"\\\1", text)


def markdown(parts: Iterable[Part], show: Callable[[int], str]) -> str:
    """A sentence as markdown; `show` gives the text of a token."""
    return "".join(_part(part, show) for part in parts)


def _part(part: Part, show: Callable[[int], str]) -> str:
    if isinstance(part.value, int):
        return code(show(part.value))
    if part.kind == "name":
        return code(part.value)
    words = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", part.value)
    if part.kind in CHIPS:
        return f":color[ {words} ]{{{CHIPS[part.kind]}}}"
    return f"**{words}**" if part.kind == "strong" else words
