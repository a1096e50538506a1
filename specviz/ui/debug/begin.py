"""Starting an audit from the page: what to load, which prompts, which controls."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from specviz.decoding.drafters import DRAFTERS
from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis import recorded
from specviz.diagnosis.prompts import Prompt, PromptError, parse, read
from specviz.diagnosis.setting import Setting
from specviz.models.asked import why_not
from specviz.models.errors import LoadError
from specviz.recipe import BUILT_IN, Recipe
from specviz.settings import settings
from specviz.ui.debug import shown, work
from specviz.ui.state import feeding, guard, jobs, keys

SOURCES = ("Examples", "Paste", "File")
MOST = 2000  # prompts of an audit on the page; the command line takes more
SAME, OWN = "as the target", "the draft's own template"
STYLES = {SAME: "same", OWN: "own"}
MODEL = "another model"


def panel(now: shown.Shown) -> None:
    """The controls, and the button that starts, stops and goes on."""
    job = work.current()
    going = job is not None and job.active
    with st.expander("Audit your own pair", icon=":material/biotech:", expanded=going, key=keys.DEBUG_OPEN):
        st.write(
            "Runs every prompt with your pair, and measures at each token what other settings would do. "
            "The same on a cluster or in CI: `python -m specviz audit PROMPTS --target … --draft … "
            "--out DIR`."
        )
        setting = _setting(going)
        prompts = _prompts(going)
        _buttons(job, setting, prompts, now)
    if job is not None:
        _stands(job)


def _buttons(
    job: work.Auditing | None, setting: Setting | None, prompts: list[Prompt], now: shown.Shown
) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        needed = () if setting is None else work.recipes(setting)
        refused = next(filter(None, map(guard.refusal, needed)), "")
        ready = setting is not None and bool(prompts) and not refused
        pressed = jobs.button(keys.DEBUG_RUN, "Run audit", job, disabled=not ready, type="primary")
        if pressed and setting is not None and prompts:
            try:
                job = jobs.keep(work.NAME, work.begin(prompts, setting))
            except (OSError, ValueError) as error:
                st.error("The audit could not be started.", icon=":material/error:")
                st.text(str(error))
                return
            st.query_params[shown.AUDIT] = job.name
            jobs.start(job)
            st.rerun()
        _go_on(job, now)
    if refused:
        st.text(refused)


def _stands(job: work.Auditing) -> None:
    """How far an audit is; in sight also where the panel is closed."""
    jobs.progress(job, "The audit broke off. What is measured stays.")
    if job.active or not job.done:
        left = f"{job.audit.done} of {job.audit.total} prompts"
        st.caption(left if job.active else f"Stopped after {left}.")


def _go_on(job: work.Auditing | None, now: shown.Shown) -> None:
    """A button for an audit that lies here unfinished, also after a restart of the server."""
    if now.recorded or (job is not None and job.active):
        return
    done, total = work.progress(now.name)
    if done == total:
        return
    if st.button(f"Go on ({done} of {total})", key=keys.DEBUG_GO_ON, icon=":material/play_arrow:"):
        try:
            mine = job if job is not None and job.name == now.name else work.again(now.name)
        except (LoadError, ValueError, OSError) as error:
            st.error("This audit cannot go on.", icon=":material/error:")
            st.text(str(error))
            return
        jobs.start(jobs.keep(work.NAME, mine))
        st.rerun()


def _kept(disabled: bool) -> dict[str, Any]:
    """What all controls have in common: what they say stays when the page is left."""
    return {"disabled": disabled, "persist_state": "session"}


def _setting(disabled: bool) -> Setting | None:
    kept = _kept(disabled)
    first = st.columns(3)
    target = first[0].text_input(
        "Target", value=BUILT_IN, key=keys.DEBUG_TARGET, **kept, help="built-in, hub id or folder"
    )
    draft = first[1].text_input(
        "Draft",
        key=keys.DEBUG_DRAFT,
        **kept,
        placeholder="the target's own",
        help="hub id or folder",
    )
    drafter = first[2].selectbox("Drafter", list(DRAFTERS), key=keys.DEBUG_DRAFTER, **kept)
    second = st.columns(6)
    most_k, most = settings().max_k, max(2, settings().max_new_tokens)
    k = second[0].number_input("K", 1, most_k, min(4, most_k), key=keys.DEBUG_K, **kept)
    tokens = second[1].number_input("New tokens", 2, most, min(64, most), key=keys.DEBUG_TOKENS, **kept)
    temperature = second[2].number_input(
        "Temperature", 0.0, 2.0, 0.7, 0.1, key=keys.DEBUG_TEMPERATURE, **kept
    )
    top_k = second[3].number_input("Top-k", 0, 200, 0, key=keys.DEBUG_TOP_K, **kept, help="0: off")
    top_p = second[4].number_input("Top-p", 0.05, 1.0, 1.0, 0.05, key=keys.DEBUG_TOP_P, **kept, help="1: off")
    seed = second[5].number_input("Seed", 0, 2**31 - 1, 0, key=keys.DEBUG_SEED, **kept)
    third = st.columns(6)
    own = third[0].toggle("Draft's own controls", key=keys.DEBUG_OWN, **kept)
    sampling = SamplingConfig(float(temperature), int(top_k), float(top_p))
    draft_sampling = sampling
    if own:
        d_temperature = third[1].number_input(
            "Draft temperature", 0.0, 2.0, 0.7, 0.1, key=keys.DEBUG_DRAFT_TEMPERATURE, **kept
        )
        d_top_k = third[2].number_input("Draft top-k", 0, 200, 0, key=keys.DEBUG_DRAFT_TOP_K, **kept)
        d_top_p = third[3].number_input(
            "Draft top-p", 0.05, 1.0, 1.0, 0.05, key=keys.DEBUG_DRAFT_TOP_P, **kept
        )
        draft_sampling = replace(
            sampling, temperature=float(d_temperature), top_k=int(d_top_k), top_p=float(d_top_p)
        )
    chat = third[4].toggle("Chat template", key=keys.DEBUG_CHAT, **kept)
    style = third[5].selectbox(
        "Draft's prompt",
        [SAME, "plain", "chat", OWN],
        key=keys.DEBUG_STYLE,
        **kept,
        help="What the draft reads, if it is served with another template than the target: the plain text, "
        "the target's template, or the one in the draft's own folder.",
    )
    compared = st.selectbox(
        "Second draft",
        ["", MODEL, *DRAFTERS],
        format_func=lambda kind: kind or "no second draft",
        key=keys.DEBUG_SECOND,
        **kept,
        help="Measured on the same texts, for the same target.",
    )
    if compared == MODEL:
        compared = st.text_input(
            "Its model",
            key=keys.DEBUG_SECOND_MODEL,
            **kept,
            placeholder="hub id or folder",
        ).strip()
    constraints = _constraints(disabled)
    try:
        made = Setting(
            target=target.strip() or BUILT_IN,
            draft=draft.strip(),
            drafter=drafter,
            k=int(k),
            sampling=sampling,
            draft_sampling=draft_sampling,
            chat=bool(chat),
            draft_prompt=STYLES.get(style, style),
            max_new_tokens=int(tokens),
            seed=int(seed),
            second=compared if compared != drafter else "",
        )
        if why := why_not(constraints):
            raise ValueError(why)
        return made.constrained(constraints)
    except ValueError as error:
        st.text(str(error))
        return None


def _constraints(disabled: bool) -> Recipe:
    """A recipe with nothing but constraints: the controls of the Rounds page, with values of their own."""
    values: dict[str, Any] = {}

    def draw(name: str, make: Callable[..., Any], *args: Any, **more: Any) -> Any:
        key = keys.of(keys.DEBUG_CONSTRAINT, name)
        values[name] = make(*args, key=key, **_kept(disabled), **more)
        return values[name]

    with st.expander("Constraints", icon=":material/rule:", key=keys.DEBUG_CONSTRAINTS):
        feeding.constraints(draw)
    return Recipe(**values)


def _prompts(disabled: bool) -> list[Prompt]:
    kept = _kept(disabled)
    source = st.segmented_control("Prompts", SOURCES, default=SOURCES[0], key=keys.DEBUG_SOURCE, **kept)
    found: list[Prompt] = []
    try:
        if source == "Paste":
            text = st.text_area(
                "A prompt a line", key=keys.DEBUG_PASTED, height=140, **kept, max_chars=200_000
            )
            found = parse(text, text.lstrip().startswith("{")) if text.strip() else []
        elif source == "File":
            upload = st.file_uploader(
                ".txt (a prompt a line) or .jsonl (prompt or messages, group, answer)",
                type=["txt", "jsonl"],
                key=keys.DEBUG_FILE,
                disabled=disabled,
                max_upload_size=32,
            )
            if upload is not None:
                text = upload.getvalue().decode("utf-8-sig")
                found = parse(text, Path(upload.name).suffix == ".jsonl", upload.name)
        else:
            found = read(recorded.FOLDER / "prompts.jsonl")
    except (PromptError, UnicodeDecodeError) as error:
        st.error("These prompts cannot be used.", icon=":material/error:")
        st.text(str(error))
        return []
    if len(found) > MOST:
        st.warning(f"The page takes the first {MOST:,} of {len(found):,} prompts; the command takes all.")
        found = found[:MOST]
    longest = settings().max_prompt
    short = [prompt for prompt in found if _length(prompt) <= longest]
    if len(short) < len(found):
        st.warning(
            f"{len(found) - len(short):,} prompts are longer than the {longest:,} characters that this "
            "server takes, and are left out."
        )
        found = short
    served = sum(prompt.answer is not None for prompt in found)
    if found:
        st.caption(
            f"{len(found):,} prompts" + (f", {served:,} with a served answer (scored only)" if served else "")
        )
    return found


def _length(prompt: Prompt) -> int:
    """Characters of a prompt, with its conversation and its answer."""
    said = sum(len(content) for _, content in prompt.messages or ())
    return max(len(prompt.text), said) + len(prompt.answer or "")
