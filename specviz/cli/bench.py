"""`python -m specviz bench`: what things cost, as medians and shares measured in one run.

Wall times mean little on a busy machine; the shares are of the same run and hold up better.
"""

import argparse
import json
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from statistics import median
from typing import Any

from specviz.cli import bench_class, bench_host, bench_pages, bench_passes, options
from specviz.recipe import Recipe


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("bench", help="measure what rounds, traces, loading and pages cost")
    parser.add_argument(
        "what", nargs="*", help=f"{', '.join(BENCHMARKS)} (default: all but {', '.join(LONG)})"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--tries", type=int, default=5, help="turns of the comparison of engines (default: 5)"
    )
    bench_class.add_options(parser)
    options.add_pair_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    unknown = set(args.what) - BENCHMARKS.keys()
    if unknown:
        raise ValueError(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    results = {}
    for name in args.what or (name for name in BENCHMARKS if name not in LONG):
        results[name] = BENCHMARKS[name](args)
        if not args.json:
            print(name)
            for figure, value in results[name].items():
                print(f"  {figure:<52} {value}")
    if args.json:
        print(json.dumps(results))
    return int(any(result.get("verdict") == "FAILED" for result in results.values()))


def engine(args: argparse.Namespace) -> dict[str, str]:
    """What a round costs beside the models' passes, and what recording it costs."""
    pair = options.load(args)
    options.end_progress_line()
    figures: dict[str, list[float]] = {"round": [], "outside": [], "recording": []}
    models = [model for model in (pair.target, pair.draft) if model is not None]
    for seed in range(3):
        decoding = Recipe(seed=seed, max_tokens=40).start(pair)
        while decoding.finish is None:
            before = sum(m.forward_seconds for m in models)
            round = decoding.step()
            passes = sum(m.forward_seconds for m in models) - before
            figures["round"].append(round.seconds)
            figures["outside"].append((round.seconds - passes) / round.seconds)
            figures["recording"].append(round.record_seconds / round.seconds)
    return {
        "rounds": str(len(figures["round"])),
        "median round": f"{median(figures['round']) * 1e3:.1f} ms",
        "outside the models' passes, share of a round": f"{median(figures['outside']):.1%}",
        "recording the trace, share of a round": f"{median(figures['recording']):.1%}",
    }


def engines(args: argparse.Namespace) -> dict[str, Any]:
    """Our engine against transformers', in one thread; `--json` has every figure."""
    import torch

    from specviz.speed import engines as peers

    torch.set_num_threads(1)

    def said(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{done} of {total}", end="", file=sys.stderr, flush=True)

    result = peers.compare(peers.Systems(args.dtype, args.device), args.tries, said)
    options.end_progress_line()
    if args.json:
        return result.to_dict()
    print(peers.table(result))
    return peers.summary(result)


def load(args: argparse.Namespace) -> dict[str, str]:
    """Warm load of the pair in fresh processes, imports included and not."""
    code = (
        "import time; a = time.perf_counter(); import torch, transformers; b = time.perf_counter()\n"
        "from specviz.models.pair import load_pair\n"
        f"load_pair({args.target!r}, {args.draft!r}, {args.device!r}, {args.dtype!r})\n"
        "c = time.perf_counter(); print(b - a, c - b)"
    )
    runs = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        runs.append([float(x) for x in done.stdout.split()])
    return {
        "import of torch and transformers": f"{median(r[0] for r in runs):.1f} s",
        "loading the pair": f"{median(r[1] for r in runs):.1f} s",
    }


def memory(args: argparse.Namespace) -> dict[str, str]:
    """What a run of 512 tokens holds: both caches, and everything Python and numpy allocated."""
    pair = options.load(args)
    options.end_progress_line()
    Recipe(max_tokens=8).start(pair).step()  # what is made once is not the run's
    tracemalloc.start()
    decoding = Recipe(prompt="Once upon a time", temperature=1.0, max_tokens=512).start(pair)
    decoding.pair.eos_ids = frozenset()
    for _ in decoding:
        pass
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    caches = [decoding.target_cache] + ([decoding.drafter.cache] if decoding.drafter.cache else [])
    tensors = sum(
        t.numel() * t.element_size() for c in caches for layer in c.layers for t in (layer.keys, layer.values)
    )
    return {
        "tokens, rounds": f"{decoding.emitted}, {len(decoding.rounds)}",
        "key-value caches": f"{tensors / 2**20:.1f} MiB",
        "trace and full rows": f"{held / 2**20:.1f} MiB",
        "together": f"{(tensors + held) / 2**20:.1f} MiB",
    }


def rules(args: argparse.Namespace) -> dict[str, str]:
    """Accepted draft tokens a round under the two exact rules: in runs, and expected from the same drafts."""
    from specviz.decoding.block import EXACT_RULES
    from specviz.reading.two_rules import compare
    from specviz.speed.accepted import PROMPTS

    pair = options.load(args)
    options.end_progress_line()
    figures = {}
    for temperature in (0.7, 1.0):
        for k in (4, 8):
            texts = []
            counts = []
            for rule in EXACT_RULES:
                recipe = Recipe(rule=rule, k=k, temperature=temperature, max_tokens=64)
                runs = [
                    replace(recipe, prompt=prompt, seed=seed).start(pair)
                    for seed, prompt in enumerate(PROMPTS, 100)
                ]
                texts += [list(decoding) for decoding in runs]
                drafted = [round for text in texts[-len(runs) :] for round in text if round.k]
                counts.append(f"{rule} {sum(r.accepted for r in drafted) / len(drafted):.3f}")
            found = compare(texts)
            assert found is not None
            figures[f"T = {temperature:g}, K = {k}, in runs"] = ", ".join(counts)
            figures[f"T = {temperature:g}, K = {k}, same drafts"] = found.sentence
    return figures


def trees(args: argparse.Namespace) -> dict[str, Any]:
    """Accepted draft tokens a round of chains and of trees of candidates, in runs at T = 1."""
    from specviz.speed import accepted

    pair = options.load(args)
    options.end_progress_line()

    def said(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)

    found = accepted.measure(accepted.Count(pair), said)
    options.end_progress_line()
    return found.to_dict() if args.json else {each.way: str(each) for each in found.kept}


LONG = ("rules", "trees", "passes", "class")  # minutes; by name only
BENCHMARKS = {
    "engine": engine,
    "host": bench_host.measure,
    "engines": engines,
    "rules": rules,
    "trees": trees,
    "passes": bench_passes.measure,
    "load": load,
    "memory": memory,
    "first-page": bench_pages.first_page,
    "click": bench_pages.click,
    "class": bench_class.measure,
}
