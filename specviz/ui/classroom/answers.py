"""What a class has answered, as bars."""

import streamlit as st

from specviz.ui.classroom.polls import Poll


def bars(poll: Poll, truth: bool = True, beside: bool = False) -> None:
    """A bar for each option, with the right one marked if it may be known; in a column, or `beside`."""
    tally = poll.tally()
    places = st.columns(len(poll.options)) if beside else [st.container() for _ in poll.options]
    for i, (option, place) in enumerate(zip(poll.options, places, strict=True)):
        mark = ":material/check: " if truth and i == poll.answer else ""
        words = f"{mark}{option}: **{tally.counts[i]}** ({tally.share(i):.0%})"
        place.progress(tally.share(i), text=words)
