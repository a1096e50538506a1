"""Pictures of distributions, losses and rates, from the worked example of the lessons."""

import numpy as np

from specviz.lessons import laws
from specviz.lessons.facts import P, Q, listed
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

TOKENS = "abc"


def _bars(c: Canvas, x: float, bottom: float, values: list[tuple[float, str]], scale: float) -> None:
    for i, (value, colour) in enumerate(values):
        c.box(x + i * 32, bottom - value * scale, 28, max(value * scale, 0.5), colour, fill=0.55)
        c.words(x + i * 32 + 14, bottom - value * scale - 5, f"{value:.1f}", size=12, anchor="middle")


def overlap() -> Picture:
    """p, q and what they share, token by token."""
    c = Canvas(196)
    shared = np.minimum(P, Q)
    for i, token in enumerate(TOKENS):
        x = 30 + i * 190
        _bars(c, x, 140, [(P[i], TARGET), (Q[i], DRAFT), (shared[i], ACCEPTED)], 200)
        c.words(x + 46, 160, f"token {token}", anchor="middle", size=13)
    c.words(0, 186, f"blue p, pink q, green the smaller of the two: together β = {shared.sum():.1f}")
    return c.picture(
        f"Bars for three tokens: p {listed(P)}, q {listed(Q)}, and the smaller of the two {listed(shared)}, "
        f"which adds up to β = {shared.sum():.1f}."
    )


def residual() -> Picture:
    """Kept part and residual stacked to p."""
    c = Canvas(200)
    kept, rest = np.minimum(P, Q), np.maximum(0, P - Q)
    for i, token in enumerate(TOKENS):
        x = 40 + i * 190
        c.box(x, 150 - kept[i] * 220, 60, kept[i] * 220, ACCEPTED, fill=0.5)
        c.words(x + 30, 150 - kept[i] * 110 + 5, f"{kept[i]:.1f}", anchor="middle", size=13)
        if rest[i] > 0:
            c.box(x, 150 - P[i] * 220, 60, rest[i] * 220, CORRECTED, fill=0.5)
            c.words(
                x + 30, 150 - (kept[i] + rest[i] / 2) * 220 + 5, f"{rest[i]:.1f}", anchor="middle", size=13
            )
        c.line(x - 6, 150 - P[i] * 220, x + 66, 150 - P[i] * 220, TARGET, width=3)
        c.words(x + 72, 150 - P[i] * 220 + 5, f"p = {P[i]:.1f}", size=13)
        c.words(x + 30, 168, f"token {token}", anchor="middle", size=13)
    c.words(0, 192, "green: drafts that are kept   ochre: what corrections add   blue line: the target's p")
    return c.picture(
        f"For each of three tokens the kept part {listed(kept)} and the residual {listed(rest)} stacked on "
        f"each other reach exactly p {listed(P)}."
    )


def survival(alpha: float = 0.7) -> Picture:
    """How much of a block survives to each position."""
    c = Canvas(150)
    for i in range(1, 9):
        x = 20 + (i - 1) * 76
        c.box(x, 110 - alpha**i * 100, 50, alpha**i * 100, ACCEPTED, fill=0.5)
        c.words(x + 25, 104 - alpha**i * 100, f"{alpha**i:.2f}", anchor="middle", size=13)
        c.words(x + 25, 128, str(i), anchor="middle", size=13)
    c.words(
        20,
        146,
        f"chance that a block is kept at least up to this position, if each token is kept with {alpha:g}",
        size=13,
    )
    values = ", ".join(f"{alpha**i:.2f}" for i in range(1, 9))
    return c.picture(f"Bars falling from position 1 to 8: {values}.")


def near_tie() -> Picture:
    """Two logits closer than the rounding error."""
    c = Canvas(130)
    for x, title, a, b in ((40, "pass over one row", 0.52, 0.50), (360, "pass over five rows", 0.50, 0.52)):
        c.words(x, 20, title, bold=True, size=13)
        for i, (value, name) in enumerate(((a, "yes"), (b, "and"))):
            y = 32 + i * 34
            largest = value == max(a, b)
            c.box(x, y, value * 300, 24, TARGET if largest else GREY, fill=0.45)
            c.words(x + 8, y + 17, name, size=13)
            if largest:
                c.words(x + value * 300 + 8, y + 17, "argmax", size=13, bold=True)
    c.words(
        40,
        122,
        "two logits nearly equal; sums in another order are rounded differently (drawn larger)",
        size=13,
    )
    return c.picture(
        "Two nearly equal logits. In a pass over one row the first is larger by a hair, in a pass over five "
        "rows the second: the argmax changes without any fault."
    )


def curve_shapes() -> Picture:
    """Rates by position: weak draft, fault at a depth."""
    c = Canvas(176)
    shapes = (
        ("weak draft", [0.6**i for i in range(1, 6)], ACCEPTED, "falls evenly"),
        ("fault at position 4", [0.8, 0.78, 0.76, 0.12, 0.1], REJECTED, "a cliff"),
        ("easy and hard stretches", [0.62, 0.55, 0.51, 0.48, 0.46], OUTPUT, "hardly falls"),
    )
    for j, (title, rates, colour, note) in enumerate(shapes):
        x = 10 + j * 212
        for i, rate in enumerate(rates):
            c.box(x + i * 36, 130 - rate * 105, 30, rate * 105, colour, fill=0.5)
            c.words(x + i * 36 + 15, 146, str(i + 1), anchor="middle", size=12)
        c.words(x, 16, title, bold=True, size=13)
        c.words(x, 168, note, size=13)
    return c.picture(
        "Three curves of acceptance by position: a weak draft falls off evenly, a fault shows as a cliff at "
        "one depth, text with easy and hard stretches hardly falls."
    )


def losses() -> Picture:
    """Where KL and TV push a draft that hardly knows the right token."""
    c = Canvas(190)
    z = np.array([0.0, 3.0, 3.0])
    p, q = np.array([0.7, 0.2, 0.1]), np.exp(z) / np.exp(z).sum()
    below = q < p
    pushes = (
        ("p and q", None),
        ("KL pushes by p − q", p - q),
        ("TV pushes by q·(1[q<p] − M)", q * (below - q[below].sum())),
    )
    for j, (title, push) in enumerate(pushes):
        x = 10 + j * 212
        c.words(x, 16, title, bold=True, size=13)
        base = 130 if push is None else 100
        c.line(x, base, x + 190, base, GREY, width=0.8)
        for i in range(3):
            if push is None:
                c.box(x + i * 62, base - p[i] * 100, 24, p[i] * 100, TARGET, fill=0.5)
                c.box(x + i * 62 + 26, base - q[i] * 100, 24, q[i] * 100, DRAFT, fill=0.5)
            else:
                up = push[i] > 0
                size = abs(push[i]) * 90
                c.box(
                    x + i * 62,
                    base - size if up else base,
                    44,
                    max(size, 0.6),
                    ACCEPTED if up else REJECTED,
                    fill=0.5,
                )
                c.words(
                    x + i * 62 + 22,
                    base - size - 6 if up else base + size + 15,
                    f"{push[i]:+.2f}",
                    anchor="middle",
                    size=12,
                )
    c.words(
        10, 182, "the first token is what the target wants (blue) and the draft hardly knows (pink)", size=13
    )
    return c.picture(
        f"A token with p = {p[0]:g} and q = {q[0]:.2f}: the gradient of KL pushes it up by "
        f"{pushes[1][1][0]:.2f}, that of total variation by {pushes[2][1][0]:.2f} only, because it is "
        "proportional to q."
    )


def rules_compared() -> Picture:
    """TV from p of some rules in the worked example."""
    c = Canvas(172)
    one_hot = laws.one_hot_of_largest(Q)
    rules = (
        ("min(1, p/q), residual", laws.output_law(P, Q)),
        ("match with a draw from p", P),
        ("correction from p", laws.output_law(P, Q, correction=P)),
        ("softmax of the residual", laws.output_law(P, Q, correction=laws.softmax_of_residual(P, Q))),
        ("argmax draft, soft q", laws.output_law(P, Q, drawn=one_hot)),
        ("accept everything", Q),
    )
    told = []
    for i, (title, out) in enumerate(rules):
        y, away = 8 + i * 26, laws.tv(out, P)
        exact = away < 1e-12
        c.words(0, y + 15, title, size=13)
        if exact:
            c.words(220, y + 15, "exact", size=13, colour=ACCEPTED, bold=True)
        else:
            c.box(220, y + 3, away * 1000, 15, REJECTED, fill=0.5)
            c.words(226 + away * 1000, y + 15, f"TV {away:.2f}", size=13)
        told.append(f"{title} {'exact' if exact else f'TV {away:.2f}'}")
    return c.picture("Distance of what comes out from p: " + "; ".join(told) + ".")


def surplus() -> Picture:
    """A ratio above 1 pays for a later one below 1."""
    c = Canvas(150)
    c.words(0, 18, "token rule: each ratio is capped on its own", bold=True, size=13)
    c.words(0, 88, "block rule: the capped product is carried along", bold=True, size=13)
    ratios = (0.5, 2.0, 0.8)
    single, carried, product = [], [], 1.0
    for r in ratios:
        single.append(min(1.0, r))
        product = min(1.0, product * r)
        carried.append(product)
    for i, r in enumerate(ratios):
        x = i * 210
        c.cell(x, 28, 90, 30, f"p/q = {r:g}", DRAFT)
        c.words(x + 98, 48, f"kept {single[i]:g}", size=13)
        c.cell(x, 98, 90, 30, f"p/q = {r:g}", DRAFT)
        c.words(x + 98, 118, f"r = {carried[i]:g}", size=13)
    chance = float(np.prod(single))
    c.words(
        0, 146, f"all three kept: {chance:g} by the token rule, {carried[-1]:g} by the block rule", size=13
    )
    return c.picture(
        f"Ratios 0.5, 2 and 0.8. The token rule keeps all three with probability {chance:g}; the block "
        f"rule, whose running product is 0.5, 1 and 0.8, with {carried[-1]:g}."
    )


def effective() -> Picture:
    """One row of scores through temperature and top-k, and the history that each row's penalty sees."""
    c = Canvas(268)
    z = np.array([2.0, 1.6, 1.0, -1.0])

    def softmax(scores: np.ndarray) -> np.ndarray:
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()

    cool = softmax(z / 0.7)
    stages = (
        ("raw scores, T = 1", softmax(z)),
        ("temperature 0.7", cool),
        ("then top-k = 2", laws.top_k(cool, 2)),
    )
    for j, (title, p) in enumerate(stages):
        x = 10 + j * 212
        c.words(x, 16, title, bold=True, size=13)
        for i, value in enumerate(p):
            gone = value == 0
            c.box(x + i * 46, 112 - value * 110, 38, max(value * 110, 1), GREY if gone else TARGET, fill=0.5)
            c.words(
                x + i * 46 + 19, 107 - value * 110, "0" if gone else f"{value:.2f}", size=12, anchor="middle"
            )
            c.words(x + i * 46 + 19, 128, "abcd"[i], size=12, anchor="middle")
    c.words(10, 158, "what the penalty of each row looks at, K = 3", bold=True, size=13)
    for row in range(4):
        y = 168 + row * 22
        name = f"row {row + 1}, judges x{row + 1}" if row < 3 else "row 4, the bonus"
        c.words(10, y + 14, name, size=13)
        for i, seen in enumerate(("the text", "x1", "x2", "x3")):
            inside = i <= row
            c.cell(190 + i * 112, y, 104, 19, seen if inside else "not yet", ACCEPTED if inside else GREY,
                   fill=0.3 if inside else 0.04, dashed=not inside, line=1)  # fmt: skip
    told = "; ".join(f"{title}: {listed(np.round(p, 2))}" for title, p in stages)
    return c.picture(
        f"One row of the target through the user's settings. {told}. Below: the penalty of row i sees the "
        "text and the drafts before i, that of the bonus row all of them."
    )


def rates_compared() -> Picture:
    """One pair under three exact rules, and one run under three denominators."""
    c = Canvas(240)
    favourite = laws.one_hot_of_largest(Q)
    rules = (
        ("sampled draft, ratio: Σ min(p, q)", laws.overlap(P, Q)),
        ("sampled draft, match: Σ p·q", laws.match_rate(P, Q)),
        ("greedy draft, either rule: p(d)", laws.overlap(P, favourite)),
    )
    k, accepted, rounds = 2, 1.4, 1
    shares = (
        ("accepted / drafted", accepted / k),
        ("accepted / all output", accepted / (accepted + rounds)),
        ("(accepted + 1) / (drafted + 1)", (accepted + rounds) / (k + rounds)),
    )
    for top, title, bars, colour in (
        (0, f"one pair, p = {listed(P)}, q = {listed(Q)}: three exact ways to judge", rules, ACCEPTED),
        (122, "one run, K = 2 and 1.4 accepted per round: three ways to divide", shares, OUTPUT),
    ):
        c.words(0, top + 16, title, bold=True, size=13)
        for i, (name, value) in enumerate(bars):
            y = top + 26 + i * 28
            c.words(0, y + 15, name, size=13)
            c.box(240, y + 2, value * 330, 17, colour, fill=0.5)
            c.words(246 + value * 330, y + 15, f"{value:.2f}", size=13, bold=True)
    told = "; ".join(f"{name} {value:.2f}" for name, value in (*rules, *shares))
    return c.picture(f"Six figures, none of them wrong: three for one pair, three for one run. {told}.")
