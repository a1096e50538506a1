"""What is known of a pair before its first round: each line fine, handled (how), or refused (why)."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from specviz.models import memory
from specviz.models.compatibility import Compatibility
from specviz.models.context import NO_LIMIT, context_limit
from specviz.models.language_model import TransformersModel
from specviz.models.sources import Opened, Place
from specviz.models.trimmed import TrimmedDraft

if TYPE_CHECKING:
    from specviz.models.checkpoints import Checkpoint

State = Literal["fine", "handled", "refused"]


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at.

    Attributes:
        subject: what ("ids", "contexts").
        state: "fine"; "handled": different, and what is done about it; "refused": the pair cannot work.
        text: for people.
    """

    subject: str
    state: State
    text: str


def before_loading(
    target: Opened, draft: Opened | None, compared: Compatibility | None, place: Place, draft_place: Place
) -> list[Line]:
    """What config, tokenizer and headers say."""
    lines = [_source("target", target)]
    if draft is not None:
        lines.append(_source("draft", draft))
    if draft is not None and compared is not None:
        lines += [_ids(compared), _widths(compared), _special(target, draft), _template(target, draft)]
    lines += _contexts(target, draft)
    lines.append(_place("target", place))
    if draft is not None:
        lines.append(_place("draft", draft_place))
        lines.append(_rows(place, draft_place))
        lines.append(_memory([(target, place), (draft, draft_place)]))
        lines.append(_sizes(target, draft, place, draft_place))
    else:
        lines.append(_rows(place, place))
        lines.append(_memory([(target, place)]))
    return lines


def after_loading(target: TransformersModel, draft: TransformersModel | None) -> list[Line]:
    """What trial passes of the models showed."""
    lines = [_cache("target", target)]
    if draft is not None:
        lines.append(_cache("draft", draft))
        unknown = sorted(set(_available(target)) - set(range(draft.embedded)))
        if unknown:
            lines.append(
                Line(
                    "embedding",
                    "handled",
                    f"{len(unknown)} ids of the target ({_few(unknown)}) are beyond the draft's embedding of "
                    f"{draft.embedded:,} rows: it never proposes them, and is fed id {draft.stand_in} "
                    "instead",
                )
            )
    return lines


def declared(public: "Checkpoint", target: Opened) -> list[Line]:
    """What a draft checkpoint says of itself, before its weights are read."""
    files = public.weights.files
    text = f"{public.source}: {public.layout.name}; {public.weights.numbers / 1e6:,.1f} M numbers in "
    text += f"{len(files)} file{'s' if len(files) > 1 else ''}"
    text += f", commit {public.revision[:12]}" if public.revision else ""
    lines = [Line("draft", "fine", text)]
    mine, its = target.source.rstrip("/").rpartition("/")[2], public.verifier.rstrip("/").rpartition("/")[2]
    if not its:
        lines.append(
            Line(
                "verifier",
                "handled",
                "the draft does not say which target it was trained for: sizes are checked, and nothing else "
                "can be; with another target it is exact, and useless",
            )
        )
    elif its.partition("@")[0].lower() == mine.partition("@")[0].lower():
        lines.append(Line("verifier", "fine", f"the draft was trained for {public.verifier}"))
    else:
        lines.append(
            Line(
                "verifier",
                "handled",
                f"the draft says it was trained for {public.verifier}, and the target is {target.source}: if "
                "these are not the same weights, few drafts will be accepted",
            )
        )
    return lines


def proposes(draft: Any, target: TransformersModel) -> list[Line]:
    """What a draft checkpoint takes of the target, and may propose."""
    reads = getattr(draft, "reads", True)
    text = "it reads the target's last hidden state, after the final norm"
    if isinstance(reads, tuple):
        text = f"it reads what goes into layers {', '.join(map(str, reads))} of the target (counted from 0)"
    lines = [Line("features", "fine", text)]
    every = target.vocab_size if target.available is None else len(target.available)
    own = every if draft.available is None else len(draft.available)
    if own == every:
        lines.append(Line("ids", "fine", f"the draft may propose all {every:,} of the target"))
    else:
        lines.append(
            Line(
                "ids", "handled", f"the draft may propose {own:,} of the target's {every:,}; q is 0 elsewhere"
            )
        )
    return lines


def refused(subject: str, reason: str) -> Line:
    return Line(subject, "refused", reason)


def _available(model: TransformersModel) -> Sequence[int]:
    return range(model.vocab_size) if model.available is None else [int(i) for i in model.available]


def _source(who: str, opened: Opened) -> Line:
    files = opened.weights.files
    text = f"{opened.source}: {opened.weights.numbers / 1e6:,.1f} M numbers in {len(files)} "
    text += f"file{'s' if len(files) > 1 else ''} of {opened.weights.size / 2**20:,.0f} MiB"
    text += f", commit {opened.revision[:12]}" if opened.revision else ""
    if opened.weights.ignored:
        return Line(who, "handled", f"{text}; {'; '.join(opened.weights.ignored)}")
    return Line(who, "fine", text)


def _ids(compared: Compatibility) -> Line:
    if not compared.ok:
        return refused("ids", str(compared))
    parts = [f"{compared.shared:,} in common"]
    if compared.target_only:
        parts.append(f"{compared.target_only:,} only in the target, which the draft never proposes")
    if compared.draft_only:
        parts.append(f"{compared.draft_only:,} only in the draft, which it may not propose")
    return Line("ids", "handled" if len(parts) > 1 else "fine", "; ".join(parts))


def _widths(compared: Compatibility) -> Line:
    text = f"heads of {compared.target_width:,} and {compared.draft_width:,} rows"
    if compared.target_width == compared.draft_width:
        return Line("widths", "fine", text)
    return Line(
        "widths", "handled", f"{text}: both are cut to the target's ids, padded rows are never emitted"
    )


def _special(target: Opened, draft: Opened) -> Line:
    differ = [
        f"{name} {getattr(target.tokenizer, name)!r} and {getattr(draft.tokenizer, name)!r}"
        for name in ("bos_token", "eos_token", "pad_token")
        if getattr(target.tokenizer, name) != getattr(draft.tokenizer, name)
    ]
    if not differ:
        return Line("special tokens", "fine", f"the same (EOS {target.tokenizer.eos_token!r})")
    return Line("special tokens", "handled", f"{'; '.join(differ)}: the target's count")


def _template(target: Opened, draft: Opened) -> Line:
    ours, other = (opened.tokenizer.chat_template or "" for opened in (target, draft))
    if ours == other:
        return Line("chat template", "fine", "the same" if ours else "neither has one: plain prompts only")
    if not ours:
        return Line(
            "chat template", "handled", "only the draft has one, and it is not used: plain prompts only"
        )
    used = "the target's is used for both"
    if not other:
        return Line(
            "chat template", "handled", f"only the target has one; {used}, which the draft may not know"
        )
    changed = [line for line in difflib.ndiff(other.splitlines(), ours.splitlines()) if line[0] in "+-"]
    shown = " / ".join(line.strip()[:80] for line in changed[:2])
    return Line("chat template", "handled", f"different, {used}: {shown}")


def _contexts(target: Opened, draft: Opened | None) -> list[Line]:
    most, reason = context_limit(target.config.get_text_config())
    text = f"the target takes {_tokens(most)}"
    lines = [Line("context", "handled" if reason else "fine", f"{text}: {reason}" if reason else text)]
    if draft is not None:
        drafts, why = context_limit(draft.config.get_text_config())
        text = f"the draft takes {_tokens(drafts)}" + (f": {why}" if why else "")
        if drafts < most:
            text += (
                f"; from token {drafts + 1:,} on it cannot draft, and each round is one pass of the target"
            )
        lines.append(Line("draft's context", "handled" if drafts < most or why else "fine", text))
    return lines


def _tokens(most: int) -> str:
    return "any number of tokens" if most >= NO_LIMIT else f"{most:,} tokens"


def _place(who: str, place: Place) -> Line:
    return Line(f"{who} runs", "fine", f"on {place.device} in {place.dtype} ({place.reason})")


def _rows(target: Place, draft: Place) -> Line:
    """Where distributions are computed and judged; see `specviz.decoding.device`."""
    kind = target.device.partition(":")[0]
    if kind == "mps":
        return Line(
            "rows", "handled", "MPS has no float64: every row of logits goes to the CPU and is judged there"
        )
    if kind == "cpu":
        return Line("rows", "fine", "computed and judged in float64 on the CPU")
    if draft.device not in (target.device, "cuda:0" if target.device == "cuda" else "cuda"):
        return Line(
            "rows", "handled", "target and draft are on two devices: rows go to the CPU and are judged there"
        )
    return Line(
        "rows",
        "fine",
        "computed and judged in float64 on the GPU; one copy a round brings what a trace keeps. Trees of "
        "candidates and wrong engines take their rows to the CPU; a grammar reads each drafted token there",
    )


def _memory(models: list[tuple[Opened, Place]]) -> Line:
    seen = {(opened.source, place): (opened, place) for opened, place in models}.values()
    needed = sum(opened.weights.numbers * memory.BYTES[place.dtype] for opened, place in seen)
    free = memory.available(models[0][1].device)
    text = f"the weights need about {needed / 2**30:.2f} GiB"
    return Line("memory", "fine", text + (f", {free / 2**30:.1f} GiB are free" if free is not None else ""))


def _sizes(target: Opened, draft: Opened, place: Place, draft_place: Place) -> Line:
    mine = target.weights.numbers * memory.BYTES[place.dtype]
    its = draft.weights.numbers * memory.BYTES[draft_place.dtype]
    return Line(
        "sizes",
        "fine",
        f"the target is {target.weights.numbers / max(1, draft.weights.numbers):.1f} times the draft; from "
        "the "
        f"bytes that a pass reads, a pass of the draft should cost c ≈ {its / max(1, mine):.2f} of the "
        "target's "
        "(estimated)",
    )


def _cache(who: str, model: TransformersModel) -> Line:
    held = f"keys and values of {model.info().layers} layers"
    if isinstance(model, TrimmedDraft):
        return Line(f"{who}'s cache", "fine", f"{held} of the target's own kind")
    return Line(f"{who}'s cache", "fine", f"{held}, cut and continued in a trial")


def _few(ids: Sequence[int]) -> str:
    return ", ".join(str(id) for id in ids[:4]) + (", …" if len(ids) > 4 else "")
