"""An audit in words: for the terminal, and as JSON for scripts."""

from dataclasses import asdict
from math import isfinite
from typing import Any

from specviz.diagnosis import where
from specviz.diagnosis.causes import CAUSE
from specviz.diagnosis.report import Report
from specviz.diagnosis.served import account
from specviz.diagnosis.walk import span
from specviz.diagnosis.whatif import Outcome

BAR = 24


def text(report: Report, missing: int = 0) -> str:
    """The summary that the command prints."""
    if not report.findings:
        errors = "\n".join(f"  prompt {r.prompt}: {r.error}" for r in report.failed.itertuples())
        return f"nothing could be measured\n{errors}"
    first, *others = report.findings
    totals, setting = report.totals, report.setting
    mean, low, high = report.mean_length
    rate = report.rate[0]
    lines = [
        f"{first.title}. {first.sentence}",
        "",
        f"mean acceptance length {mean:.2f} ({span(low, high)}) · draft acceptance rate {rate:.1%} · "
        f"α {_alpha(report)} · {_evidence(report)}",
        f"{report.many}, {totals['rounds']:,} rounds, {totals['drafted']:,} drafted, "
        f"{totals['accepted']:,} accepted, {totals['lost']:,} lost · drafter {setting.drafter} · K = "
        f"{setting.k}",
    ]
    if report.scored and not report.setting.served:
        lines.append("the texts were served elsewhere: rounds are drawn along them, from their distribution")
    if report.setting.served:
        lines.append(
            "rounds are drawn along the texts, from their distribution: what is served is not run here"
        )
    if missing:
        lines.append(f"{missing:,} prompts are still to do: the same command goes on with them")
    for row in list(report.failed.itertuples())[:5]:
        lines.append(f"prompt {row.prompt} failed: {row.error}")
    lines += account.text(report)
    lines += ["", "Causes, by tokens lost"]
    for share in report.causes:
        if share.lost:
            bar = "█" * max(1, round(BAR * share.share / max(report.causes[0].share, 1e-9)))
            title = CAUSE[share.key].title
            lines.append(f"  {share.share:>4.0%} {bar:<{BAR}} {title} · {share.rejections:,} rejections")
    lines += ["", f"Acceptance by position: {report.shape.title}. {report.shape.sentence}"]
    for i, (all_, given) in enumerate(
        zip(report.curve.unconditional, report.curve.conditional, strict=True), 1
    ):
        lines.append(
            f"  {i:>2}  {all_.value:.2f} of all rounds ({all_.low:.2f} to {all_.high:.2f}) · "
            f"{_number(given.value)} of those that got there, {given.count:,} · α^{i} "
            f"{_number(report.curve.independent(i))}"
        )
    lines += ["", "What would help (mean acceptance length, predicted speed-up)"]
    now = report.texts.outcome(report.texts.now)
    lines.append(_change("as it is, expected along the texts", now))
    for option in report.texts.options():
        lines.append(_change(option.title, report.texts.outcome(report.texts.plan([option]))))
    lines += ["", where.sentence(report.splits)]
    falls = where.falls_with_context(report.splits)
    lines += [falls] if falls else []
    for finding in others:
        lines += ["", f"{finding.title}. {finding.sentence}"]
    return "\n".join(lines)


def _change(title: str, outcome: Outcome) -> str:
    speed = "" if outcome.speed is None else f" · {outcome.speed:.2f}×"
    sign = {"bound": "≤ ", "approximate": "≈ "}.get(outcome.label, "  ")
    return f"  {sign}{outcome.mean:.2f} ({span(outcome.low, outcome.high)}){speed}  {title}"


def _alpha(report: Report) -> str:
    """α, or between what it lies where a server leaves it open."""
    found = account.bounds(report)
    if found is None or not found.open[0]:
        return _number(report.alpha)
    return f"{found.alpha[0]:.2f} to {found.alpha[1]:.2f}"


def _evidence(report: Report) -> str:
    evidence = report.checks["evidence"]
    if not evidence["tokens"]:
        return "no evidence line: nothing was generated"
    return f"evidence against exactness {evidence['value']:.3g} (highest {evidence['highest']:.3g})"


def _number(value: float | None) -> str:
    return "–" if value is None or not isfinite(value) else f"{value:.2f}"


def as_dict(report: Report, missing: int = 0) -> dict[str, Any]:
    """All figures of the summary as plain values."""
    outcomes = {}
    if report.texts.texts:
        outcomes = {
            option.key: {"title": option.title, **asdict(report.texts.outcome(report.texts.plan([option])))}
            for option in report.texts.options()
        }
    bounds = account.bounds(report)
    return plain(
        {
            "served": None if bounds is None else asdict(bounds),
            "findings": [asdict(finding) for finding in report.findings],
            "totals": report.totals,
            "missing": missing,
            "failed": report.failed[["prompt", "error"]].to_dict("records"),
            "mean_acceptance_length": report.mean_length,
            "draft_acceptance_rate": report.rate,
            "alpha": report.alpha,
            "causes": [asdict(share) for share in report.causes],
            "curve": asdict(report.curve),
            "shape": asdict(report.shape),
            "now": asdict(report.texts.outcome(report.texts.now)) if report.texts.texts else None,
            "what_if": outcomes,
            "where": [asdict(split) for split in report.splits] if len(report.frames["tokens"]) else [],
            "checks": report.checks,
            "setting": report.setting.to_dict(),
        }
    )


def plain(value: Any) -> Any:
    """JSON has no NaN: it becomes null. Numpy numbers become Python's."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not isfinite(value) else value
