"""An audit of captured runs: their rounds as they were, and the numbers along their texts."""

from pathlib import Path
from typing import Any

from specviz.diagnosis.audit import Audit
from specviz.diagnosis.capture import Capture, CaptureError
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.prompts import Prompt
from specviz.diagnosis.setting import Setting
from specviz.diagnosis.watched import saved_tokenizer
from specviz.models.language_model import TransformersModel
from specviz.models.pair import LoadedPair

DEEPEST = 16  # the K that an audit compares up to


def audit(captured: Capture, folder: Path, tokenizer: Any = None) -> dict[str, int]:
    """See `Capture.audit`."""
    first = captured.last
    target, draft = captured.models[-1]
    tokenizer = tokenizer or captured.tokenizer or saved_tokenizer(target)
    if tokenizer is None:
        raise CaptureError(
            "an audit needs the target's tokenizer: capture(tokenizer) or audit(folder, tokenizer)"
        )
    for trace, models in zip(captured.traces, captured.models, strict=True):
        alike = (
            models == (target, draft) and trace.sampling == first.sampling and trace.drafter == first.drafter
        )
        if not alike:
            raise CaptureError("the captured runs differ in models, controls or drafter: capture them apart")
    if first.drafter == "early-exit":
        raise CaptureError(
            "captured early exits can be opened, but not audited: their layers are not recorded"
        )
    width = first.pair.vocab_size
    pair = LoadedPair(
        first.pair.name,
        TransformersModel(target, first.pair.target.name, width),
        None if draft is None else TransformersModel(draft, first.pair.draft.name, width),  # type: ignore[union-attr]
        tokenizer,
    )
    setting = Setting(
        target=first.pair.target.name,
        draft=first.pair.draft.name if first.pair.draft else "",
        drafter=first.drafter,
        k=max(1, min(DEEPEST, max(trace.k for trace in captured.traces))),
        sampling=first.sampling,
        draft_sampling=first.draft_sampling,
        max_new_tokens=max(2, *(trace.max_new_tokens for trace in captured.traces)),
        self_checks=0,
    )
    prompts = [
        Prompt(i, trace.prompt or f"run {i + 1}", answer=trace.text(trace.output_ids))
        for i, trace in enumerate(captured.traces)
    ]
    work, bench = Audit(folder, prompts, setting), Bench(pair, setting, runs=tuple(captured.traces))
    while not work.finished:
        work.step(bench)
    return work.close()
