"""Check 1: kept mass and corrected mass, summed over the vocabulary."""

import streamlit as st

from specviz.decoding.faults import Fault
from specviz.exactness.arithmetic import Arithmetic, arithmetic
from specviz.reading.prose import number
from specviz.ui.exactness import badges, charts
from specviz.ui.exactness.place import Place, memo
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import keys


def sums(place: Place, fault: Fault | None = None) -> Arithmetic:
    """The sums at a place, under the exact rule or a fault."""
    name = "" if fault is None else fault.name
    return memo(place, "sums", name, make=lambda: arithmetic(place.spot, fault, place.columns))


def card(place: Place) -> None:
    found = sums(place)
    columns = len(place.spot.p)
    over = f"{place.tokens:,} tokens" if place.full else f"{columns} columns for {place.tokens:,} tokens"
    deviation = f"{found.deviation:.1e}" if found.deviation else "0"
    verdict = ("green", f"✓ {deviation}") if found.ok else ("red", f"✗ {deviation}")
    with st.container(border=True, key=keys.CARD_ARITHMETIC):
        badges.title("1 · By arithmetic")
        st.markdown(
            "**Kept from the draft + corrected from the residual = p**, for every token. "
            f"Largest deviation over {over}: {badges.badge(verdict)}"
        )
        st.plotly_chart(
            charts.stack(found, place.show, place.others),
            key=keys.ARITHMETIC_CHART,
            config=CONFIG,
            alt=charts.describe_stack(found, place.show),
        )
        st.caption(
            f"The draft's token is kept with β = Σ min(p, q) = {number(found.beta, 3)}; the residual fills "
            f"the other {number(1.0 - found.beta, 3)}, exactly where p is not yet reached."
        )
