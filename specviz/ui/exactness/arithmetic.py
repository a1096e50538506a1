"""Check 1: kept mass and corrected mass, summed over the vocabulary."""

import streamlit as st

from specviz.decoding.faults import Fault
from specviz.exactness.arithmetic import Arithmetic, arithmetic
from specviz.reading.prose import number
from specviz.ui.exactness import badges, charts
from specviz.ui.exactness.examined import Examined, memo
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import keys


def sums(examined: Examined, fault: Fault | None = None) -> Arithmetic:
    """The sums at a position, under the exact rule or a fault."""
    name = "" if fault is None else fault.name
    return memo(examined, "sums", name, make=lambda: arithmetic(examined.spot, fault, examined.columns))


def card(examined: Examined) -> None:
    found = sums(examined)
    columns = len(examined.spot.p)
    over = (
        f"{examined.tokens:,} tokens"
        if examined.full
        else f"{columns} columns for {examined.tokens:,} tokens"
    )
    deviation = f"{found.deviation:.1e}" if found.deviation else "0"
    verdict = ("green", f"✓ {deviation}") if found.ok else ("red", f"✗ {deviation}")
    with st.container(border=True, key=keys.CARD_ARITHMETIC):
        badges.title("1 · By arithmetic")
        st.markdown(
            "**Kept from the draft + corrected from the residual = p**, for every token. "
            f"Largest deviation over {over}: {badges.badge(verdict)}"
        )
        st.plotly_chart(
            charts.stack(found, examined.show, examined.others),
            key=keys.ARITHMETIC_CHART,
            config=CONFIG,
            alt=charts.describe_stack(found, examined.show),
        )
        st.caption(
            f"The draft's token is kept with β = Σ min(p, q) = {number(found.beta, 3)}; the residual fills "
            f"the other {number(1.0 - found.beta, 3)}, exactly where p is not yet reached."
        )
