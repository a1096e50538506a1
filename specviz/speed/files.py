"""Files of speed reports: JSON that can be read again, CSV for tables, and those that ship with SpecViz."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from importlib import resources
from typing import Any

from specviz.speed.clock import Spread
from specviz.speed.formulas import Machine as Limits
from specviz.speed.formulas import Shape
from specviz.speed.machine import Machine
from specviz.speed.report import Draft, Pass, Report, Run, Setting

FORMAT = 1
# Measurements that ship with SpecViz, by the names of their files.
RECORDED: Mapping[str, str] = {
    "greedy": "greedy texts",
    "hot": "hot, open texts",
}


def to_json(report: Report) -> str:
    return json.dumps({"format": FORMAT, **asdict(report)}, indent=1)


def to_csv(report: Report) -> str:
    """One line a measured figure: kind, drafter, k, rows, context, batch, median, low, high, count."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        ["kind", "drafter", "k", "rows", "context", "batch", "unit", "median", "p5", "p95", "count"]
    )

    def row(kind: str, drafter: str, k: Any, where: tuple[Any, Any, Any], unit: str, s: Spread) -> None:
        writer.writerow([kind, drafter, k, *where, unit, s.median, s.low, s.high, s.count])

    for kind, passes in (("pass", report.passes), ("prefill", report.prefill), ("grid", report.grid)):
        for p in passes:
            row(kind, "", "", (p.rows, p.context, p.batch), "s", p.seconds)
    for d in report.drafts:
        row("draft block", d.drafter, d.k, ("", "", ""), "s", d.seconds)
    for r in report.runs:
        if r.ratio is not None:
            k = f"up to {r.k}" if r.adaptive else r.k
            row("speed over plain", r.drafter, k, ("", "", ""), "", r.ratio)
    return out.getvalue()


def from_json(text: str) -> Report:
    """What `to_json` wrote.

    Raises:
        ValueError: for another format or a file that lacks something.
    """
    try:
        data = json.loads(text)
        if data.pop("format") != FORMAT:
            raise ValueError("it has another format")
        return Report(
            setting=Setting(**{**data["setting"], "texts": tuple(data["setting"]["texts"])}),
            machine=Machine(**data["machine"]),
            shape=Shape(**data["shape"]),
            rates=Limits(**data["rates"]),
            passes=[_pass(p) for p in data["passes"]],
            drafts=[Draft(d["drafter"], d["k"], Spread(**d["seconds"])) for d in data["drafts"]],
            prefill=[_pass(p) for p in data["prefill"]],
            runs=[_run(r) for r in data["runs"]],
            grid=[_pass(p) for p in data["grid"]],
            refused=list(data["refused"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not a speed report: {error}") from error


def recorded(name: str) -> Report:
    """One of `RECORDED`, measured on another machine."""
    return from_json((resources.files("specviz.speed") / "recorded" / f"{name}.json").read_text())


def _pass(data: dict[str, Any]) -> Pass:
    return Pass(data["rows"], data["context"], data["batch"], Spread(**data["seconds"]))


def _run(data: dict[str, Any]) -> Run:
    values = {f.name: data[f.name] for f in fields(Run)}
    values["ratio"] = None if data["ratio"] is None else Spread(**data["ratio"])
    for name in ("rates", "blocks", "by_text"):
        values[name] = tuple(data[name])
    return Run(**values)
