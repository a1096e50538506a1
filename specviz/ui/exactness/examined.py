"""The position that is examined: which one, and where its numbers come from."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from specviz import traces
from specviz.decoding.block import BLOCK
from specviz.decoding.faults import Fault, Spot, get_fault
from specviz.decoding.position import Position
from specviz.decoding.trace import Round
from specviz.exactness.recompute import RowsUnavailable, recompute, table_spot
from specviz.models.errors import LoadError
from specviz.reading.cache_cells import prefix
from specviz.reading.prose import GLYPHS
from specviz.tokens import visible
from specviz.ui.exactness.memory import remember
from specviz.ui.shell.markup import code
from specviz.ui.state import device, keys, links, pairs, runs
from specviz.ui.state.owner import owner
from specviz.ui.state.runs import Entry

SHOWN = 8
CONTEXT = 12  # tokens of the text before the position


@dataclass(frozen=True, slots=True)
class Examined:
    """A drafted position of a run.

    Attributes:
        entry, round, number: the run, the round, the position in it from 1.
        spot: its distributions, over the whole vocabulary or over the recorded table.
        ids: the token of each column of a recorded table; None if the columns are the vocabulary.
        columns: those worth drawing, by falling p.
        others: how many tokens are not among them.
    """

    entry: Entry
    round: Round
    number: int
    spot: Spot
    ids: tuple[int | None, ...] | None
    columns: tuple[int, ...]
    others: int

    @property
    def row(self) -> Position:
        return self.round.positions[self.number - 1]

    @property
    def full(self) -> bool:
        return self.ids is None

    @property
    def key(self) -> tuple:
        """Tells positions apart."""
        return self.entry.name, self.round.number, self.number, self.full

    @property
    def tokens(self) -> int:
        """Size of the vocabulary."""
        return self.others + len(self.columns)

    def show(self, column: int) -> str:
        """The text of a column's token."""
        token = column if self.ids is None else self.ids[column]
        return "others" if token is None else shown(self.entry, token)

    def decides(self, fault: Fault) -> bool:
        """Whether the fault's output can be told from what is known of this position."""
        if not fault.one_position:
            return False
        return self.full or fault.rejudge or fault.kind in ("bookkeeping", "wasteful")


def shown(entry: Entry, token: int) -> str:
    """The text of a token."""
    return visible(entry.trace.tokens[token])


def candidates(entry: Entry) -> list[int]:
    """Numbers of the rounds with positions that can be examined."""
    return [round.number for round in entry.trace.rounds if positions(round)]


def positions(round: Round) -> list[int]:
    """The positions with a draft token."""
    return list(range(1, round.k + 1))


def selected(entry: Entry) -> tuple[int, int] | None:
    """The (round, position) to examine: the one in the address, or the nearest with a draft token."""
    rounds = candidates(entry)
    if not rounds:
        return None
    chosen = runs.selection() if "sel" in st.query_params else None
    if chosen is None or chosen[0] not in rounds:
        return remember(("telling", entry.name, len(entry.trace.rounds)), lambda: telling(entry))
    round = entry.trace.rounds[chosen[0] - 1]
    # Behind the drafts stands the corrected token, drawn where the first was refused, or the bonus.
    wanted = round.accepted + 1 if chosen[1] > round.k else chosen[1]
    return chosen[0], min(positions(round), key=lambda number: abs(number - wanted))


def telling(entry: Entry) -> tuple[int, int]:
    """The drafted position where a correction from p would do most harm: p and q differ there, and neither
    is concentrated on one token."""
    fault = get_fault("correction-from-p")

    def harm(at: tuple[int, int]) -> float:
        return fault.tv(table_spot(entry.trace.rounds[at[0] - 1].positions[at[1] - 1]).spot) or 0.0

    rounds = (entry.trace.rounds[number - 1] for number in candidates(entry))
    return max(((r.number, n) for r in rounds for n in positions(r)), key=harm)


def heading(entry: Entry | None, at: tuple[int, int] | None) -> None:
    """The choice of what is examined."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        _choose_run(entry)
        if entry is not None and at is not None:
            _choose_round(entry, at)


def _choose_run(entry: Entry | None) -> None:
    titles = {r.name: f"{r.title} (recorded)" for r in traces.RECORDINGS}
    titles |= {e.name: e.title for e in runs.mine()}
    if entry is not None:
        titles.setdefault(entry.name, entry.title)
    st.session_state[keys.EXACT_RUN] = entry.name if entry is not None else None
    st.selectbox(
        "Run",
        list(titles),
        format_func=lambda name: titles.get(name, name),
        key=keys.EXACT_RUN,
        on_change=_open,
        placeholder="choose a run",
        width=250,
    )


def _open() -> None:
    entry = runs.entry_by_name(st.session_state[keys.EXACT_RUN] or "")
    if entry is None:
        return
    if entry.recipe is not None:
        links.set_recipe(entry.recipe)
    runs.show(entry)
    st.query_params.pop("sel", None)  # the page chooses a telling position


def _choose_round(entry: Entry, at: tuple[int, int]) -> None:
    round = entry.trace.rounds[at[0] - 1]
    st.session_state[keys.EXACT_ROUND], st.session_state[keys.EXACT_POSITION] = at
    st.selectbox("Round", candidates(entry), key=keys.EXACT_ROUND, on_change=_choose, width=96)
    st.selectbox(
        "Position",
        positions(round),
        format_func=lambda n: _position_title(entry, round.positions[n - 1], n),
        key=keys.EXACT_POSITION,
        on_change=_choose,
        width=230,
    )


def _choose() -> None:
    entry = runs.current()
    if entry is None:
        return
    number, position = st.session_state[keys.EXACT_ROUND], st.session_state[keys.EXACT_POSITION]
    runs.choose((number, position))


def _position_title(entry: Entry, row: Position, number: int) -> str:
    assert row.token is not None
    return f"{number}  {shown(entry, row.token)}  {GLYPHS[row.state]} {row.state}"


def obtain(entry: Entry, at: tuple[int, int], slot: Any) -> Examined:
    """The position with its numbers, in full if that was asked for and can be had."""
    round = entry.trace.rounds[at[0] - 1]
    table = table_spot(round.positions[at[1] - 1])
    p, q = table.spot.p, table.spot.q
    singles = len(table.ids) - 2
    drafted = table.ids.index(round.positions[at[1] - 1].token)
    leading = sorted(range(singles), key=lambda c: (c != drafted, -max(p[c], q[c])))[:SHOWN]
    columns = tuple(sorted(leading, key=lambda c: -p[c]))
    others = singles + round.positions[at[1] - 1].rest.count - len(columns)
    reduced = Examined(entry, round, at[1], table.spot, table.ids, columns, others)
    if st.query_params.get("full") != "1":
        return reduced
    try:
        spot = _full_spot(entry, at, slot)
    except (LoadError, RowsUnavailable, ValueError) as error:
        del st.query_params["full"]
        with slot:
            st.warning("The full vocabulary is not to be had.", icon=":material/warning:")
            st.text(str(error))
        return reduced
    if spot is None:
        return reduced
    ids = tuple(t for c in columns if (t := table.ids[c]) is not None)
    return Examined(entry, round, at[1], spot, None, ids, others)


def _full_spot(entry: Entry, at: tuple[int, int], slot: Any) -> Spot | None:
    """The distributions over the whole vocabulary; None if the models are not loaded and nobody asked."""
    if entry.recipe is None:
        raise RowsUnavailable("it is not known how to load the pair that made this run")
    wanted = st.session_state.pop(keys.LOAD_PAIR, False)
    pair = pairs.shelf().get(entry.recipe)
    if pair is None and wanted:
        pair = pairs.obtain(entry.recipe, slot)
    if pair is None:
        return None

    def spots() -> tuple[Spot, ...]:
        with slot, st.spinner("Computing the rows again …"):
            return device.do(lambda: recompute(pair, entry.trace, at[0]).spots, owner())

    return remember(("rows", entry.name, pair.info, at[0]), spots)[at[1] - 1]


def text(examined: Examined) -> None:
    """Where in the text the position stands."""
    before = (
        *prefix(examined.entry.trace, examined.round),
        *examined.round.draft_tokens[: examined.number - 1],
    )
    start = "…" if len(before) > CONTEXT else ""
    words = start + "".join(shown(examined.entry, token) for token in before[-CONTEXT:])
    assert examined.row.token is not None
    st.markdown(f"After {code(words)} the draft proposed {code(shown(examined.entry, examined.row.token))}.")
    if examined.round.verifier == BLOCK:
        st.caption(
            "Block verification judged this round. Checks 1 and 2 look at one position by itself, where it "
            "and the token rule are the same; checks 3 and 4 look at whole blocks."
        )


def source(examined: Examined) -> None:
    """Which numbers stand behind everything on the page."""
    if examined.full:
        words = f"full vocabulary: {examined.tokens:,} tokens, computed again by an uncached pass"
        st.badge(words, color="blue", icon=":material/dataset:")
        st.button("Use the recorded table", on_click=_use, args=(False,), type="tertiary", key=keys.TABLE)
        return
    rest = examined.row.rest.count
    words = f"from the recorded table: {examined.tokens - rest} tokens + the other {rest:,} summed"
    st.badge(words, color="gray", icon=":material/table_rows:")
    recipe = examined.entry.recipe
    loaded = recipe is not None and pairs.shelf().get(recipe) is not None
    st.button(
        "Use the full vocabulary" + ("" if loaded else " (loads the model)"),
        on_click=_use,
        args=(True,),
        type="tertiary",
        icon=":material/open_in_full:",
        disabled=recipe is None,
        key=keys.USE_VOCABULARY,
        help="Some faults look at every token, at other rows or at the logits: what they give needs it.",
    )


def _use(full: bool) -> None:
    if full:
        st.query_params["full"] = "1"
        st.session_state[keys.LOAD_PAIR] = True
    elif "full" in st.query_params:
        del st.query_params["full"]


def memo(examined: Examined, what: str, *more: Any, make: Any) -> Any:
    """Something computed at this position, remembered."""
    return remember((examined.key, what, *more), make)
