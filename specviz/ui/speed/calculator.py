"""The calculator: what c, v, α and K make of each other, from measured or estimated values."""

import streamlit as st

from specviz.speed import formulas
from specviz.speed.presets import FORMULA, PRESETS
from specviz.speed.report import Report
from specviz.speed.verdict import gains
from specviz.ui.speed.look import COLOURS, title
from specviz.ui.state import keys

MEASURED = "this measurement"
LONGEST = 16
MOST = {keys.SPEED_C: 1.0, keys.SPEED_V: 4.0}


def section(report: Report) -> None:
    """Four controls and what follows from them."""
    title("Calculator")
    state = st.session_state
    if keys.SPEED_C not in state:
        _fill(report)
    chosen = st.segmented_control(
        "Start from",
        [MEASURED, *(preset.name for preset in PRESETS)],
        default=MEASURED,
        required=True,
        key=keys.SPEED_PRESET,
        on_change=_fill,
        args=(report,),
        label_visibility="collapsed",
    )
    with st.container(key=keys.SPEED_PAIR_CALCULATOR):
        columns = st.columns([1, 1, 1, 1], gap="medium")
    c = columns[0].slider("c, a draft token", 0.0, MOST[keys.SPEED_C], step=0.01, key=keys.SPEED_C)
    v = columns[1].slider("v, the check of K + 1 rows", 1.0, MOST[keys.SPEED_V], step=0.01, key=keys.SPEED_V)
    alpha = columns[2].slider("α, chance of keeping a draft token", 0.0, 1.0, step=0.01, key=keys.SPEED_ALPHA)
    k = columns[3].slider("K", 1, LONGEST, key=keys.SPEED_CALCULATOR_K)
    speedup = formulas.speedup(alpha, k, c, v)
    best = max(range(LONGEST + 1), key=lambda n: formulas.speedup(alpha, n, c, v if n else 1.0))
    even = formulas.break_even_alpha(k, c, v)
    preset = next((p for p in PRESETS if p.name == chosen), None)
    with st.container(horizontal=True, gap="large", key=keys.SPEED_RESULTS):
        for label, value in (
            ("tokens a round", f"{formulas.expected_tokens(alpha, k):.2f}"),
            ("passes a round", f"{k * c + v:.2f}"),
            ("best K at this v", str(best) if best else "0: do not draft"),
            ("break-even α", "none" if even is None else f"{even:.2f}"),
        ):
            st.metric(label, value, width="content")
        kind = gains(speedup)
        st.metric("speed-up (estimated)", f"{speedup:.2f}×", width="content")
        st.badge({"faster": "✓ faster", "slower": "✗ slower", "even": "= even"}[kind], color=COLOURS[kind])
    if preset is None:
        st.caption(
            "Starts from the figures above, and takes every draft token to be kept with the same chance: "
            "(1 + α + … + α^K) / (K·c + v), Leviathan et al. 2023."
        )
    else:
        st.caption(f"**Estimated**, not measured. {preset.says} {FORMULA}")


def _fill(report: Report) -> None:
    """Set the controls to what the chosen preset says."""
    state = st.session_state
    preset = next((p for p in PRESETS if p.name == state.get(keys.SPEED_PRESET)), None)
    k, drafter = min(LONGEST, report.setting.k), report.setting.drafter
    c, v, alpha = report.c(drafter), report.v(k), report.kept(drafter)
    if preset is not None:
        c, v, alpha = preset.c, preset.v(k), preset.alpha
    state[keys.SPEED_C] = round(min(MOST[keys.SPEED_C], 0.2 if c is None else c), 2)
    state[keys.SPEED_V] = round(min(MOST[keys.SPEED_V], max(1.0, v or 1.0)), 2)
    state[keys.SPEED_ALPHA] = round(0.6 if alpha is None else alpha, 2)
    state[keys.SPEED_CALCULATOR_K] = k
