"""From a raw logit to a probability, step by step, from what a trace keeps."""

from dataclasses import dataclass
from math import exp
from typing import Literal

from specviz.decoding.controls import Removed
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import Round, Trace
from specviz.reading.cache_cells import prefix

Model = Literal["target", "draft"]

STEPS = (
    "logit",
    "logit bias",
    "repetition penalty",
    "min new tokens",
    "grammar",
    "forced",
    "banned",
    "temperature",
    "top-k",
    "top-p",
    "min-p",
    "log Σ exp of all scores left",
    "score − log Σ exp",
    "probability",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the chain.

    Attributes:
        name: what happens; one of `STEPS`.
        value: the score after it, at the end the probability; None if the step removed the token.
        setting: the control's setting, "" for steps that have none.
        note: what the step did to this token, "" if the value says it.
    """

    name: str
    value: float | None
    setting: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """How one model's logit of one token became its probability.

    Attributes:
        model: "target" or "draft".
        token: the token.
        steps: from the logit to the probability; empty if the model has no logit for the token, or the
            controls of the trace do not explain its probability (a run captured from elsewhere).
        probability: what the steps arrive at.
        recorded: the probability in the trace.
    """

    model: Model
    token: int
    steps: tuple[Step, ...]
    probability: float
    recorded: float


def chain(trace: Trace, round: Round, row: int, token: int, model: Model) -> Chain | None:
    """The chain of `token` at row `row` (from 0) of a round; None if its table does not have the token.

    The controls are applied as `sampling.effective_probs` does; filters look at all tokens, so what they
    did to this one is read from the trace.
    """
    position = round.positions[row]
    table = position.table
    if token not in table.ids or (model == "draft" and position.token is None):
        return None
    i = table.ids.index(token)
    target = model == "target"
    sampling = trace.sampling if target else trace.draft_sampling
    logit = (table.target_logits if target else table.draft_logits)[i]
    removed: Removed = (table.target_removed if target else table.draft_removed)[i]
    recorded = (table.p if target else table.q)[i]
    logsumexp = position.target_logsumexp if target else position.draft_logsumexp
    unexplained = logsumexp is None and not sampling.greedy
    if logit is None or removed == "vocabulary" or unexplained:
        return Chain(model, token, (), recorded, recorded)
    history = (*prefix(trace, round), *round.draft_tokens[:row])
    steps = _scores(logit, token, token in history, sampling, removed)
    last = steps[-1].value
    if last is None:
        steps.append(Step("probability", 0.0))
    elif logsumexp is None:
        steps.append(Step("probability", recorded, note="the largest score takes everything"))
    else:
        steps.append(Step("log Σ exp of all scores left", logsumexp))
        steps.append(Step("score − log Σ exp", last - logsumexp))
        steps.append(Step("probability", exp(last - logsumexp)))
    return Chain(model, token, tuple(steps), steps[-1].value or 0.0, recorded)


def _scores(logit: float, token: int, seen: bool, sampling: SamplingConfig, removed: Removed) -> list[Step]:
    """The steps up to the filters. The last one has no value if the token was removed."""
    score = logit
    steps = [Step("logit", score)]
    if sampling.bias:
        bias = dict(sampling.bias).get(token, 0.0)
        score += bias
        steps.append(Step("logit bias", score, f"{bias:+g}", "" if bias else "none for this token"))
    penalty = sampling.repetition_penalty
    if penalty != 1.0:
        if seen:
            score = score * penalty if score < 0 else score / penalty
        steps.append(Step("repetition penalty", score, f"{penalty:g}", "seen before" if seen else "not seen"))
    for name, setting in _controls(sampling):
        if name == removed:
            return [*steps, Step(name, None, setting, "removed")]
        if name == "temperature":
            score /= sampling.temperature
            steps.append(Step(name, score, setting))
        else:
            steps.append(Step(name, score, setting, "kept"))
    if removed == "greedy":
        steps.append(Step("temperature", None, "0", "not the largest score"))
    return steps


def _controls(sampling: SamplingConfig) -> list[tuple[str, str]]:
    """Name and setting of the controls that act after the penalty, in order."""
    present = {
        "min new tokens": str(sampling.min_new_tokens or ""),
        "grammar": str(sampling.grammar or ""),
        "forced": "first tokens" if sampling.forced else "",
    }
    controls = [(name, setting) for name, setting in present.items() if setting]
    controls += [("banned", "")] if sampling.banned else []
    if sampling.greedy:
        return controls
    if sampling.temperature != 1.0:
        controls.append(("temperature", f"÷ {sampling.temperature:g}"))
    if sampling.top_k:
        controls.append(("top-k", f"{sampling.top_k}"))
    if sampling.top_p < 1.0:
        controls.append(("top-p", f"{sampling.top_p:g}"))
    if sampling.min_p:
        controls.append(("min-p", f"{sampling.min_p:g}"))
    return controls
