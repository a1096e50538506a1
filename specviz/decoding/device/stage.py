"""Where a run's rounds are computed on the model's device: what takes the place of the host's parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import Any

import torch

from specviz.decoding.device import laws, record
from specviz.decoding.device.rules import RULES, Judged, Uniforms
from specviz.decoding.device.transfer import Ids, upload
from specviz.decoding.drafters import COPYING, named
from specviz.decoding.drafters.base import Proposal
from specviz.decoding.protocols import ModelOutput, Pair
from specviz.decoding.randomness import RoundRandomness
from specviz.decoding.record import Made, outline
from specviz.decoding.sampling import Effective, NonFiniteLogits, SamplingConfig
from specviz.decoding.trace import Round
from specviz.decoding.verify import Verifier, VerifyError, check_pair


class Trouble(ValueError):
    """A row that cannot be used, found when the round came over.

    Attributes:
        model: "target" or "draft"; "" for an error of the rule, which names its own.
        error: what is wrong.
    """

    def __init__(self, model: str, error: ValueError) -> None:
        super().__init__(str(error))
        self.model = model
        self.error = error


class There:
    """A model, or heads, whose logits and available ids stay on the device."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self.model = model
        self.device = device

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.model, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> "There":
        return self

    @cached_property
    def available(self) -> Ids | None:
        ids = self.model.available
        return None if ids is None else Ids(ids, upload(ids, self.device))

    def forward(self, *args: Any, **kwargs: Any) -> ModelOutput:
        return self.model.forward_there(*args, **kwargs)


class PairThere:
    """A pair, all of whose models are asked for tensors."""

    def __init__(self, pair: Pair, device: torch.device) -> None:
        self.pair = pair
        self.device = device

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.pair, name)

    @cached_property
    def target(self) -> There:
        return There(self.pair.target, self.device)

    @property
    def draft(self) -> There | None:
        return self._there(self.pair.draft)

    @property
    def medusa(self) -> There | None:
        return self._there(self.pair.medusa)

    @property
    def eagle(self) -> There | None:
        return self._there(self.pair.eagle)

    @property
    def mtp(self) -> There | None:
        return self._there(self.pair.mtp)

    def early_exit(self, layers: int | None) -> There:
        return There(self.pair.early_exit(layers), self.device)

    def _there(self, model: Any) -> There | None:
        return None if model is None else There(model, self.device)


def stage_for(
    pair: Pair,
    drafter: Any,
    verifier: Verifier,
    controls: Sequence[SamplingConfig],
    wanted: bool | None,
) -> "Stage | None":
    """Where to compute the rounds of a run: on the target's device, or, None, on the host.

    Args:
        pair: what runs.
        drafter: the kind, or the drafter itself, whose rows then stay on the host.
        verifier: an exact rule; any other judges on the host.
        controls: of target and draft. Under a grammar, which is followed on the host, each drafted token is
            read when it is drawn.
        wanted: True or False decide; None takes the device where the target is on CUDA.

    Raises:
        ValueError: if it is wanted and not possible.
    """
    target: Any = pair.target
    device = getattr(target, "device", None)
    if not (device is not None and device.type == "cuda" if wanted is None else wanted):
        return None
    possible = (
        isinstance(drafter, str)
        and verifier in RULES
        and all(
            hasattr(model, "forward_there") and getattr(model, "device", device) == device
            for model in (target, *_drafting(pair, drafter))
        )
    )
    if possible and device is not None:
        return Stage(pair, device, RULES[verifier], any(sampling.grammar for sampling in controls))
    if wanted:
        raise ValueError("this drafter or rule needs its rows on the host")
    return None


def _drafting(pair: Pair, kind: str) -> list[Any]:
    """The models that make a drafter's rows; none for one that copies."""
    name, settings = named(pair, kind)
    if name == "combined":
        return _drafting(pair, settings.get("second", "model"))
    if name in COPYING or name == "early-exit":  # of the target itself
        return []
    return [pair.draft if name in ("model", "parallel") else getattr(pair, name)]


class Stage:
    """The parts of a run on one device.

    Args:
        pair: whose models are on the device.
        device: it has float64.
        verifier: an exact rule, on tensors.
        reads: True if each drafted token has to be known on the host.
    """

    score = staticmethod(laws.effective_probs)

    def __init__(
        self, pair: Pair, device: torch.device, verifier: Callable[..., Judged], reads: bool = False
    ) -> None:
        self.pair = PairThere(pair, device)
        self.device = device
        self.verifier = verifier
        self.reads = reads

    def uniforms(self, here: RoundRandomness, k: int) -> Uniforms:
        return Uniforms(here, k, self.device, self.reads)

    def mark(self) -> Any:
        """A moment in the device's work; see `seconds`."""
        if self.device.type != "cuda":
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def seconds(self, before: Any, after: Any) -> float:
        """Between two marks. On CUDA it may be asked once the round has come over."""
        return after - before if isinstance(before, float) else before.elapsed_time(after) / 1e3

    @torch.inference_mode()
    def lifted(self, proposal: Proposal) -> Proposal:
        """The proposal with its rows on the device: one that no model made has them here."""
        if isinstance(proposal.probs, torch.Tensor):
            return proposal
        probs: Any = torch.zeros(proposal.probs.shape, dtype=torch.float64, device=self.device)
        if proposal.tokens:
            probs = probs.scatter(1, upload(proposal.tokens, self.device)[:, None], 1.0)
        return replace(proposal, probs=probs)

    def land(
        self,
        proposal: Proposal,
        logits: Any,
        target: Effective,
        judged: Judged,
        draft_available: Ids | None,
        controls: tuple[SamplingConfig, SamplingConfig],
    ) -> record.Landed:
        """The round on the host.

        Raises:
            Trouble: if a distribution could not be used.
        """
        known = (self.pair.target.available, draft_available)
        own, its = (None if ids is None else ids.there for ids in known)
        found = record.land(proposal, logits, target, judged, own, its, controls)
        if "draft_trouble" in found.columns:
            _require_usable("draft", found.columns["draft_trouble"], found.columns["draft_sum"])
        _require_usable("target", found.columns["target_trouble"], found.columns["target_sum"])
        try:
            for row in range(min(found.verdict.accepted + 1, len(found.tokens))):
                check_pair(row, float(found.columns["p"][row]), float(found.columns["q"][row]))
        except VerifyError as error:
            raise Trouble("", error) from None
        return found

    def record(self, made: Made, landed: record.Landed) -> Round:
        """The round with everything that a trace keeps."""
        began = perf_counter()
        rows = record.positions(landed, made.proposal, made.randomness)
        count = len(made.committed)
        effective, raw = (landed.log_probs(name, count) for name in ("effective", "raw"))
        seconds = perf_counter() - began
        return replace(outline(made, rows), log_probs=effective, raw_log_probs=raw, record_seconds=seconds)


def _require_usable(model: str, values: Any, sums: Any) -> None:
    for row, (value, total) in enumerate(zip(values, sums, strict=True)):
        if value != 0.0:
            raise Trouble(model, NonFiniteLogits(row, float(value)))
        if not total > 0.0:
            raise Trouble(model, ValueError("the controls leave no token: no distribution is left"))
