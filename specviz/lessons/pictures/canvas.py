"""A small canvas for SVG: rectangles, lines and words in the colours of the pages, on any background."""

import html
from dataclasses import dataclass, field

TARGET, DRAFT, ACCEPTED, REJECTED, CORRECTED, OUTPUT = (
    "#0072B2", "#CC79A7", "#009E73", "#D55E00", "#B87A00", "#7a5fa8",
)  # fmt: skip
GREY = "#8a93a0"
WIDTH = 640


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG image, and the sentence that says what it shows."""

    svg: str
    alt: str


@dataclass(slots=True)
class Canvas:
    """`height` in the same units as x and y; the picture is 640 units wide and scales with its place."""

    height: float
    parts: list[str] = field(default_factory=list)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str = GREY,
        *,
        fill: float = 0.25,
        dashed: bool = False,
        line: float = 1.5,
    ) -> None:
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" '
            f'fill="{colour}" fill-opacity="{fill}" stroke="{colour}" stroke-width="{line}"{dash}/>'
        )

    def line(
        self, x0: float, y0: float, x1: float, y1: float, colour: str = GREY, *, width: float = 1.5,
        dashed: bool = False,
    ) -> None:  # fmt: skip
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(
            f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"{dash}/>'
        )

    def path(self, points: list[tuple[float, float]], colour: str, *, width: float = 2.5) -> None:
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(
            f'<polyline points="{steps}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )

    def words(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 14,
        anchor: str = "start",
        bold: bool = False,
        colour: str = "currentColor",
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}"{weight}>{html.escape(text)}</text>'
        )

    def cell(
        self, x: float, y: float, width: float, height: float, text: str, colour: str = GREY, **more
    ) -> None:
        """A box with a word in its middle."""
        self.box(x, y, width, height, colour, **more)
        self.words(x + width / 2, y + height / 2 + 4.5, text, size=13, anchor="middle")

    def picture(self, alt: str) -> Picture:
        inside = "".join(self.parts)
        return Picture(
            f'<svg viewBox="0 0 {WIDTH} {self.height:.0f}" role="img" aria-label="{html.escape(alt)}" '
            f'style="width:100%;max-width:{WIDTH}px;height:auto;color:inherit" '
            f'font-family="inherit" xmlns="http://www.w3.org/2000/svg">{inside}</svg>',
            alt,
        )
