"""Run, step, replay: the timeline of a run, and the inspector for the selected place."""

import streamlit as st

from specviz.ui.rounds import cache_audit, files, front, judge_again, run_bar
from specviz.ui.rounds.gallery import gallery
from specviz.ui.rounds.workbench import stage
from specviz.ui.shell import frame
from specviz.ui.state import address, keys, links, runs, watch

frame.require_entrypoint()

entry = runs.current()
front.title()
with st.container(key=keys.BAR, horizontal=True, vertical_alignment="top", gap="small"):
    gallery(entry)
    recipe = links.recipe_panel(
        disabled=runs.going(), shown=entry.recipe if entry else None, summary=front.summary
    )
    run_bar.obey(entry, recipe)
    run_bar.buttons(entry, recipe)

if entry is None:
    run_bar.nothing_yet()
else:
    front.story(entry, covered=address.covered())
    run_bar.headline(entry, recipe)
    stage(entry)
    with st.container(key=keys.ASIDE):
        run_bar.models(entry)
        if not address.covered():
            run_bar.metric_row(entry.trace, entry.source)
        judge_again.panel(entry.trace)
        files.panel(entry)

watch.follow(runs.job(), cache_audit.auditing(entry))
