"""What was looked at of a loaded pair before its first round: fine, handled (how), or refused (why)."""

import streamlit as st

from specviz.models.report import Line
from specviz.reading.prose import count
from specviz.ui.state import keys, pairs
from specviz.ui.state.runs import Entry

WORDS = {"fine": "✓ fine", "handled": "• handled", "refused": "✗ refused"}


def pair_report(entry: Entry) -> None:
    """A popover with the report on the pair of a run; nothing while that pair is not loaded."""
    pair = None if entry.source != "live" or entry.recipe is None else pairs.shelf().get(entry.recipe)
    lines: tuple[Line, ...] = getattr(pair, "report", ())
    if not lines:
        return
    with st.popover("About the pair", icon=":material/fact_check:", key=keys.PAIR_REPORT):
        handled = sum(line.state == "handled" for line in lines)
        st.caption(
            f"{len(lines)} things were looked at before the first round; "
            + (
                f"{count(handled, 'difference')} {'is' if handled == 1 else 'are'} handled."
                if handled
                else "all are fine."
            )
        )
        for line in lines:  # text, not markdown: names of tokens and files are never taken for markup
            st.text(f"{WORDS[line.state]} · {line.subject}: {line.text}")
