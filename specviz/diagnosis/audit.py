"""An audit over many prompts: a folder that is complete as far as it goes, whenever the process dies.

DIR/audit.json          settings, prompts' digest, models, versions, costs
DIR/parts/000012.json.gz    what was measured on prompt 12; its presence means that the prompt is done
DIR/traces/000012.json.gz   the run, for the app; written before the part
DIR/*.parquet           the tables of all parts, and summary.json, written at the end and after a merge

Files appear whole: each is written beside its name and renamed. The draws of a prompt follow from its
index, so that a prompt interrupted in the middle is simply made again, the same.
"""

import gzip
import json
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specviz.decoding import codec
from specviz.decoding.faults import get_fault
from specviz.decoding.run import DecodingRun, RunError
from specviz.diagnosis import costs, tables
from specviz.diagnosis.observe import Bench, observe
from specviz.diagnosis.prompts import Prompt, digest, encode
from specviz.diagnosis.served.target import ServedTarget
from specviz.diagnosis.setting import Setting
from specviz.models.builtin import home

FORMAT, VERSION = "specviz-audit", 1
SELF_TOKENS = 24  # of a run whose draft is the target
MOST_BYTES = 256 * 2**20  # of a part, after decompression


class AuditError(ValueError):
    """A folder that cannot be used for this audit; the message says why and what to do."""


class Audit:
    """The audit in a folder: begun, or gone on with.

    Args:
        folder: made if it is not there.
        prompts: all prompts, whatever the shard.
        setting: has to be the folder's own if the audit was begun.
        shard: (i, n): this process does every n-th prompt, from the i-th on; i from 1.

    Attributes:
        todo: prompts that are still to measure.
        last: the row of `prompts` of the one measured last.

    Raises:
        AuditError: if the folder holds another audit.
    """

    def __init__(
        self, folder: Path, prompts: Sequence[Prompt], setting: Setting, shard: tuple[int, int] = (1, 1)
    ) -> None:
        i, n = shard
        if not 1 <= i <= n:
            raise AuditError(f"a shard is i/n with 1 ≤ i ≤ n, not {i}/{n}")
        self.folder = folder
        self.prompts = list(prompts)
        self.setting = setting
        self.mine = [p for p in self.prompts if p.index % n == i - 1]
        self.about: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "setting": setting.to_dict(),
            "prompts": {"digest": digest(prompts), "count": len(self.prompts)},
        }
        for name in ("parts", "traces"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if (folder / "audit.json").exists():
            begun = read_about(folder)
            same_audit(begun, json.loads(json.dumps(self.about)), folder)
            self.about = begun
        else:
            _write(folder / "audit.json", json.dumps(self.about, indent=1).encode())
        self.last: dict[str, Any] = {}
        self._work: Iterator[None] | None = None
        self.todo = [p for p in self.mine if not part_path(folder, p.index).exists()]

    @property
    def done(self) -> int:
        """Prompts of this shard that are measured."""
        return len(self.mine) - len(self.todo)

    @property
    def total(self) -> int:
        return len(self.mine)

    @property
    def finished(self) -> bool:
        return not self.todo

    def begin(self, bench: Bench) -> None:
        """Note models, versions and costs, once.

        Raises:
            AuditError: if a server serves something else now.
        """
        target = bench.pair.target
        server = target.about if isinstance(target, ServedTarget) else None
        if "pair" in self.about:
            begun: Any = self.about.get("server")
            if server and begun and server["model"] != begun["model"]:
                raise AuditError(
                    f"{self.folder} was begun with {begun['model']!r}, and the server serves "
                    f"{server['model']!r}: choose another folder"
                )
            return
        second = None
        if self.setting.second:
            second = (bench.second, "model") if bench.second else (bench.pair, self.setting.second)
        self.about |= {
            "pair": asdict(bench.pair.info),
            "second": asdict(bench.second.info) if bench.second else None,
            # With the ids of tokens that the setting names by their texts.
            "controls": [asdict(c) for c in (bench.setting.sampling, bench.setting.draft_sampling)],
            # What a pass of a served target costs is not measured: its server is no part of this machine.
            "costs": None if server else self._costs(bench, second),
            "server": server,
            "compatibility": str(getattr(bench.pair, "compatibility", None) or ""),
            "versions": _versions(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        _write(self.folder / "audit.json", json.dumps(self.about, indent=1).encode())

    def _costs(self, bench: Bench, second: Any) -> dict[str, Any]:
        return costs.measure(bench.pair, self.setting.drafter, second, self.setting.k).to_dict()

    def step(self, bench: Bench) -> Prompt:
        """Measure the next prompt. Interrupted anywhere, it has not happened."""
        prompt = self.todo[0]
        while prompt in self.todo[:1]:
            self.advance(bench)
        return prompt

    def advance(self, bench: Bench) -> None:
        """A little of the next prompt: a round, a pass along its text, or the writing of its part."""
        if self._work is None:
            self.begin(bench)
            self._work = self._measure(bench, self.todo[0])
        try:
            next(self._work)
        except StopIteration:
            self._work = None
        except BaseException:
            self._work = None  # begun again, the same
            raise

    def _measure(self, bench: Bench, prompt: Prompt) -> Iterator[None]:
        observed = None
        for observed in observe(bench, prompt):
            if observed is None:
                yield
        assert observed is not None
        part, trace = observed
        if trace is not None:
            if prompt.index < self.setting.self_checks:
                for found in self_draft(bench, prompt):
                    if found is None:
                        yield
                part["self_draft"] = found
            _write(trace_path(self.folder, prompt.index), gzip.compress(codec.dumps(trace), mtime=0))
        _write(part_path(self.folder, prompt.index), gzip.compress(tables.dumps(part), mtime=0))
        self.last = {name: values[0] for name, values in part["tables"]["prompts"].items()}
        del self.todo[0]

    def close(self) -> dict[str, int]:
        """Write the tables of everything that is measured so far. Returns their rows."""
        return write_tables(self.folder)


def self_draft(bench: Bench, prompt: Prompt) -> Iterator[dict[str, Any] | None]:
    """A short run in which the target drafts for itself: all K have to be accepted, in every round. None
    after each round, the counts at the end."""
    setting = bench.setting
    pair: Any = copy(bench.pair)
    pair.draft = bench.pair.target
    start = DecodingRun if setting.rule == "exact" else get_fault(setting.rule).start
    try:
        ids = encode(bench.pair, prompt, setting.style(bool(prompt.messages)))
        run = start(
            pair,
            ids,
            drafter="model",
            k=setting.k,
            sampling=setting.sampling,
            max_new_tokens=min(SELF_TOKENS, setting.max_new_tokens),
            seed=setting.seed + prompt.index,
        )
        for _ in run:
            yield None
    except (ValueError, RunError) as error:
        yield {"drafted": 0, "accepted": 0, "error": str(error)[:300]}
        return
    yield {
        "drafted": sum(r.k for r in run.rounds),
        "accepted": sum(r.accepted for r in run.rounds),
        "error": "",
    }


def audits() -> Path:
    """Where the audits lie that the Debug page shows."""
    return home() / "audits"


def part_path(folder: Path, index: int) -> Path:
    return folder / "parts" / f"{index:06d}.json.gz"


def trace_path(folder: Path, index: int) -> Path:
    return folder / "traces" / f"{index:06d}.json.gz"


def read_about(folder: Path) -> dict[str, Any]:
    """What a folder says of its audit.

    Raises:
        AuditError: if it is not an audit, or of another version.
    """
    try:
        about = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AuditError(f"{folder} holds no audit that can be read: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise AuditError(f"{folder}/audit.json was not written by an audit")
    if about.get("version") != VERSION:
        raise AuditError(f"{folder} has version {about.get('version')}; this SpecViz reads version {VERSION}")
    return about


def same_audit(begun: dict[str, Any], wanted: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with another audit.

    Raises:
        AuditError: naming what differs.
    """
    if begun["prompts"]["digest"] != wanted["prompts"]["digest"]:
        raise AuditError(
            f"{folder} was begun with other prompts: choose another folder, or give the same file"
        )
    # Settings that a folder of an earlier version does not name are those that were there before.
    usual = json.loads(json.dumps(Setting().to_dict()))
    old, new = usual | begun["setting"], wanted["setting"]
    differing = [name for name in new if old[name] != new[name] and not _moved(name, old, new)]
    if differing:
        shown = "; ".join(line for name in differing for line in _differing(name, old[name], new[name]))
        raise AuditError(
            f"{folder} was begun with other settings ({shown}): choose another folder, or the same"
        )


def _differing(name: str, before: Any, now: Any) -> Iterator[str]:
    """A setting with both values; of controls those that differ."""
    if not (isinstance(before, dict) and isinstance(now, dict)):
        yield f"{name.replace('_', ' ')} was {before}, now {now}"
        return
    whose = "draft " if name.startswith("draft") else ""
    for part, value in now.items():
        if before.get(part) != value:
            yield from _differing(f"{whose}{part}", before.get(part), value)


def _moved(name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether the server of a target merely stands elsewhere: what it serves is compared with it."""
    return name == "served" and bool(old[name]) and bool(new[name])


def read_parts(folder: Path) -> Iterator[dict[str, Any]]:
    """The parts of a folder in the order of their prompts, one in memory at a time.

    Raises:
        AuditError: naming a part that is damaged.
    """
    for path in sorted((folder / "parts").glob("*.json.gz")):
        try:
            with gzip.open(path) as file:
                content = file.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise ValueError(f"larger than {MOST_BYTES // 2**20} MiB")
            part = json.loads(content.decode("utf-8", "surrogatepass"))
            if not set(tables.TABLES) <= set(part["tables"]):
                raise ValueError("a table is missing")
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise AuditError(f"{path} is damaged ({error}): delete it and run the audit again") from None
        yield part


def write_tables(folder: Path) -> dict[str, int]:
    """The Parquet files of all parts that are there, and the checks' results."""
    rows = tables.combine(lambda: read_parts(folder), folder)
    from specviz.diagnosis.checks import collect

    _write(folder / "checks.json", json.dumps(collect(read_parts(folder)), indent=1).encode())
    return rows


def merge(folders: Sequence[Path], out: Path) -> dict[str, int]:
    """Put the shards of one audit together.

    Raises:
        AuditError: if they are not of one audit.
    """
    abouts = [read_about(folder) for folder in folders]
    for folder, about in zip(folders[1:], abouts[1:], strict=True):
        same_audit(abouts[0], about, folder)
    for name in ("parts", "traces"):
        (out / name).mkdir(parents=True, exist_ok=True)
    _write(out / "audit.json", json.dumps(abouts[0], indent=1).encode())
    for folder in folders:
        for name in ("traces", "parts"):  # a part is only there once its trace is
            for path in sorted((folder / name).glob("*.json.gz")):
                goal = out / name / path.name
                if goal.exists():
                    continue
                partial = goal.with_name(f"{goal.name}.{os.getpid()}.partial")
                shutil.copyfile(path, partial)
                partial.replace(goal)
    return write_tables(out)


def missing(folder: Path) -> list[int]:
    """Indices of the prompts that no part is there for."""
    count = int(read_about(folder)["prompts"]["count"])
    return [index for index in range(count) if not part_path(folder, index).exists()]


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_bytes(content)
    partial.replace(path)


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    import specviz

    names = ("torch", "transformers", "numpy")
    return {
        "specviz": specviz.__version__,
        "python": platform.python_version(),
        "machine": platform.processor() or platform.machine(),
        **{name: version(name) for name in names},
    }
