"""Run, step, replay: the timeline of a run, and the inspector for the selected place."""

from specviz.ui.rounds import files, judge_again
from specviz.ui.rounds import run_bar as parts
from specviz.ui.rounds.workbench import stage
from specviz.ui.shell import frame
from specviz.ui.state import links, runner, runs

frame.require_entrypoint()

entry = runs.current()
parts.gallery(entry)
recipe = links.recipe_panel(disabled=runner.going(), shown=entry.recipe if entry else None)
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
