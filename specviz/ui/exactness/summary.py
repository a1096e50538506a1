"""All verdicts in one line, above the checks themselves."""

import streamlit as st

from specviz.decoding.block import EXACT_RULES
from specviz.recipe import EXACT
from specviz.ui.exactness import badges, caches, chosen_fault, continuations, evidence, sampling
from specviz.ui.exactness.arithmetic import sums
from specviz.ui.exactness.examined import Examined, source

SAMPLING: dict[str, badges.Verdict] = {
    "agrees": ("green", "✓ 2 sampling"),
    "contradicts": ("red", "✗ 2 sampling"),
    "too few": ("gray", "… 2 sampling: too few draws"),
}


def row(examined: Examined) -> None:
    """The verdicts, and which numbers they rest on."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(" ".join(badges.badge(verdict) for verdict in verdicts(examined)), width="content")
        source(examined)


def verdicts(examined: Examined) -> list[badges.Verdict]:
    """One badge a check, in their order; the control stands beside the check that must catch it."""
    found = [_verdict("1 arithmetic", sums(examined).ok)]
    exact, control = sampling.drawing(examined).checks()
    found.append(SAMPLING[exact.says])
    if control is not None and sampling.is_biased(examined, chosen_fault.fault()):
        found.append(
            ("green", "✓ the faulty rule is caught")
            if control.caught
            else ("gray", "… the faulty rule is not caught yet")
        )
    found.append(_verdict("3 on the run", evidence.test(evidence.entries(examined.entry)).ok))
    texts = continuations.results(examined.entry).get(EXACT)
    if texts is not None:
        found.append(_verdict("4 end to end", texts.ok))
    job = caches.auditing(examined.entry)
    if job is not None and job.checks:
        ok = all(check.ok for check in job.checks)
        if job.key[1] in EXACT_RULES:
            found.append(_verdict("5 caches", ok))
        else:
            found.append(
                ("gray", "… 5 caches: nothing wrong with the fault")
                if ok
                else ("green", "✓ 5 caches: the fault is caught")
            )
    return found


def _verdict(name: str, ok: bool) -> badges.Verdict:
    return ("green", f"✓ {name}") if ok else ("red", f"✗ {name}")
