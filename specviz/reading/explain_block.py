"""The verdicts of block verification in words: what decided is how long a beginning of the block passes."""

from specviz.reading.inspect import Inspection
from specviz.reading.prose import Notation, Sentence, apart, letters, number, sentence, strong, token


def beginning(inspection: Inspection) -> str:
    """The beginning of the block that ends with this row's token."""
    here = inspection.row_position
    if here == inspection.round.k:
        return f"the whole block of {here}"
    return "the first token alone" if here == 1 else f"the first {here} tokens"


def judged(inspection: Inspection) -> Sentence:
    """Behind the sentence on p and q: r, h, u, and which beginning was kept."""
    row, round = inspection.row, inspection.round
    if row.prefix_passes is None or row.prefix_weight is None:
        return ()
    parts = sentence(
        f". Block verification judges {beginning(inspection)} together: its weight is r = "
        f"{number(row.prefix_weight, 3)}, and it passes if its u is below ",
        strong(f"h = {number(row.prefix_passes, 3)}"),
        ". ",
    )
    if row.u is not None:
        fell, edge = apart(row.u, row.prefix_passes)
        passes = inspection.would_accept
        side = f"below {edge}: it passes" if passes else f"not below {edge}: it does not pass"
        parts += sentence(f"u = {fell} is {side}. ")
    kept = round.accepted
    longest = (
        f"The longest beginning that passes has {kept} of {round.k} tokens" if kept else "No beginning passes"
    )
    return parts + sentence(f"{longest}, so this token is ", strong(inspection.state), ".")


def correction(inspection: Inspection, notation: Notation) -> Sentence:
    """Where the corrected token came from."""
    if inspection.added is None:
        return ()
    p, _ = letters(notation)
    drawn = token(inspection.added)
    share = number(inspection.added_probability)
    if inspection.round.residual_empty:
        return sentence(" Rounding left no residual, so the correction ", drawn, f" came from {p}.")
    return sentence(" The correction ", drawn, f" came from {residual(inspection, notation)}: share {share}.")


def residual(inspection: Inspection, notation: Notation) -> str:
    """The residual behind the kept beginning."""
    p, q = letters(notation)
    return f"max(0, r·{p} − {q}) with r = {number(inspection.weight_before, 3)}"


def residual_line(inspection: Inspection, notation: Notation) -> str:
    """What the residual is under this rule."""
    p, q = letters(notation)
    if inspection.round.residual_empty and inspection.state in ("rejected", "corrected"):
        return f"Rounding left nothing of {residual(inspection, notation)}, so {p} itself was used."
    if inspection.state in ("rejected", "corrected"):
        start = "Under block verification the residual is"
    else:
        start = "Had the kept beginning ended before this token, the next one would come from"
    return (
        f"{start} {residual(inspection, notation)}: what is left of {p}, scaled by the weight r of the "
        f"beginning before it, after {q} has used its share."
    )


def masses(inspection: Inspection, notation: Notation) -> str:
    """The areas of the chart, and what they do and do not decide here."""
    p, q = letters(notation)
    return (
        f"{p} and {q} share β = {number(inspection.row.beta)}. Under block verification that alone does not "
        "decide whether the token is kept: it depends on the tokens before and after it, by way of r and h. "
        f"The residual's bars show max(0, r·{p} − {q}) scaled up to 1."
    )


def formula(inspection: Inspection, notation: Notation) -> list[str]:
    """r and h with the numbers of this place."""
    p, q = letters(notation)
    row = inspection.row
    if row.p is None or row.q is None or row.prefix_weight is None or row.prefix_passes is None:
        return []
    before, weight = number(inspection.weight_before, 3), number(row.prefix_weight, 3)
    lines = [f"r = min(1, {before} · {number(row.p)} / {number(row.q)}) = {weight}"]
    if inspection.row_position == inspection.round.k:
        lines.append(f"h = r = {weight}, as it is the whole block")
    else:
        lines.append(
            f"h = Z / (Z + 1 − r) = {number(row.prefix_passes, 3)}, "
            f"where Z = Σ max(0, r·{p} − {q}) in the next row"
        )
    if row.u is not None:
        fell, edge = apart(row.u, row.prefix_passes)
        passes = inspection.would_accept
        lines.append(f"u = {fell} < {edge}: passes" if passes else f"u = {fell} ≥ {edge}: fails")
    return lines
