"""An audit that was started on the page: a job of its owner's, whose results lie in a folder of the
server."""

import json
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from specviz.diagnosis.audit import Audit, audits, part_path, read_about
from specviz.diagnosis.bench import bench_of, second_model
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.prompts import Prompt, read
from specviz.diagnosis.setting import Setting
from specviz.recipe import BUILT_IN, Recipe
from specviz.ui.state import jobs
from specviz.ui.state.owner import owner

NAME = "debug-audit"  # of the job
KEPT = 40  # folders of audits that a server keeps
OWNER = "owner"  # a file of a folder: who began it
PAUSE = 4.0  # seconds between two writings of the tables while an audit goes on
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class Auditing(jobs.Job):
    """Measures prompt after prompt, a little a turn; what is measured survives a restart of the server.

    Args:
        name: of its folder; unguessable, and part of the address.
        prompts, setting: of the audit.
    """

    def __init__(self, name: str, prompts: list[Prompt], setting: Setting) -> None:
        super().__init__()
        self.name = name
        self.needs = recipes(setting)
        self.audit = Audit(folder(name), prompts, setting)
        self.bench: Bench | None = None
        self.tables = self.audit.done if (folder(name) / "tokens.parquet").exists() else 0
        self._wrote = 0.0

    @property
    def pair(self) -> Any:
        return None if self.bench is None else self.bench.pair

    @property
    def done(self) -> bool:
        return self.audit.finished and self.tables == self.audit.done

    @property
    def share(self) -> float:
        return self.audit.done / max(1, self.audit.total)

    def turn(self, pair: Any, other: Any = None) -> None:
        if self.bench is None or self.bench.pair is not pair:
            self.bench = bench_of(pair, self.audit.setting, other)
        if not self.audit.finished:
            self.audit.advance(self.bench)
        behind = self.audit.done > self.tables
        if behind and (self.audit.finished or monotonic() - self._wrote > PAUSE):
            self._write()
        if self.done:
            self.bench = None

    def _write(self) -> None:
        self.audit.close()
        self.tables, self._wrote = self.audit.done, monotonic()

    def settle(self) -> None:
        """Write what was measured since the tables were last written, if it was stopped in between."""
        with self.lock:
            if not self.active and self.audit.done > self.tables:
                self._write()


def recipes(setting: Setting) -> tuple[Recipe, ...]:
    """What pairs an audit needs: its own, and the target with the second draft if that is a model."""
    target = setting.target or BUILT_IN
    drafts = [setting.draft, *filter(None, [second_model(setting)])]
    return tuple(Recipe(target=target, draft=draft) for draft in drafts)


def folder(name: str) -> Path:
    return audits() / name


def usable(name: str) -> bool:
    """Whether a name of the address could be that of a folder here, and there is one."""
    return 8 <= len(name) <= 64 and set(name) <= LETTERS and (folder(name) / "audit.json").exists()


def begin(prompts: list[Prompt], setting: Setting) -> Auditing:
    """A new audit, with its prompts beside it, so that it can go on after a restart."""
    _make_room()
    name = secrets.token_urlsafe(12)
    path = folder(name)
    path.mkdir(parents=True)
    lines = [json.dumps(_line(prompt), ensure_ascii=False) for prompt in prompts]
    (path / "prompts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (path / OWNER).write_text(owner(), encoding="utf-8")
    return Auditing(name, read(path / "prompts.jsonl"), setting)


def mine() -> list[str]:
    """This owner's audits that are here, oldest first."""
    me, found = owner(), []
    for path in audits().glob(f"*/{OWNER}"):
        with suppress(OSError):
            if path.read_text(encoding="utf-8") == me and usable(path.parent.name):
                found.append((path.stat().st_mtime, path.parent.name))
    return [name for _, name in sorted(found)]


def again(name: str) -> Auditing:
    """The job of an audit that lies here, to go on with.

    Raises:
        ValueError: if it cannot be gone on with.
    """
    about = read_about(folder(name))
    return Auditing(name, read(folder(name) / "prompts.jsonl"), Setting.from_dict(about["setting"]))


def _line(prompt: Prompt) -> dict[str, Any]:
    line: dict[str, Any] = {"prompt": prompt.text, "group": prompt.group}
    if prompt.messages:
        line["messages"] = [{"role": role, "content": content} for role, content in prompt.messages]
    if prompt.answer is not None:
        line["answer"] = prompt.answer
    if prompt.template:
        line["chat_template_kwargs"] = prompt.template
    return line


def _make_room() -> None:
    """The oldest folders go; those of an audit at work are the newest."""
    if not audits().exists():
        return
    found = sorted((p for p in audits().iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    active = {job.name for job in jobs.working() if isinstance(job, Auditing)}
    for path in found[: max(0, len(found) - KEPT + 1)]:
        if path.name not in active:
            shutil.rmtree(path, ignore_errors=True)


def progress(name: str) -> tuple[int, int]:
    """Prompts measured, and all prompts, of an audit that lies here."""
    total = int(read_about(folder(name))["prompts"]["count"])
    return sum(part_path(folder(name), i).exists() for i in range(total)), total


def current() -> Auditing | None:
    """This owner's audit, at work or not."""
    return jobs.kept(NAME)
