"""The bar of the Rounds page: run, step, stop; what ran, and its figures."""

from urllib.parse import urlencode

import streamlit as st

from specviz.decoding.faults import FAULTS
from specviz.decoding.trace import ModelInfo, Trace
from specviz.decoding.tree import EXACT_NAMES
from specviz.reading.metrics import metrics
from specviz.reading.notes import notes, silence
from specviz.recipe import Recipe, to_link
from specviz.speed import verdict
from specviz.speed.beside import LEAST, MOST, against_plain
from specviz.speed.verdict import Scale
from specviz.ui.classroom import presenting
from specviz.ui.rounds.gallery import open_run
from specviz.ui.rounds.pair_report import pair_report
from specviz.ui.state import jobs, keys, links, runs
from specviz.ui.state.runs import Entry

COLOURS = {"faster": "green", "slower": "red", "even": "gray"}
SOURCES = {"recorded": "recorded run", "live": "live run", "file": "opened from a file"}


def obey(entry: Entry | None, recipe: Recipe) -> None:
    """Do what was clicked, once: it needs the settings as they are now."""
    wish = st.session_state.pop(keys.WISH, "")
    if wish:
        runs.go(entry, recipe, once=wish == "step")
        st.rerun()


def _wish(what: str) -> None:
    st.session_state[keys.WISH] = what


def _stop() -> None:
    running = runs.job()
    if running is not None:
        jobs.stop(running)


def buttons(entry: Entry | None, recipe: Recipe) -> None:
    """Run, Step, Stop, the link; where the run stands, or why it broke off."""
    going, running = runs.going(), runs.job()
    cannot = bool(links.refused(recipe)) and not going
    with st.container(horizontal=True, vertical_alignment="center"):
        again = runs.resumable(entry, recipe)
        # One button in one place: what it does follows from what is going on.
        label, icon, act, text = (
            ("Stop", "stop", _stop, "Stops after the round that is being made.")
            if going
            else ("Resume", "play_arrow", lambda: _wish("run"), "Makes the remaining rounds.")
            if again
            else ("Run", "play_arrow", lambda: _wish("run"), "Starts a new run with these settings.")
        )
        if running is not None and running.stopping:
            label = "Stopping …"
        st.button(
            label,
            on_click=act,
            key=keys.RUN_TOGGLE,
            type="primary",
            icon=f":material/{icon}:",
            disabled=cannot,
            help=text,
        )
        st.button(
            "Step",
            on_click=lambda: _wish("step"),
            key=keys.RUN_STEP,
            icon=":material/skip_next:",
            disabled=going or cannot,
            help="Makes one round.",
        )
        _link(entry, recipe)
        if entry is not None:
            presenting.invitation()
    with st.container():  # always there, so that what follows keeps its place on the page
        what = "The run stopped." if entry is not None else "The run could not start."
        jobs.progress(running, what, bar=entry is None)
        if runs.gone():
            st.info(
                "This run is no longer here: the server needed its memory. Run makes it again, with the same "
                "tokens.",
                icon=":material/inventory_2:",
            )
        elif entry is not None and entry.dropped and not going:
            st.caption(f"This run can be looked at but not resumed: its caches are gone, as {entry.dropped}.")


def _link(entry: Entry | None, recipe: Recipe) -> None:
    with st.popover("Link", icon=":material/link:", key=keys.LINK, on_change="rerun") as opened:
        if not opened.open:
            return  # the selection, which is part of the link, changes without this being drawn again
        parameters = to_link(recipe)
        if entry is not None and entry.source == "recorded":
            parameters["run"] = entry.name
        chosen = runs.selection()
        if chosen is not None:
            parameters["sel"] = f"{chosen[0]}.{chosen[1]}"
        st.caption("This address makes the same run anywhere: it holds the recipe and the selection.")
        base = (st.context.url or "").split("?")[0]
        st.code(f"{base}?{urlencode(parameters)}", language=None, wrap_lines=True)
        st.caption(
            "For a class: `&hide=gallery,drafter,k` leaves controls out, `&lock=1` keeps every verdict "
            "covered until it is revealed."
        )


def models(entry: Entry) -> None:
    """What ran, where, and whether what is shown was made here."""
    pair = entry.trace.pair
    texts = [f"target {_model(pair.target)}"]
    if pair.draft and entry.trace.drafter == "model":
        texts.append(f"draft {_model(pair.draft)}")
    else:
        texts.append(f"drafter {links.DRAFTERS.get(entry.trace.drafter, entry.trace.drafter)}")
    texts.append(SOURCES[entry.source] + (f", {entry.trace.created[:10]}" if entry.source != "live" else ""))
    st.text(" · ".join(texts))
    pair_report(entry)


def headline(entry: Entry, recipe: Recipe) -> None:
    """What a reader must know before reading: other settings, an error, a branch, another rule."""
    changed = entry.recipe is not None and recipe != entry.recipe and not runs.going()
    if changed or entry.trace.error:
        with st.container(horizontal=True, vertical_alignment="center"):
            if changed:
                st.badge("settings changed: Run starts a new run", color="yellow", icon=":material/edit:")
            if entry.trace.error:
                st.badge("stopped by an error", color="red", icon=":material/error:")
    if entry.parent:
        name, number, position = entry.parent
        if runs.entry_by_name(name) is not None:
            st.button(
                f"Branched at round {number}, position {position}: back to the run it left",
                on_click=open_run,
                args=(name, (number, position)),
                icon=":material/undo:",
                type="tertiary",
            )
    _banner(entry.trace)


def _banner(trace: Trace) -> None:
    """Says unmistakably that a run was not made by the exact rule."""
    names = {round.verifier for round in trace.rounds} - EXACT_NAMES
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


def metric_row(trace: Trace, source: str) -> None:
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
    scale = against_plain(trace)
    with st.container(key=keys.FIGURES, horizontal=True, gap="large"):
        for label, value, text in figures:
            st.metric(label, value, help=text, width="content")
        st.metric(
            "Speed against plain decoding",
            "–" if scale is None else f"{scale.speedup:.2f}×",
            help=f"Now and then a round of plain decoding is timed with the same models, {MOST} at most; a "
            f"run needs {LEAST + 1} rounds for that. A round of the run counts with what it took in all.",
            width="content",
        )
        if full := silence(trace):
            st.metric(
                "Draft's context full",
                f"from token {full.first:,}",
                help=f"From there on the draft cannot draft: {full.rounds} of {len(trace.rounds)} rounds are "
                "one pass of the target each. The rates count the other rounds only.",
                width="content",
            )
    _against_plain(trace, scale, source)
    for note in notes(trace):
        st.caption(f":material/info: {note}")
    if m.per_position:
        rates = " · ".join(f"{i}: {rate:.0%}" for i, rate in enumerate(m.per_position, 1))
        st.caption(f"Acceptance rate by position (of the rounds that drafted that far): {rates}")


def against_plain_in_short(entry: Entry) -> str:
    """The measured speed of a run in a few words, as markdown; "" if it was not measured."""
    scale = against_plain(entry.trace)
    if scale is None:
        return ""
    kind = verdict.gains(scale.speedup)
    words = {
        "faster": f"✓ {scale.speedup:.2f}× as fast as plain decoding",
        "slower": f"✗ {scale.speedup:.2f}× the speed of plain decoding",
        "even": f"= {scale.speedup:.2f}×: as fast as plain decoding",
    }
    return f" :{COLOURS[kind]}[**{words[kind]}.**]"


def _against_plain(trace: Trace, scale: Scale | None, source: str) -> None:
    """Whether speculation gained in this run, in words, and the way to the reasons."""
    if scale is not None:
        where = "here" if source == "live" else "on the machine where this was made"
        kind = verdict.gains(scale.speedup)
        wanted = verdict.wanted(scale, round(scale.k)) if kind == "slower" and scale.k >= 0.5 else ""
        headline = verdict.headline(scale.speedup, where)
        st.markdown(f":{COLOURS[kind]}[**{headline}.**] {verdict.reason(scale)} {wanted}")
    st.page_link("pages/speed.py", label="Is it faster here, and why?", icon=":material/speed:")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def nothing_yet() -> None:
    """What stands in the place of a run that is not there."""
    if runs.going():
        st.skeleton(height=320)
        return
    running = runs.job()
    if running is not None and running.failure is not None:
        return
    st.info(
        "These settings have not been run here yet. Press Run: the same recipe gives the same run on any "
        "machine of the same kind.",
        icon=":material/play_arrow:",
    )
