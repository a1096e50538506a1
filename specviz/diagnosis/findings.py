"""A fault or a weak draft? What the numbers point to, strongest first."""

from collections.abc import Sequence
from typing import Any

from specviz.diagnosis import choices, faults
from specviz.diagnosis.finding import WORTH, Finding
from specviz.diagnosis.setting import Setting
from specviz.diagnosis.whatif import Texts


def findings(
    frames: dict[str, Any], setting: Setting, checks: dict[str, Any], texts: Texts, vocabulary: int
) -> list[Finding]:
    """All findings, faults first, then by what they would bring; never empty once a prompt is measured.

    `vocabulary` is the number of ids of the target's tokenizer.
    """
    if not texts.texts:
        return []
    wrong = [
        *faults.of_caches(checks),
        *faults.of_the_rule(checks),
        *faults.of_the_engine(checks),
        *faults.of_the_run(frames, setting, texts),
    ]
    worth = [f for f in choices.settings(frames, setting, texts) if f.gain is not None]
    worth.sort(key=lambda f: -(f.gain or 0.0))
    if all(f.key != "prompt" for f in worth):  # behind another prompt any draft looks broken
        wrong += faults.of_the_weights(frames, setting, vocabulary)
    return [*wrong, *worth, _weak(frames, texts, [*wrong, *worth]), *choices.own_template(setting, texts)]


def _weak(frames: dict[str, Any], texts: Texts, before: Sequence[Finding]) -> Finding:
    """What is left for the draft itself, behind these findings."""
    now = texts.outcome(texts.now)
    beta = frames["tokens"]["beta"]
    alpha = float(beta.mean()) if beta.notna().any() else 0.0
    length = f"β is {alpha:.2f} on average and the mean acceptance length {now.mean:.2f}"
    if before:
        title = "Beyond that, it is the draft itself"
        text = f"{length}: what is left after the points above is what this draft knows."
    elif alpha >= 0.75:
        title = "The draft is good"
        text = f"{length}; no setting here would bring much more."
    else:
        title = "The draft is weak, and nothing is broken"
        text = (
            f"{length}; the checks found no fault and no setting that would bring {WORTH:.0%} more. It takes "
            "a better draft: more training on such text, against the target's distributions, or a larger "
            "one."
        )
    return Finding("weak", "draft", title, text)
