"""Run, step, replay: the timeline of a run, and the inspector for the selected place."""

from specviz.ui.rounds import cache_audit, files, judge_again, run_bar
from specviz.ui.rounds.gallery import gallery
from specviz.ui.rounds.workbench import stage
from specviz.ui.shell import frame
from specviz.ui.state import jobs, links, runs

frame.require_entrypoint()

entry = runs.current()
gallery(entry)
recipe = links.recipe_panel(disabled=runs.going(), shown=entry.recipe if entry else None)
run_bar.obey(entry, recipe)
run_bar.buttons(entry, recipe)

if entry is None:
    run_bar.nothing_yet()
else:
    run_bar.headline(entry, recipe)
    run_bar.metric_row(entry.trace)
    stage(entry)
    judge_again.panel(entry.trace)
    files.panel(entry)

jobs.follow(runs.job(), cache_audit.auditing(entry))
