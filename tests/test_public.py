"""The names that others may rely on, and how runs show themselves in a notebook."""

import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from stories import HOSTILE, story
from tables import table_pair

import specviz
from specviz import traces
from specviz.reading import notebook

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", specviz.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(specviz, name).__doc__
    assert name in dir(specviz)


def test_an_unknown_name_is_an_ordinary_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        specviz.nothing  # noqa: B018


def test_the_package_itself_is_light():
    code = (
        "import sys, specviz; specviz.Trace; print({'torch', 'streamlit', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_trace_shows_itself_in_a_frame_that_can_do_nothing():
    html = specviz.Trace.load(traces.FOLDER / "capital.json.gz")._repr_html_()
    assert html.startswith("<iframe sandbox srcdoc=")  # an empty sandbox: no scripts, no origin
    page = unescape(html.partition('srcdoc="')[2].partition('" title=')[0])
    assert page.startswith("<!doctype html>") and "<script" not in page and "default-src 'none'" in page


def test_hostile_text_cannot_leave_the_frame():
    html = notebook.trace_html(story(30, texts=HOSTILE, seed=2))
    srcdoc = html.partition('srcdoc="')[2]
    assert srcdoc.count('"') == srcdoc.partition('" title=')[2].count('"') + 1


def test_a_long_run_is_capped_and_says_so(monkeypatch):
    trace = story(60, seed=3)
    monkeypatch.setattr(notebook, "LARGEST", 40_000)
    html = notebook.trace_html(trace)
    assert len(unescape(html)) < 42_000
    assert f"of {len(trace.rounds)}.</p>" in html


def test_a_run_shows_what_it_has_made_so_far():
    run = specviz.DecodingRun(table_pair(6, seed=3), "abcabc", k=2, max_new_tokens=8)
    assert "iframe" in run._repr_html_()
    run.step()
    assert "Round 1" in unescape(run._repr_html_())
