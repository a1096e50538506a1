"""Findings that a choice costs tokens: the draft's prompt, its controls, its calibration, its vocabulary."""

from dataclasses import fields, replace
from math import inf
from typing import Any

from specviz.decoding.controls import SamplingConfig
from specviz.diagnosis.finding import WORTH, Finding
from specviz.diagnosis.plans import Option, Outcome
from specviz.diagnosis.setting import Setting
from specviz.diagnosis.whatif import Texts

READS = {
    "same": "the target's prompt",
    "own": "its own chat template",
    "chat": "the target's chat template",
}


def settings(frames: dict[str, Any], setting: Setting, texts: Texts) -> list[Finding]:
    """What a choice costs: the draft's prompt, its controls, its vocabulary, its calibration."""
    now = texts.outcome(texts.now)
    found = []
    options = {option.key: option for option in texts.options()}
    for style in ("same", "own", "chat"):
        if style in options and (style == "same" or setting.draft_prompt == "same"):
            found.append(_prompt(options[style], texts, now))
    if "equal" in options:
        found.append(_controls(options["equal"], setting, texts, now))
    elif "temperature" in options:
        outcome = texts.outcome(texts.plan([options["temperature"]]))
        if _worth(outcome, now):
            found.append(
                Finding(
                    "calibration",
                    "setting",
                    "The draft's confidence is off",
                    f"{options['temperature'].title} would bring {outcome.mean:.2f} tokens a round instead "
                    f"of {now.mean:.2f}, and it costs nothing: the output keeps the target's distribution.",
                    outcome.gain,
                )
            )
    if "full" in options:
        found.append(_vocabulary(frames, texts, now))
    return [f for f in found if f is not None]


def _worth(outcome: Outcome, now: Outcome) -> bool:
    return outcome.gain_low > 0.0 and outcome.gain >= WORTH * now.mean


def _prompt(option: Option, texts: Texts, now: Outcome) -> Finding | None:
    outcome = texts.outcome(texts.plan([option]))
    if not _worth(outcome, now):
        return None
    return Finding(
        "prompt",
        "setting",
        "The draft reads another prompt than it should",
        f"With {READS[option.key]} it would bring {outcome.mean:.2f} tokens a round instead of "
        f"{now.mean:.2f}, on the same texts. "
        "Compare the two prompts token by token, spaces at their ends included.",
        outcome.gain,
    )


def own_template(setting: Setting, texts: Texts) -> list[Finding]:
    """A template of the draft's own that costs much, where the audit gave the draft the target's prompt."""
    option = next((option for option in texts.options() if option.key == "own"), None)
    if option is None or setting.draft_prompt != "same":
        return []
    now, outcome = texts.outcome(texts.now), texts.outcome(texts.plan([option]))
    if outcome.gain_high >= 0.0 or outcome.gain > -WORTH * now.mean:
        return []
    return [
        Finding(
            "own-template",
            "setting",
            "The draft came with another chat template",
            f"Reading its prompts through that one it would bring {outcome.mean:.2f} tokens a round instead "
            f"of {now.mean:.2f}. Here it read what the target reads. If your engine gives it its own, this "
            "is what you lose: audit it as it is served (the draft's prompt: own; --draft-prompt own).",
        )
    ]


def _controls(option: Option, setting: Setting, texts: Texts, now: Outcome) -> Finding | None:
    outcome = texts.outcome(texts.plan([option]))
    if not _worth(outcome, now):
        return None
    draft, target = setting.draft_sampling, setting.sampling
    names = [f.name for f in fields(SamplingConfig)]
    differing = [name for name in names if getattr(draft, name) != getattr(target, name)]
    shown = ", ".join(
        f"{name.replace('_', '-')} {_value(getattr(draft, name))} against {_value(getattr(target, name))}"
        for name in differing
    )
    return Finding(
        "controls",
        "setting",
        "Draft and target sample differently",
        f"The draft has {shown}. With the target's controls it would bring {outcome.mean:.2f} tokens a "
        f"round instead of {now.mean:.2f}, at no cost.",
        outcome.gain,
    )


def _value(value: Any) -> str:
    if value == ():
        return "none"
    return f"{value:g}" if isinstance(value, float) and value != inf else str(value)


def _vocabulary(frames: dict[str, Any], texts: Texts, now: Outcome) -> Finding | None:
    likely = texts.outcome(replace(texts.now, full="estimate"))
    bound = texts.outcome(replace(texts.now, full="bound"))
    if not _worth(likely, now):
        return None
    share = float(frames["tokens"]["lacking"].mean())
    return Finding(
        "vocabulary",
        "setting",
        "The draft cannot say these words",
        f"{share:.0%} of the committed tokens are outside the draft's vocabulary or context. If it were as "
        f"good there as elsewhere it would bring about {likely.mean:.2f} tokens a round instead of "
        f"{now.mean:.2f} (estimated; at most {bound.mean:.2f}).",
        likely.gain,
    )
