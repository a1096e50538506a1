"""Pictures of what is kept, what is seen, and what attends to what."""

from specviz.lessons.pictures.canvas import (
    ACCEPTED,
    CORRECTED,
    DRAFT,
    GREY,
    OUTPUT,
    REJECTED,
    TARGET,
    Canvas,
    Picture,
)


def rows_of_q() -> Picture:
    """K tokens and K rows of V numbers."""
    c = Canvas(196)
    c.words(0, 18, "tokens", bold=True, size=13)
    c.words(120, 18, "rows of q, one number for each of the V tokens", bold=True, size=13)
    for i, token in enumerate(("the", "old", "house", "on")):
        y = 28 + i * 36
        c.cell(0, y, 90, 28, token, DRAFT)
        for j in range(24):
            drawn, refused = j == (5 * i + 3) % 24, i == 2
            colour = DRAFT if drawn else CORRECTED if refused else GREY
            c.box(
                120 + j * 20,
                y + 4,
                17,
                20,
                colour,
                fill=0.85 if drawn else 0.45 if refused else 0.15,
                line=0.8,
            )
        c.words(608, y + 20, "…", size=16)
    c.words(
        120,
        190,
        "pink: q(x), for the coin   ochre: the whole row, for the residual of a rejected token",
        size=13,
    )
    return c.picture(
        "Four drafted tokens, each with its row of q over the vocabulary. The coin reads one entry of a "
        "row, the residual of a rejected place reads the whole row."
    )


def bonus() -> Picture:
    """K + 1 rows: K judge, the last gives the bonus."""
    c = Canvas(140)
    for i in range(5):
        x = i * 124
        c.cell(x, 12, 110, 30, f"draft {i + 1}" if i < 4 else "–", DRAFT if i < 4 else GREY, dashed=i == 4)
        c.cell(x, 62, 110, 30, f"row {i + 1} of p", TARGET)
        c.words(x + 55, 56, "judges" if i < 4 else "", size=12, anchor="middle")
    c.cell(496, 104, 110, 30, "bonus", ACCEPTED)
    c.words(0, 124, "all four kept: row 5 was computed anyway, so one more token is drawn from it", size=13)
    return c.picture(
        "Four draft tokens above five rows of the target. Rows 1 to 4 judge the drafts; row 5 has no draft "
        "above it and gives the bonus."
    )


def caches() -> Picture:
    """Both caches after a rejection and after a full acceptance."""
    c = Canvas(262)
    cases = (
        (0, "K = 4, two accepted, then a correction", 2),
        (132, "K = 4, all accepted, then the bonus", 4),
    )
    for top, title, accepted in cases:
        c.words(0, top + 16, title, bold=True, size=13)
        for y, who, fed in ((top + 26, "target", 4), (top + 64, "draft", 3)):
            c.words(0, y + 20, who, size=13)
            c.cell(60, y, 120, 28, "n committed", GREY)
            for i in range(4):
                x = 186 + i * 74
                held, kept = i < fed, i < accepted
                colour = ACCEPTED if kept else REJECTED
                c.cell(x, y, 68, 28, f"x{i + 1}" if held else "not fed", colour if held else GREY,
                       dashed=not (held and kept), fill=0.3 if held and kept else 0.06)  # fmt: skip
            c.cell(482, y, 120, 28, "correction" if accepted < 4 else "bonus", GREY, dashed=True, fill=0.04)
        c.words(60, top + 110, "solid: stays in the cache   dashed: cut, or not fed yet", size=13)
    return c.picture(
        "After two of four drafts are accepted both caches keep n + 2 entries. After all four are accepted "
        "the target keeps n + 4, the draft only n + 3, because it never read its last token. The added "
        "token is in neither."
    )


SEES = (
    ("small model", "yes", "yes", "no"),
    ("n-gram", "yes", "yes", "no"),
    ("early exit", "yes", "yes", "first layers"),
    ("Medusa head i", "no", "no", "last layer"),
    ("MTP", "yes", "yes", "last layer"),
    ("EAGLE-1, EAGLE-2", "yes", "yes", "last layer"),
    ("EAGLE-3", "yes", "yes", "three layers"),
    ("PARD", "yes", "no", "no"),
    ("DFlash", "yes", "no", "several layers"),
)


def what_each_sees() -> Picture:
    """A table with marks: last token, drafts before the place, target's states."""
    c = Canvas(54 + 30 * len(SEES))
    columns = (250.0, 400.0, 545.0)
    for x, title in zip(columns, ("last committed token", "drafts before i", "target's states"), strict=True):
        c.words(x, 18, title, anchor="middle", bold=True, size=13)
    for i, (name, *seen) in enumerate(SEES):
        y = 34 + i * 30
        c.words(0, y + 19, name, size=14)
        for x, what in zip(columns, seen, strict=True):
            colour = GREY if what == "no" else ACCEPTED if what == "yes" else OUTPUT
            c.cell(
                x - 62, y + 2, 124, 24, what, colour, fill=0.08 if what == "no" else 0.3, dashed=what == "no"
            )
    c.words(
        0,
        50 + 30 * len(SEES),
        "The target's states are those of the token before the last committed one.",
        size=13,
    )
    told = "; ".join(f"{n}: last token {a}, drafts {b}, states {s}" for n, a, b, s in SEES)
    return c.picture(f"What each drafter has seen when it guesses position i. {told}.")


PARENTS = (-1, 0, 0, 1, 1, 2)
NAMES = ("text", "the", "a", "old", "red", "new")


def _ancestors(node: int) -> list[int]:
    found = [node]
    while PARENTS[node] >= 0:
        node = PARENTS[node]
        found.append(node)
    return found


def tree_mask() -> Picture:
    """A token tree and the attention mask that belongs to it."""
    c = Canvas(216)
    places = {0: (10, 90), 1: (110, 45), 2: (110, 140), 3: (215, 15), 4: (215, 75), 5: (215, 140)}
    for node, parent in enumerate(PARENTS):
        if parent >= 0:
            (x0, y0), (x1, y1) = places[parent], places[node]
            c.line(x0 + 70, y0 + 15, x1, y1 + 15, GREY)
    for node, (x, y) in places.items():
        c.cell(x, y, 72, 30, NAMES[node], TARGET if node == 0 else DRAFT)
    left, top, size = 390.0, 34.0, 27.0
    for i, name in enumerate(NAMES):
        c.words(left - 8, top + i * size + 18, name, anchor="end", size=13)
        c.words(left + i * size + size / 2, top - 6, name, anchor="middle", size=11)
        for j in range(len(NAMES)):
            sees = j in _ancestors(i)
            c.box(left + j * size, top + i * size, size - 3, size - 3, ACCEPTED if sees else GREY,
                  fill=0.6 if sees else 0.05, line=0.8)  # fmt: skip
    c.words(
        10,
        206,
        "A row attends to the green columns: its ancestors and itself. Siblings do not see each other.",
        size=13,
    )
    rows = "; ".join(
        f"{NAMES[i]} sees {', '.join(NAMES[j] for j in sorted(_ancestors(i)))}" for i in range(6)
    )
    return c.picture(f"A token tree and its attention mask. {rows}.")


def vocabularies() -> Picture:
    """Padded, trimmed and different vocabularies: which ids both models can speak of."""
    c = Canvas(276)
    c.words(0, 16, "padded: rows that stand for no token are cut before the softmax", bold=True, size=13)
    c.cell(0, 24, 480, 24, "ids of the tokenizer", TARGET)
    c.cell(486, 24, 100, 24, "padding", REJECTED, dashed=True, fill=0.06)
    c.words(0, 78, "trimmed: the draft cannot propose the rest, so q = 0 there", bold=True, size=13)
    c.cell(0, 86, 480, 24, "ids of the target: p", TARGET)
    c.cell(0, 114, 130, 24, "ids of the draft: q", DRAFT)
    c.cell(136, 114, 344, 24, "only as correction or bonus", CORRECTED, dashed=True, fill=0.08)
    c.words(0, 170, "another tokenizer: the same text, cut in other places", bold=True, size=13)
    for y, who, pieces, colour in (
        (178, "target", TARGET_CUTS, TARGET),
        (222, "draft", DRAFT_CUTS, DRAFT),
    ):
        x = 60.0
        c.words(0, y + 18, who, size=13)
        for piece in pieces:
            width = 26.0 * len(piece)
            c.cell(x, y, width - 3, 26, piece, colour)
            x += width
    both = _cuts(TARGET_CUTS) & _cuts(DRAFT_CUTS)
    for cut in both:
        c.line(60 + 26 * cut - 1.5, 174, 60 + 26 * cut - 1.5, 252, ACCEPTED, width=3)
    c.words(
        60, 270, "green: cuts that both make; only between those do p and q speak of the same text", size=13
    )
    return c.picture(
        "Three cases. Padded: ids of the tokenizer, and rows after them that are cut. Trimmed: the draft "
        "covers a part of the target's ids; the others come only as correction or bonus. Another tokenizer: "
        f"the target cuts {' | '.join(TARGET_CUTS)}, the draft {' | '.join(DRAFT_CUTS)}; they "
        f"share {len(both)} cuts."
    )


TARGET_CUTS = ("the␣", "light", "house␣", "keeper")
DRAFT_CUTS = ("the␣", "ligh", "thouse␣", "keep", "er")


def _cuts(pieces: tuple[str, ...]) -> set[int]:
    ends, at = set(), 0
    for piece in pieces:
        at += len(piece)
        ends.add(at)
    return ends


def two_surfaces() -> Picture:
    """Where the states and the rule stand, what a fault in each does, and what finds it."""
    c = Canvas(236)
    parts = (
        (0, "draft's state", "cache, positions", DRAFT, "wrong here:", "q is worse", "the text stays right",
         "audit, draft = target"),
        (218, "target's state", "cache, rows, history", TARGET, "wrong here:", "p is that of another text",
         "the text is wrong", "audit, greedy equality"),
        (436, "the rule", "keep, correct, bonus", OUTPUT, "wrong here:", "p and q are right",
         "the text is wrong", "enumeration, chi-square"),
    )  # fmt: skip
    for x, name, what, colour, wrong, cause, effect, check in parts:
        c.box(x, 10, 190, 60, colour, fill=0.3)
        c.words(x + 95, 36, name, anchor="middle", bold=True)
        c.words(x + 95, 56, what, anchor="middle", size=13)
        c.words(x, 104, wrong, size=13, colour=REJECTED, bold=True)
        c.words(x, 124, cause, size=13)
        c.words(x, 144, effect, size=13, bold=effect != "the text stays right")
        c.cell(x, 166, 190, 30, check, ACCEPTED, dashed=False)
    c.line(190, 40, 218, 40, GREY)
    c.line(408, 40, 436, 40, GREY)
    c.words(0, 228, "green: what finds it. A test of one part says nothing about the others.", size=13)
    told = "; ".join(
        f"{name}: {cause}, {effect}, found by {check}" for _, name, _, _, _, cause, effect, check in parts
    )
    return c.picture(f"Three parts, each with what a fault in it does and what finds it. {told}.")
