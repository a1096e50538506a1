"""Parts of the Rounds page around timeline and inspector."""

from dataclasses import fields, replace
from urllib.parse import urlencode

import streamlit as st

from specviz import traces
from specviz.analysis.metrics import metrics
from specviz.decoding.faults import FAULTS
from specviz.decoding.trace import ModelInfo, Trace
from specviz.recipe import EXACT, Recipe, to_link
from specviz.ui import files, panel, runner, session
from specviz.ui.cache_audit import audit_button
from specviz.ui.components.timeline import timeline
from specviz.ui.inspector import chosen_notation, inspector, tell_ahead
from specviz.ui.session import Entry
from specviz.ui.text import visible

SOURCES = {"recorded": "recorded run", "live": "live run", "file": "opened from a file"}


def gallery(entry: Entry | None) -> None:
    """What this page shows, the recorded runs, and the runs of this session."""
    _take_recipe(entry)
    st.markdown(
        "A small **draft** model guesses K tokens; the large **target** model checks them in one pass and "
        "keeps each with a chance: the likelier it finds the token itself, the higher. What comes out is "
        "distributed exactly as if the target had written alone."
    )
    if "gallery" in session.hidden():
        return
    names = [r.name for r in traces.RECORDINGS]
    own = session.mine()
    shown = entry.name if entry else None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.session_state["_recording"] = shown if shown in names else None
        st.pills(
            "Recorded runs",
            names,
            format_func=lambda name: traces.recording(name).title,
            key="_recording",
            on_change=_open_recording,
            disabled=runner.going(),
            wrap=True,
        )
        if own:
            options = [e.name for e in own]
            st.session_state["_mine"] = shown if shown in options else None
            st.selectbox(
                "Runs of this session",
                options,
                format_func=lambda name: next((e.title for e in own if e.name == name), name),
                key="_mine",
                on_change=_open_mine,
                placeholder=f"{len(own)} made here",
                disabled=runner.going(),
                width=320,
            )
    if shown in names:
        st.caption(traces.recording(shown).moral)


def _take_recipe(entry: Entry | None) -> None:
    """Of an address that names a run and no settings, the settings are those of the run."""
    names = [f.name for f in fields(Recipe)]
    said = any(name in st.session_state or name in st.query_params for name in names)
    if entry is not None and entry.recipe is not None and not said:
        panel.set_recipe(entry.recipe)


def _open_recording() -> None:
    name = st.session_state["_recording"]
    if name:
        _open(name, traces.recording(name).select)


def _open_mine() -> None:
    _open(st.session_state["_mine"] or "")


def _open(name: str, select: tuple[int, int] | None = None) -> None:
    entry = session.entry_by_name(name)
    if entry is not None:
        if entry.recipe is not None:
            panel.set_recipe(entry.recipe)
        session.show(entry, select)


def buttons(entry: Entry | None, recipe: Recipe):
    """Run, Step, Stop; returns the container for progress and trouble."""
    going = runner.going()
    with st.container(horizontal=True, vertical_alignment="center"):
        again = runner.resumable(entry, recipe)
        # One button in one place: what it does follows from what is going on.
        label, icon, act, text = (
            ("Stop", "stop", runner.stop, "Stops after the round that is being made.")
            if going
            else ("Resume", "play_arrow", runner.start, "Makes the remaining rounds.")
            if again
            else ("Run", "play_arrow", runner.start, "Starts a new run with these settings.")
        )
        st.button(label, on_click=act, key="run_toggle", type="primary", icon=f":material/{icon}:", help=text)
        st.button(
            "Step",
            on_click=runner.step,
            key="run_step",
            icon=":material/skip_next:",
            disabled=going,
            help="Makes one round.",
        )
        _link(entry, recipe)
    place = st.container()
    trouble = st.session_state.pop("trouble", "")
    if trouble:
        with place:
            st.error("The run stopped.", icon=":material/error:")
            st.text(trouble)
    return place


def _link(entry: Entry | None, recipe: Recipe) -> None:
    with st.popover("Link", icon=":material/link:", key="link", on_change="rerun") as opened:
        if not opened.open:
            return  # the selection, which is part of the link, changes without this being drawn again
        parameters = to_link(recipe)
        if entry is not None and entry.source == "recorded":
            parameters["run"] = entry.name
        chosen = session.selection()
        if chosen is not None:
            parameters["sel"] = f"{chosen[0]}.{chosen[1]}"
        st.caption("This address makes the same run anywhere: it holds the recipe and the selection.")
        base = (st.context.url or "").split("?")[0]
        st.code(f"{base}?{urlencode(parameters)}", language=None, wrap_lines=True)
        st.caption(
            "For a class: `&hide=gallery,drafter,k` leaves controls out, `&lock=1` keeps every verdict "
            "covered until it is revealed."
        )


def headline(entry: Entry, recipe: Recipe) -> None:
    """What ran, where, and whether what is shown was made here."""
    pair = entry.trace.pair
    texts = [f"target {_model(pair.target)}"]
    if pair.draft and entry.trace.drafter == "model":
        texts.append(f"draft {_model(pair.draft)}")
    else:
        texts.append(f"drafter {panel.DRAFTERS.get(entry.trace.drafter, entry.trace.drafter)}")
    texts.append(SOURCES[entry.source] + (f", {entry.trace.created[:10]}" if entry.source != "live" else ""))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(" · ".join(texts))
        if entry.recipe is not None and recipe != entry.recipe and not runner.going():
            st.badge("settings changed: Run starts a new run", color="yellow", icon=":material/edit:")
        if entry.trace.error:
            st.badge("stopped by an error", color="red", icon=":material/error:")
    if entry.parent:
        name, number, position = entry.parent
        if session.entry_by_name(name) is not None:
            st.button(
                f"Branched at round {number}, position {position}: back to the run it left",
                on_click=_open,
                args=(name, (number, position)),
                icon=":material/undo:",
                type="tertiary",
            )
    _banner(entry.trace)


def _banner(trace: Trace) -> None:
    """Says unmistakably that a run was not made by the exact rule."""
    names = {round.verifier for round in trace.rounds} - {EXACT}
    for name in sorted(names):
        fault = FAULTS.get(name)
        st.error(
            fault.does if fault else "A rule that this version does not know.",
            title=f"Not the exact engine: {fault.title if fault else 'unknown rule'}",
            icon=":material/warning:",
        )


def _model(info: ModelInfo) -> str:
    size = f"{info.parameters / 1e9:.1f} B" if info.parameters >= 1e9 else f"{info.parameters / 1e6:.0f} M"
    return f"{info.name} ({size}, {info.device} {info.dtype})"


def stage(entry: Entry) -> None:
    """Timeline and inspector. A click on a token redraws these alone, and so that it is quick they hold
    little else. While a run goes on, which redraws the page all the time, they are drawn with it."""
    if runner.going():
        with st.container():  # a fragment has one; without it the timeline would be built anew
            _stage(entry)
    else:
        st.fragment(_stage)(entry)


def _stage(entry: Entry) -> None:
    shown = session.current()
    if shown is None or shown.name != entry.name:
        st.rerun()  # a click that was made while the page changed to another run
    with st.container(key="stage"):
        left, right = st.columns([1.75, 1], gap="medium")
    notation = chosen_notation()
    known_ahead = not session.covered() and not runner.going()
    run = f"{entry.name} {len(entry.trace.rounds)} {notation}" if known_ahead else ""
    with left:
        state = timeline(
            entry.trace,
            selected=session.selection(),
            key="timeline",
            on_select=session.choose,
            live=runner.going(),
            covered=session.covered(),
            notation=notation,
            run=run,
        )
    at = place(entry)
    with right:
        if at is None:
            no_selection()
        elif session.covered() and at[0] not in state.revealed:
            still_covered(at[0])
        else:
            inspector(entry.trace, *at, key="inspector", run=run)
            buttons, below = st.container(horizontal=True), st.container()
            with buttons:
                branching(entry, at)
                audit_button(entry, below)
                files.save_round(entry, at[0])
            if known_ahead:
                looked_at = {at[0], state.view or at[0]}
                tell_ahead(entry.trace, looked_at, notation, key="inspector", run=run)


def metric_row(trace: Trace) -> None:
    """The figures of the run, by their standard names."""
    m = metrics(trace.rounds)
    figures = (
        (
            "Draft acceptance rate",
            _share(m.draft_acceptance_rate),
            "Accepted / drafted tokens; bonus never counts.",
        ),
        (
            "Mean acceptance length",
            _two(m.mean_acceptance_length),
            "1 + accepted / rounds: tokens gained in a pass of the target.",
        ),
        (
            "Mean overlap α",
            _two(m.alpha),
            "The average of β = Σ min(p, q), what draft and target share, over all drafted positions, judged "
            "or not.",
        ),
        ("Tokens per second", _two(m.tokens_per_second), "Measured while the run was made, on its machine."),
    )
    with st.container(key="figures", horizontal=True, gap="large"):
        for label, value, text in figures:
            st.metric(label, value, help=text, width="content")
    if m.per_position:
        rates = " · ".join(f"{i}: {rate:.0%}" for i, rate in enumerate(m.per_position, 1))
        st.caption(f"Acceptance rate by position (of the rounds that drafted that far): {rates}")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def place(entry: Entry) -> tuple[int, int] | None:
    """The selected place if the trace has it."""
    chosen = session.selection()
    if chosen is None or not 1 <= chosen[0] <= len(entry.trace.rounds):
        return None
    return chosen if 1 <= chosen[1] <= entry.trace.rounds[chosen[0] - 1].k + 1 else None


def nothing_yet() -> None:
    if runner.going():
        st.skeleton(height=320)
        return
    st.info(
        "These settings have not been run here yet. Press Run: the same recipe gives the same run on any "
        "machine of the same kind.",
        icon=":material/play_arrow:",
    )


def no_selection() -> None:
    with st.container(border=True):
        st.markdown("##### Choose a token")
        st.write(
            "Click a token in the timeline, or move with the arrow keys: here you see what target and draft "
            "gave it, the draw that decided, and where a correction came from."
        )


def still_covered(number: int) -> None:
    with st.container(border=True):
        st.markdown(f"##### Round {number} is covered")
        st.write("What do you expect? Decide first, then reveal the round in the timeline.")


def branching(entry: Entry, at: tuple[int, int]) -> None:
    """Another token here, another K or seed, as a new run beside this one."""
    if "branch" in session.hidden() or entry.recipe is None or runner.going():
        return
    round = entry.trace.rounds[at[0] - 1]
    row = round.positions[min(at[1] - 1, round.accepted)]
    if st.session_state.pop("branched", False):
        st.session_state["branch-open"] = False
    with st.popover(
        "Branch from here", icon=":material/call_split:", key="branch-open", on_change="rerun"
    ) as opened:
        if not opened.open:
            return
        st.caption("A new run from this place, beside the old one: with another token, K or seed.")
        table = row.table
        token = st.selectbox(
            "Token here",
            [None, *table.ids],
            format_func=lambda i: (
                "leave it to the new run"
                if i is None
                else f"{visible(entry.trace.tokens[i])}  p = {table.p[table.ids.index(i)]:.3g}"
            ),
            key="branch_token",
        )
        k = st.number_input("K", 0, 16, entry.recipe.k, key="branch_k")
        seed = st.number_input("Seed", 0, 2**31 - 1, min(entry.recipe.seed + 1, 2**31 - 1), key="branch_seed")
        if st.button("Start the branch", type="primary", icon=":material/call_split:"):
            new = replace(entry.recipe, k=k, seed=seed)
            st.session_state["branch"] = runner.Branch(entry, at, token, new)
            st.session_state["branched"] = True
            st.rerun()
