"""What an audit of a served target says: between what its figures lie, and what the server says of itself."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.diagnosis import logs
from specviz.diagnosis.readings import Reading

if TYPE_CHECKING:
    from specviz.diagnosis.report import Report

FILE = "engine.json"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what an audit's figures lie, where the server named the leading tokens only.

    Attributes:
        alpha, length: (low, high) of α and of the expected mean acceptance length.
        widest: the widest interval of β at one position.
        open: positions at which β is an interval, and at which it is anything at all.
    """

    alpha: tuple[float, float]
    length: tuple[float, float]
    widest: float
    open: tuple[int, int]


def bounds(report: "Report") -> Bounds | None:
    """None for a target that was not served, or before the first text."""
    from specviz.diagnosis.whatif import Texts

    tokens = report.frames["tokens"]
    if "beta_low" not in tokens or not tokens["beta_low"].notna().any():
        return None
    low, high = tokens["beta_low"], tokens["beta_high"]
    lengths = []
    for name in ("p_high", "p_low"):  # the more the target wants a token, the rarer it came from the draft
        texts = Texts(tokens.assign(p=tokens[name]), report.setting, None)
        lengths.append(texts.outcome(texts.now).mean)
    width = (high - low).dropna()
    return Bounds(
        (float(low.mean()), float(high.mean())),
        (lengths[0], lengths[1]),
        float(width.max()),
        (int((width > 1e-6).sum()), len(width)),
    )


def text(report: "Report") -> list[str]:
    """Lines for the terminal; none for a target that was not served."""
    server = report.about.get("server")
    if not server:
        return []
    lines = [
        "",
        f"p came from {server['engine']} ({server['model']}), "
        f"{server['leading']:,} leading tokens a position",
    ]
    found = bounds(report)
    if found is not None and found.open[0]:
        lines.append(
            f"α lies between {found.alpha[0]:.4f} and {found.alpha[1]:.4f}, the expected mean acceptance "
            f"length between {found.length[0]:.3f} and {found.length[1]:.3f}: the other tokens are known in "
            f"sum only ({found.open[0]:,} of {found.open[1]:,} positions, β within "
            f"{found.widest:.4f} at the widest). Elsewhere the middle of its interval stands for β"
        )
    elif found is not None:
        lines.append(f"β is known exactly at all {found.open[1]:,} positions: α = {found.alpha[0]:.4f}")
    lines += _own(report)
    return lines


def _own(report: "Report") -> list[str]:
    """What the server says of its own speculation."""
    lines = []
    said = report.checks.get("engine")
    if said:
        found = logs.together([reading_of(reading) for reading in said])
        forms = " and ".join(dict.fromkeys(reading.form for reading in found.readings))
        lines.append(f"what the server says of its own speculation ({forms}, while it wrote these texts):")
        lines += [f"  {line}" for line in found.text.splitlines()]
        if "/metrics" in forms:
            lines.append("  /metrics counts every request of the server, and not ours alone")
    elif report.about["server"].get("listened"):
        lines.append(
            "the server says nothing of speculation of its own: neither in its answers nor in /metrics, or "
            "it wrote none of these texts"
        )
    if report.log:
        lines.append("what its log says:")
        lines += [f"  {line}" for line in report.log.splitlines()]
    return lines


def reading_of(data: dict[str, Any]) -> Reading:
    """A reading as it stands in a part."""
    return Reading(**{**data, "reached": tuple(data["reached"]), "tried": tuple(data["tried"])})


def keep_log(folder: Path, log: str) -> None:
    """Read a server's log and keep what it says beside the tables."""
    found = logs.read(log)
    (folder / FILE).write_text(
        json.dumps({"text": found.text, "figures": found.to_dict()}, indent=1), encoding="utf-8"
    )


def kept_log(folder: Path) -> str:
    """What `keep_log` kept, in words; "" if nothing."""
    try:
        return str(json.loads((folder / FILE).read_text(encoding="utf-8"))["text"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
