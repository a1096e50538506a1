"""The verdict in words, for somebody who has never heard of a residual."""

from specviz.decoding.controls import Removed
from specviz.reading import explain_block, explain_tree
from specviz.reading.inspect import Inspection
from specviz.reading.prose import (
    Notation,
    Part,
    Sentence,
    apart,
    letters,
    name,
    number,
    sentence,
    strong,
    token,
    unbroken,
)

REASONS: dict[Removed, str] = {
    "banned": "the token is banned",
    "top-k": "top-k took it out",
    "top-p": "top-p took it out",
    "min-p": "min-p took it out",
    "greedy": "at temperature 0 only the largest score counts",
    "vocabulary": "it is outside the vocabulary",
    "min new tokens": "the text may not end before its least number of new tokens",
    "grammar": "the grammar does not allow it here",
    "forced": "another token is forced here",
}
COPYING = ("ngram", "suffix")  # drafters that copy from the text
BLIND = ("medusa", "parallel")  # whose q of a token does not know the drafts before it


def verdict(inspection: Inspection, notation: Notation = "leviathan") -> Sentence:
    """What happened at this place, and why, with its numbers."""
    match inspection.state:
        case "accepted" | "rejected" | "discarded" | "corrected" if inspection.in_tree:
            parts = explain_tree.verdict(inspection, notation)
        case "accepted" | "rejected":
            parts = _judged(inspection, notation)
        case "discarded":
            parts = _discarded(inspection, notation)
        case "corrected":
            parts = _corrected(inspection, notation)
        case "bonus":
            parts = _bonus(inspection, notation)
    if not inspection.emitted and inspection.state not in ("rejected", "discarded"):
        last = inspection.round.committed[-1]
        parts += sentence(
            " It is not part of the text, which ended before it, with ", token(last), _ended(inspection)
        )
    return parts


def _judged(inspection: Inspection, notation: Notation) -> Sentence:
    row = inspection.row
    assert row.p is not None and row.q is not None
    parts = _proposal(inspection, notation)
    if inspection.by_blocks:
        parts += explain_block.judged(inspection)
        rejected = inspection.state == "rejected"
        return parts + (explain_block.correction(inspection, notation) if rejected else ())
    if not inspection.exact:
        return parts + _judged_by_another_rule(inspection)
    parts += _chance(inspection)
    parts += sentence(strong(inspection.state), ".")
    if inspection.state == "rejected":
        parts += _correction(inspection, notation)
    return parts


def _proposal(inspection: Inspection, notation: Notation) -> Sentence:
    row = inspection.row
    assert row.token is not None and row.q is not None
    drafted, wanted = token(row.token), _target(row.p, notation)
    copies = inspection.drafter.partition(":")[0]
    if inspection.chosen and (copies in COPYING or (copies == "combined" and not inspection.draft_greedy)):
        how = sentence("The drafter copied ", drafted, " from the text, so ", _draft(1.0, notation))
    elif inspection.chosen:
        how = sentence(
            "At temperature 0 the draft takes its favourite ", drafted, ", so ", _draft(1.0, notation)
        )
    else:
        how = sentence("The draft drew ", drafted, " with ", _draft(row.q, notation))
        if inspection.drafter in BLIND and inspection.row_position > 1:
            how += sentence(", without having seen the drafts before it")
    return how + sentence("; the target gives it ", wanted)


def _chance(inspection: Inspection) -> Sentence:
    """The accept probability, why it is what it is, and the coin, up to the word that ends it."""
    row = inspection.row
    assert row.p is not None and row.q is not None
    if row.p >= row.q:
        return sentence(
            ", at least as much, so it is kept ", strong("for certain"), ", whatever the random number: "
        )
    if row.p == 0.0:
        candidate = inspection.candidate(row.token)
        reason = candidate.target_removed if candidate else ""
        why = f" ({REASONS[reason]})" if reason else ""
        return sentence(f"{why}, so it is rejected ", strong("for certain"), ", whatever the random number: ")
    ratio = number(row.p / row.q)
    if row.q < 1.0:
        ratio = f"{number(row.p)} / {number(row.q)} = {ratio}"
    chance = sentence(", so it is kept with probability ", strong(ratio), ". ")
    if row.u is None:
        return chance + sentence("It was ")
    fell, edge = apart(row.u, row.p / row.q)
    side = "below" if inspection.would_accept else "not below"
    return chance + sentence(
        "The random number fell at ", strong(unbroken(f"u = {fell}")), f", {side} {edge}: "
    )


def _judged_by_another_rule(inspection: Inspection) -> Sentence:
    rule = inspection.round.verifier
    parts = sentence(". Here the rule “", name(rule), "” judged it: ", strong(inspection.state), ".")
    row = inspection.row
    assert row.p is not None and row.q is not None
    keep = number(min(1.0, row.p / row.q))
    parts += sentence(f" The exact rule keeps it with probability {keep}")
    if inspection.would_accept is not None:
        parts += sentence(
            f"; with this u it would have {'kept' if inspection.would_accept else 'rejected'} it"
        )
    return parts + sentence(".")


def _correction(inspection: Inspection, notation: Notation) -> Sentence:
    if inspection.added is None:
        return ()
    p, _ = letters(notation)
    correction, share = token(inspection.added), number(inspection.added_probability)
    if inspection.round.residual_empty:
        return sentence(
            " Rounding left no residual, so the correction ",
            correction,
            f" came from {p}, where it has {share}.",
        )
    if inspection.target_greedy:
        return sentence(" The correction ", correction, " is the target's own favourite.")
    return sentence(" The correction ", correction, f" came from the residual, where it has {share}.")


def _discarded(inspection: Inspection, notation: Notation) -> Sentence:
    row = inspection.row
    assert row.p is not None and row.q is not None
    if inspection.by_blocks:
        return _proposal(inspection, notation) + explain_block.judged(inspection)
    parts = sentence(f"Never judged: the round ended at position {inspection.ended_at}. ")
    parts += _proposal(inspection, notation)
    keep = number(min(1.0, row.p / row.q))
    return parts + sentence(
        f", so it would have been kept with probability {keep}. Both models said so on the assumption that "
        f"the token rejected at position {inspection.ended_at} stands; it does not, so the token is ",
        strong("discarded"),
        " unread.",
    )


def _corrected(inspection: Inspection, notation: Notation) -> Sentence:
    row, added = inspection.row, inspection.added
    assert row.token is not None and added is not None
    parts = sentence(f"Position {inspection.row_position} was rejected (", token(row.token), "). ")
    if inspection.by_blocks:
        round = inspection.round
        parts += sentence(f"The longest beginning that passed has {round.accepted} of {round.k} tokens.")
        return parts + explain_block.correction(inspection, notation)
    if not inspection.exact:
        parts += sentence(
            "The rule “", name(inspection.round.verifier), "” then gave ", token(added), " in its place."
        )
        return parts
    parts += sentence("In its place ", token(added), " was drawn")
    share, candidate = number(inspection.added_probability), inspection.candidate(added)
    if inspection.round.residual_empty:
        p, _ = letters(notation)
        parts += sentence(f" from {p}, where it has {share}: rounding left no residual.")
    else:
        parts += sentence(" from the residual, where it has ", strong(share))
        if candidate is not None and candidate.q is not None:
            parts += sentence(": the target gives it ", _target(candidate.p, notation))
            parts += sentence(", the draft only ", _draft(candidate.q, notation))
        parts += sentence(".")
    return parts + sentence(
        " The target's last row was computed as well and not used: it assumes that all draft tokens stand."
    )


def _bonus(inspection: Inspection, notation: Notation) -> Sentence:
    k = inspection.round.k
    added = token(inspection.round.token)
    if inspection.in_tree:
        return sentence(
            f"A path of {k} candidates was kept to its end, so the target's pass yields one more: the bonus ",
            added,
            ", drawn straight from its row, where it has ",
            _target(inspection.round.share, notation),
            ".",
        )
    p, _ = letters(notation)
    if k == 0:
        why = sentence("Nothing was drafted in this round, so it is a plain step of the target: ", added)
    elif k == 1:
        why = sentence(
            "The draft token was accepted, so the target's pass yields one more: the bonus ", added
        )
    else:
        why = sentence(
            f"All {k} draft tokens were accepted, so the target's pass yields one more: the bonus ", added
        )
    if inspection.target_greedy:
        return why + sentence(", its favourite at temperature 0.")
    share = inspection.added_probability
    if share is None:
        return why + sentence(f", drawn from {p}.")
    return why + sentence(
        ", drawn straight from the target's row, where it has ", _target(share, notation), "."
    )


def _ended(inspection: Inspection) -> str:
    endings = {
        "eos": ", the end-of-text token.",
        "stop": ", which completes a stop string.",
        "length": ", the last of the tokens asked for.",
        "context": ", where the context is full.",
    }
    return endings.get(inspection.round.finish or "", ".")


def _target(value: float | None, notation: Notation) -> Part:
    return Part("target", unbroken(f"{letters(notation)[0]} = {number(value)}"))


def _draft(value: float | None, notation: Notation) -> Part:
    return Part("draft", unbroken(f"{letters(notation)[1]} = {number(value)}"))
