"""Options that several commands share, and how they become a pair and a run."""

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specviz.decoding.drafters import settings_of
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.tree import shape
from specviz.models import asked
from specviz.models.progress import Progress
from specviz.recipe import CONTROLS, DTYPES, WHERE, Recipe

GLYPHS = {"accepted": "✓", "rejected": "✗", "discarded": "┄", "corrected": "↻", "bonus": "+"}
# The standard terminal colours nearest to those of the app; the glyph says the same without colour.
COLOURS = {"accepted": 32, "rejected": 31, "discarded": 90, "corrected": 33, "bonus": 36}


SOURCES = "built-in, a hub id (ID@REVISION for another than the newest), a local folder or GGUF file"
PLACES = ("device", "dtype", "draft_device", "draft_dtype")


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    group.add_argument("--target", default="built-in", help=SOURCES)
    group.add_argument(
        "--draft", help="likewise, or an EAGLE or Medusa checkpoint; the built-in target has one"
    )
    add_place_options(group)


def add_place_options(group: Any) -> None:
    """Where target and draft run, and in which dtype; `group` is a parser or a group of one."""
    group.add_argument("--device", help="cpu, cuda, cuda:1, mps, auto: all GPUs (default: the fastest)")
    group.add_argument("--draft-device", help="device of the draft, if not the target's")
    group.add_argument(
        "--dtype",
        choices=DTYPES,
        help="default: bfloat16 on GPUs that have it; on a CPU float32, but for the built-in pair whichever "
        "is faster",
    )
    group.add_argument("--draft-dtype", choices=DTYPES, help="dtype of the draft, if not the target's")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompt", default="")
    parser.add_argument("--chat", action="store_true", help="put the chat template around the prompt")
    parser.add_argument(
        "--drafter",
        default="model",
        metavar="KIND",
        help="model, ngram, suffix, early-exit, parallel, medusa, eagle, mtp or combined (default: model, "
        "the pair's own draft); ngram:2-5 sets the smallest and largest suffix, suffix:8 the longest match, "
        "early-exit:20 the layers, combined:eagle what drafts where nothing is copied",
    )
    parser.add_argument("-k", type=int, default=4, help="draft tokens a round (default: 4)")
    parser.add_argument(
        "--tree",
        default="",
        metavar="SHAPE",
        help="a tree of candidates in place of a chain: 4, 8 or 16 nodes, or candidates a level as 2-2-1, "
        "drawn without replacement; :iid behind it draws with replacement, :top takes the likeliest",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-new-tokens", type=int, default=48)
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="may be repeated")
    add_sampling_options(parser)
    add_prompt_options(parser)
    add_constraint_options(parser)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling", "the draft's controls are the target's unless given")
    for name, default in (("temperature", 0.7), ("top-k", 0), ("top-p", 1.0), ("min-p", 0.0)):
        group.add_argument(f"--{name}", type=type(default), default=default, help=f"(default: {default})")
        group.add_argument(f"--draft-{name}", type=type(default))
    group.add_argument("--repetition-penalty", type=float, default=1.0, help="(default: 1.0)")
    group.add_argument("--draft-repetition-penalty", type=float)
    group.add_argument(
        "--greedy-draft",
        action="store_true",
        help="draft the favourite token (q is one-hot), as vLLM does by default: --draft-temperature 0",
    )


def sampling(args: argparse.Namespace) -> tuple[SamplingConfig, SamplingConfig]:
    """The controls of target and draft.

    Raises:
        ValueError: naming the control that is out of range.
    """
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    target = {name: getattr(args, name) for name in names}
    given = {name: getattr(args, f"draft_{name}") for name in names}
    draft = {**target, **{name: value for name, value in given.items() if value is not None}}
    if args.greedy_draft:
        if args.draft_temperature:
            raise ValueError("--greedy-draft is --draft-temperature 0: leave out one of the two")
        draft["temperature"] = 0.0
    return SamplingConfig(**target), SamplingConfig(**draft)


def constraint_recipe(args: argparse.Namespace) -> Recipe:
    """A recipe with nothing but constraints.

    Raises:
        ValueError: naming the control that cannot be used.
    """
    made = Recipe(**constraints(args))
    if why := asked.why_not(made):
        raise ValueError(why)
    return made


def recipe(args: argparse.Namespace, **more: Any) -> Recipe:
    """The recipe that the options describe; `more` are fields of it. Several stop strings are no part of one.

    Raises:
        ValueError: naming the control that is out of range, before anything is loaded.
    """
    settings_of(args.drafter)
    if args.tree:
        shape(args.tree)
    controls: dict[str, Any] = {}
    for prefix, config in zip(("", "draft_"), sampling(args), strict=True):
        values = (config.temperature, config.top_k, config.top_p, config.min_p, config.repetition_penalty)
        controls |= {f"{prefix}{name}": value for name, value in zip(CONTROLS, values, strict=True)}
    turns = asked.turns_text(args.turn)
    settings = "" if args.chat_settings == "{}" else args.chat_settings
    if not args.prompt and not args.prompt_ids:
        raise ValueError("say with --prompt what the text begins with, or with --prompt-ids")
    if (args.prompt or args.chat or args.system or turns or settings) and args.prompt_ids:
        raise ValueError("--prompt-ids are the whole prompt: leave out --prompt, the template and its parts")
    places: dict[str, Any] = {name: getattr(args, name, None) or "" for name in PLACES}
    made = Recipe(
        prompt=args.prompt,
        chat=args.chat or bool(args.system or turns or settings),
        system=args.system,
        turns=turns,
        template=settings,
        ids=args.prompt_ids or "",
        **constraints(args),
        drafter=args.drafter,
        k=args.k,
        tree=args.tree,
        own=True,
        seed=args.seed,
        max_tokens=args.max_new_tokens,
        stop=args.stop[0] if len(args.stop) == 1 else "",
        target=args.target,
        draft=args.draft or "",
        **places,
        **controls,
        **more,
    )
    if why := asked.why_not(made):
        raise ValueError(why)
    return made


def stops(args: argparse.Namespace) -> dict[str, Any]:
    """Several stop strings, which are no part of a recipe, as an argument of its start."""
    return {"stop": args.stop} if len(args.stop) > 1 else {}


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prompt", "a conversation, or token ids; each implies what it needs")
    group.add_argument("--system", default="", metavar="TEXT", help="system prompt of the chat template")
    group.add_argument(
        "--turn",
        action="append",
        default=[],
        metavar="TEXT",
        help="an earlier turn of the chat, the user's and the model's in turn; may be repeated",
    )
    group.add_argument(
        "--chat-settings",
        default="{}",
        metavar="JSON",
        help="""variables of the chat template, as '{"enable_thinking": false}'""",
    )
    group.add_argument(
        "--prompt-ids", metavar="IDS", help="token ids between commas or spaces, in place of the prompt's"
    )


def add_constraint_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "constraints", "TOKENS are ids or texts in double quotes, between commas or spaces"
    )
    group.add_argument(
        "--bias", action="append", default=[], metavar="TOKEN:X", help="add X, −100 … 100, to a token's logit"
    )
    group.add_argument("--ban", action="append", default=[], metavar="TOKENS", help="never write these")
    group.add_argument("--force", default="", metavar="TOKENS", help="begin the text with these")
    group.add_argument(
        "--min-new-tokens", type=whole(0), default=0, metavar="N", help="no EOS before so many tokens"
    )
    group.add_argument("--ignore-eos", action="store_true", help="go on behind an EOS")
    group.add_argument("--json-schema", metavar="FILE", type=Path, help="the text is JSON of this schema")
    group.add_argument("--regex", metavar="REGEX", help="the whole text matches this regular expression")
    group.add_argument("--grammar", metavar="FILE", type=Path, help="the text follows this grammar (Lark)")
    group.add_argument(
        "--constrain",
        choices=WHERE,
        default="both",
        help="whose tokens: target: the text obeys and the draft does not know; draft: changes acceptance "
        "only (default: both)",
    )


def constraints(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of a recipe that say what the text must and must not have.

    Raises:
        ValueError: for several grammars, or a file that cannot be read.
    """
    given = {"json": args.json_schema, "lark": args.grammar, "regex": args.regex}
    given = {kind: value for kind, value in given.items() if value is not None}
    if len(given) > 1:
        raise ValueError("choose one of --json-schema, --regex and --grammar")
    found: dict[str, Any] = {
        "bias": ", ".join(args.bias),
        "ban": ", ".join(args.ban),
        "force": args.force,
        "min_tokens": args.min_new_tokens,
        "ignore_eos": args.ignore_eos,
        "constrain": args.constrain,
    }
    for kind, value in given.items():
        try:
            text = value.read_text(encoding="utf-8") if isinstance(value, Path) else value
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read {value}: {error}") from None
        found |= {"grammar_kind": kind, "grammar": text}
    return found


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before hours of work are done for it.

    Raises:
        ValueError: saying why.
    """
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"cannot write {path}: it is a folder, or may not be written")


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """An argparse type: whole numbers from `low` to `high`."""

    def parse(text: str) -> int:
        number = int(text)
        if number < low or (high is not None and number > high):
            allowed = f"{low:,} or more" if high is None else f"{low:,} … {high:,}"
            raise argparse.ArgumentTypeError(f"must be {allowed}, not {number:,}")
        return number

    parse.__name__ = "whole number"  # argparse says "invalid whole number value"
    return parse


def positive(text: str) -> float:
    """An argparse type: finite numbers above 0."""
    number = float(text)
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
    return number


def load(args: argparse.Namespace):
    """The pair that the options name, with progress on standard error."""
    from specviz.models.pair import load_pair

    pair = load_pair(
        target=args.target,
        draft=args.draft,
        device=args.device,
        dtype=args.dtype,
        draft_device=args.draft_device,
        draft_dtype=args.draft_dtype,
        progress=progress_line(),
    )
    if pair.dtype_reason:
        end_progress_line()
        print(f"in {pair.target.dtype}; {pair.dtype_reason}", file=sys.stderr)
    return pair


def progress_line() -> Callable[[Progress], None]:
    """A report that rewrites one line of a terminal, or prints a line a stage elsewhere."""
    last = ""

    def report(progress: Progress) -> None:
        nonlocal last
        text = progress.stage
        if progress.total:
            done, total = progress.done / 2**20, progress.total / 2**20
            text += f" … {done:.1f} of {total:.1f} MiB"
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
        elif progress.stage != last:
            print(progress.stage, file=sys.stderr, flush=True)
        last = progress.stage

    return report


def end_progress_line() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
