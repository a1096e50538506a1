"""Headings and verdicts that all checks share."""

import streamlit as st

Verdict = tuple[str, str]  # a badge's colour and its words

AGREES: Verdict = ("green", "✓ agrees with p")
DISAGREES: Verdict = ("red", "✗ contradicts p")
TOO_FEW: Verdict = ("gray", "… too few draws to tell")
# Of a rule that is known to be wrong: to be found out is what it is there for.
CAUGHT: Verdict = ("green", "✓ caught, as it must be")
NOT_YET: Verdict = ("gray", "… not caught yet")

# Small capitals for the cards, and the list of faults as a table of two columns.
STYLE = """
.stMainBlockContainer [class*="st-key-card-"] h2 {
  font-size: 0.85rem; letter-spacing: 0.05em; text-transform: uppercase; font-weight: 600;
  opacity: 0.72; padding: 0 0 0.45rem;
}
.st-key-faults .stRadio, .st-key-faults .stElementContainer, .st-key-faults [role="radiogroup"],
.st-key-faults [role="radiogroup"] > div, .st-key-faults label, .st-key-faults label .stMarkdown,
.st-key-faults label [data-testid="stMarkdownContainer"] { width: 100%; }
.st-key-faults label > div:has(p) { flex: 1; }
.st-key-faults [role="radiogroup"] { gap: 0; }
.st-key-faults [role="radiogroup"] label {
  border-top: 1px solid rgba(128, 136, 150, 0.25); padding: 0.28rem 0; margin: 0;
}
.st-key-faults [role="radiogroup"] p {
  display: grid; grid-template-columns: 1fr 5.4rem 6rem; gap: 0.5rem; font-size: 0.9rem;
}
.st-key-faults [role="radiogroup"] p > span { font-variant-numeric: tabular-nums; text-align: right; }
"""


def style() -> None:
    st.html(f"<style>{STYLE}</style>")


def title(text: str) -> None:
    st.markdown(f"## {text}", anchors=False)


def badge(verdict: Verdict) -> str:
    colour, words = verdict
    return f":{colour}-badge[{words}]"
