"""What happened at a place of a round with a tree, in words and numbers."""

from specviz.decoding.trace import Node
from specviz.decoding.tree import ROOT, children_of, main_line
from specviz.reading.inspect import Inspection
from specviz.reading.prose import Notation, Sentence, apart, letters, number, sentence, strong, token


def siblings(inspection: Inspection) -> list[Node]:
    """The candidates at the row, in the order in which they were drawn; none in the bonus row."""
    nodes, line = inspection.round.tree, main_line(inspection.round.tree)
    row = inspection.row_position - 1
    if row >= len(line):
        return []
    return [nodes[i] for i in children_of(nodes, line[row - 1] if row else ROOT)]


def verdict(inspection: Inspection, notation: Notation) -> Sentence:
    """Of an accepted, rejected, discarded or corrected place: what became of its candidates."""
    p, _ = letters(notation)
    beside = siblings(inspection)
    if inspection.state == "discarded":
        return sentence(
            f"Never judged: all candidates at position {inspection.ended_at} were refused, and this one "
            "stands behind the first of them."
        )
    parts = sentence(f"{_candidates(len(beside))} at this position. ")
    for i, node in enumerate(beside):
        if node.against is None:
            break
        parts += _judged(node, i, notation)
    unseen = sum(node.against is None for node in beside)
    if unseen:
        parts += sentence(f"{_others(unseen)} not looked at: one is kept.")
    if inspection.state in ("rejected", "corrected"):
        drawn, share = token(inspection.round.token), number(inspection.round.share)
        source = p if inspection.round.residual_empty else "what was then left of it"
        parts += sentence("None is kept, so ", drawn, f" was drawn from {source}, where it has {share}.")
    return parts


def formula(inspection: Inspection, notation: Notation) -> list[str]:
    """The rule with the numbers of the candidate at this place, a line a step."""
    p, q = letters(notation)
    row = inspection.row
    node = next((n for n in siblings(inspection) if (n.token, n.u) == (row.token, row.u)), None)
    if node is None or node.against is None:
        return []
    lines = [f"min(1, {p}′/{q}′) = min(1, {number(node.against)} / {number(node.drawn)})"]
    if node.u is not None:
        left, right = apart(node.u, node.against / node.drawn)
        lines.append(
            f"u = {left} < {right}: keep" if node.state == "kept" else f"u = {left} ≥ {right}: reject"
        )
    return lines


def residual_line(notation: Notation) -> str:
    """What p′ and q′ are."""
    p, q = letters(notation)
    return (
        f"{q}′ is what a candidate was drawn from: {q} without the candidates before it, scaled up to 1, if "
        f"they are drawn without replacement. {p}′ is {p} for the first candidate; each refusal leaves the "
        f"residual max(0, {p}′ − {q}′), scaled up to 1, in its place."
    )


def _judged(node: Node, before: int, notation: Notation) -> Sentence:
    p, q = letters(notation)
    assert node.against is not None
    mark = "′" if before else ""
    chance = min(1.0, node.against / node.drawn)
    said = f": {p}{mark} = {number(node.against)}, {q}{mark} = {number(node.drawn)}, so it is kept "
    parts = sentence(token(node.token), said)
    parts += sentence("for certain" if chance == 1.0 else f"with probability {number(chance)}")
    if node.u is not None and 0.0 < chance < 1.0:
        parts += sentence(f"; u = {apart(node.u, chance)[0]}")
    return parts + sentence(": ", strong("kept" if node.state == "kept" else "refused"), ". ")


def _candidates(count: int) -> str:
    return "One candidate" if count == 1 else f"{count} candidates"


def _others(count: int) -> str:
    return "One more was" if count == 1 else f"{count} more were"
