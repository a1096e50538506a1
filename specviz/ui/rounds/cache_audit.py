"""The audit button: does what the caches hold agree with a pass that uses no cache?"""

from typing import Any

import streamlit as st

from specviz.exactness.cache_check import CacheCheck, check_caches
from specviz.ui.state import address, jobs, keys, runs
from specviz.ui.state.runs import Entry


class Audit(jobs.Job):
    """Both caches of a run that rests, compared with uncached passes over its whole text."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run, self.rounds = run, len(run.rounds)
        self.checks: tuple[CacheCheck, ...] | None = None

    @property
    def done(self) -> bool:
        return self.checks is not None

    def turn(self) -> None:
        self.checks = check_caches(self.run)
        self.run = None  # its caches are the shelf's to keep or drop


def audit_button(entry: Entry, place: Any) -> None:
    """The button; what the audit says goes to the container `place`."""
    if "audit" in address.hidden() or runs.going():
        return
    live = entry.run is not None
    name = keys.of(keys.AUDIT, entry.name)
    job: Audit | None = jobs.kept(name)
    if jobs.button(
        keys.AUDIT,
        "Audit the caches",
        job,
        icon=":material/fact_check:",
        disabled=not live,
        help="Compares the logits on top of each cache with those of an uncached pass over the whole text."
        if live
        else "Only a run made here has caches to look into. Press Run.",
    ):
        job = jobs.keep(name, Audit(entry.run))
        jobs.start(job)
        st.rerun()
    with place:
        jobs.progress(job, "The audit broke off.")
        if job is not None and job.active:
            st.text("Passes without a cache over the whole text …")
        if job is not None and job.checks is not None and job.rounds == len(entry.trace.rounds):
            for check in job.checks:
                say, icon = (st.success, "check") if check.ok else (st.error, "error")
                say(check.sentence, icon=f":material/{icon}:")


def auditing(entry: Entry | None) -> Audit | None:
    """The audit of a run, if there was one."""
    return None if entry is None else jobs.kept(keys.of(keys.AUDIT, entry.name))
