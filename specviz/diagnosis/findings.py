"""A fault or a weak draft? What the numbers point to, strongest first."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import inf, log
from typing import Any, Literal

import numpy as np
from scipy.stats import binomtest

from specviz.decoding.controls import SamplingConfig
from specviz.diagnosis.setting import Setting
from specviz.diagnosis.tables import LAW
from specviz.diagnosis.walk import intervals
from specviz.diagnosis.whatif import Option, Outcome, Texts

Sort = Literal["fault", "setting", "draft"]
WORTH = 0.04  # of the present mean length: a change that brings less is not named first
# The target as its own draft: a pass over one row and one over several round differently, so that a few
# tokens in a hundred are refused in 16 bits, none in float32. Fewer than SELF are kept only by a fault, and
# SURELY says how unlikely what was seen has to be before it counts as one.
SELF, SURELY = 0.95, 0.01
ENOUGH = 5  # prompts, before the run is compared with what the draft knows
BETTER = 0.05  # relative gap between what a fresh draft would give and what the run gave
KNOWS = 1 / 3  # of the way from guessing evenly to the target: less is no model of the text
TINY = 1e-12  # a smaller q counts as this much


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the numbers point to.

    Attributes:
        key: names it in tests, links and JSON.
        sort: "fault" (something is wrong), "setting" (a choice that costs), "draft" (the draft itself).
        title: the headline.
        sentence: the numbers behind it, and what to do.
        gain: tokens a round that it would bring; None where that is not known.
    """

    key: str
    sort: Sort
    title: str
    sentence: str
    gain: float | None = None


def findings(
    frames: dict[str, Any], setting: Setting, checks: dict[str, Any], texts: Texts, vocabulary: int
) -> list[Finding]:
    """All findings, faults first, then by what they would bring; never empty once a prompt is measured.

    `vocabulary` is the number of ids of the target's tokenizer.
    """
    if not texts.texts:
        return []
    faults = [*_caches(checks), *_not_exact(checks), *_own_draft(checks), *_stale(frames, setting, texts)]
    worth = [f for f in _settings(frames, setting, texts) if f.gain is not None]
    worth.sort(key=lambda f: -(f.gain or 0.0))
    if all(f.key != "prompt" for f in worth):  # behind another prompt any draft looks broken
        faults += _broken(frames, setting, vocabulary)
    return [*faults, *worth, _weak(frames, texts, faults, worth), *_template(setting, texts)]


def _caches(checks: dict[str, Any]) -> list[Finding]:
    wrong = checks["caches"]["wrong"]
    found = []
    for role in ("target", "draft"):
        mine = [check for check in wrong if check["role"] == role]
        if mine:
            harm = (
                "the text is not the target's" if role == "target" else "the text is right, acceptance decays"
            )
            found.append(
                Finding(
                    f"{role}-cache",
                    "fault",
                    f"The {role}'s cache is wrong",
                    f"{len(mine)} of {checks['caches']['checked']} cache checks failed; {harm}. "
                    f"{mine[0]['sentence']} Look at what is cut after a rejection and fed after a full "
                    "acceptance.",
                )
            )
    return found


def _not_exact(checks: dict[str, Any]) -> list[Finding]:
    evidence = checks["evidence"]
    if evidence["crossed_at"] is None:
        return []
    return [
        Finding(
            "not-exact",
            "fault",
            "The output does not follow the target",
            f"The evidence against exactness passed 20 at token {evidence['crossed_at']:,} of "
            f"{evidence['tokens']:,}. Exact decoding does that in at most 1 of 20 audits. Acceptance "
            "figures of "
            "a wrong rule say nothing about the draft: mend the rule first.",
        )
    ]


def keeps_itself(own: dict[str, Any]) -> bool:
    """Whether the target, drafting for itself, kept as much as rounding allows."""
    if not own["drafted"]:
        return True
    return bool(binomtest(own["accepted"], own["drafted"], SELF, alternative="less").pvalue >= SURELY)


def _own_draft(checks: dict[str, Any]) -> list[Finding]:
    own = checks["self_draft"]
    if keeps_itself(own):
        return []
    return [
        Finding(
            "self-draft",
            "fault",
            "Even the target as its own draft is rejected",
            f"{own['accepted']} of {own['drafted']} tokens were kept where the target drafted for "
            "itself; nearly all "
            "of them should be, and in float32 all. The engine or its caches are at fault, not the draft.",
        )
    ]


def _stale(frames: dict[str, Any], setting: Setting, texts: Texts) -> list[Finding]:
    """A draft that knows more, asked afresh, than its run shows."""
    prompts = frames["prompts"]
    prompts = prompts[(prompts["rounds"] > 0) & (prompts["finish"] != "score")]
    if (setting.rule != "exact" and not len(prompts)) or len(prompts) < ENOUGH:
        return []
    order = frames["tokens"]["prompt"].drop_duplicates().sort_values().tolist()
    rows = [order.index(prompt) for prompt in prompts["prompt"] if prompt in order]
    expected = texts.sums(texts.now)[rows][:, :2]
    real = prompts[prompts["prompt"].isin(order)][["rounds", "accepted"]].to_numpy(float)
    drawn = intervals(np.concatenate([expected, real], axis=1))
    gaps = drawn[:, 1] / drawn[:, 0] - drawn[:, 3] / drawn[:, 2]
    low = float(np.percentile(gaps, 2.5))
    fresh = 1 + float(expected[:, 1].sum() / expected[:, 0].sum())
    measured = 1 + float(real[:, 1].sum() / real[:, 0].sum())
    if low <= 0.0 or fresh - measured < BETTER * fresh:
        return []
    return [
        Finding(
            "stale-draft",
            "fault",
            "The draft knows more than its run shows",
            f"Led along the same texts afresh, it would bring {fresh:.2f} tokens a round; the run brought "
            f"{measured:.2f}. The draft is better than its caches or positions let it be.",
            fresh - measured,
        )
    ]


def _broken(frames: dict[str, Any], setting: Setting, vocabulary: int) -> list[Finding]:
    """A draft that, even at its best temperature, knows next to nothing of what the target knows."""
    tokens = frames["tokens"]
    tokens = tokens[tokens["q_logprob"].notna() & ~tokens["lacking"]]
    if tokens["prompt"].nunique() < 2:
        return []
    filtered = f"{LAW}draft|open|0" in tokens.columns
    laws = [f"{LAW}draft|{'open ' if filtered else ''}t{t:g}|0" for t in setting.temperatures if t]
    scores = [np.log(tokens[law].to_numpy(float).clip(TINY)) for law in laws if law in tokens.columns]
    if not scores:
        return []
    evenly = -log(vocabulary)
    best = max(scores, key=lambda row: row.mean())
    given = tokens.assign(draft=best - evenly, target=tokens["logprob"] - evenly).groupby("prompt")
    rows = given[["draft", "target"]].sum().to_numpy(float)
    drawn = intervals(rows)
    high = float(np.percentile(drawn[:, 0] / np.maximum(drawn[:, 1], TINY), 97.5))
    if high >= KNOWS:
        return []
    return [
        Finding(
            "broken-weights",
            "fault",
            "The draft does not model this text at all",
            f"At its best temperature it gives the committed tokens {best.mean():.1f} nats on "
            "average; guessing "
            f"evenly gives {evenly:.1f}, the target {tokens['logprob'].mean():.1f}. Even a weak draft "
            "covers half "
            "of that way: weights in the wrong layers, missing or renamed tensors, another tokenizer, or a "
            "broken conversion. Let the draft write on its own and read it.",
        )
    ]


def _settings(frames: dict[str, Any], setting: Setting, texts: Texts) -> list[Finding]:
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
                    f"{options['temperature'].title} would bring {outcome.mean:.2f} tokens a round "
                    "instead of "
                    f"{now.mean:.2f}, and it costs nothing: the output keeps the target's distribution.",
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
        f"{option.title}: {outcome.mean:.2f} tokens a round instead of {now.mean:.2f}, on the same "
        "texts. Compare "
        "the two prompts token by token, spaces at their ends included.",
        outcome.gain,
    )


def _template(setting: Setting, texts: Texts) -> list[Finding]:
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
            f"of {now.mean:.2f}. Here it read what the target reads. If your engine gives it its own, "
            "this is what you lose: audit it as it is served (the draft's prompt: own; --draft-prompt own).",
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
        f"The draft has {shown}. With the target's controls it would bring {outcome.mean:.2f} tokens a round "
        f"instead of {now.mean:.2f}, at no cost.",
        outcome.gain,
    )


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
        f"{share:.0%} of the committed tokens are outside the draft's vocabulary or context. If it "
        "were as good "
        f"there as elsewhere it would bring about {likely.mean:.2f} tokens a round instead of {now.mean:.2f} "
        f"(estimated; at most {bound.mean:.2f}).",
        likely.gain,
    )


def _weak(
    frames: dict[str, Any], texts: Texts, faults: Sequence[Finding], worth: Sequence[Finding]
) -> Finding:
    now = texts.outcome(texts.now)
    beta = frames["tokens"]["beta"]
    alpha = float(beta.mean()) if beta.notna().any() else 0.0
    length = f"β is {alpha:.2f} on average and the mean acceptance length {now.mean:.2f}"
    if faults or worth:
        title = "Beyond that, it is the draft itself"
        text = f"{length}: what is left after the points above is what this draft knows."
    elif alpha >= 0.75:
        title = "The draft is good"
        text = f"{length}; no setting here would bring much more."
    else:
        title = "The draft is weak, and nothing is broken"
        text = (
            f"{length}; the checks found no fault and no setting that would bring {WORTH:.0%} more. "
            "It takes a "
            "better draft: more training on such text, against the target's distributions, or a larger one."
        )
    return Finding("weak", "draft", title, text)


def _value(value: Any) -> str:
    if value == ():
        return "none"
    return f"{value:g}" if isinstance(value, float) and value != inf else str(value)
