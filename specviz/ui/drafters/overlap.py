"""β along a text: every drafter's strip, and what it would be worth."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from specviz import traces
from specviz.decoding.sampling import SamplingConfig
from specviz.overlap import Measured, Measurement, Strip, formula_tokens, walk_tokens
from specviz.reading.prose import Notation, count, number
from specviz.recipe import Recipe
from specviz.tokens import visible
from specviz.ui.components.strips import strips
from specviz.ui.drafters import charts, models
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import jobs, keys, links, runs

OWN = "own text"
CONTEXT = 2  # tokens at the beginning of a text; Medusa's heads say nothing before the third
SAMPLES = {
    "A story": (
        "The old lighthouse keeper opened the letter and read it twice before he put it down. The sea was "
        "calm that night, and the lamp turned slowly above him. He had not heard from his brother for "
        "thirty years."
    ),
    "Facts": (
        "The capital of France is Paris. The capital of Italy is Rome. Water boils at 100 degrees Celsius at "
        "sea level, and the Earth goes around the Sun once a year."
    ),
    "Code": (
        "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n"
        "    return width * height * depth\n\n\nfor i in range(10):\n    print(i, area(i, i))\n"
    ),
    "A list, twice": f"Repeat this list exactly.\n{traces.ITEMS}\nThe list again:\n{traces.ITEMS}",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be measured: text, or the tokens of a run from `first` on, at a temperature."""

    text: str
    tokens: tuple[int, ...]
    first: int
    temperature: float


class Along(jobs.Job):
    """The measurement of one text."""

    def __init__(self, wish: Wish, recipe: Recipe) -> None:
        super().__init__()
        self.wish, self.needs = wish, (recipe,)
        self.work: Measurement | None = None
        self.measured: Measured | None = None
        self.texts: dict[int, str] = {}
        self.total = 0
        self.whole = 0  # tokens of the text before it was cut to what is measured

    @property
    def done(self) -> bool:
        return self.measured is not None and self.work is None

    @property
    def share(self) -> float:
        return len(self.measured.leading) / self.total if self.measured is not None and self.total else 0.0

    def turn(self, pair: Any) -> None:
        if self.work is None:
            tokens = self.wish.tokens or pair.encode(self.wish.text, False)
            self.whole = len(tokens)
            self.work = Measurement(
                pair, tokens, first=self.wish.first, sampling=SamplingConfig(self.wish.temperature)
            )
            self.total = self.work.total
        self.work.advance()
        self.measured = measured = self.work.result()
        laws = [*measured.leading, *(law for strip in measured.strips for law in strip.leading)]
        for token in {*measured.tokens, *(token for law in laws for token, _ in law)} - self.texts.keys():
            self.texts[token] = visible(pair.token_text(token))
        if self.work.done:
            self.work = None  # its caches are megabytes

    def show(self, token: int) -> str:
        return self.texts[token]


def section() -> None:
    """The choice of a text, and its strips."""
    st.write(
        "At each token of a fixed text: how much do target and drafter overlap? β = Σ min(p, q) is the "
        "probability that the drafter's token would be accepted there."
    )
    wish = _choose()
    job, busy = current(), models.going(models.SAME, models.SHAPES)
    pressed = jobs.button(keys.STRIP_TOGGLE, "Measure", job, disabled=wish is None or busy, type="primary")
    if pressed and wish is not None:
        jobs.start(jobs.keep(models.ALONG, Along(wish, models.recipe())))
        st.rerun()
    jobs.progress(job, "The measurement broke off.", bar=job is not None and job.measured is None)
    if job is None or job.measured is None:
        _nothing_yet(job)
        return
    _progress(job, wish)
    _figures(job)


def current() -> Along | None:
    """The measurement that is shown or made."""
    return jobs.kept(models.ALONG)


def _choose() -> Wish | None:
    titles = {r.name: f"Run: {r.title} (recorded)" for r in traces.RECORDINGS}
    titles |= {e.name: f"Run: {e.title}" for e in runs.mine()}
    options = [*SAMPLES, OWN, *titles]
    if st.session_state.get(keys.STRIP_SOURCE) not in options:
        st.session_state[keys.STRIP_SOURCE] = next(iter(SAMPLES))
    st.session_state.setdefault(keys.STRIP_TEXT, SAMPLES[next(iter(SAMPLES))])
    left, right = st.columns([3, 1.2])
    with right:
        source = st.selectbox(
            "Text from",
            options,
            format_func=lambda name: titles.get(name, name[:1].upper() + name[1:]),
            key=keys.STRIP_SOURCE,
            on_change=_source_changed,
            disabled=models.going(),
        )
        temperature = st.number_input(
            "Temperature of p and q",
            0.0,
            2.0,
            1.0,
            step=0.1,
            format="%.2f",
            key=keys.STRIP_TEMPERATURE,
            disabled=models.going(),
            help="At 0 both are one-hot: β is 1 where the first choices agree, else 0.",
        )
    with left:
        if source not in titles:
            text = st.text_area(
                "Text",
                key=keys.STRIP_TEXT,
                height=140,
                max_chars=4000,
                on_change=_text_changed,
                disabled=models.going(),
            )
            return Wish(text, (), CONTEXT, temperature) if text.strip() else None
        entry = runs.entry_by_name(source)
        if entry is None or not entry.trace.output_ids:
            st.info("This run has written nothing yet.")
            return None
        trace = entry.trace
        st.text("".join(visible(trace.tokens[t]) for t in trace.output_ids))
        st.caption("What this run wrote is measured; its prompt is context.")
        first = max(1, len(trace.prompt_ids))
        return Wish("", trace.prompt_ids + trace.output_ids, first, temperature)


def _source_changed() -> None:
    sample = SAMPLES.get(st.session_state[keys.STRIP_SOURCE])
    if sample is not None:
        st.session_state[keys.STRIP_TEXT] = sample


def _text_changed() -> None:
    st.session_state[keys.STRIP_SOURCE] = OWN


def _nothing_yet(job: Along | None) -> None:
    if models.going(models.ALONG):
        st.skeleton(height=180)
        return
    if job is None:
        st.info(
            "**Measure** loads the models, leads the target and its drafters once along this text, and "
            "shows β under each token. It draws nothing at random. A text of fifty tokens takes about "
            "half a minute on two laptop cores, loading included; the first time the target is fetched as "
            "well (93 MB).",
            icon=":material/straighten:",
        )


def _progress(job: Along, wish: Wish | None) -> None:
    measured = job.measured
    assert measured is not None
    done = len(measured.leading)
    if models.going(models.ALONG):
        st.progress(done / job.total, f"{done} of {job.total} positions")
    elif not job.done:
        st.caption(f"Stopped after {done} of {job.total} positions: the figures are those of these.")
    read = job.total + job.wish.first
    if job.whole > read:
        st.caption(f"The text has {job.whole:,} tokens; the first {read} are looked at.")
    if wish is not None and wish != job.wish and not models.going():
        st.badge("text or temperature changed: Measure again", color="yellow", icon=":material/edit:")


def _figures(job: Along) -> None:
    measured = job.measured
    assert measured is not None
    notation: Notation = st.session_state.get(keys.NOTATION) or "leviathan"
    st.table(_table(measured), hide_index=True, border="horizontal")
    st.caption(_sentence(measured))
    strips(measured, job.show, name, notation, key=keys.STRIPS)
    for kind, reason in measured.missing.items():
        st.caption(f"Not to be had with this target: {name(kind)}.")
        st.text(reason)
    st.markdown("##### Expected tokens a round, for K = 1 … 8")
    st.plotly_chart(charts.tokens_by_k(measured.strips, name), config=CONFIG, key=keys.TOKENS_BY_K)
    st.caption(charts.describe_tokens(measured.strips, name))
    with st.expander("How these two are computed", icon=":material/functions:"):
        st.markdown(
            "**Along the strip** (simulated): rounds of K drafts are made along this very text. A round "
            "accepts its drafts one after another, each with the β of its position, independently, until "
            "one is refused, nothing is proposed, or K are accepted; it adds one token, and the next round "
            "starts behind it. The figure is the expectation over all such walks, tokens over rounds, "
            "computed without random numbers, from the rounds that still have K positions before them. In a "
            "real run a refusal changes the text; here the text stays.\n\n"
            "**Formula**: (1 − α^(K+1)) / (1 − α) with α the mean β of the strip, as if every position were "
            "alike (Leviathan et al. 2023). A position without a proposal counts as 0. Medusa and EAGLE have "
            "an α for each token of a block: 1 + α₁ + α₁α₂ + …\n\n"
            "Medusa's head i and EAGLE's i-th step on its own features are measured behind the text's own "
            "tokens, up to the fourth; EAGLE's later steps are taken to be like the fourth, and Medusa's "
            "blocks end with its last head. Prompt lookup looks up anew at every token, where a real block "
            "copies on."
        )


def _table(measured: Measured) -> dict[str, list[str]]:
    rows = measured.strips
    return {
        "Drafter": [title(s.kind) for s in rows],
        "Mean β": [f"{s.mean():.3f}" for s in rows],
        "Later in a block": [_later(s) for s in rows],
        "Proposes at": [f"{s.coverage:.0%}" for s in rows],
        "Same first choice": [f"{measured.agreement(s):.0%}" for s in rows],
        "p outside its vocabulary": [number(float(s.outside.mean())) for s in rows],
        "Tokens a round, K = 4": [_two(walk_tokens(s, 4)) for s in rows],
        "by the formula": [_two(formula_tokens(s, 4)) for s in rows],
    }


def _later(strip: Strip) -> str:
    means = [strip.mean(depth) for depth in range(1, len(strip.beta)) if depth < len(strip.first)]
    return " ".join(f"{mean:.2f}" for mean in means) or "–"


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _sentence(measured: Measured) -> str:
    if not measured.strips:
        return "No drafter is to be had with this target."
    best = max(measured.strips, key=lambda s: s.mean())
    text = (
        f"On {count(len(measured.leading), 'position')} the {name(best.kind)} overlaps most with the target: "
        f"mean β {best.mean():.2f}."
    )
    silent = [s for s in measured.strips if s.coverage < 1.0]
    if silent:
        shares = [
            f"{name(s.kind)} at {s.coverage:.0%}"
            + (f" (β {s.mean() / s.coverage:.2f} there)" if s.mean() else "")
            for s in silent
        ]
        text += f" Not all propose everywhere: {', '.join(shares)}."
    trimmed = [s for s in measured.strips if s.outside.any()]
    if trimmed:
        mass = float(trimmed[0].outside.mean())
        text += f" On average {number(mass)} of p lies on tokens that a trimmed draft can never propose."
    return text


def name(kind: str) -> str:
    """A drafter's name for people."""
    return links.DRAFTERS.get(kind, kind)


def title(kind: str) -> str:
    """Its name at the beginning of a line."""
    return name(kind)[:1].upper() + name(kind)[1:]
