"""What would help: the same positions under other settings, alone and together."""

import pandas as pd
import streamlit as st

from specviz.diagnosis.finding import WORTH
from specviz.diagnosis.report import Report
from specviz.diagnosis.walk import span
from specviz.diagnosis.whatif import Outcome
from specviz.ui.debug import charts
from specviz.ui.shell.markup import plain
from specviz.ui.shell.teaching import chart
from specviz.ui.state import keys

LABELS = {
    "exact": "exact in expectation",
    "approximate": "approximate",
    "bound": "upper bound",
}


def section(report: Report) -> None:
    """All changes with their intervals; the ticked ones together."""
    texts = report.texts
    now = texts.outcome(texts.now)
    options = texts.options()
    if not options:
        st.write("This audit has nothing to compare with.")
        return
    found = [texts.outcome(texts.plan([option])) for option in options]
    best = max(range(len(found)), key=lambda i: found[i].mean if found[i].label == "exact" else 0.0)
    st.markdown(_sentence(options[best].title, found[best], now))
    if fastest := _fastest([option.title for option in options], found, now):
        st.markdown(fastest)
    state = st.session_state
    if keys.DEBUG_CHANGES not in state:  # the page is come to, or come back to
        state[keys.DEBUG_TICKED_BEFORE] = state.get(keys.DEBUG_TICKED, ())
    frame = pd.DataFrame(
        {
            "Together": [option.key in state[keys.DEBUG_TICKED_BEFORE] for option in options],
            "Change": [option.title for option in options],
            "Mean length": [outcome.mean for outcome in found],
            "95 %": [span(outcome.low, outcome.high) for outcome in found],
            "Difference": [f"{outcome.gain:+.2f}{'' if outcome.sure else ' (noise)'}" for outcome in found],
            "Speed-up": ["–" if o.speed is None else f"{o.speed:.2f}×" for o in found],
            "From": [_origin(option.source, o) for option, o in zip(options, found, strict=True)],
        }
    )
    edited = st.data_editor(
        frame,
        key=keys.DEBUG_CHANGES,
        hide_index=True,
        disabled=[name for name in frame.columns if name != "Together"],
        column_config={
            "Mean length": st.column_config.NumberColumn(format="%.2f"),
            "Speed-up": st.column_config.TextColumn(help="Predicted, over plain decoding."),
            "Together": st.column_config.CheckboxColumn(help="Ticked changes are computed together."),
        },
    )
    ticked = [option for option, on in zip(options, edited["Together"], strict=True) if on]
    state[keys.DEBUG_TICKED] = tuple(option.key for option in ticked)
    titles, outcomes = [option.title for option in options], list(found)
    if ticked:
        both = texts.outcome(texts.plan(ticked))
        speed = "" if both.speed is None else f", predicted {both.speed:.2f}×"
        st.markdown(
            f"**The ticked together:** {both.mean:.2f} tokens a round ("
            f"{span(both.low, both.high)}){speed}; "
            f"{LABELS[both.label]}."
        )
        titles, outcomes = [*titles, "The ticked together"], [*outcomes, both]
    words = "; ".join(f"{t}: {o.mean:.2f}" for t, o in zip(titles, outcomes, strict=True))
    chart(charts.outcomes(titles, outcomes, now), keys.DEBUG_OUTCOMES, f"Now {now.mean:.2f}. {words}.")
    speed = "" if now.speed is None else f", {now.speed:.2f}×"
    st.caption(
        f"Now, expected along the same texts: {now.mean:.2f}{speed} (dotted line). Given the text, a "
        "draft token is "
        "kept with probability min(1, q(x)/p(x)), so each length is the exact expectation over these texts; "
        "lines are 95 % intervals from resampled prompts. Speed-ups are estimated from passes timed on the "
        "audit's machine."
    )
    with st.expander("Every K from 1 to 16", icon=":material/show_chart:"):
        every = {float(k): outcome for k, outcome in enumerate(texts.by_k(), 1)}
        _grid("K", every, report.setting.k, keys.DEBUG_BY_K)
    by_temperature = texts.by_temperature()
    if by_temperature:
        with st.expander("Every draft temperature", icon=":material/thermometer:"):
            present = report.setting.draft_sampling.temperature
            _grid("draft temperature", by_temperature, present, keys.DEBUG_BY_TEMPERATURE)


def _grid(name: str, found: dict[float, Outcome], present: float, key: str) -> None:
    """One setting over a grid."""
    best = max(found, key=lambda value: found[value].mean)
    said = f"Longest rounds at {name} {best:g}: {found[best].mean:.2f} tokens"
    speeds = {value: o.speed for value, o in found.items() if o.speed is not None}
    if speeds:
        fastest = max(speeds, key=lambda value: speeds[value])
        said += f"; fastest by prediction at {name} {fastest:g}: {speeds[fastest]:.2f}×"
    st.markdown(f"{said}. Now {name} {present:g}: {found[present].mean:.2f} tokens.")
    values = ", ".join(f"{value:g}: {o.mean:.2f}" for value, o in found.items())
    chart(charts.grid(name, found, present), key, f"Mean acceptance length by {name}. {values}.")


def _sentence(title: str, outcome: Outcome, now: Outcome) -> str:
    if not outcome.sure or outcome.gain <= 0:
        return "**No change here makes rounds longer by more than noise.**"
    return (
        f"**Most: {_in_sentence(title)}**, {outcome.mean:.2f} tokens a round instead of "
        f"{now.mean:.2f} "
        f"({outcome.gain_low:+.2f} to {outcome.gain_high:+.2f})."
    )


def _fastest(titles: list[str], found: list[Outcome], now: Outcome) -> str:
    """The greatest predicted speed-up, "" if it is not worth a change: longer rounds need not be faster."""
    pairs = zip(titles, found, strict=True)
    known = [(o.speed, title) for title, o in pairs if o.speed and o.label != "bound"]
    speed, title = max(known, default=(0.0, ""))
    if now.speed is None or speed < (1 + WORTH) * now.speed:
        return ""
    return (
        f"**Fastest by prediction: {_in_sentence(title)}**, {speed:.2f}× instead of {now.speed:.2f}× "
        ":gray-badge[estimated]"
    )


def _in_sentence(title: str) -> str:
    return plain(title[0].lower() + title[1:])  # it may name a folder


def _origin(source: str, outcome: Outcome) -> str:
    return LABELS[outcome.label] if source == outcome.label else f"{source}, {LABELS[outcome.label]}"
