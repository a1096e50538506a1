"""The proof in five lines with the numbers of the position, and two claims often mixed up with it."""

import streamlit as st

from specviz.exactness.proof import proof
from specviz.reading.prose import Part, number, sentence
from specviz.ui.exactness import badges
from specviz.ui.exactness.examined import Examined
from specviz.ui.shell.markup import code, markdown
from specviz.ui.state import keys


def card(examined: Examined) -> None:
    with st.container(border=True, key=keys.CARD_PROOF):
        badges.title("Why it is exact: five lines, with these numbers")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            column = st.selectbox(
                "For the token x",
                examined.columns,
                index=_drafted(examined),
                format_func=examined.show,
                key=keys.of(keys.PROOF, *examined.key),
                width=230,
            )
            found = proof(examined.spot, column)
            given = sentence(
                Part("target", f"p = {number(found.p, 4)}"), " ", Part("draft", f"q = {number(found.q, 4)}")
            )
            st.markdown(f"{markdown(given, examined.show)} and β = {number(found.beta, 4)}", width="content")
        for i, line in enumerate(found.lines, 1):
            said, shown = st.columns([1, 1.7], gap="small")
            said.markdown(f"**{i}** {line.why}")
            shown.markdown(f"{code(line.claim)}  \n{code(line.numbers)}")
        left, right = st.columns(2, gap="medium")
        with left:
            st.markdown("**Why the correction must not come from p**")
            st.text(found.from_p_sentence)
        with right:
            st.markdown("**Greedy is a weaker claim of its own**")
            st.text(
                f"{found.greedy_sentence} It says nothing about the rule of sampling: a correction drawn "
                "from p passes every greedy test."
            )


def _drafted(examined: Examined) -> int:
    """Which of the columns is the draft's token."""
    ids = [column if examined.ids is None else examined.ids[column] for column in examined.columns]
    return ids.index(examined.row.token)
