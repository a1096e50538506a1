"""Check 2: the rule applied up to ten million times, beside a faulty one that must be caught."""

import streamlit as st

from specviz.decoding.faults import Fault
from specviz.exactness.arithmetic import TOLERANCE
from specviz.exactness.sampling import SamplingCheck, SamplingTest
from specviz.exactness.sequential import THRESHOLD, draws_needed
from specviz.reading.prose import number
from specviz.ui.exactness import badges, charts, chosen_fault
from specviz.ui.exactness.arithmetic import sums
from specviz.ui.exactness.examined import Examined, memo
from specviz.ui.shell.palette import CONFIG
from specviz.ui.state import jobs, keys

GOALS = ("1,000", "10,000", "100,000", "1,000,000", "10,000,000")
BIASES = ("0.1", "0.03", "0.01", "0.003", "0.001")
FIRST = 1000  # draws that the page makes unasked, so that there is something to see
CHUNK = 1 << 17
SAYS = {"agrees": badges.AGREES, "contradicts": badges.DISAGREES, "too few": badges.TOO_FEW}


class Drawing(jobs.Job):
    """The draws of the exact rule and of the fault beside it; both are always equally many.

    Attributes:
        key: the position and the fault.
        goal: draws to stop at.
        caught_at: draws after which a look at the fault's raised the alarm first.
    """

    def __init__(self, examined: Examined, fault: Fault | None, seed: int) -> None:
        super().__init__()
        self.key = examined.key, fault and fault.name, seed
        self.columns = examined.columns
        self._bytes = 64 * examined.spot.p.nbytes  # guide tables, counts and distributions of both
        self.goal = FIRST
        self.exact = SamplingTest(examined.spot, None, seed)
        self.control = None if fault is None else SamplingTest(examined.spot, fault, seed)
        self.caught_at: int | None = None
        self._checks: tuple[int, SamplingCheck, SamplingCheck | None] | None = None
        self._add(FIRST)

    @property
    def total(self) -> int:
        return self.exact.draws.total

    @property
    def done(self) -> bool:
        return self.total >= self.goal

    @property
    def share(self) -> float:
        return self.total / self.goal

    @property
    def bytes(self) -> int:
        return self._bytes

    def turn(self) -> None:
        """Up to twice as many draws, so that one sees the bars settle."""
        self._add(min(CHUNK, self.total, self.goal - self.total))

    def checks(self) -> tuple[SamplingCheck, SamplingCheck | None]:
        """What the draws so far say."""
        if self._checks is None or self._checks[0] != self.total:
            control = None if self.control is None else self.control.check(self.columns)
            self._checks = self.total, self.exact.check(self.columns), control
            if control is not None and control.caught and self.caught_at is None:
                self.caught_at = self.total
        return self._checks[1:]

    def _add(self, n: int) -> None:
        self.exact.add(n)
        if self.control is not None:
            self.control.add(n)


def drawing(examined: Examined) -> Drawing:
    """The draws at this position beside the chosen fault."""
    fault = chosen_fault.fault()
    control = fault if examined.decides(fault) else None
    seed = st.session_state.get(keys.DRAW_SEED, 0)
    name = keys.of(keys.DRAWING, *examined.key, control and control.name, seed)
    return jobs.kept(name) or jobs.keep(name, Drawing(examined, control, seed))


def needed(examined: Examined, fault: Fault) -> int | None:
    """Draws after which this fault is caught 9 times of 10, from its exact distribution; None for never."""

    def make() -> int | None:
        law = fault.law(examined.spot)
        assert law is not None
        return draws_needed(examined.spot.p, law / law.sum())

    return memo(examined, "needed", fault.name, make=make)


def card(examined: Examined) -> None:
    job = drawing(examined)
    with job.lock:
        exact, control = job.checks()
    with st.container(border=True, key=keys.CARD_SAMPLING):
        badges.title("2 · By sampling")
        _controls(job)
        jobs.progress(job, "The draws broke off.", bar=False)
        left, right = st.columns(2, gap="medium")
        top = charts.scale(*(c.bars for c in (exact, control) if c is not None))
        with left:
            st.markdown(f"**the exact rule** {badges.badge(SAYS[exact.says])}")
            _result(exact, examined, "exact", top, faulty=False)
        with right:
            fault = chosen_fault.fault()
            if control is None:
                _no_control(examined, fault)
            else:
                st.markdown(
                    f"**control: {_lower(fault.title)}** {badges.badge(_verdict(examined, fault, control))}"
                )
                _result(control, examined, "control", top, faulty=is_biased(examined, fault))
        if exact.says == "too few":
            st.info(f"Too few draws to tell: {exact.why_too_few}", icon=":material/hourglass_empty:")
        elif exact.says == "contradicts":
            st.warning(
                "The exact rule's draws contradict p. By chance that happens in at most 1 of 1,000 series of "
                "draws, however often you look or draw on. Start over with other draws: if it happens again, "
                "the rule is broken.",
                icon=":material/warning:",
            )
        if control is not None:
            _negative_control(examined, chosen_fault.fault(), control)
        _bias(job, examined)


def _controls(job: Drawing) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        goal = st.selectbox(
            "Draws",
            GOALS,
            index=2,
            key=keys.DRAWS,
            bind="query-params",
            label_visibility="collapsed",
            width=140,
        )
        left = int(goal.replace(",", "")) - job.total
        if jobs.button(
            keys.DRAW_TOGGLE,
            "Continue" if job.total > FIRST and left > 0 else "Draw",
            job,
            type="primary",
            disabled=left <= 0,
            help="Goes on until this many draws are made. Looking in between costs nothing: the test "
            "holds however often you look.",
        ):
            job.goal = int(goal.replace(",", ""))
            jobs.start(job)
            st.rerun()
        st.button(
            "Start over",
            key=keys.DRAW_ANEW,
            on_click=_anew,
            icon=":material/refresh:",
            help="Other draws.",
        )
        st.markdown(f"**{job.total:,}** draws so far")
        if job.active:
            st.progress(min(1.0, job.share), width=120)


def _anew() -> None:
    st.session_state[keys.DRAW_SEED] = st.session_state.get(keys.DRAW_SEED, 0) + 1


def _result(check: SamplingCheck, examined: Examined, name: str, top: float, faulty: bool) -> None:
    noise = check.noise
    st.caption(
        f"Distance from p (TV): **{check.tv:.4f}**; chance alone gives {noise.mean:.4f} after this many "
        f"draws ({noise.low:.4f} to {noise.high:.4f})  \n"
        f"{_evidence(check)}  \n{check.single_look}"
    )
    st.plotly_chart(
        charts.shares(
            check.bars, examined.show, examined.others, faulty=faulty, top=top, law=name == "control"
        ),
        key=keys.of(keys.SAMPLING, name),
        config=CONFIG,
        alt=charts.describe_shares(check.bars, examined.show),
    )
    st.caption(_kept(check))


def _evidence(check: SamplingCheck) -> str:
    if check.evidence.impossible:
        return f"{check.evidence.impossible:,} draws gave a token that p excludes"
    return (
        f"Evidence against p: **{check.evidence.words}**. It starts at 1; exact decoding passes "
        f"{THRESHOLD:,.0f} in at most 1 of 1,000 series, however often one looks"
    )


def _kept(check: SamplingCheck) -> str:
    text = (
        f"Kept: {check.accepted:.2%} of the drafts ({check.accepted_low:.2%} to {check.accepted_high:.2%}); "
        f"β is {check.beta:.2%}"
    )
    if abs(check.acceptance - check.beta) > 1e-9:
        text += f", this rule's own rate {check.acceptance:.2%}"
    return text + "."


def is_biased(examined: Examined, fault: Fault) -> bool:
    """Whether the output of a fault that is decided here does not follow p."""
    return sums(examined, fault).tv > TOLERANCE


def _verdict(examined: Examined, fault: Fault, check: SamplingCheck) -> badges.Verdict:
    if check.caught:
        return badges.CAUGHT
    return badges.NOT_YET if is_biased(examined, fault) else SAYS[check.says]


def _negative_control(examined: Examined, fault: Fault, check: SamplingCheck) -> None:
    """Says plainly if the control was not caught, and why."""
    if check.caught:
        return
    if fault.kind == "bookkeeping":
        st.info(
            "This check stays green, and must: the fault feeds the rule wrong rows, and the rule itself is "
            "right. What is fed is the second surface of correctness; check 5 looks at it.",
            icon=":material/call_split:",
        )
    elif fault.kind == "wasteful":
        st.info(
            "Nothing to catch: this variation is exact. It only accepts less than it could.",
            icon=":material/info:",
        )
    elif not is_biased(examined, fault):
        needs = f" It needs {fault.needs}." if fault.needs else ""
        st.info(f"At this position the fault's output follows p itself.{needs}", icon=":material/info:")
    else:
        goal = needed(examined, fault)
        many = "no number of draws shows it here" if goal is None else f"it takes about {goal:,} draws"
        st.warning(
            f"The negative control was **not caught**: after {check.draws:,} draws the check cannot tell "
            f"this fault from the exact rule. To catch it 9 times out of 10 {many} "
            f"(its output is only {number(sums(examined, fault).tv)} away from p).",
            icon=":material/visibility_off:",
        )


def _no_control(examined: Examined, fault: Fault) -> None:
    why = "needs the full vocabulary" if fault.one_position else "not at one position"
    st.markdown(f"**control: {_lower(fault.title)}** {badges.badge(('gray', why))}")
    if fault.one_position:
        st.info(
            "The recorded table does not decide what this fault does: it looks at every token, at other rows "
            "or at the logits. Choose the full vocabulary above.",
            icon=":material/open_in_full:",
        )
    else:
        st.info(
            "This fault shows over several positions only. Whole continuations, check 4, catch it.",
            icon=":material/route:",
        )


def _lower(title: str) -> str:
    """A title in the middle of a line: "K" and the like stay large."""
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def _bias(job: Drawing, examined: Examined) -> None:
    """How many draws a bias of a chosen size takes."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("If the draft leaked into the output and moved it this far from p (TV)", width="content")
        bias = st.selectbox(
            "Bias",
            BIASES,
            index=2,
            key=keys.BIAS,
            bind="query-params",
            label_visibility="collapsed",
            width=100,
        )
        goal = memo(examined, "bias", bias, make=lambda: job.exact.draws_needed(float(bias)))
        if goal is None:
            text = "Impossible here: p and q are closer than that."
        else:
            more = goal - job.total
            enough = f"{more:,} more than now" if more > 0 else "there are enough"
            text = f"it takes about **{goal:,}** draws to see it 9 times out of 10: {enough}."
        st.caption(text, width="content")
