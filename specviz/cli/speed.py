"""`python -m specviz speed`: is speculation faster on this machine, and why."""

import argparse
import sys
from pathlib import Path

from specviz.cli import options
from specviz.decoding.drafters import DRAFTERS


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "speed",
        help="measure whether speculation is faster here, and why",
        description="Measures passes, drafts and whole runs in turns, and says whether speculation gains "
        "on this machine. With one thread (the default) times are CPU seconds of that thread, which hold on "
        "a busy machine.",
    )
    options.add_pair_options(parser)
    parser.add_argument("--drafter", default="model", choices=list(DRAFTERS), help="(default: model)")
    parser.add_argument("-k", type=int, default=4, help="draft tokens a round (default: 4)")
    parser.add_argument("--temperature", type=float, default=0.0, help="(default: 0, greedy)")
    parser.add_argument(
        "--prompt", action="append", default=[], help="may be repeated; three of our own otherwise"
    )
    parser.add_argument("--tokens", type=int, default=32, help="most new tokens a text (default: 32)")
    parser.add_argument("--turns", type=int, default=3, help="runs of each text by each kind (default: 3)")
    parser.add_argument("--threads", type=int, default=1, help="that PyTorch uses on a CPU (default: 1)")
    parser.add_argument("--no-batches", action="store_true", help="leave contexts and batches out")
    parser.add_argument("--out", type=Path, help="save everything as .json or .csv")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.out and args.out.suffix not in (".json", ".csv"):
        raise ValueError(f"--out must end in .json or .csv, not {args.out.name}")
    if args.k < 1 or args.turns < 1 or args.tokens < 2 or args.threads < 1:
        raise ValueError("-k, --turns and --threads must be 1 or more, --tokens 2 or more")
    import torch

    from specviz.speed import files
    from specviz.speed.sweep import Plan, Sweep

    torch.set_num_threads(args.threads)
    pair = options.load(args)
    options.end_progress_line()
    plan = Plan(
        drafter=args.drafter,
        k=args.k,
        temperature=args.temperature,
        prompts=tuple(args.prompt),
        tokens=args.tokens,
        turns=args.turns,
        grid=not args.no_batches,
    )
    sweep = Sweep(pair, plan)
    status = 0
    try:
        while sweep.done < sweep.total:
            _say(f"{sweep.done + 1} of {sweep.total}: {sweep.now}")
            sweep.step()
    except KeyboardInterrupt:
        status = 130
    options.end_progress_line()
    if sweep.report is not None:
        if args.out:
            made = files.to_json if args.out.suffix == ".json" else files.to_csv
            args.out.write_text(made(sweep.report))
        print(text(sweep.report))
    return status


def _say(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)


def text(report) -> str:
    """The report for a terminal."""
    from specviz.speed import verdict

    setting = report.setting
    lines = [
        f"{setting.pair}, {setting.dtype}, {report.machine.short}, {report.machine.date}; {setting.clock}"
    ]
    run, plain = report.run(setting.drafter, setting.k), report.plain
    if run is not None and plain is not None and run.ratio is not None:
        round = verdict.scale(run, plain)
        spread = f"single runs {run.ratio.low:.2f} to {run.ratio.high:.2f}, {run.ratio.count} of them"
        lines += ["", f"{verdict.headline(round.speedup)} ({setting.drafter}, K = {setting.k}; {spread})"]
        lines += [verdict.reason(round), verdict.wanted(round, setting.k)]
    one = report.seconds(1)
    if one is not None:
        costs = ", ".join(f"{p.rows}: {p.seconds.median / one:.2f}" for p in report.passes)
        floor = report.floor(1)
        lines += [
            "",
            f"a target pass over one row {one * 1e3:.1f} ms; over n rows, in passes over one: {costs}",
        ]
        lines.append(
            f"floors: reading {floor.reading * 1e3:.1f} ms at {report.rates.bandwidth / 1e9:.1f} GB/s, "
            f"computing {floor.computing * 1e3:.2f} ms a row at {report.rates.operations / 1e9:.0f} GFLOP/s"
        )
    lines += ["", f"{'drafter':<12}{'K':>10}{'c':>7}{'length':>8}{'predicted':>11}{'measured':>10}  verdict"]
    for drafter in report.drafters:
        for r in (*report.fixed(drafter), report.adaptive(drafter)):
            if r is None or r.ratio is None:
                continue
            k = f"⌀ {r.drafted / r.rounds:.1f}" if r.adaptive else str(r.k)
            c, told = _two(report.c(drafter, r.k)), report.explained(r)
            figures = (
                f"{c:>7}{r.length:>8.2f}{_two(told) + ('×' if told else ''):>11}{report.speedup(r):>9.2f}×"
            )
            said = "K chosen before each round" if r.adaptive else ""
            if r.k == setting.k and not r.adaptive:
                said = verdict.of_drafter(report, drafter)
            lines.append(f"{drafter:<12}{k:>10}{figures}  {said}".rstrip())
    return "\n".join([*lines, *report.refused])


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
