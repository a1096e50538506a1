"""Tables and pages of a run: the numbers of the trace, and no token text that acts."""

import csv
from html.parser import HTMLParser
from io import BytesIO, StringIO

import pandas as pd
import pytest
from hostile import HOSTILE
from tables import TableModel, TablePair, table_pair

from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import TokenText
from specviz.reading import export
from specviz.reading.html_export import round_html, run_html
from specviz.tokens import visible


class HostilePair(TablePair):
    def token_text(self, token):
        return TokenText(HOSTILE[token].encode())


def run_to_end(pair, prompt, **options):
    run = DecodingRun(pair, prompt, **options)
    for _ in run:
        pass
    return run.trace()


@pytest.fixture(scope="module")
def trace():
    sampling = SamplingConfig(temperature=0.8, top_k=9)
    return run_to_end(table_pair(30, 4), [0, 1, 2], k=3, sampling=sampling, max_new_tokens=30, seed=2)


@pytest.fixture(scope="module")
def hostile():
    v = len(HOSTILE)
    pair = HostilePair(TableModel(v, salt=1, name="<b>target</b>"), TableModel(v, salt=2, name="draft"))
    # Every text is in the prompt.
    return run_to_end(pair, list(range(v)), k=3, max_new_tokens=40, seed=1, stop=("</dd><script>",))


def test_every_frame_has_the_rows_of_the_trace(trace):
    rounds, positions = export.rounds_frame(trace), export.positions_frame(trace)
    tables = export.tables_frame(trace)
    assert list(rounds["accepted"]) == [r.accepted for r in trace.rounds]
    assert list(rounds["token"]) == [r.token for r in trace.rounds]
    every = [p for r in trace.rounds for p in r.positions]
    assert len(positions) == len(every)
    drafted = positions[positions["token"].notna()]
    assert list(drafted["p"]) == [p.p for p in every if p.token is not None]
    assert list(drafted["accept_probability"]) == [p.accept_probability for p in every if p.token is not None]
    assert len(tables) == sum(len(p.table.ids) + 1 for p in every)
    sums = tables.groupby(["round", "position"])
    assert sums["p"].sum().to_numpy() == pytest.approx(1.0)
    assert set(sums["count"].sum()) == {30}
    assert "top-k" in set(tables["target_removed"])


def test_ids_stay_whole_numbers_where_some_are_missing(trace):
    frame = export.positions_frame(trace)
    assert frame["token"].isna().any() and str(frame["token"].dtype) == "Int64"
    line = export.csv_bytes(frame).decode("utf-8-sig").splitlines()[1].split(",")
    assert line[3] == str(trace.rounds[0].positions[0].token)


def test_parquet_returns_what_was_written(trace):
    for frame in (export.rounds_frame(trace), export.positions_frame(trace), export.tables_frame(trace)):
        again = pd.read_parquet(BytesIO(export.parquet_bytes(frame)))
        assert list(again.columns) == list(frame.columns)
        pd.testing.assert_series_equal(again["token"], frame["token"])


def test_no_cell_of_a_csv_starts_a_formula(hostile):
    acting = {text for text in HOSTILE if text.startswith(export.FORMULA)}
    assert len(acting) == 5
    frame = export.tables_frame(hostile)
    assert acting <= set(frame["text"].dropna())
    rows = list(csv.DictReader(StringIO(export.csv_bytes(frame).decode("utf-8-sig"))))
    texts = {row["text"] for row in rows}
    assert {f"'{text}" for text in acting} <= texts
    for row in rows:
        for name in ("text", "bytes", "target_removed"):
            assert not row[name].startswith(export.FORMULA)
    # Numbers are left alone, negative ones too, and the bytes give the exact text.
    assert any(row["target_logit"].startswith("-") for row in rows)
    assert {bytes.fromhex(row["bytes"]).decode() for row in rows if row["bytes"]} <= set(HOSTILE)


def test_frames_of_an_empty_run():
    trace = DecodingRun(table_pair(5), [0]).trace()
    for frame in (export.rounds_frame(trace), export.positions_frame(trace), export.tables_frame(trace)):
        assert len(frame) == 0
        assert export.csv_bytes(frame)
    assert "recorded run" in run_html(trace, visible)


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.words = set(), set(), []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.words.append(data)


OURS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "section",
    "div",
    "span",
    "p",
    "b",
    "i",
    "code",
    "pre",
}
OURS |= {"h1", "h2", "h3", "dl", "dt", "dd", "table", "tr", "th", "td", "details", "summary", "ol", "li"}


def test_pages_hold_only_our_own_markup(hostile):
    pages = [run_html(hostile, visible)]
    pages += [round_html(hostile, r.number, visible) for r in hostile.rounds]
    for html in pages:
        page = Page(html)
        assert page.tags <= OURS
        assert page.attributes <= {
            "lang",
            "charset",
            "name",
            "content",
            "http-equiv",
            "class",
            "style",
            "title",
        }
        assert "default-src 'none'" in html
        assert "src=" not in html.replace("img␣src=x", "") and "url(" not in html and "@import" not in html
    words = Page(pages[0]).words
    for text in HOSTILE:
        assert visible(TokenText(text.encode())) in words
    assert "<b>target</b>, cpu, float64" in words
    assert "'</dd><script>'" in words


def test_the_page_of_a_round_has_every_position_and_its_verdict(trace):
    round = next(r for r in trace.rounds if 0 < r.accepted < r.k)
    text = "".join(Page(round_html(trace, round.number, visible)).words)
    for position in range(1, round.k + 2):
        assert f"Position {position} · " in text
    assert "The random number fell at" in text and "came from the residual" in text
    assert "Cache of the target" in text
    with pytest.raises(ValueError, match="rounds 1"):
        round_html(trace, len(trace.rounds) + 1, visible)


def test_the_page_of_a_run_has_the_recipe_and_every_round(trace):
    text = "".join(Page(run_html(trace, visible)).words)
    assert "temperature 0.8, top-k 9" in text
    for round in trace.rounds:
        assert f"Round {round.number}: {round.accepted} of {round.k} accepted" in text


def test_log_probabilities_of_every_committed_token_are_exported():
    trace = run_to_end(table_pair(6, seed=3), (0, 1, 2), max_new_tokens=40)
    rounds, positions = export.rounds_frame(trace), export.positions_frame(trace)
    found = []
    for round in trace.rounds:
        mine = positions[positions["round"] == round.number]
        found += mine["log_prob"].dropna().tolist()
        found += rounds.loc[rounds["round"] == round.number, "log_prob"].dropna().tolist()
    assert found == [value for round in trace.rounds for value in round.log_probs]
    assert len(found) == len(trace.output_ids)
