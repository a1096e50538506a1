"""The numbers of a place: its rule worked out, the areas of its chart, what another coin would have done."""

from specviz.reading import explain_block, explain_tree
from specviz.reading.inspect import Inspection
from specviz.reading.prose import (
    Notation,
    Sentence,
    apart,
    letters,
    number,
    sentence,
    strong,
    token,
    unbroken,
)
from specviz.reading.rejudge import Rejudged


def residual_line(inspection: Inspection, notation: Notation = "leviathan") -> str:
    """One plain line that says what the residual is, in the place where it is met."""
    if inspection.by_blocks and inspection.state != "bonus":
        return explain_block.residual_line(inspection, notation)
    if inspection.in_tree and inspection.state != "bonus":
        return explain_tree.residual_line(notation)
    p, q = letters(notation)
    what = f"what {p} has left over after {q} has used its share: max(0, {p} − {q})"
    match inspection.state:
        case "rejected" | "corrected" if inspection.round.residual_empty:
            return (
                f"The residual is {what}. Here {p} and {q} agree to the last digit wherever {p} is larger, "
                f"so nothing is left and {p} itself was used."
            )
        case "rejected" | "corrected" if inspection.target_greedy:
            return f"The residual is {what}. At temperature 0 that is the target's favourite alone."
        case "rejected" | "corrected":
            return (
                "The draft offers some tokens too often and others too seldom. The correction is drawn from "
                f"the residual, {what}: exactly the tokens it offers too seldom, each by what is missing."
            )
        case "bonus":
            return (
                f"A bonus needs no residual: no draft token stood in its place, so {p} itself is what to "
                "draw from."
            )
    return f"After a rejection here, the correction would come from the residual: {what}."


def formula(inspection: Inspection, notation: Notation = "leviathan") -> tuple[str, ...]:
    """The rule with the numbers of this place, a line a step."""
    if inspection.in_tree and inspection.state != "bonus":
        return tuple(explain_tree.formula(inspection, notation))
    p, q = letters(notation)
    row = inspection.row
    lines = explain_block.formula(inspection, notation) if inspection.by_blocks else []
    if not inspection.by_blocks and row.p is not None and row.q is not None:
        keep = min(1.0, row.p / row.q)
        lines.append(f"min(1, {p}/{q}) = min(1, {number(row.p)} / {number(row.q)}) = {number(keep)}")
        if row.u is not None and inspection.state != "discarded":
            left, right = apart(row.u, row.p / row.q)
            lines.append(
                f"u = {left} < {right}: keep" if inspection.would_accept else f"u = {left} ≥ {right}: reject"
            )
    added = inspection.candidate(inspection.added)
    if added is None or inspection.state == "accepted":
        return tuple(lines)
    if added.q is None or inspection.round.residual_empty:
        lines.append(f"{p}(added token) = {number(added.p)}")
    elif inspection.by_blocks:
        lines.append(f"share of {explain_block.residual(inspection, notation)}: {number(added.residual)}")
    elif row.residual_mass and added.p > added.q:
        lines.append(
            f"residual(correction) = ({number(added.p)} − {number(added.q)}) / {number(row.residual_mass)}"
            f" ≈ {number(added.residual)}"
        )
    return tuple(lines)


def masses(inspection: Inspection, notation: Notation = "leviathan") -> str:
    """The two areas of the chart, which are equal. "" for a row without a draft."""
    row = inspection.row
    if row.beta is None or row.residual_mass is None:
        return ""
    p, q = letters(notation)
    if not row.residual_mass:
        return f"{p} and {q} are equal here: nothing can be rejected."
    if inspection.by_blocks:
        return explain_block.masses(inspection, notation)
    if inspection.in_tree:
        return (
            f"A single token drawn from {q} would be kept here with chance β = {number(row.beta)}, the area "
            f"that {p} and {q} share. Every further candidate has a share of what is left."
        )
    return (
        f"Over all tokens that the draft might have drawn here, one is kept with chance β = "
        f"{number(row.beta)}, the area that {p} and {q} share, and rejected with chance TV = "
        f"{number(inspection.rejected_mass)} (the total variation distance), the area where {q} is above "
        f"{p}: there the draft proposes too much. Where {p} is above {q} is the residual: the same area, "
        f"{number(row.residual_mass)}; its own bars show it scaled up to 1."
    )


def coins(inspection: Inspection) -> str:
    """Which coins accept the row's draft token. "" for a row without one."""
    keep = inspection.row.threshold
    if keep is None:
        return ""
    if inspection.by_blocks:
        return f"Below {number(keep)} {explain_block.beginning(inspection)} passes."
    if keep == 1.0:
        return "Every u accepts this token."
    return f"Below {number(keep)} it is accepted." if keep else "No u accepts this token."


def what_if(inspection: Inspection, again: Rejudged, u: float, notation: Notation = "leviathan") -> Sentence:
    """What another coin would have done to this round."""
    row, here = inspection.row, inspection.row_position
    before = row.state
    after = again.states[here - 1]
    fell = number(u) if row.u is None else apart(u, row.u)[0]
    parts = sentence("With ", strong(unbroken(f"u = {fell}")), f", position {here} would ")
    parts += sentence("still " if before == after else "", "be ", strong(after), ". ")
    if again.recorded:
        return parts + sentence("The round would end as it did.")
    if before != after and after == "accepted" and again.outcome == "corrected":
        parts += sentence(
            f"The round would go on and end at position {again.accepted + 1}, where its u rejects. "
        )
    if inspection.by_blocks:
        kept, k = again.accepted, inspection.round.k
        return parts + sentence(
            f"The longest beginning that passes would have {kept} of {k} tokens; which token would then be "
            "drawn behind it, the trace does not tell."
        )
    source = letters(notation)[0] if again.law == "p" else "the residual"
    share = number(again.probability)
    added = "bonus" if again.outcome == "bonus" else "correction"
    if again.token is None:
        return parts + sentence(
            f"The {added} would be a token behind the leading ones, which the trace does not tell apart; "
            f"together these have {share} in {source}."
        )
    return parts + sentence(f"The {added} would be ", token(again.token), f", with {share} in {source}.")
