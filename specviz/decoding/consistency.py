"""What types and ranges alone do not say of a trace: that its parts fit each other.

Whoever is given a trace may rely on it: probabilities sum to one, states follow from the number of accepted
tokens, drawn tokens are in their tables, and every token has its text.
"""

from dataclasses import fields
from math import isclose, log

from specviz.decoding.block import BLOCK
from specviz.decoding.position import Position, Table
from specviz.decoding.randomness import accepts
from specviz.decoding.record import state_of
from specviz.decoding.trace import CacheStep, Round, Trace
from specviz.decoding.tree import MOST_NODES, TREE, children_of, main_line

SUM = 1e-6  # how far a sum of probabilities may be off


class TraceError(ValueError):
    """A file that is not a valid trace; the message names the field."""


def check(trace: Trace) -> None:
    """Make sure that the parts of a trace fit each other.

    Raises:
        TraceError: naming the field that does not.
    """
    _require(trace.seed < 2**64, "trace.seed", "should be below 2**64")
    _require(len(trace.prompt_ids) > 0, "trace.prompt_ids", "should not be empty")
    start = len(trace.prompt_ids)
    _check_texts(trace, trace.prompt_ids, "trace.prompt_ids")
    for i, round in enumerate(trace.rounds):
        where = f"trace.rounds[{i}]"
        _require(round.number == i + 1, f"{where}.number", f"should be {i + 1}")
        _require(round.start == start, f"{where}.start", f"should be {start}, the committed tokens before it")
        last = i + 1 == len(trace.rounds)
        _require(last or round.finish is None, f"{where}.finish", "should be null: another round follows")
        start += len(round.committed)
        _check_round(trace, round, where)


def _require(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise TraceError(f"{where} {what}")


def _check_texts(trace: Trace, ids: tuple[int, ...], where: str) -> None:
    for token in ids:
        _require(token < trace.pair.vocab_size, where, f"has {token}, which is outside the vocabulary")
        _require(token in trace.tokens, where, f"has {token}, whose text is missing in trace.tokens")


def _check_round(trace: Trace, round: Round, where: str) -> None:
    _require(
        bool(round.positions) and round.accepted <= round.k,
        f"{where}.accepted",
        "should be at most the number of draft tokens",
    )
    for row, position in enumerate(round.positions):
        place = f"{where}.positions[{row}]"
        _require(
            position.state == state_of(row, round.k, round.accepted),
            f"{place}.state",
            f"should be {state_of(row, round.k, round.accepted)}, its place in the round",
        )
        _check_position(trace, position, row == round.k, place)
        weighed = round.verifier == BLOCK and row < round.k
        for name in ("prefix_weight", "prefix_passes"):
            has = getattr(position, name) is not None
            _require(has or not weighed, f"{place}.{name}", "is missing, and the block rule judged by it")
    _check_tree(trace, round, where)
    _require(
        (round.outcome == "bonus") == (round.accepted == round.k),
        f"{where}.outcome",
        "does not fit the number of accepted tokens",
    )
    drawn_at = round.positions[round.accepted].table
    _require(round.token in drawn_at.ids, f"{where}.token", "should be in the table of the row that drew it")
    verified = (*round.draft_tokens[: round.accepted], round.token)
    _require(
        bool(round.committed) and round.committed == verified[: len(round.committed)],
        f"{where}.committed",
        "should be the accepted tokens and the token after them",
    )
    for name in ("log_probs", "raw_log_probs"):
        values = getattr(round, name)
        _require(
            len(values) in (0, len(round.committed)), f"{where}.{name}", "should have one for each token"
        )
        _require(all(v is None or v <= SUM for v in values), f"{where}.{name}", "should be 0 or less")
    for name in ("target_cache", "draft_cache"):
        step: CacheStep | None = getattr(round, name)
        _require(step is None or step.cut >= 0, f"{where}.{name}", "keeps more than there was")


def _check_tree(trace: Trace, round: Round, where: str) -> None:
    nodes, where = round.tree, f"{where}.tree"
    _require((round.share is not None) == bool(nodes), f"{where[:-5]}.share", "goes with a tree")
    _require(bool(nodes) or round.verifier != TREE or not round.k, where, "is missing, and its rule judged")
    if not nodes:
        return
    _require(bool(trace.tree), "trace.tree", "should name the shape: a round has a tree")
    _require(len(nodes) <= MOST_NODES, where, f"should have at most {MOST_NODES} nodes")
    _check_texts(trace, tuple(node.token for node in nodes), where)
    for i, node in enumerate(nodes):
        place = f"{where}[{i}]"
        _require(node.parent < i, f"{place}.parent", "should stand before it")
        _require(node.drawn > 0.0, f"{place}.drawn", "should be above 0: the token was drawn from it")
        judged = node.state != "unseen"
        _require(judged == (node.against is not None), f"{place}.against", "goes with those that were judged")
        if round.verifier == TREE and node.u is not None and node.against is not None:
            passes = accepts(node.u, node.against, node.drawn)
            _require(passes == (node.state == "kept"), f"{place}.state", "does not follow from its numbers")
    line, left = main_line(nodes), dict(enumerate(nodes))
    open_ = True  # no refusal yet of all candidates
    for place_on_line in line:
        siblings = children_of(nodes, nodes[place_on_line].parent)
        place = f"{where}[{siblings[0]}]"
        states = [left.pop(child).state for child in siblings]
        kept = states.index("kept") if "kept" in states else len(states)
        after = len(states) - kept - 1
        wanted = [*["refused"] * kept, "kept", *["unseen"] * after][: len(states)]
        _require(states == (wanted if open_ else ["unseen"] * len(states)), f"{place}.state", "does not fit")
        first = nodes[siblings[0]]
        _require(not open_ or first.against == first.p, f"{place}.against", "should be p: it is the first")
        open_ = open_ and kept < len(states)
    beside = all(node.state == "unseen" for node in left.values())
    _require(beside, where, "judges candidates beside the path")
    found = [(nodes[i].token, nodes[i].p, nodes[i].q) for i in line]
    rows = [(row.token, row.p, row.q) for row in round.positions[:-1]]
    _require(found == rows, where, "should have the positions as one of its lines")
    path = sum(node.state == "kept" for node in nodes)
    _require(path == round.accepted, where, "should keep as many candidates as were accepted")


def _check_position(trace: Trace, position: Position, last: bool, where: str) -> None:
    table, rest, vocab_size = position.table, position.rest, trace.pair.vocab_size
    drafted = ("token", "p", "q", "beta", "residual_mass", "p_rank", "q_rank", "q_entropy")
    _require(
        all((getattr(position, name) is None) == last for name in drafted),
        where,
        f"should have {', '.join(drafted)} for draft tokens only",
    )
    _require(
        len({len(getattr(table, f.name)) for f in fields(Table)}) == 1,
        f"{where}.table",
        "should have columns of equal length",
    )
    _require(len(set(table.ids)) == len(table.ids), f"{where}.table.ids", "should name each token once")
    _require(
        len(table.ids) + rest.count == vocab_size,
        f"{where}.rest.count",
        "should make up the vocabulary with the table",
    )
    _check_texts(trace, table.ids, f"{where}.table.ids")
    _check_sum(sum(table.p) + rest.p_over + rest.p_under, 1.0, f"{where}: p")
    _check_sum(sum(table.q) + rest.q_over + rest.q_under, 0.0 if last else 1.0, f"{where}: q")
    for probs, removed, name in (
        (table.p, table.target_removed, "target_removed"),
        (table.q, table.draft_removed, "draft_removed"),
    ):
        kept = all(not reason or mass == 0.0 for mass, reason in zip(probs, removed, strict=True))
        _require(kept, f"{where}.table.{name}", "gives a reason for a token that has probability")
    _require(position.p_root_sum >= 1.0 - SUM, f"{where}.p_root_sum", "should be at least 1")
    _require(
        position.p_root_sum <= vocab_size**0.5 + SUM, f"{where}.p_root_sum", "is larger than that of any p"
    )
    for name in ("p_entropy", "q_entropy"):
        _require((getattr(position, name) or 0.0) <= log(vocab_size) + SUM, f"{where}.{name}", "is too large")
    _check_logsumexp(position, trace, where)
    if position.token is None or position.p is None or position.q is None:
        return
    _require(position.token in table.ids, f"{where}.token", "should be in its table")
    column = table.ids.index(position.token)
    _require(
        (position.p, position.q) == (table.p[column], table.q[column]),
        where,
        "should have the table's p and q",
    )
    _require(position.q > 0.0, f"{where}.q", "should be above 0: the token was drawn from q")
    _require(
        rest.p_over >= rest.q_over - SUM and rest.p_under <= rest.q_under + SUM,
        f"{where}.rest",
        "should be split by the sign of p - q",
    )
    overlap = sum(map(min, table.p, table.q)) + rest.q_over + rest.p_under
    _check_sum(position.beta or 0.0, overlap, f"{where}.beta")
    _check_sum(position.residual_mass or 0.0, 1.0 - overlap, f"{where}.residual_mass")


def _check_sum(value: float, wanted: float, where: str) -> None:
    _require(abs(value - wanted) <= SUM, where, f"should come to {wanted:.6g}, not {value:.6g}")


def _check_logsumexp(position: Position, trace: Trace, where: str) -> None:
    """The normaliser fits the leading token's logit and probability, whatever the controls did to it."""
    table = position.table
    for name, value, probs, logits, sampling in (
        ("target_logsumexp", position.target_logsumexp, table.p, table.target_logits, trace.sampling),
        ("draft_logsumexp", position.draft_logsumexp, table.q, table.draft_logits, trace.draft_sampling),
    ):
        if value is None:
            continue
        top = max(range(len(probs)), key=probs.__getitem__)
        logit = logits[top]
        _require(probs[top] > 0.0 and logit is not None, f"{where}.{name}", "should be null without logits")
        assert logit is not None
        penalty = sampling.repetition_penalty
        logit += dict(sampling.bias).get(table.ids[top], 0.0)
        # Wrong engines score at temperature 1.
        scores = (
            logit * f / t for f in (1.0, penalty, 1.0 / penalty) for t in (sampling.temperature or 1.0, 1.0)
        )
        fits = any(
            isclose(s - value, log(probs[top]), rel_tol=1e-6, abs_tol=1e-6 * max(1.0, abs(s))) for s in scores
        )
        _require(fits, f"{where}.{name}", "does not fit the leading token's logit and probability")
