"""A round or a run as one HTML file that needs nothing else: no script, no request, light and dark.

Whatever comes from a trace (token text, prompt, names) is escaped; a content security policy in the file
forbids everything but its own styles.
"""

from collections.abc import Callable, Iterable
from html import escape

from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import ModelInfo, Round, TokenText, Trace
from specviz.reading import explain, explain_numbers
from specviz.reading.cache_cells import cache_strips, figures, next_feed
from specviz.reading.inspect import Candidate, Inspection, Others, inspect_position, telling
from specviz.reading.metrics import metrics
from specviz.reading.notes import silence
from specviz.reading.prose import GLYPHS, Part, count, number

Show = Callable[[TokenText], str]

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--muted:#5b6472;--line:#d9dee5;--page:#fbfbfc;--card:#fff;
--accepted:#00795a;--rejected:#b54a00;--corrected:#8a5c00;--bonus:#1f6694;--discarded:#6b7482;--p:#0072B2;
--q:#CC79A7;--residual:#5aa0cf}
@media(prefers-color-scheme:dark){:root{--ink:#e8ecf1;--muted:#a3acb9;--line:#39424e;--page:#12161c;
--card:#1c222b;--accepted:#3fc79f;--rejected:#ff9a5c;--corrected:#e5ad3f;--bonus:#6db7e8;--discarded:#98a2b3}}
body{margin:0 auto;max-width:1000px;padding:24px;background:var(--page);color:var(--ink);
font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2em}h3{font-size:1rem;margin:0 0 .4em}
code,.text{font-family:ui-monospace,monospace;overflow-wrap:anywhere}
.text{font-size:1.05rem;line-height:2}.text span{border-bottom:3px solid transparent}
.text .accepted,.text .corrected,.text .bonus{border-color:currentColor}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 18px;margin:14px 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:0}dt{color:var(--muted)}dd{margin:0;
overflow-wrap:anywhere}
.round{display:flex;flex-wrap:wrap;gap:8px;margin:8px 0}
.token{border:1.5px solid currentColor;border-radius:8px;padding:4px 10px;min-width:90px}
.token b{display:block;font-size:.75rem}.token code{color:var(--ink)}
.accepted{color:var(--accepted)}.rejected{color:var(--rejected)}.corrected{color:var(--corrected)}
.bonus{color:var(--bonus)}.discarded{color:var(--discarded)}.token.discarded{border-style:dashed}
.p,.q{border-radius:4px;padding:0 .3em;white-space:nowrap}.p{background:var(--p);color:#fff}
.q{background:var(--q);color:#1c2430}.note,pre{color:var(--muted)}pre{white-space:pre-wrap}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:2px 12px 2px 0;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}td i{display:block;height:5px;border-radius:2px}
td i.p{background:var(--p)}td i.q{background:var(--q)}td i.r{background:var(--residual)}
td i.p,td i.q{padding:0}section h2{margin-top:0}
summary{cursor:pointer}
"""


def run_html(trace: Trace, show: Show) -> str:
    """The whole run: recipe, figures, text, and every round with its verdicts in words.

    Args:
        trace: the run.
        show: the visible text of a token.
    """
    body = [
        _tag("h1", "A recorded run of speculative decoding"),
        _recipe(trace),
        _figures(trace),
        _text(trace, show),
    ]
    for round in trace.rounds:
        verdicts = "".join(
            f"<li>{_sentence(explain.verdict(place), place, show)}</li>" for place in _places(trace, round)
        )
        details = f"<details><summary>Why</summary><ol>{verdicts}</ol></details>"
        body.append(f"<section>{_round_heading(round)}{_row(trace, round, show)}{details}</section>")
    return _page("SpecViz: a run", body)


def round_html(trace: Trace, number: int, show: Show) -> str:
    """One round: every position with its verdict, its distributions and its numbers, and the caches.

    Raises:
        ValueError: if the trace has no such round.
    """
    places = _places(trace, inspect_position(trace, number, 1).round)
    round = places[0].round
    body = [
        _tag("h1", f"Round {number} of a recorded run of speculative decoding"),
        _recipe(trace),
        f"<section>{_round_heading(round)}{_row(trace, round, show)}",
        f"{_caches(trace, places[0], show)}</section>",
    ]
    for place in places:
        heading = f"Position {place.position} · <code>{escape(show(place.text(place.token)))}</code>"
        state = f'<span class="{place.state}">{GLYPHS[place.state]} {place.state}</span>'
        body.append(
            f"<section><h2>{heading} {state}</h2><p>{_sentence(explain.verdict(place), place, show)}</p>"
            + _tag("p", explain_numbers.residual_line(place), "note")
            + _tag("pre", "\n".join(explain_numbers.formula(place)))
            + _tag("p", explain_numbers.masses(place), "note")
            + _bars(place, show)
            + "</section>"
        )
    return _page(f"SpecViz: round {number}", body)


def _page(title: str, body: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _tag(name: str, text: str, kind: str = "") -> str:
    """An element that holds nothing but text."""
    return f"<{name}{f' class={kind!r}' if kind else ''}>{escape(text)}</{name}>" if text else ""


def _places(trace: Trace, round: Round) -> list[Inspection]:
    return [inspect_position(trace, round.number, position) for position in range(1, round.k + 2)]


def _sentence(parts: Iterable[Part], place: Inspection, show: Show) -> str:
    marks = {"target": '<b class="p">{}</b>', "draft": '<b class="q">{}</b>', "strong": "<b>{}</b>"}
    words = []
    for part in parts:
        if isinstance(part.value, int):
            words.append(f"<code>{escape(show(place.text(part.value)))}</code>")
        else:
            words.append(marks.get(part.kind, "{}").format(escape(part.value)))
    return "".join(words)


def _recipe(trace: Trace) -> str:
    pair = trace.pair
    entries = {
        "prompt": trace.prompt,
        "target": _model(pair.target),
        "draft": _model(pair.draft) if pair.draft else f"{trace.drafter} (no model of its own)",
        "drafter, K": f"{trace.drafter}, {trace.k}",
        "sampling": _sampling(trace.sampling),
        "draft sampling": "" if trace.draft_sampling == trace.sampling else _sampling(trace.draft_sampling),
        "seed": str(trace.seed),
        "tokens at most": f"{trace.max_new_tokens:,}",
        "stop": ", ".join(map(repr, trace.stop)),
        "judged by": ", ".join(sorted({round.verifier for round in trace.rounds})),
        "recorded": trace.created,
        "error": trace.error,
    }
    rows = "".join(_tag("dt", name) + _tag("dd", value) for name, value in entries.items() if value)
    return f"<section><dl>{rows}</dl></section>"


def _model(model: ModelInfo) -> str:
    size = f"{model.parameters / 1e6:,.0f}M parameters, " if model.parameters else ""
    return f"{model.name}, {size}{model.device}, {model.dtype}"


def _sampling(sampling: SamplingConfig) -> str:
    words = [f"temperature {sampling.temperature:g}"]
    words += [f"top-k {sampling.top_k}"] * bool(sampling.top_k)
    words += [f"top-p {sampling.top_p:g}"] * (sampling.top_p < 1.0)
    words += [f"min-p {sampling.min_p:g}"] * bool(sampling.min_p)
    words += [f"repetition penalty {sampling.repetition_penalty:g}"] * (sampling.repetition_penalty != 1.0)
    words += [count(len(sampling.banned), "banned token")] * bool(sampling.banned)
    words += [count(len(sampling.bias), "biased token")] * bool(sampling.bias)
    words += [count(len(sampling.forced), "forced token")] * bool(sampling.forced)
    words += [f"at least {sampling.min_new_tokens} new tokens"] * bool(sampling.min_new_tokens)
    words += [f"{sampling.grammar}"] * bool(sampling.grammar)
    return ", ".join(words)


def _figures(trace: Trace) -> str:
    m = metrics(trace.rounds)
    entries = {
        "rounds": f"{m.rounds:,}",
        "tokens": f"{m.emitted:,}",
        "draft acceptance rate": f"{number(m.draft_acceptance_rate)} ({m.accepted:,} of {m.drafted:,})",
        "mean acceptance length": number(m.mean_acceptance_length, 3),
        "α": number(m.alpha),
    }
    if full := silence(trace):
        entries["draft's context full"] = f"from token {full.first:,} on ({count(full.rounds, 'round')})"
    return f"<section><dl>{''.join(_tag('dt', k) + _tag('dd', v) for k, v in entries.items())}</dl></section>"


def _text(trace: Trace, show: Show) -> str:
    """Prompt and output, each token of the output marked with where it came from."""
    spans = [_tag("span", _shown(trace, token, show)) for token in trace.prompt_ids]
    for round in trace.rounds:
        for i, token in enumerate(round.committed):
            origin = "accepted" if i < round.accepted else round.outcome
            title = f"{origin} in round {round.number}"
            spans.append(
                f'<span class="{origin}" title="{title}">{escape(_shown(trace, token, show))}</span>'
            )
    return f'<h2>Text</h2><section><div class="text">{"".join(spans)}</div></section>'


def _shown(trace: Trace, token: int, show: Show) -> str:
    return show(trace.tokens[token])


def _round_heading(round: Round) -> str:
    tokens = count(len(round.committed), "token")
    return _tag("h3", f"Round {round.number}: {round.accepted} of {round.k} accepted, {tokens} more")


def _row(trace: Trace, round: Round, show: Show) -> str:
    tokens = [(row.state, row.token) for row in round.positions if row.token is not None]
    cells = "".join(
        f'<div class="token {state}"><b>{GLYPHS[state]} {state}</b><code>{escape(_shown(trace, token, show))}'
        "</code></div>"
        for state, token in [*tokens, (round.outcome, round.token)]
    )
    return f'<div class="round">{cells}</div>'


def _bars(place: Inspection, show: Show) -> str:
    """The telling tokens as a table with bars, and all others in one row."""
    shown, others = telling(place)
    drafted = place.row.token is not None
    heads = ["token", "p", *(["q", "residual"] if drafted else [])]
    rows = [_tag_row(escape(show(place.text(c.token))), c, drafted) for c in shown]
    if others.count:
        rows.append(_tag_row(f"{others.count:,} others", others, drafted))
    head = "".join(_tag("th", name) for name in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _tag_row(name: str, column: Candidate | Others, drafted: bool) -> str:
    values = [("p", column.p), *([("q", column.q), ("r", column.residual)] if drafted else [])]
    cells = "".join(
        f'<td>{number(value, 4)}<i class="{kind}" style="width:{120 * (value or 0.0):.2f}px"></i></td>'
        for kind, value in values
    )
    return f"<tr><td><code>{name}</code></td>{cells}</tr>"


def _caches(trace: Trace, place: Inspection, show: Show) -> str:
    lines = [
        f"<p>Cache of the {strip.role}, {escape(strip.model)}: {figures(strip)}. "
        f"{_sentence(next_feed(place.round, strip), place, show)}</p>"
        for strip in cache_strips(trace, place.round)
    ]
    return "".join(lines)
