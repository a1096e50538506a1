"""Pages whose jobs go on by themselves: wait until they rest, then draw the page as the browser would."""

from specviz.ui.state import jobs, runs


def everything():
    """All jobs that the server has."""
    return [*jobs._kept.values(), *runs.shelf().jobs.values()]


def finish(app, timeout=60.0):
    """Wait for the end of all jobs, then let the page look again."""
    assert jobs.wait(*everything(), timeout=timeout), "the work did not end"
    return app.run()


def kept(app, name):
    """The job that the page's owner keeps under a name."""
    return jobs._kept[app.session_state["_owner"], name]
