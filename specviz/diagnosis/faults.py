"""Findings that something is wrong: caches, the rule, the engine, the draft's weights."""

from math import log
from typing import Any

import numpy as np
from scipy.stats import binomtest

from specviz.diagnosis.finding import Finding
from specviz.diagnosis.setting import Setting
from specviz.diagnosis.tables import LAW
from specviz.diagnosis.walk import intervals
from specviz.diagnosis.whatif import Texts

# The target as its own draft: a pass over one row and one over several round differently, so that a few
# tokens in a hundred are refused in 16 bits, none in float32. Fewer than SELF are kept only by a fault, and
# SURELY says how unlikely what was seen has to be before it counts as one.
SELF, SURELY = 0.95, 0.01
ENOUGH = 5  # prompts, before the run is compared with what the draft knows
BETTER = 0.05  # relative gap between what a fresh draft would give and what the run gave
KNOWS = 1 / 3  # of the way from guessing evenly to the target: less is no model of the text
TINY = 1e-12  # a smaller q counts as this much


def of_caches(checks: dict[str, Any]) -> list[Finding]:
    """Caches that differ from uncached passes."""
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


def of_the_rule(checks: dict[str, Any]) -> list[Finding]:
    """An output that does not follow the target."""
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
            "figures of a wrong rule say nothing about the draft: mend the rule first.",
        )
    ]


def keeps_itself(own: dict[str, Any]) -> bool:
    """Whether the target, drafting for itself, kept as much as rounding allows."""
    if not own["drafted"]:
        return True
    return bool(binomtest(own["accepted"], own["drafted"], SELF, alternative="less").pvalue >= SURELY)


def of_the_engine(checks: dict[str, Any]) -> list[Finding]:
    """A target that refuses what it drafted itself."""
    own = checks["self_draft"]
    if keeps_itself(own):
        return []
    return [
        Finding(
            "self-draft",
            "fault",
            "Even the target as its own draft is rejected",
            f"{own['accepted']} of {own['drafted']} tokens were kept where the target drafted for itself; "
            "nearly all of them should be, and in float32 all. The engine or its caches are at fault, not "
            "the draft.",
        )
    ]


def of_the_run(frames: dict[str, Any], setting: Setting, texts: Texts) -> list[Finding]:
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


def of_the_weights(frames: dict[str, Any], setting: Setting, vocabulary: int) -> list[Finding]:
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
            f"At its best temperature it gives the committed tokens {best.mean():.1f} nats on average; "
            f"guessing evenly gives {evenly:.1f}, the target {tokens['logprob'].mean():.1f}. Even a weak "
            "draft covers half of that way: weights in the wrong layers, missing or renamed tensors, "
            "another tokenizer, or a broken conversion. Let the draft write on its own and read it.",
        )
    ]
