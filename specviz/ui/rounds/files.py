"""Opening and saving: traces, tables, pages."""

from dataclasses import fields, replace
from decimal import Decimal
from typing import Any

import streamlit as st

from specviz.decoding import codec
from specviz.decoding.block import EXACT_RULES
from specviz.decoding.controls import SamplingConfig
from specviz.decoding.drafters import DRAFTERS
from specviz.decoding.faults import FAULTS
from specviz.decoding.trace import Trace
from specviz.decoding.tree import TREE
from specviz.models.asked import needs_tokenizer, turns_text, why_not
from specviz.reading import export
from specviz.reading.html_export import round_html, run_html
from specviz.recipe import BUILT_IN, CONTROLS, EXACT, Recipe, clamp, from_link, replaced
from specviz.tokens import visible
from specviz.ui.state import address, keys, runs
from specviz.ui.state.runs import Entry

CONSTRAINTS = ("banned", "bias", "forced", "min_new_tokens", "grammar")
# Names of pairs in traces, and the draft that makes them.
PAIRS = {BUILT_IN: "", f"{BUILT_IN} + {BUILT_IN}": BUILT_IN}


def panel(entry: Entry) -> None:
    if "files" in address.hidden():
        return
    with st.expander(
        "Save and open", icon=":material/folder_open:", key=keys.FILES_OPEN, on_change="rerun"
    ) as opened:
        if not opened.open:
            return
        trace, name = entry.trace, f"specviz-{entry.name}"

        with st.container(horizontal=True):
            _save("Trace", lambda: codec.dumps(trace, compress=True), f"{name}.json.gz")
            for title, frame in (
                ("rounds", export.rounds_frame),
                ("positions", export.positions_frame),
                ("tables", export.tables_frame),
            ):
                _save(f"CSV {title}", lambda f=frame: export.csv_bytes(f(trace)), f"{name}-{title}.csv")
                _save(
                    f"Parquet {title}",
                    lambda f=frame: export.parquet_bytes(f(trace)),
                    f"{name}-{title}.parquet",
                )
            _save("Page of the run", lambda: run_html(trace, visible).encode(), f"{name}.html")
        st.file_uploader(
            "Open a trace",
            type=["json", "gz"],
            key=keys.UPLOAD,
            on_change=_open,
            max_upload_size=64,
            help="A .json or .json.gz saved here or by `python -m specviz trace --out`. No model is needed.",
        )
        trouble = st.session_state.pop(keys.FILE_TROUBLE, "")
        if trouble:
            st.error("This file cannot be opened.", icon=":material/error:")
            st.text(trouble)


def save_round(entry: Entry, number: int) -> None:
    """A button that saves one round as a page."""
    if "files" not in address.hidden():
        _save(
            f"Page of round {number}",
            lambda: round_html(entry.trace, number, visible).encode(),
            f"specviz-{entry.name}-round-{number}.html",
        )


def _save(label: str, make, name: str) -> None:
    st.download_button(
        label, make, name, on_click="ignore", icon=":material/download:", key=keys.of(keys.SAVE, label)
    )


def _open() -> None:
    upload = st.session_state.get(keys.UPLOAD)
    if upload is None:
        return
    try:
        trace = codec.loads(upload.getvalue())
    except codec.TraceError as error:
        st.session_state[keys.FILE_TROUBLE] = f"{upload.name}: {error}"
        return
    title = f"{upload.name[:40]}"
    runs.show(Entry(runs.new_name(), title, "file", trace, recipe_of(trace)))


def recipe_of(trace: Trace) -> Recipe | None:
    """The settings that a trace was made with; None if the controls of this version cannot say them."""
    recipe = _written(trace) or _rebuilt(trace)
    if recipe is None or recipe.drafter not in DRAFTERS or recipe.rule not in (*EXACT_RULES, *FAULTS):
        return None
    values = {f.name: getattr(recipe, f.name) for f in fields(Recipe)}
    sayable = len(trace.stop) < 2 and not trace.written and not why_not(recipe)
    return recipe if sayable and all(clamp(*item) == item[1] for item in values.items()) else None


def _written(trace: Trace) -> Recipe | None:
    """The recipe that a trace keeps, if it says what the trace says."""
    given = dict(trace.recipe)
    if not given or replaced(given):
        return None
    recipe = from_link(given)
    if not recipe.ids:
        recipe = replace(recipe, prompt=trace.prompt)
    agree = (
        (recipe.ids or trace.prompt) and recipe.chat == trace.chat,
        recipe.conversation == trace.conversation,
        recipe.drafter in (trace.drafter, "model" if trace.drafter in DRAFTERS else ""),
        trace.pair.name not in PAIRS or (recipe.target, recipe.draft) == (BUILT_IN, PAIRS[trace.pair.name]),
        _same_controls(recipe, trace),
        recipe.tree == trace.tree and (recipe.tree or recipe.k == trace.k),
        (recipe.seed, recipe.max_tokens) == (trace.seed, trace.max_new_tokens),
        recipe.stop == "".join(trace.stop) and recipe.ignore_eos == trace.ignore_eos,
    )
    return recipe if all(agree) else None


def _same_controls(recipe: Recipe, trace: Trace) -> bool:
    """Whether a recipe's controls are a trace's; tokens that it names by their texts are taken on trust."""
    kept = trace.sampling, trace.draft_sampling
    if needs_tokenizer(recipe.bias, recipe.ban, recipe.force):
        recipe = replace(recipe, bias="", ban="", force="")
        target, draft = (replace(sampling, bias=(), banned=(), forced=()) for sampling in kept)
        kept = target, draft
    try:
        return recipe.samplings(None) == kept
    except ValueError:
        return False


def _rebuilt(trace: Trace) -> Recipe | None:
    """The recipe of a trace that keeps none, from what it says of its run."""
    rule = trace.rounds[0].verifier if trace.rounds else EXACT
    constraints = _constraints(trace.sampling, trace.draft_sampling)
    if trace.pair.name not in PAIRS or constraints is None:
        return None
    return Recipe(
        prompt=trace.prompt,
        system=trace.conversation.system,
        turns=turns_text(trace.conversation.earlier),
        template=trace.conversation.settings,
        ids="" if trace.prompt else ", ".join(map(str, trace.prompt_ids)),
        ignore_eos=trace.ignore_eos,
        chat=trace.chat,
        drafter=trace.drafter,
        k=trace.k,
        **_controls(trace.sampling, ""),
        own=_plain(trace.sampling) != _plain(trace.draft_sampling),
        **_controls(trace.draft_sampling, "draft_"),
        seed=trace.seed,
        max_tokens=trace.max_new_tokens,
        stop=trace.stop[0] if trace.stop else "",
        draft=PAIRS[trace.pair.name],
        rule=EXACT if rule == TREE else rule,
        **constraints,
        tree=trace.tree,
    )


def _plain(sampling: SamplingConfig) -> SamplingConfig:
    """The controls without those of single tokens and of the text."""
    untouched: dict[str, Any] = {f.name: f.default for f in fields(SamplingConfig) if f.name in CONSTRAINTS}
    return replace(sampling, **untouched)


def _constraints(target: SamplingConfig, draft: SamplingConfig) -> dict[str, Any] | None:
    """The fields of a recipe for them; None where target and draft have different ones."""
    free = SamplingConfig()
    mine, its = ([getattr(c, name) for name in CONSTRAINTS] for c in (target, draft))
    none = [getattr(free, name) for name in CONSTRAINTS]
    if mine != its and none not in (mine, its):
        return None
    said = draft if mine == none else target
    found: dict[str, Any] = {
        "constrain": "both" if mine == its else "target" if its == none else "draft",
        "ban": ", ".join(map(str, said.banned)),
        "bias": ", ".join(f"{id}:{Decimal(repr(bias)):f}" for id, bias in said.bias),
        "force": ", ".join(map(str, said.forced)),
        "min_tokens": said.min_new_tokens,
    }
    if said.grammar is not None:
        found |= {"grammar": said.grammar.text, "grammar_kind": said.grammar.kind}
    return found


def _controls(sampling: SamplingConfig, prefix: str) -> dict[str, Any]:
    values = (
        sampling.temperature,
        sampling.top_k,
        sampling.top_p,
        sampling.min_p,
        sampling.repetition_penalty,
    )
    return {prefix + name: value for name, value in zip(CONTROLS, values, strict=True)}
