"""The timeline: every round of a trace, a row a round, with playback in the browser.

The component is sent columns, not objects: about 40 bytes a draft token. It shows, plays and selects
without asking the server; the server hears of a selection only to draw what is beside it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType
from typing import Any

import streamlit as st

from specviz.decoding.position import Position
from specviz.decoding.trace import CacheStep, Round, TokenText, Trace
from specviz.decoding.tree import ROOT, children_of, main_line
from specviz.reading.inspect import residual
from specviz.reading.metrics import metrics
from specviz.reading.prose import Notation
from specviz.tokens import Piece, groups, pieces
from specviz.ui.components.script import script
from specviz.ui.state import keys

Selection = tuple[int, int]
"""Round number and position. 1 … K are the draft tokens, K + 1 is the corrected or bonus token."""

_HERE = Path(__file__).parent
_MOUNT = st.components.v2.component(
    "specviz.timeline",
    css=(_HERE / "timeline.css").read_text(encoding="utf-8"),
    js=script(_HERE / "timeline.js"),
)


@dataclass(frozen=True, slots=True)
class TimelineState:
    """What the timeline shows now.

    Attributes:
        selected: the pinned token, or None.
        revealed: numbers of the rounds uncovered by hand; empty unless the timeline is covered.
        view: number of a round that is looked at, somewhere in the middle; None until the user scrolls.
    """

    selected: Selection | None
    revealed: frozenset[int]
    view: int | None = None


@dataclass(slots=True)
class _Memory:
    """What the browser has been told and has told us, kept in the session across pages.

    While a selection comes from the browser, `push` stays as it is: the component's data do not change
    and it neither receives nor draws anything again.
    """

    known: Selection | None = None
    revealed: set[int] = field(default_factory=set)
    made: tuple = ()
    view: int | None = None
    push: dict[str, Any] = field(default_factory=lambda: {"version": 0, "selected": None, "revealed": []})
    drawn: tuple[Trace, str] | None = None


def timeline(
    trace: Trace,
    *,
    key: str,
    selected: Selection | EllipsisType | None = ...,
    on_select: Callable[[Selection | None], None] | None = None,
    live: bool = False,
    covered: bool = False,
    notation: Notation = "leviathan",
    run: str = "",
    uncovered: frozenset[int] | None = None,
) -> TimelineState:
    """Show `trace`, with the token `selected` pinned.

    Args:
        trace: what to show. A trace that continues the one shown before is appended in place; the same
            object as before costs nothing.
        key: names the component and its entry in the session state.
        selected: round number and position, kept by the caller; one that `trace` does not have counts as
            None. Left out, the timeline keeps what was clicked; the state that is returned says it.
        on_select: called before the rerun with the new selection, None when it was let go. It should
            store what is passed as `selected` in the next run.
        live: rounds are still arriving; the newest is kept in view unless the user looks elsewhere.
        covered: verdicts, uniforms and corrections stay covered until revealed, round by round.
        notation: which letter stands for which model.
        run: a name for what is shown; `ahead` makes places known under it.
        uncovered: the rounds that are uncovered, where somebody else decides on that.

    A key can be used once a run, so a page that streams takes some steps before it calls this, and
    asks for a rerun at its end.
    """
    memory: _Memory = st.session_state.setdefault(keys.of(key, keys.MEMORY), _Memory())

    def said(name: str) -> Any:
        given = st.session_state[key].get(name)
        return given.get("value") if isinstance(given, dict) else None

    def selection_changed() -> None:
        memory.known = _selection(said("selected"))
        if on_select is not None:
            on_select(memory.known)

    def revealed_changed() -> None:
        numbers = said("revealed")
        memory.revealed = {n for n in numbers if type(n) is int} if isinstance(numbers, list) else set()

    def view_changed() -> None:
        number = said("view")
        memory.view = number if type(number) is int and 1 <= number <= len(trace.rounds) else None
        # This event is nobody's wish. It may carry an address from before the last click: say that again.
        if on_select is not None and memory.known is not None:
            on_select(memory.known)

    if isinstance(selected, EllipsisType):
        selected = memory.known
    selected = selected if selected is not None and _exists(trace, selected) else None
    made = (trace.created, trace.seed, trace.prompt_ids)
    fresh = key not in st.session_state  # first shown, or shown again after another page
    if made != memory.made:
        memory.made, memory.revealed, memory.view = made, set(), None
        fresh = True
    if uncovered is not None and uncovered != memory.revealed:
        memory.revealed, fresh = set(uncovered), True
    if fresh or selected != memory.known:
        memory.known = selected
        memory.push = {
            "version": memory.push["version"] + 1,
            "selected": selected,
            "revealed": sorted(memory.revealed),
        }
    if memory.drawn is None or memory.drawn[0] is not trace:
        memory.drawn = (trace, json.dumps(payload(trace), separators=(",", ":")))
    _MOUNT(
        key=key,
        # As one string: it is serialised again in every run, which is quick for a string.
        data={
            "trace": memory.drawn[1],
            "live": live,
            "covered": covered,
            "notation": notation,
            "run": run,
            "push": memory.push,
        },
        on_selected_change=selection_changed,
        on_revealed_change=revealed_changed,
        on_view_change=view_changed,
    )
    return TimelineState(selected, frozenset(memory.revealed), memory.view)


def uncover(key: str, number: int) -> None:
    """Uncover a round of the covered timeline with that key, as a click on it does."""
    memory: _Memory = st.session_state.setdefault(keys.of(key, keys.MEMORY), _Memory())
    memory.revealed.add(number)
    memory.known = None  # tells the browser


def payload(trace: Trace) -> dict[str, Any]:
    """`trace` as plain JSON columns.

    ``tokens`` lists the pieces of every distinct token, flat as kind, text, kind, text, …; everywhere
    else a token is its index there. ``positions`` holds the drafted rows of all rounds one after another;
    ``rounds.states`` says how many belong to each round, one letter a row. ``groups`` gives the number of
    tokens in each whole character of prompt and output, ``merged`` the pieces of those with several.
    """
    texts: dict[int, int] = {}
    tokens: list[list[str]] = []

    def index(token: int) -> int:
        if token not in texts:
            texts[token] = len(tokens)
            tokens.append(_flat(pieces(_token(trace, token))))
        return texts[token]

    prompt = [index(token) for token in trace.prompt_ids]
    rows = [row for round in trace.rounds for row in round.positions if row.token is not None]
    columns = [_round(round, index) for round in trace.rounds]
    whole = groups([_token(trace, token) for token in (*trace.prompt_ids, *trace.output_ids)])
    return {
        "tokens": tokens,
        "prompt": prompt,
        "positions": {
            "token": [index(row.token) for row in rows if row.token is not None],
            "p": [_number(row.p) for row in rows],
            "q": [_number(row.q) for row in rows],
            "u": [_number(row.u) for row in rows],
            "h": [_number(passes) for round in trace.rounds for passes in _passes(round)],
            "beside": [beside for round in trace.rounds for beside in _beside(round, index)],
        },
        "rounds": {name: [column[name] for column in columns] for name in (columns[0] if columns else ())},
        "groups": [group.stop - group.start for group in whole],
        "merged": {i: _flat(g.pieces) for i, g in enumerate(whole) if g.stop - g.start > 1},
        "mean": metrics(trace.rounds).mean_acceptance_length,
        "error": trace.error,
    }


def _round(round: Round, index: Callable[[int], int]) -> dict[str, Any]:
    p, q, share = _outcome(round)
    before = round.positions[round.accepted - 1].prefix_weight if round.accepted else None
    drafted = round.positions[: round.k]
    return {
        "number": round.number,
        "states": "".join(row.state[0] for row in drafted),  # a, r or d
        "accepted": round.accepted,
        "outcome": round.outcome,
        "token": index(round.token),
        "p": _number(p),
        "q": _number(q),
        "share": _number(share),
        "weight": 1.0 if before is None else _number(before),
        "fromP": round.residual_empty,
        "committed": len(round.committed),
        "finish": round.finish,
        "verifier": round.verifier,
        "nodes": len(round.tree),
        # A drafter that looks tokens up draws nothing.
        "chosen": bool(drafted) and all(row.draft_u is None and row.q == 1.0 for row in drafted),
        "draftMs": _number(1000 * round.draft_seconds),
        "verifyMs": _number(1000 * round.verify_seconds),
        "target": _cache(round.target_cache),
        "draft": _cache(round.draft_cache),
    }


def _passes(round: Round) -> list[float | None]:
    """What the uniform of each drafted row was compared with, where that is not min(1, p/q)."""
    if not round.tree:
        return [row.prefix_passes for row in round.positions[: round.k]]
    line = [round.tree[i] for i in main_line(round.tree)]
    return [None if node.against is None else min(1.0, node.against / node.drawn) for node in line]


def _beside(round: Round, index: Callable[[int], int]) -> list[list[Any]]:
    """Of each drafted row, the other candidates at its place in a tree: token, and r or u for its state."""
    line = main_line(round.tree)
    found = [
        [
            [index(round.tree[i].token), round.tree[i].state[0]]
            for i in children_of(round.tree, parent)
            if i != node
        ]
        for parent, node in zip((ROOT, *line), line, strict=False)
    ]
    return found or [[] for _ in range(round.k)]


def _outcome(round: Round) -> tuple[float | None, float | None, float | None]:
    """p and q of the corrected or bonus token, and its share of the residual that it was drawn from."""
    row: Position = round.positions[round.accepted]
    i = row.table.ids.index(round.token)
    p, q = row.table.p[i], row.table.q[i]
    if round.outcome == "bonus":
        return p, None, None
    if round.share is not None:
        return p, q, round.share
    if round.residual_empty or not row.residual_mass:
        return p, q, None
    weight, mass = residual(round, round.accepted)
    return p, q, max(0.0, weight * p - q) / mass if mass else None


def _cache(step: CacheStep | None) -> list[int] | None:
    return None if step is None else [step.before, step.fed, step.kept]


def _number(value: float | None) -> float | None:
    """Six significant digits: enough to see a difference, half the bytes."""
    return None if value is None else float(f"{value:.6g}")


def _flat(pieces: tuple[Piece, ...]) -> list[str]:
    return [part for piece in pieces for part in piece]


def _token(trace: Trace, token: int) -> TokenText:
    return trace.tokens[token]


def _exists(trace: Trace, selection: Selection) -> bool:
    number, position = selection
    round = next((r for r in trace.rounds if r.number == number), None)
    return round is not None and 1 <= position <= round.k + 1


def _selection(value: Any) -> Selection | None:
    """What the browser says is selected, or None if it is not two positive whole numbers."""
    if isinstance(value, list) and len(value) == 2 and all(type(v) is int and v > 0 for v in value):
        return value[0], value[1]
    return None
