"""Rows of boxes on a common scale: the random number of a token, the cells of a cache."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Band:
    """A row of boxes.

    Attributes:
        boxes: kind (a class of bands.css), start, width, text, and the hint of a hovering pointer.
        title: written above, or "".
        marks: a place and its label, drawn across the row.
        ticks: a place and its label, written below.
    """

    boxes: tuple[tuple[str, float, float, str, str], ...]
    title: str = ""
    marks: tuple[tuple[float, str], ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Bands:
    """Rows of boxes.

    Attributes:
        rows: from top to bottom.
        span: the end of their scale, which starts at 0.
        alt: the sentence that says what the picture shows.
        legend: kinds of box with their names.
    """

    rows: tuple[Band, ...]
    span: float
    alt: str
    legend: tuple[tuple[str, str], ...] = ()
