"""Paired bars of p and q over some tokens with their overlap, and the residual's bars aligned under them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """The bars of one token, or of several together.

    Attributes:
        name: written below, short.
        note: a second line: what became of the token, or what took it out.
        kind: "accepted", "rejected", "discarded", "corrected", "bonus": what the note's colour says;
            "removed" dims the name as well; "" for no colour.
        p, q, overlap, residual: heights; None where there is no such bar.
        hint: lines for a pointer that hovers; the first one is the title.
        p_over, q_over, residual_over: what to write into a bar that leaves the linear scale, or "".
        residual_text: the number above the residual's bar, or "".
    """

    name: str
    note: str
    kind: str
    p: float
    q: float | None
    overlap: float | None
    residual: float | None
    hint: tuple[str, ...]
    p_over: str = ""
    q_over: str = ""
    residual_over: str = ""
    residual_text: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale for p and q.

    Attributes:
        name: "linear" or "log".
        low, top: its ends. On a linear one `low` is 0; on a logarithmic one bars start at `low`.
        ticks: values with their labels.
    """

    name: str
    low: float
    top: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """A picture of paired bars, which the viewer can save as a PNG.

    Attributes:
        columns: from left to right.
        scales: the linear and the logarithmic one, between which the viewer chooses.
        residual_top: the end of the residual's scale; None leaves the lower bars out.
        residual_title: written above them.
        legend: names of "target", "draft" and "overlap", those that are shown.
        file: name of the PNG without its ending.
        alt: the sentence that says what the picture shows.
    """

    columns: tuple[Column, ...]
    scales: tuple[Scale, Scale]
    residual_top: float | None
    residual_title: str
    legend: tuple[tuple[str, str], ...]
    file: str
    alt: str
