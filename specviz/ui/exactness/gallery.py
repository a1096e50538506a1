"""The fault gallery: the list with distances and catches, and the chosen fault explained."""

from dataclasses import replace

import streamlit as st

from specviz.decoding.faults import FAULTS, Fault, Kind
from specviz.exactness.arithmetic import TOLERANCE
from specviz.exactness.sampling import draws_until_caught
from specviz.reading.prose import count, number
from specviz.recipe import to_link
from specviz.speed.formulas import expected_tokens
from specviz.ui.exactness import badges, caches, charts, chosen_fault, continuations, sampling
from specviz.ui.exactness.arithmetic import sums
from specviz.ui.exactness.examined import Examined
from specviz.ui.exactness.memory import remember
from specviz.ui.shell.markup import code
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import jobs, keys
from specviz.ui.state.owner import owner

MOST = 1_000_000
GROUPS: dict[Kind, tuple[str, badges.Verdict]] = {
    "law": ("Mistakes that change the output", ("orange", "wrong")),
    "lossy": ("Meant to change it, for speed", ("violet", "lossy by design")),
    "wasteful": ("Right, but accepts too little", ("blue", "exact but wasteful")),
    "bookkeeping": ("Right rule, wrong caches", ("yellow", "bookkeeping")),
}
SLIDERS = {"lenience": ("Lenience", 0.05, 1.0), "top-p-set": ("Mass of the set", 0.05, 1.0)}


class Measuring(jobs.Job):
    """How many draws it takes to catch each fault at a position.

    Attributes:
        found: by the fault's name; None if the most were not enough. Outlives the job.
        waiting: the faults still to do.
    """

    def __init__(self, examined: Examined) -> None:
        super().__init__()
        self.examined = examined
        self.found: dict[str, int | None] = remember((owner(), examined.key, "caught"), dict)
        self.all = [f for f in FAULTS.values() if changes(examined, f)]
        self.waiting = [f for f in self.all if f.name not in self.found]

    @property
    def done(self) -> bool:
        return not self.waiting

    @property
    def share(self) -> float:
        return 1.0 - len(self.waiting) / max(1, len(self.all))

    @property
    def bytes(self) -> int:
        return 4 * self.examined.spot.p.nbytes

    def turn(self) -> None:
        """One fault."""
        fault = self.waiting[0]
        self.found[fault.name], _ = draws_until_caught(self.examined.spot, fault, MOST)
        self.waiting.pop(0)


def measuring(examined: Examined) -> Measuring:
    """The job at this position."""
    name = keys.of(keys.MEASURING, *examined.key)
    return jobs.kept(name) or jobs.keep(name, Measuring(examined))


def changes(examined: Examined, fault: Fault) -> bool:
    """Whether the fault's output at this position is known not to follow p."""
    return examined.decides(fault) and sums(examined, fault).tv > TOLERANCE


def card(examined: Examined) -> None:
    job = measuring(examined)
    with st.container(border=True, key=keys.CARD_FAULTS):
        badges.title("Fault gallery")
        st.caption(
            "Choose a mistake: the picture and the checks show what becomes of the output. TV: how far it is "
            "from p at this position, 0 to 1."
        )
        with st.container(height=430, border=False, key=keys.FAULTS):
            _list(examined, job)
        _measure_button(job)
    with st.container(border=True, key=keys.CARD_FAULT):
        _explain(examined, chosen_fault.fault(), job)


def _list(examined: Examined, job: Measuring) -> None:
    chosen = chosen_fault.family(chosen_fault.fault().name)
    for kind, (heading, badge) in GROUPS.items():
        names = [f.name for f in FAULTS.values() if f.kind == kind]
        labels = {name: _line(examined, FAULTS[name], job) for name in names}
        key = keys.of(keys.FAULTS, kind)
        st.session_state[key] = chosen if chosen in names else None
        st.markdown(f"**{heading}** {badges.badge(badge)}")
        st.radio(
            heading,
            names,
            index=None,
            format_func=labels.__getitem__,
            key=key,
            on_change=_choose,
            args=(key,),
            label_visibility="collapsed",
            width="stretch",
        )


def _choose(key: str) -> None:
    name = st.session_state[key]
    if name:
        chosen_fault.choose(name)


def _line(examined: Examined, fault: Fault, job: Measuring) -> str:
    return f"{fault.title} :gray[{_distance(examined, fault)}] :gray[{_catch(examined, fault, job)}]"


def _distance(examined: Examined, fault: Fault) -> str:
    if not examined.decides(fault):
        return "–"
    tv = sums(examined, fault).tv
    return f"TV {number(tv)}" if tv > TOLERANCE else "TV 0"


def _catch(examined: Examined, fault: Fault, job: Measuring) -> str:
    """The short word on what catches it."""
    if fault.kind == "bookkeeping":
        bad, _ = caches.results(examined.entry).get(fault.name, (None, 0))
        return "caches" if bad is None else f"round {bad}"
    if fault.kind == "wasteful":
        return "nothing to catch"
    if not fault.one_position:
        texts = continuations.results(examined.entry).get(fault.name)
        return "end to end" if texts is None or texts.ok else f"{texts.continuations:,} texts"
    if not examined.decides(fault):
        return "full vocab."
    if fault.name in job.found:
        found = job.found[fault.name]
        return "not in 10⁶" if found is None else f"draw {found:,}"
    return "draws" if changes(examined, fault) else "not here"


def _measure_button(job: Measuring) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if job.active or job.waiting:
            if jobs.button(
                keys.GALLERY_TOGGLE,
                "Measure after how many draws each is caught",
                job,
                icon=":material/speed:",
                help="Draws with each fault at this position, twice as many each time, until check 2 raises "
                "the alarm; a million at most.",
            ):
                jobs.start(job)
                st.rerun()
            if job.active:
                st.progress(job.share, width=120)
        elif job.all:
            st.caption(f"Measured at this position: {count(len(job.all), 'fault')}, a million draws at most.")
        jobs.progress(job, "The measurement broke off.", bar=False)


def _explain(examined: Examined, fault: Fault, job: Measuring) -> None:
    _, badge = GROUPS[fault.kind]
    st.markdown(f"##### {fault.title} {badges.badge(badge)}", anchors=False)
    st.markdown(fault.does)
    _slider(fault)
    if examined.decides(fault):
        found = sums(examined, fault)
        st.plotly_chart(
            charts.stack(found, examined.show, examined.others, height=180, letters=charts.NARROW),
            key=keys.FAULT_LAW,
            config=CONFIG,
            alt=charts.describe_stack(found, examined.show),
        )
        st.caption(_law_words(examined, fault))
    lines = [("Acceptance meanwhile", _speed(examined, fault)), ("Caught by", _catcher(examined, fault, job))]
    lines.append(("On the timeline", fault.timeline))
    if fault.needs:
        lines.append(("Shows only with", fault.needs))
    st.markdown("\n".join(f"- **{name}:** {text}" for name, text in lines))
    if fault.seen:
        links = " · ".join(
            f"[{_escaped(name)}]({link})" for name, link in zip(fault.seen, fault.links, strict=True)
        )
        st.markdown(f"Seen in public: {links}")
    _to_rounds(examined, fault)


def _slider(fault: Fault) -> None:
    kind, _, value = fault.name.partition("=")
    if kind not in SLIDERS:
        return
    label, low, high = SLIDERS[kind]
    key = keys.of(kind, keys.PARAMETER)
    st.session_state[key] = min(high, max(low, float(value)))

    def move() -> None:
        chosen_fault.choose(f"{kind}={st.session_state[key]:g}")

    st.slider(label, low, high, step=0.01, key=key, on_change=move)


def _law_words(examined: Examined, fault: Fault) -> str:
    found = sums(examined, fault)
    if found.tv <= TOLERANCE:
        return "Its output follows p at this position: kept and corrected mass fill p exactly."
    most = max((s for s in found.shares if s.token is not None), key=lambda s: abs(s.total - s.p))
    assert most.token is not None
    return (
        f"Its output is exactly {number(found.tv)} away from p (TV). The largest difference: "
        f"{number(most.total)} instead of {number(most.p)} for {code(examined.show(most.token))}."
    )


def _speed(examined: Examined, fault: Fault) -> str:
    """What the speed figures say while this fault is at work."""
    if not examined.decides(fault):
        return "not decided by this position alone."
    found = sums(examined, fault)
    if fault.kind == "bookkeeping" or abs(found.acceptance - found.beta) < 1e-9:
        what = "as it should be here" if fault.kind != "bookkeeping" else "given right rows, as it should be"
        return f"{found.acceptance:.1%}, {what} (β)."
    better = "**looks better**" if found.acceptance > found.beta else "looks worse"
    k = examined.entry.trace.k
    tokens, honest = expected_tokens(found.acceptance, k), expected_tokens(found.beta, k)
    return (
        f"{found.acceptance:.1%} instead of β = {found.beta:.1%}: it {better}. Were every position like this "
        f"one, {tokens:.2f} tokens a round instead of {honest:.2f} (estimated, K = {k})."
    )


def _catcher(examined: Examined, fault: Fault, job: Measuring) -> str:
    """Which check catches it, and when."""
    if fault.kind == "wasteful":
        return "nothing, as the output is exact; the acceptance rate tells."
    if fault.kind == "bookkeeping":
        side = "target" if fault.name.startswith("target") else "draft"
        more = " and 4, as the text follows another distribution" if side == "target" else ""
        measured = _on_runs(examined, fault)
        return f"check 5{more}{measured}. Check 2 stays green: the rule itself is right."
    if not fault.one_position:
        return f"check 4, over several positions{_on_runs(examined, fault)}."
    if not examined.decides(fault):
        return "check 2, over the full vocabulary."
    if not changes(examined, fault):
        return "nothing at this position, where its output follows p."
    text = "check 2"
    if fault.name in job.found:
        found = job.found[fault.name]
        text += f", measured: {'not within 1,000,000 draws' if found is None else f'after {found:,} draws'}"
    expected = sampling.needed(examined, fault)
    text += (
        "; by arithmetic, no number of draws would do"
        if expected is None
        else f"; 9 times out of 10 within about {expected:,} draws, computed"
    )
    return text + "."


def _on_runs(examined: Examined, fault: Fault) -> str:
    """What the checks of whole runs made of it, if they were run with it."""
    found = []
    bad, rounds = caches.results(examined.entry).get(fault.name, (None, 0))
    if rounds:
        found.append("in no round" if bad is None else f"after {count(bad, 'round')}")
    texts = continuations.results(examined.entry).get(fault.name)
    if texts is not None:
        found.append(f"{'not in' if texts.ok else 'in'} {texts.continuations:,} continuations")
    return f", measured: {', '.join(found)}" if found else " (run it with the fault)"


def _to_rounds(examined: Examined, fault: Fault) -> None:
    recipe = examined.entry.recipe
    if recipe is None:
        return
    st.page_link(
        "pages/rounds.py",
        label="Let it judge a run, on the Rounds page",
        icon=":material/timeline:",
        query_params=to_link(replace(recipe, rule=chosen_fault.family(fault.name))),
    )


def _escaped(name: str) -> str:
    return name.replace("#", "\\#").replace("_", "\\_")
