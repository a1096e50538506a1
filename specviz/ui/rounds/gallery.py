"""What the Rounds page can show: the recorded runs, and those of this browser."""

from dataclasses import fields

import streamlit as st

from specviz import traces
from specviz.recipe import Recipe
from specviz.ui.state import address, keys, links, runs
from specviz.ui.state.runs import Entry


def gallery(entry: Entry | None) -> None:
    """The recorded runs, and those of this browser, to choose from."""
    _take_recipe(entry)
    if "gallery" in address.hidden():
        return
    names = [r.name for r in traces.RECORDINGS]
    own = runs.mine()
    shown = entry.name if entry else None
    label = next((r.title for r in traces.RECORDINGS if r.name == shown), "Runs")
    with st.popover(label, icon=":material/menu_book:", key=keys.GALLERY_OPEN, help="Choose another run."):
        st.session_state[keys.RECORDING] = shown if shown in names else None
        st.radio(
            "Recorded runs",
            names,
            format_func=lambda name: traces.recording(name).title,
            captions=[traces.recording(name).moral for name in names],
            key=keys.RECORDING,
            on_change=_open_recording,
            disabled=runs.going(),
        )
        if own:
            options = [e.name for e in own]
            st.session_state[keys.MINE_CHOICE] = shown if shown in options else None
            st.selectbox(
                "Runs made here",
                options,
                format_func=lambda name: next((e.title for e in own if e.name == name), name),
                key=keys.MINE_CHOICE,
                on_change=_open_mine,
                placeholder=f"{len(own)} so far",
                disabled=runs.going(),
            )


def _take_recipe(entry: Entry | None) -> None:
    """Of an address that names a run and no settings, the settings are those of the run. While rounds are
    made they are too, whatever a browser that is slow to draw its controls says of them."""
    running = runs.job()
    if running is not None and running.active:
        for f in fields(Recipe):
            value = getattr(running.recipe, f.name)
            if f.name in st.session_state and st.session_state[f.name] != value:
                st.session_state[f.name] = value
        return
    names = [f.name for f in fields(Recipe)]
    said = any(name in st.session_state or name in st.query_params for name in names)
    if entry is not None and entry.recipe is not None and not said:
        links.set_recipe(entry.recipe)


def _open_recording() -> None:
    name = st.session_state[keys.RECORDING]
    if name:
        open_run(name, traces.recording(name).select)


def _open_mine() -> None:
    open_run(st.session_state[keys.MINE_CHOICE] or "")


def open_run(name: str, select: tuple[int, int] | None = None) -> None:
    """Show a run with its settings. For callbacks, which come before the controls are drawn."""
    entry = runs.entry_by_name(name)
    if entry is not None:
        if entry.recipe is not None:
            links.set_recipe(entry.recipe, **runs.parameters(entry, select))
        runs.show(entry, select)
