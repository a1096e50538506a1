"""Run, step, replay: the timeline of a run, and the inspector for the selected place."""

from specviz.ui import files, frame, judge_again, panel, runner, session
from specviz.ui import rounds as parts
from specviz.ui.stage import stage

frame.require_entrypoint()

entry = session.current()
parts.gallery(entry)
recipe = panel.recipe_panel(disabled=runner.going())
status = parts.buttons(entry, recipe)

if entry is None:
    parts.nothing_yet()
else:
    parts.headline(entry, recipe)
    parts.metric_row(entry.trace)
    stage(entry)
    judge_again.panel(entry.trace)
    files.panel(entry)

runner.advance(entry, recipe, status)
