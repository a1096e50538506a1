"""Acceptance from the logs of other engines."""

import streamlit as st

from specviz.diagnosis import logs
from specviz.ui.debug import charts
from specviz.ui.shell.teaching import chart
from specviz.ui.state import keys

EXAMPLE = (
    "INFO 11-30 14:02:10 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.79, "
    "Accepted throughput: 107.40 tokens/s, Drafted throughput: 240.00 tokens/s, Accepted: 1074 tokens, "
    "Drafted: 2400 tokens, Per-position acceptance rate: 0.806, 0.653, 0.190, 0.141, "
    "Avg Draft acceptance rate: 44.8%\n"
)
DEFINITIONS: dict[str, logs.Definition] = {
    "I do not know": "",
    "accepted drafts / drafts": "drafts",
    "with the bonus on both sides": "with bonus",
}


def section() -> None:
    """Paste or upload; the curve and the sentence, labelled as sums."""
    st.write(
        "Paste log lines of vLLM, llama.cpp or SGLang, a scrape of vLLM's /metrics, or vLLM's "
        "per-request JSON. "
        "Nothing leaves this server, and nothing is kept."
    )
    upload = st.file_uploader(
        "A log file",
        type=["log", "txt", "json", "jsonl", "prom"],
        key=keys.DEBUG_LOG_FILE,
        max_upload_size=20,
    )
    st.session_state.setdefault(keys.DEBUG_LOG, EXAMPLE)
    pasted = st.text_area(
        "Lines", key=keys.DEBUG_LOG, height=180, max_chars=2_000_000, persist_state="session"
    )
    text = upload.getvalue().decode("utf-8", errors="replace") if upload is not None else pasted
    if not text.strip():
        st.caption("Nothing to read yet.")
        return
    sglang: logs.Definition = ""
    k = None
    if "accept rate:" in text:
        with st.container(horizontal=True):
            answer = st.selectbox(
                "SGLang's accept rate counts",
                list(DEFINITIONS),
                key=keys.DEBUG_SGLANG,
                help="It depends on its age.",
                persist_state="session",
            )
            sglang = DEFINITIONS[answer]
            k = int(
                st.number_input(
                    "Draft tokens a round", 1, 64, 4, key=keys.DEBUG_SGLANG_K, persist_state="session"
                )
            )
    found = logs.read(text, sglang, k)
    if not found.readings:
        st.warning("No line was understood.", icon=":material/help:")
    else:
        _show(found)
    if found.unknown:
        with st.expander(_not_understood(len(found.unknown)), icon=":material/help:"):
            st.text("\n".join(f"{number}: {line}" for number, line in found.unknown[:100]))


def _show(found: logs.Log) -> None:
    engines = ", ".join(dict.fromkeys(reading.engine for reading in found.readings))
    if text_is_example():
        st.caption("An invented example: paste your own over it.")
    many = len(found.readings)
    readings = "1 reading" if many == 1 else f"{many:,} readings"
    st.markdown(f"**{engines}**, {readings} :gray-badge[sums only: no tokens, no causes]")
    figures = (
        ("Mean acceptance length", found.length, ".2f"),
        ("Draft acceptance rate", found.rate, ".1%"),
        ("Accepted", found.accepted, ",.0f"),
        ("Drafted", found.drafted, ",.0f"),
        ("Rounds", found.rounds, ",.0f"),
    )
    with st.container(horizontal=True, key=keys.DEBUG_LOG_FIGURES):
        for name, value, form in figures:
            st.metric(name, "–" if value is None else format(value, form), border=True)
    for note in found.notes:
        st.caption(note)
    if found.ask:
        st.info(
            "SGLang's accept rate has had two definitions. Which one this server prints depends on its age: "
            "choose above; the accept length is the same in both.",
            icon=":material/help:",
        )
    if found.curve is not None and found.shape is not None:
        st.markdown(f"**{found.shape.title}.** {found.shape.sentence}")
        chart(charts.acceptance(found.curve), keys.DEBUG_LOG_CURVE, charts.describe_acceptance(found.curve))
        st.caption("Intervals take the rounds for independent; an audit of the prompts themselves does not.")
    else:
        st.caption("These lines hold no rates by position.")


def _not_understood(count: int) -> str:
    return "1 line was not understood" if count == 1 else f"{count:,} lines were not understood"


def text_is_example() -> bool:
    return (
        st.session_state.get(keys.DEBUG_LOG) == EXAMPLE and st.session_state.get(keys.DEBUG_LOG_FILE) is None
    )
