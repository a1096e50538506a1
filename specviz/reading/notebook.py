"""How a trace and a run show themselves in a notebook: the page of `html_export`, in a frame of its own.

The frame is a sandbox without scripts and without the notebook's origin, and the page's own policy lets it
load nothing. Importing this module gives both classes their `_repr_html_`; the engine itself knows of no
pages.
"""

from dataclasses import replace
from html import escape

from specviz.decoding.run import DecodingRun
from specviz.decoding.trace import Trace
from specviz.reading.html_export import run_html
from specviz.reading.prose import count
from specviz.tokens import visible

LARGEST = 500_000  # characters of a page: a notebook file keeps every one of them
HEIGHT = 520  # pixels


def trace_html(trace: Trace) -> str:
    """A run as HTML for a notebook, at most about `LARGEST` characters: if need be its first rounds only."""
    shown, page = len(trace.rounds), run_html(trace, visible)
    while len(page) > LARGEST and shown:
        shown = min(shown - 1, shown * LARGEST // len(page))
        page = run_html(replace(trace, rounds=trace.rounds[:shown]), visible)
    frame = (
        f'<iframe sandbox srcdoc="{escape(page)}" title="A run of speculative decoding" '
        f'style="width:100%;height:{HEIGHT}px;border:1px solid #8884;border-radius:8px"></iframe>'
    )
    if shown == len(trace.rounds):
        return frame
    return f"<p>The first {count(shown, 'round')} of {len(trace.rounds)}.</p>{frame}"


def _run_html(run: DecodingRun) -> str:
    return trace_html(run.trace())


Trace._repr_html_ = trace_html  # type: ignore[attr-defined]
DecodingRun._repr_html_ = _run_html  # type: ignore[attr-defined]
