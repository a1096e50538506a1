"""Run, step, replay: the timeline of a run, and the inspector for the selected place."""

import streamlit as st

from specviz.ui import files, frame, judge_again, panel, runner, session
from specviz.ui import rounds as parts
from specviz.ui.cache_audit import audit_button
from specviz.ui.components.timeline import timeline
from specviz.ui.inspector import inspector

frame.require_entrypoint()

entry = session.current()
parts.gallery(entry)
recipe = panel.recipe_panel(disabled=runner.going())
status = parts.buttons(entry, recipe)

if entry is None:
    parts.nothing_yet()
else:
    parts.headline(entry, recipe)
    with st.container(key="stage"):
        left, right = st.columns([1.75, 1], gap="medium")
    with left:
        state = timeline(
            entry.trace,
            selected=session.selection(),
            key="timeline",
            on_select=session.choose,
            live=runner.going(),
            covered=session.covered(),
            notation=st.session_state.get("notation") or "leviathan",
        )
        parts.metric_row(entry.trace)
    place = parts.place(entry)
    with right:
        if place is None:
            parts.no_selection()
        elif session.covered() and place[0] not in state.revealed:
            parts.still_covered(place[0])
        else:
            inspector(entry.trace, *place, key="inspector")
            parts.branching(entry, recipe, place)
            audit_button(entry)
    judge_again.panel(entry.trace)
    files.panel(entry)

runner.advance(entry, recipe, status)
