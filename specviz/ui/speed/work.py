"""Measuring on the page: what is to be measured, the job, and which report is shown."""

from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakSet

import streamlit as st

from specviz.recipe import BUILT_IN, Recipe, limits, longest_prompt
from specviz.speed import files
from specviz.speed.files import RECORDED
from specviz.speed.report import Report
from specviz.speed.sweep import Plan, Sweep
from specviz.ui.speed import look
from specviz.ui.state import address, jobs, keys, links, pairs

NAME = "speed"  # of the job
HERE = "here"
OWN = "own texts, one a line"
DEFAULT = "prose, code, copying"
TURNS = 2


class Measuring(jobs.Job):
    """A sweep as a job: a pass, a block or a round a turn.

    Args:
        recipe: names the pair.
        plan: what to measure.
    """

    def __init__(self, recipe: Recipe, plan: Plan) -> None:
        super().__init__()
        self.needs = (recipe,)
        self.plan = plan
        self.sweep: Sweep | None = None
        _JOBS.add(self)

    def turn(self, pair: Any) -> None:
        if self.sweep is None:
            self.sweep = Sweep(pair, self.plan)
        self.sweep.attach(pair)
        self.sweep.step()
        if self.done:
            self.sweep.let_go()

    @property
    def done(self) -> bool:
        return self.sweep is not None and self.sweep.done >= self.sweep.total

    @property
    def share(self) -> float | None:
        return None if self.sweep is None else self.sweep.done / self.sweep.total

    @property
    def report(self) -> Report | None:
        """What is known so far, from the first passes on."""
        return None if self.sweep is None or not _worth(self.sweep.report) else self.sweep.report


_JOBS: WeakSet[Measuring] = WeakSet()


def _worth(report: Report | None) -> bool:
    return report is not None and len(report.passes) > 1


def _pair_dropped(pair: Any) -> None:
    """What a measurement has found outlives its pair; going on loads it again."""
    for job in list(_JOBS):
        with job.lock:
            if not job.active and job.sweep is not None and job.sweep.pair is pair:
                job.sweep.let_go()


pairs.shelf().on_drop.append(_pair_dropped)


def current() -> Measuring | None:
    """This owner's measurement, at work or not."""
    return jobs.kept(NAME)


@st.cache_data(show_spinner=False)
def _recorded(name: str) -> str:
    return files.to_json(files.recorded(name))


def recorded(name: str) -> Report:
    return files.from_json(_recorded(name))


def choose(job: Measuring | None) -> tuple[Report, str]:
    """Which report is shown, and about which drafter and K. Returns it, and its name or `HERE`."""
    measured = job.report if job is not None else None
    names = [*([HERE] if measured is not None else []), *RECORDED]
    state = st.session_state
    if state.get(keys.SPEED_SHOWN) not in names:
        state[keys.SPEED_SHOWN] = names[0]
    columns = st.columns([2.4, 1.6, 0.9, 1.1], vertical_alignment="bottom")
    shown = columns[0].selectbox(
        "Measurement",
        names,
        key=keys.SPEED_SHOWN,
        format_func=lambda n: "measured here" if n == HERE else f"recorded: {RECORDED[n]}",
    )
    report = measured if shown == HERE and measured is not None else recorded(shown)
    setting = report.setting
    kinds = [*report.drafters, *(kind for kind in links.DRAFTERS if kind not in report.drafters)]
    if keys.SPEED_DRAFTER not in state:
        state[keys.SPEED_DRAFTER], state[keys.SPEED_K] = setting.drafter, setting.k
    drafter = columns[1].selectbox("Drafter", kinds, key=keys.SPEED_DRAFTER, format_func=look.name)
    k = columns[2].number_input(
        "K", 1, int(limits("k")[1]), key=keys.SPEED_K, help="Draft tokens in a round."
    )
    with columns[3]:
        _button(job, drafter, int(k))
    return replace(report, setting=replace(setting, drafter=drafter, k=int(k))), shown


def _button(job: Measuring | None, drafter: str, k: int) -> None:
    """Measure, Stop or Go on."""
    plan, recipe = _plan(drafter, k), _recipe()
    same = job is not None and not job.done and (_asked(job.plan), job.needs) == (_asked(plan), (recipe,))
    label = "Go on" if same and job is not None and job.sweep is not None else "Measure"
    if jobs.button(keys.SPEED_MEASURE, label, job, type="primary", width="stretch"):
        if not same or job is None:
            job = jobs.keep(NAME, Measuring(recipe, plan))
        st.session_state[keys.SPEED_FRESH] = True
        jobs.start(job)
        st.rerun()


def _asked(plan: Plan) -> Plan:
    """A plan without what the page can show of it either way: looking at another K is no other plan."""
    return replace(plan, drafter="", k=0)


def _plan(drafter: str, k: int) -> Plan:
    state = st.session_state
    own = state.get(keys.SPEED_OWN) or ""
    return Plan(
        drafter=drafter,
        k=k,
        temperature=float(state.get(keys.SPEED_TEMPERATURE, 0.0)),
        prompts=tuple(text for part in own.splitlines() if (text := part.strip())),
        turns=int(state.get(keys.SPEED_TURNS, TURNS)),
        grid=bool(state.get(keys.SPEED_GRID, True)),
    )


def _recipe() -> Recipe:
    state = st.session_state
    chosen = {name: state.get(name) or st.query_params.get(name, "") for name in address.MODELS}
    return Recipe(target=chosen["target"] or BUILT_IN, draft=chosen["draft"])


def options(job: Measuring | None) -> None:
    """What Measure measures."""
    going = job is not None and job.active
    with st.expander("What **Measure** measures", icon=":material/tune:"):
        left, right = st.columns(2)
        with left:
            links.text("target", "Target model", going)
        with right:
            links.text("draft", "Draft model", going)
        left, right = st.columns(2)
        left.text_area(
            "Texts",
            key=keys.SPEED_OWN,
            placeholder="One prompt a line. Empty: three of our own, prose, code and a list to copy.",
            max_chars=longest_prompt(),
            disabled=going,
            height=110,
        )
        with right:
            low, high = limits("temperature")
            st.slider(
                "Temperature",
                low,
                high,
                0.0,
                0.1,
                key=keys.SPEED_TEMPERATURE,
                help=links.HELP["temperature"],
                disabled=going,
            )
            st.slider("Runs of each text by each kind", 1, 10, TURNS, key=keys.SPEED_TURNS, disabled=going)
        st.toggle("Contexts and batches too", True, key=keys.SPEED_GRID, disabled=going)
        st.caption(
            "Passes over 1 to 17 rows, blocks of every drafter that the pair has, then each of them really "
            "run at several K beside plain decoding, 32 tokens a text. The drafter chosen above is run at "
            "more K. With the built-in pair and these texts it takes about four minutes of one core; figures "
            "appear as they come, and Stop keeps them."
        )


def progress(job: Measuring | None) -> None:
    """Where the measurement stands."""
    if job is None:
        if jobs.lost(NAME):
            st.caption("Your last measurement is no longer here: the server needed its memory.")
        return
    jobs.progress(job, "The measurement broke off. What it has found stays; Go on begins that part again.")
    sweep = job.sweep
    if job.active and sweep is not None and sweep.done < sweep.total:
        st.caption(f"Part {sweep.done + 1} of {sweep.total}: {sweep.now}")
    elif not job.active and sweep is not None and not job.done:
        st.caption(f"Stopped after {sweep.done} of {sweep.total} parts. **Go on** measures the rest.")


def turn_to_fresh(job: Measuring | None) -> None:
    """Show what is measured here as soon as there is something. Called before the controls are drawn."""
    state = st.session_state
    if state.get(keys.SPEED_FRESH) and job is not None and job.report is not None:
        state[keys.SPEED_SHOWN] = HERE
        state[keys.SPEED_FRESH] = False


def about(report: Report, shown: str) -> None:
    """What was measured, on what, with which versions, when."""
    setting, machine = report.setting, report.machine
    date = machine.date[:16].replace("T", " ")
    said = (
        f"{setting.pair}, {setting.dtype}, {setting.device} · {machine.short}, transformers "
        f"{machine.transformers}, Python {machine.python} · {date} UTC · temperature "
        f"{setting.temperature:g} · times in {setting.clock}"
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if shown == HERE:
            st.badge("measured here", icon=":material/speed:", color="green")
        else:
            st.badge("recorded", icon=":material/history:", color="gray")
        st.text(said, width="stretch")
    why = f"In {setting.dtype}: {setting.why}. " if setting.why else ""
    if shown != HERE:
        why += "These figures were made on another machine; **Measure** makes them on this one."
    if why:
        st.caption(why)


def downloads(report: Report) -> None:
    """Everything that was measured, as files."""
    with st.container(horizontal=True, gap="small"):
        for kind, made, mime in (
            ("JSON", partial(files.to_json, report), "application/json"),
            ("CSV", partial(files.to_csv, report), "text/csv"),
        ):
            st.download_button(
                kind,
                made,
                f"speed.{kind.lower()}",
                mime,
                key=keys.of(keys.SPEED_SAVE, kind),
                on_click="ignore",
                icon=":material/download:",
            )
