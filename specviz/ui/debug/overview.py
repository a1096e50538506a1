"""The headline, the figures, and whether it is a fault or a weak draft."""

import streamlit as st

from specviz.diagnosis.faults import keeps_itself
from specviz.diagnosis.report import Report
from specviz.diagnosis.walk import span
from specviz.exactness.evidence import THRESHOLD
from specviz.ui.debug import charts, texts
from specviz.ui.shell.markup import plain
from specviz.ui.shell.teaching import chart
from specviz.ui.state import keys

SORTS = {"fault": ":red-badge[fault]", "setting": ":orange-badge[setting]", "draft": ":gray-badge[draft]"}


def headline(report: Report) -> None:
    """The strongest finding, and the others behind it."""
    first, *others = report.findings
    st.markdown(f"### {first.title}")
    st.markdown(f"{SORTS[first.sort]} {plain(first.sentence)}")
    for finding in others:
        st.markdown(f"{SORTS[finding.sort]} **{finding.title}.** {plain(finding.sentence)}")


def audited(report: Report) -> str:
    """What was measured, in a line."""
    setting = report.setting
    parts = [
        f"target {setting.target}",
        f"draft {setting.draft or 'of its own'}",
        f"drafter {setting.drafter}",
        f"K {setting.k}",
        f"temperature {setting.sampling.temperature:g}",
    ]
    if setting.draft_sampling.temperature != setting.sampling.temperature:
        parts.append(f"draft's temperature {setting.draft_sampling.temperature:g}")
    if setting.draft_prompt != "same":
        parts.append(f"draft's prompt {setting.draft_prompt}")
    return " · ".join([*parts, report.many])


def figures(report: Report) -> None:
    """Five figures, with intervals where there are some."""
    mean, low, high = report.mean_length
    rate, totals = report.rate[0], report.totals
    now = report.texts.outcome(report.texts.now)
    second = None
    options = {option.key: option for option in report.texts.options()}
    if "second" in options:
        second = report.texts.outcome(report.texts.plan([options["second"]]))
    with st.container(horizontal=True, key=keys.DEBUG_FIGURES):
        st.metric("Mean acceptance length", f"{mean:.2f}", border=True, help=f"95 %: {span(low, high)}")
        st.metric("Draft acceptance rate", f"{rate:.1%}", border=True)
        st.metric("Mean overlap α", "–" if report.alpha is None else f"{report.alpha:.2f}", border=True)
        lost = totals["lost"] / max(1, totals["rounds"])
        st.metric(f"Tokens lost a round of {report.setting.k}", f"{lost:.2f}", border=True)
        speed = "–" if now.speed is None else f"{now.speed:.2f}×"
        st.metric(
            "Predicted speed-up (estimated)", speed, border=True, help="From passes timed on that machine."
        )
    drawn = " Rounds are drawn along texts that were served elsewhere." if report.scored else ""
    text = (
        f"{report.many}, {totals['rounds']:,} rounds, {totals['accepted']:,} of "
        f"{totals['drafted']:,} drafts accepted. Mean acceptance length with 95 % confidence (prompts "
        f"resampled): {span(low, high)}.{drawn}"
    )
    if second is not None and report.alpha_second is not None:
        text += (
            f" The second draft ({report.setting.second}) would reach {second.mean:.2f} on the same texts, "
            f"α {report.alpha_second:.2f}."
        )
    st.caption(plain(text))
    if len(report.failed):
        many = "1 prompt" if len(report.failed) == 1 else f"{len(report.failed):,} prompts"
        with st.expander(f"{many} could not be measured", icon=":material/error:"):
            for row in report.failed.head(20).itertuples():
                st.text(f"prompt {row.prompt}: {row.error}")


def checks(report: Report) -> None:
    """The three checks that tell a fault from a weak draft."""
    found = report.checks
    evidence, caches, own = found["evidence"], found["caches"], found["self_draft"]
    with st.expander("A fault or a weak draft? Three checks", icon=":material/rule:"):
        if evidence["tokens"]:
            fine = evidence["crossed_at"] is None
            st.markdown(
                f"{_mark(fine)} **Evidence over all emitted tokens.** It stands at "
                f"{evidence['value']:.3g} after "
                f"{evidence['tokens']:,} tokens, highest {evidence['highest']:.3g}. Exact decoding passes "
                f"{THRESHOLD:g} in at most 1 of 20 audits."
            )
            chart(
                charts.line(evidence["line"], THRESHOLD),
                keys.DEBUG_LINE,
                "The evidence, token by token.",
                lambda mark: texts.choose_emitted(report, mark),
            )
            st.caption("Click the line: that token is then the one shown in “One text, token by token”.")
        else:
            st.markdown("– **Evidence.** Nothing was generated, so there is nothing to test.")
        if caches["checked"]:
            wrong = len(caches["wrong"])
            st.markdown(
                f"{_mark(not wrong)} **Caches.** {caches['checked'] - wrong} of {caches['checked']} "
                "cache checks "
                "agree with uncached passes."
            )
            for check in caches["wrong"][:3]:
                st.text(f"prompt {check['prompt']}: {check['sentence']}")
        else:
            st.markdown("– **Caches.** None were checked.")
        if own["drafted"]:
            fine = keeps_itself(own)
            st.markdown(
                f"{_mark(fine)} **The target as its own draft.** {own['accepted']} of "
                f"{own['drafted']} tokens "
                "were kept; a correct engine keeps them all in float32, and all but a few in 16 bits."
            )
        for error in own["errors"][:3]:
            st.text(error)


def _mark(fine: bool) -> str:
    return ":green[✓]" if fine else ":red[✗]"
