"""All verdicts in one line, above the checks themselves."""

import streamlit as st

from specviz.ui.exactness import choice, leak, sampling, words
from specviz.ui.exactness.arithmetic import sums
from specviz.ui.exactness.place import Place, source


def row(place: Place) -> None:
    """The verdicts, and which numbers they rest on."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(" ".join(words.badge(verdict) for verdict in verdicts(place)), width="content")
        source(place)


def verdicts(place: Place) -> list[words.Verdict]:
    """One badge a check, in their order; the control stands beside the check that must catch it."""
    found = [_verdict("1 arithmetic", sums(place).ok)]
    exact, control = sampling.drawing(place).checks()
    found.append(_verdict("2 sampling", exact.ok))
    if control is not None and sampling.is_biased(place, choice.fault()):
        found.append(
            ("orange", "✗ control caught") if control.caught else ("gray", "… control not caught yet")
        )
    test = leak.test(leak.entries(place.entry))
    found.append(
        ("gray", "3 on the run: not recorded") if test is None else _verdict("3 on the run", test.ok)
    )
    return found


def _verdict(name: str, ok: bool) -> words.Verdict:
    return ("green", f"✓ {name}") if ok else ("red", f"✗ {name}")
