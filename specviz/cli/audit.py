"""`python -m specviz audit`: why a draft gets rejected, over many prompts, without a browser."""

import argparse
import json
import sys
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from time import monotonic
from typing import Any

from specviz.cli import audit_served, options

BELOW, NOT_EXACT = 3, 4
EPILOG = f"""
audit PROMPTS --out DIR      measure; goes on where it stopped if DIR was begun
audit show DIR               the summary again
audit merge DIR… --out DIR   put shards together
audit compare DIR DIR        what changed between two audits of the same prompts
audit logs FILE              acceptance from the log of vLLM, llama.cpp or SGLang ("-" reads the input)
audit columns                the tables' columns and units
audit page DIR               show it on the app's Debug page
audit record                 make the recorded audits of the built-in pair again

PROMPTS is .txt (a prompt a line) or .jsonl (prompt or messages, system prompt and earlier turns among them;
group, chat_template_kwargs; with "answer" the text is scored and nothing is generated). Exit status: 0, 1
after an error, {BELOW} below --min-mean-length, {NOT_EXACT} above --max-evidence, 130 when interrupted.
"""


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "audit",
        help="why a draft gets rejected, over many prompts",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what", nargs="+", metavar="PROMPTS", help="a file of prompts, or one of the words below"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where the results go; resumed if it was begun"
    )
    options.add_pair_options(parser)
    parser.add_argument("--drafter", default="model", metavar="KIND", help="as in `trace` (default: model)")
    parser.add_argument("-k", type=int, default=4, help="draft tokens a round, 1 to 16 (default: 4)")
    parser.add_argument("--max-new-tokens", type=int, default=128, help="of an answer (default: 128)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--chat", action="store_true", help="put the target's chat template around the prompts"
    )
    parser.add_argument(
        "--draft-prompt",
        default="same",
        choices=["same", "plain", "chat", "own"],
        help="the draft's prompt: as the target's, the plain text, the target's template, or its own",
    )
    parser.add_argument(
        "--second", default="", metavar="DRAFT", help="measure another drafter or model on the same texts"
    )
    parser.add_argument(
        "--verifier", default="exact", metavar="NAME", help="exact, or a fault of the gallery"
    )
    parser.add_argument(
        "--self-checks", type=int, default=2, metavar="N", help="prompts with cache audit and target as draft"
    )
    options.add_sampling_options(parser)
    options.add_constraint_options(parser)
    audit_served.add_options(parser)
    group = parser.add_argument_group("many machines, and CI")
    group.add_argument("--shard", default="1/1", metavar="I/N", help="do every N-th prompt, from the I-th on")
    group.add_argument("--limit", type=int, metavar="N", help="only the first N prompts of the file")
    group.add_argument("--min-mean-length", type=float, metavar="X", help=f"exit {BELOW} below it")
    group.add_argument(
        "--max-evidence", type=float, metavar="X", help=f"exit {NOT_EXACT} above it (such as 20)"
    )
    group.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    word, *rest = args.what
    if word in WORDS:
        return WORDS[word](args, [Path(path) for path in rest])
    if rest:
        raise ValueError(f"one file of prompts, please; {rest[0]!r} is too many (see --help)")
    return _measure(args, Path(word))


def _measure(args: argparse.Namespace, path: Path) -> int:
    from filelock import FileLock, Timeout

    from specviz.diagnosis import prompts
    from specviz.diagnosis.audit import Audit
    from specviz.diagnosis.served.account import keep_log

    if args.out is None:
        raise ValueError("say with --out where the results should go")
    found = prompts.read(path)
    found = found[: args.limit] if args.limit else found
    log = audit_served.log_of(args)
    work = Audit(args.out, found, _setting(args), _shard(args.shard))
    shard = args.shard.replace("/", "-of-")
    try:
        with FileLock(args.out / f".lock-{shard}", timeout=0):
            if not work.finished:
                _advance(work, args)
            work.close()
            if log is not None:
                keep_log(args.out, log.read_text(encoding="utf-8", errors="replace"))
    except Timeout:
        raise ValueError(f"another process is at work on shard {args.shard} of {args.out}") from None
    return _show(args, [args.out])


def _advance(work: Any, args: argparse.Namespace) -> None:
    if work.done:
        print(f"going on: {work.done} of {work.total} prompts are there already", file=sys.stderr)
    bench = load_bench(args, work.setting)
    began, at_first = monotonic(), work.done
    accepted = rounds = 0
    while not work.finished:
        _prompt(work, bench)
        made = work.done - at_first
        left = (monotonic() - began) / made * (work.total - work.done)
        last = work.last
        accepted, rounds = accepted + last["accepted"], rounds + last["rounds"]
        length = f" · mean acceptance length {1 + accepted / rounds:.2f}" if rounds else ""
        trouble = f" · {last['error']}" if last["error"] else ""
        _progress(f"{work.done} of {work.total} prompts{length}{_left(left)}{trouble}")
    options.end_progress_line()


def _prompt(work: Any, bench: Any) -> None:
    """Measure the next prompt; a terminal is told meanwhile how far a server has been asked."""
    left, told = len(work.todo), monotonic()
    while len(work.todo) == left:
        work.advance(bench)
        where = getattr(bench.pair.target, "where", "")
        if where and sys.stderr.isatty() and monotonic() - told > 1.0:
            told = monotonic()
            _progress(f"prompt {work.done + 1} of {work.total} · {where}")


def load_bench(args: argparse.Namespace, setting: Any) -> Any:
    """The pair, the second draft, and the draft's own tokenizer."""
    from specviz.diagnosis.bench import bench_of, second_model
    from specviz.models.pair import load_pair

    if setting.served:
        return audit_served.load_bench(args, setting)
    pair = options.load(args)
    options.end_progress_line()
    second = None
    if name := second_model(setting):
        other = load_pair(args.target, name, args.device, args.dtype, progress=options.progress_line())
        options.end_progress_line()
        second = copy(pair)
        second.draft = other.draft
    return bench_of(pair, setting, second)


def _setting(args: argparse.Namespace) -> Any:
    from specviz.diagnosis.served.http import address
    from specviz.diagnosis.setting import Setting

    target, draft = options.sampling(args)
    made = Setting(
        target=args.target,
        draft=args.draft or "",
        drafter=args.drafter,
        k=args.k,
        sampling=target,
        draft_sampling=draft,
        chat=args.chat,
        draft_prompt=args.draft_prompt,
        max_new_tokens=args.max_new_tokens,
        seed=args.seed,
        rule=args.verifier,
        second=args.second,
        self_checks=args.self_checks,
        served=address(args.target_served) if args.target_served else "",
        leading=args.served_leading,
    )
    return made.constrained(options.constraint_recipe(args))


def _shard(text: str) -> tuple[int, int]:
    i, _, n = text.partition("/")
    if not (i.isdigit() and n.isdigit()):
        raise ValueError(f"--shard looks like 1/8, not {text!r}")
    return int(i), int(n)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def _left(seconds: float) -> str:
    if seconds < 1:
        return ""
    if seconds < 90:
        return f" · about {seconds:.0f} s left"
    return (
        f" · about {seconds / 60:.0f} min left" if seconds < 5400 else f" · about {seconds / 3600:.1f} h left"
    )


def _show(args: argparse.Namespace, folders: Sequence[Path]) -> int:
    from specviz.diagnosis import summary
    from specviz.diagnosis.audit import missing
    from specviz.diagnosis.report import Report

    folder = _one(folders, "audit show DIR")
    report = Report.of(folder)
    absent = len(missing(folder))
    if args.json:
        print(json.dumps(summary.as_dict(report, absent), ensure_ascii=False, allow_nan=False))
    else:
        print(summary.text(report, absent))
    mean, evidence = report.mean_length[0], report.checks["evidence"]["highest"]
    if args.max_evidence is not None and evidence > args.max_evidence:
        print(f"specviz: the evidence reached {evidence:.3g}, above {args.max_evidence:g}", file=sys.stderr)
        return NOT_EXACT
    if args.min_mean_length is not None and not mean >= args.min_mean_length:
        print(f"specviz: mean acceptance length {mean:.2f}, below {args.min_mean_length:g}", file=sys.stderr)
        return BELOW
    return 1 if len(report.failed) and not report.totals["prompts"] else 0


def _merge(args: argparse.Namespace, folders: Sequence[Path]) -> int:
    from specviz.diagnosis import audit

    if args.out is None or not folders:
        raise ValueError("audit merge DIR… --out DIR")
    audit.merge(folders, args.out)
    return _show(args, [args.out])


def _compare(args: argparse.Namespace, folders: Sequence[Path]) -> int:
    from specviz.diagnosis.compare import compare
    from specviz.diagnosis.report import Report

    if len(folders) != 2:
        raise ValueError("audit compare takes two folders")
    found = compare(*(Report.of(folder) for folder in folders))
    print(json.dumps(found.to_dict(), allow_nan=False) if args.json else found.text)
    return 0


def _logs(args: argparse.Namespace, paths: Sequence[Path]) -> int:
    from specviz.diagnosis import logs

    path = _one(paths, "audit logs FILE")
    text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8", errors="replace")
    found = logs.read(text)
    print(json.dumps(found.to_dict(), allow_nan=False) if args.json else found.text)
    return 0 if found.readings else 1


def _record(args: argparse.Namespace, names: Sequence[Path]) -> int:
    from specviz.diagnosis.recorded import RECORDED, record
    from specviz.models.pair import load_pair

    wanted = {str(name) for name in names} or {recorded.name for recorded in RECORDED}
    unknown = wanted - {recorded.name for recorded in RECORDED}
    if unknown:
        raise ValueError(f"there is no recorded audit {', '.join(sorted(unknown))}")
    pair = load_pair(dtype="float32", progress=options.progress_line())
    options.end_progress_line()
    for recorded in RECORDED:
        if recorded.name in wanted:
            folder = record(recorded, pair, args.out) if args.out else record(recorded, pair)
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            print(f"{folder}: {size / 1024:.0f} KiB", flush=True)
    return 0


def _page(args: argparse.Namespace, folders: Sequence[Path]) -> int:
    """Put an audit where the Debug page finds it."""
    import secrets
    import shutil

    from specviz.diagnosis import audit

    folder = _one(folders, "audit page DIR")
    audit.read_about(folder)
    audit.write_tables(folder)
    name = secrets.token_urlsafe(12)
    shutil.copytree(folder, audit.audits() / name, ignore=shutil.ignore_patterns(".lock*", "*.partial"))
    print(f"specviz app    then open http://localhost:8501/debug?audit={name}")
    return 0


def _columns(args: argparse.Namespace, paths: Sequence[Path]) -> int:
    from specviz.diagnosis.tables import documentation

    for table, column, kind, about in documentation():
        print(f"{table:<10} {column:<16} {kind:<7} {about}")
    return 0


def _one(paths: Sequence[Path], usage: str) -> Path:
    if len(paths) != 1:
        raise ValueError(usage)
    return paths[0]


WORDS = {
    "show": _show,
    "merge": _merge,
    "compare": _compare,
    "logs": _logs,
    "columns": _columns,
    "page": _page,
    "record": _record,
}
