"""The verdict in words and in numbers, for somebody who has never heard of a residual."""

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
)
from specviz.reading.rejudge import Rejudged

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
    parts = sentence("With ", strong(_unbroken(f"u = {fell}")), f", position {here} would ")
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
        "The random number fell at ", strong(_unbroken(f"u = {fell}")), f", {side} {edge}: "
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
    return Part("target", _unbroken(f"{letters(notation)[0]} = {number(value)}"))


def _draft(value: float | None, notation: Notation) -> Part:
    return Part("draft", _unbroken(f"{letters(notation)[1]} = {number(value)}"))


def _unbroken(text: str) -> str:
    """The same words, kept on one line."""
    return text.replace(" ", "\u00a0")
