"""Pictures to scale: what passes, rounds and bursts take."""

from specviz.lessons.facts import measured
from specviz.lessons.pictures.canvas import ACCEPTED, DRAFT, GREY, OUTPUT, REJECTED, TARGET, Canvas, Picture
from specviz.speed import files
from specviz.speed import formulas as cost
from specviz.speed.formulas import H100, LLAMA_8B

LEFT, STEP = 96.0, 96.0  # where bars begin, and the width of one plain step


def plain_steps() -> Picture:
    """Plain decoding: one reading of the weights for each token."""
    c = Canvas(128)
    c.words(0, 34, "plain", bold=True)
    for i in range(5):
        x = LEFT + i * (STEP + 6)
        c.box(x, 14, STEP, 30, TARGET)
        c.box(x, 48, STEP / 30, 12, REJECTED, fill=0.9)
        c.words(x + STEP / 2, 34, f"token {i + 1}", size=13, anchor="middle")
    c.words(LEFT, 80, "blue: reading every weight once, for one token")
    c.words(LEFT, 100, "orange: the arithmetic of that token (not to scale: it would be thinner still)")
    c.words(LEFT, 120, "five tokens, five readings")
    return c.picture(
        "Plain decoding as five long bars in a row, one reading of all weights for each token; the "
        "arithmetic is a sliver beside each."
    )


def _round(c: Canvas, y: float, k: int, draft: float, verify: float, kept: int) -> float:
    x = LEFT
    for i in range(k):
        c.box(x, y, draft * STEP, 30, DRAFT, fill=0.4)
        if draft * STEP > 14:
            c.words(x + draft * STEP / 2, y + 20, f"d{i + 1}", size=11, anchor="middle")
        x += draft * STEP
    c.box(x, y, verify * STEP, 30, TARGET)
    c.words(x + verify * STEP / 2, y + 20, f"one pass, {k + 1} rows", size=12, anchor="middle")
    x += verify * STEP
    c.words(x + 8, y + 20, f"{kept + 1} tokens", bold=True)
    return x


def time_bars(k: int = 4, draft: float = 0.2, verify: float = 1.1, kept: int = 3) -> Picture:
    """The plain steps first, then the round that gives the same tokens."""
    c = Canvas(146)
    tokens = kept + 1
    c.words(0, 34, "plain", bold=True)
    for i in range(tokens):
        c.box(LEFT + i * STEP, 14, STEP, 30, TARGET)
        c.words(LEFT + (i + 0.5) * STEP, 34, f"token {i + 1}", size=13, anchor="middle")
    c.words(0, 84, "speculative", bold=True)
    end = _round(c, 64, k, draft, verify, kept)
    saved = tokens - (k * draft + verify)
    c.line(end, 96, LEFT + tokens * STEP, 96, ACCEPTED, width=2)
    c.words(LEFT, 138, f"time to scale: a draft step {draft:g}, the pass {verify:g} of a plain step")
    c.words(LEFT + tokens * STEP, 114, f"saved: {saved:.1f} steps", anchor="end", colour=ACCEPTED)
    return c.picture(
        f"Above, {tokens} plain steps of the target for {tokens} tokens. Below, one round: {k} short draft "
        f"steps and one pass over {k + 1} rows, which keeps {kept} drafts and adds one token. The round "
        f"takes {k * draft + verify:.1f} plain steps instead of {tokens}."
    )


def losing_bars() -> Picture:
    """A round that costs more than it yields."""
    c = Canvas(112)
    k, draft, verify, kept = 4, 0.35, 1.8, 1
    c.words(0, 30, "plain", bold=True)
    for i in range(kept + 1):
        c.box(LEFT + i * STEP, 10, STEP, 30, TARGET)
        c.words(LEFT + (i + 0.5) * STEP, 30, f"token {i + 1}", size=13, anchor="middle")
    c.words(0, 74, "speculative", bold=True)
    _round(c, 54, k, draft, verify, kept)
    total = k * draft + verify
    c.words(
        LEFT,
        106,
        f"4 x {draft:g} + {verify:g} = {total:.1f} plain steps for 2 tokens: slower",
        colour=REJECTED,
    )
    return c.picture(
        f"A losing round: four draft steps of {draft:g} and a pass of {verify:g} plain steps keep one draft "
        f"and add one token, {total:.1f} steps for two tokens."
    )


def two_regimes() -> Picture:
    """What a pass reads, for short and for long contexts, to scale."""
    c = Canvas(196)
    scale = 440 / cost.roofline(LLAMA_8B, H100, 128, 2048, 1).reading
    lines = []
    for y, batch, context, title in (
        (30, 1, 500, "batch 1, context 500"),
        (84, 128, 500, "batch 128, context 500"),
        (138, 128, 2048, "batch 128, context 2,048"),
    ):
        one = cost.roofline(LLAMA_8B, H100, batch, context, 1)
        v = cost.roofline_v(LLAMA_8B, H100, batch, context, 5)
        weights = one.weight_bytes / H100.bandwidth * scale
        cache = one.cache_bytes / H100.bandwidth * scale
        computing = cost.roofline(LLAMA_8B, H100, batch, context, 5).computing * scale
        c.words(0, y - 8, title, bold=True, size=13)
        c.box(0, y, weights, 16, TARGET, fill=0.5)
        c.box(weights, y, cache, 16, OUTPUT, fill=0.5)
        c.box(0, y + 18, computing, 8, REJECTED, fill=0.8)
        c.words(max(weights + cache, computing) + 8, y + 14, f"v(5) = {v:.2f}")
        lines.append(f"{title}: v(5) = {v:.2f}")
    c.words(
        0, 188, "blue: reading weights   purple: reading caches   orange: arithmetic of five rows", size=13
    )
    return c.picture(
        "Time by the roofline for Llama-3.1-8B on an H100. "
        + "; ".join(lines)
        + ". Where the orange bar is the "
        "longest, extra rows cost time; where reading is longer, they are free."
    )


def measured_v() -> Picture:
    """Measured passes by rows in two dtypes, and with packed weights."""
    m = measured()
    c = Canvas(220)
    top, bottom, left, right = 20.0, 176.0, 60.0, 500.0
    highest = 2.3
    rows = m["rows"]
    series = (
        ("float32", m["float32"]["passes"], REJECTED),
        ("float32, packed", m["packed"]["float32"]["passes"], OUTPUT),
        ("bfloat16", m["bfloat16"]["passes"], ACCEPTED),
    )

    def place(i: int, value: float) -> tuple[float, float]:
        return left + i * (right - left) / (len(rows) - 1), bottom - (value / highest) * (bottom - top)

    for level in (0, 1, 2):
        y = place(0, level)[1]
        c.line(left - 8, y, right, y, GREY, width=0.7)
        c.words(left - 14, y + 5, str(level), anchor="end", size=13)
    for name, passes, colour in series:
        points = [place(i, value) for i, value in enumerate(passes)]
        c.path(points, colour)
        for x, y in points:
            c.box(x - 3, y - 3, 6, 6, colour, fill=1)
        c.words(points[-1][0] + 10, points[-1][1] + (9 if name == "bfloat16" else 3), name, bold=True)
    for i, n in enumerate(rows):
        c.words(place(i, 0)[0], bottom + 20, str(n), anchor="middle", size=13)
    c.words(left, bottom + 40, "rows in the pass; time relative to one row (measured)", size=13)
    values = "; ".join(f"{name} " + ", ".join(f"{v:.2f}" for v in passes) for name, passes, _ in series)
    return c.picture(
        f"Measured time of a pass over {', '.join(map(str, rows))} rows, relative to one row: {values}."
    )


def bursts() -> Picture:
    """Arrival of tokens: evenly, and in bursts."""
    c = Canvas(118)
    c.words(0, 30, "plain", bold=True)
    c.words(0, 74, "speculative", bold=True)
    for i in range(10):
        c.box(LEFT + 22 + i * 48, 14, 9, 26, TARGET, fill=0.7)
    x = LEFT
    for seconds, tokens in ((60, 3), (60, 1), (60, 4), (60, 2)):
        x += seconds
        for i in range(tokens):
            c.box(x + i * 11, 58, 9, 26, ACCEPTED, fill=0.7)
    c.line(LEFT, 96, 630, 96, GREY)
    c.words(630, 112, "time", anchor="end", size=13)
    c.words(LEFT, 112, "each mark a token; the same ten tokens", size=13)
    return c.picture(
        "Tokens on a time line. Plain decoding: ten tokens at even gaps. Speculative: the same ten in four "
        "bursts of 3, 1, 4 and 2, done in half the time."
    )


KINDS = {
    "model": "small model",
    "early-exit": "early exit",
    "eagle": "EAGLE",
    "medusa": "Medusa",
    "parallel": "parallel",
    "ngram": "n-gram",
    "suffix": "suffix tree",
}


def drafting_costs() -> Picture:
    """What a block of drafts takes beside one plain step: measured, for each kind on the built-in target."""
    report = files.recorded("greedy")
    plain = report.seconds(1) or 1.0
    found = [
        (name, taken / plain)
        for kind, name in KINDS.items()
        if (taken := report.drafting(kind, 4)) is not None
    ]
    c = Canvas(58 + 28 * (len(found) + 1))
    scale = 420 / max(1.0, *(share for _, share in found))
    for i, (name, share) in enumerate([("one plain step", 1.0), *found]):
        y = 8 + i * 28
        c.words(0, y + 15, name, size=13, bold=i == 0)
        c.box(120, y + 2, max(share * scale, 1), 17, DRAFT if i else TARGET, fill=0.45)
        c.words(128 + share * scale, y + 15, f"{share:.2f}", size=13)
    day = report.machine.date[:10]
    c.words(
        0,
        26 + 28 * (len(found) + 1),
        "four draft tokens, in plain steps of the target; measured on the built-in",
        size=13,
    )
    c.words(
        0,
        44 + 28 * (len(found) + 1),
        f"target ({report.setting.dtype}, one thread, {day}). Acceptance is another matter.",
        size=13,
    )
    told = "; ".join(f"{name} {share:.2f}" for name, share in found)
    return c.picture(f"Time of four draft tokens in plain steps of the target, measured on {day}: {told}.")
