"""One `generate` of transformers, watched round by round: see `specviz.diagnosis.capture`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np

from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import Finish, Outcome, PairInfo, Round, TokenText, Trace
from specviz.decoding.verify import Verdict
from specviz.diagnosis.captured import Theirs, model_info, name_of, round_of, sampling_of

KINDS = {
    "AssistedCandidateGenerator": "model",
    "EarlyExitCandidateGenerator": "early-exit",
    "PromptLookupCandidateGenerator": "ngram",
}


class WatchedRun:
    """One call of `generate`, round by round. It reads, and calls what it stands around."""

    def __init__(self, owner: Any, model: Any, input_ids: Any, kwargs: dict[str, Any]) -> None:
        self.owner = owner  # the capture: its tokenizer, and where notes go
        self.model = model
        self.draft: Any = None
        self.prompt = input_ids[0].tolist()
        self.config = kwargs["generation_config"]
        cache = kwargs.get("cache")
        self.cached = 0 if cache is None else int(cache.get_seq_length())
        self.sampling = self.draft_sampling = sampling_of(self.config)
        self.kind = ""
        self.k = 0
        self.rounds: list[Round] = []
        self.now: Theirs | None = None
        self.drafting = False
        self.unexplained: set[str] = set()
        self.failed = False
        self.width = 0
        self.created = datetime.now(UTC).isoformat(timespec="seconds")
        self.hooks = ExitStack()

    def watch(self, generator: Any) -> None:
        """Stand around the two methods of this generator, and listen to the passes of its models."""
        kind = KINDS.get(type(generator).__name__)
        if kind is None:
            self.owner.note(f"transformers' {type(generator).__name__} cannot be captured: this run is not.")
            return
        if self.config.do_sample and self.model.device.type not in ("cpu", "cuda"):
            self.owner.note(
                f"on {self.model.device} the generator cannot be put back: runs that sample are not captured."
            )
            return
        self.kind = kind
        self.draft = getattr(generator, "assistant_model", None)
        self.k = int(
            getattr(generator, "num_assistant_tokens", 0) or getattr(generator, "num_output_tokens", 0)
        )
        self.generator = generator
        self.get, self.update = generator.get_candidates, generator.update_candidate_strategy
        generator.get_candidates, generator.update_candidate_strategy = self._draft_block, self._verdict
        for module in {id(m): m for m in (self.model, self.draft) if m is not None}.values():
            self.hooks.enter_context(_hooked(module, self._before_pass, self._after_pass))

    def close(self) -> None:
        self.hooks.close()
        if self.kind:
            del self.generator.get_candidates, self.generator.update_candidate_strategy

    def _draft_block(self, input_ids: Any, **kwargs: Any) -> Any:
        began = perf_counter()
        before = self._draft_cached()
        self.now = Theirs(
            input_ids[0].tolist(), began, [], None, [], np.zeros((0, 0)), 0.0, 0.0, before, before
        )
        self.drafting = True
        try:
            candidates, scores = self.get(input_ids, **kwargs)
        finally:
            self.drafting = False
        self.now.drafts = candidates[0, input_ids.shape[1] :].tolist()
        if scores is not None:
            self.now.draft_scores = _copied(scores[0])
        self.now.draft_after = self._draft_cached() if self.now.drafts else before
        self.now.draft_seconds = perf_counter() - began
        self.candidates, self.scores = candidates, scores
        return candidates, scores

    def _draft_cached(self) -> int | None:
        if self.draft is None:
            return None
        if self.rounds and self.rounds[-1].draft_cache is not None and self.now is None:
            return self.rounds[-1].draft_cache.kept
        cache = self.generator.assistant_kwargs.get("cache")
        return 0 if cache is None else int(cache.get_seq_length())

    def _before_pass(self, module: Any, args: Any, kwargs: Any) -> None:
        self.passing = perf_counter()

    def _after_pass(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self.now is None:
            return
        if self.drafting:
            self.now.draft_logits.append(_copied(output.logits[0, -1]))
        elif module is self.model:
            rows = len(self.now.drafts) + 1
            self.now.target_logits = _copied(output.logits[0, -rows:])
            self.now.verify_seconds = perf_counter() - self.passing
            self.state = _state(self.model.device)  # nothing is drawn from here to the verdict

    def _verdict(self, input_ids: Any, scores: Any, matches: Any) -> Any:
        now, self.now = self.now, None
        if now is not None and not self.failed:
            try:
                self._write(now, input_ids, scores)
            except Exception as failure:  # a run that cannot be written down goes on all the same
                self.failed = True
                self.owner.note(f"round {len(self.rounds) + 1} could not be captured: {failure}")
        return self.update(input_ids, scores, matches)

    def _write(self, now: Theirs, input_ids: Any, scores: Any) -> None:
        committed = tuple(input_ids[0, len(now.prefix) :].tolist())
        with _put_back(self.state, self.model.device):
            valid, us = _judged(
                self.candidates, self.scores, scores, len(now.drafts), self.config, self.state
            )
        accepted = 0
        while accepted < len(now.drafts) and valid[accepted] == now.drafts[accepted]:
            accepted += 1
        outcome: Outcome = "bonus" if accepted == len(now.drafts) else "corrected"
        final, verdict = _copied(scores[0]), Verdict(accepted, outcome, valid[accepted])
        rule = "exact" if self.config.assistant_ensemble_weight is None else "ensemble"

        def made(draft_sampling: SamplingConfig) -> tuple[Round, bool, bool]:
            number = len(self.rounds) + 1
            sampling, cached = self.sampling, self.cached
            return round_of(
                now, final, verdict, us, committed, number, cached, sampling, draft_sampling, rule
            )

        round, p_known, q_known = made(self.draft_sampling)
        if not q_known and self.draft_sampling == self.sampling and not self.rounds:
            twice = replace(self.sampling, temperature=self.sampling.temperature**2)
            again, _, known = made(twice)
            if known or self.sampling.top_p < 1.0 or self.sampling.min_p:
                round, q_known, self.draft_sampling = again, known, twice
        self.rounds.append(round)
        self.unexplained |= {name for name, known in (("p", p_known), ("q", q_known)) if not known}
        self.cached = round.target_cache.kept
        self.width = scores.shape[-1]

    def trace(self, error: str) -> Trace | None:
        """The run so far; None if no round was seen."""
        if not self.rounds:
            return None
        if self.draft_sampling != self.sampling:
            self.owner.note(
                "transformers applied temperature and filters twice to the draft: it drafted at temperature "
                f"{self.draft_sampling.temperature:g} where {self.sampling.temperature:g} was asked for. The "
                "output stays exact; fewer drafts are kept."
            )
        if self.unexplained:
            which = " and ".join(sorted(self.unexplained))
            self.owner.note(
                "More than temperature, top-k, top-p, min-p, repetition penalty and banned tokens, "
                f"each once, shaped {which}. The trace has {which} as they were, without the steps to them."
            )
        if self.config.assistant_ensemble_weight is not None:
            self.owner.note(
                "assistant_ensemble_weight trades exactness for speed: judged again, rounds differ."
            )
        rounds = (*self.rounds[:-1], replace(self.rounds[-1], finish=self._finish(error)))
        text = _texts(self.owner.tokenizer, self.model)
        mentioned = {*self.prompt, *(t for r in rounds for t in (*r.committed, r.token, *r.draft_tokens))}
        mentioned.update(t for r in rounds for row in r.positions for t in row.table.ids)
        info = model_info(self.model)
        draft = None if self.draft is None else model_info(self.draft)
        name = info.name if draft is None or self.draft is self.model else f"{info.name} + {draft.name}"
        texts = {token: text(token) for token in sorted(mentioned)}
        said = b"".join(texts[token].data for token in self.prompt if not texts[token].special)
        return Trace(
            prompt=said.decode("utf-8", "replace"),
            chat=False,
            prompt_ids=tuple(self.prompt),
            pair=PairInfo(name, info, draft, self.width, draft.vocab_size if draft else self.width),
            drafter=self.kind,
            k=max(self.k, *(r.k for r in rounds)),
            sampling=self.sampling,
            draft_sampling=self.draft_sampling,
            seed=0,
            max_new_tokens=max(1, int(self.config.max_length) - len(self.prompt)),
            stop=(),
            rounds=rounds,
            tokens=texts,
            created=self.created,
            error=error,
        )

    def _finish(self, error: str) -> Finish | None:
        if error:
            return None
        last, total = self.rounds[-1], self.rounds[-1].start + len(self.rounds[-1].committed)
        ends = self.config.eos_token_id
        if last.committed[-1] in ([] if ends is None else [ends] if isinstance(ends, int) else list(ends)):
            return "eos"
        return "length" if total >= self.config.max_length else "stop"


def _judged(
    candidates: Any, draft_scores: Any, scores: Any, k: int, config: Any, state: Any
) -> tuple[list[int], tuple[float, ...]]:
    """The tokens that were valid before any cut, and the uniforms that judged, by transformers' own rule with
    the generator where it stood."""
    import torch
    from transformers.generation import utils

    device = scores.device
    if not config.do_sample:
        best = scores.argmax(dim=-1)
        weight = config.assistant_ensemble_weight
        if weight is not None and draft_scores is not None:
            mixed = weight * scores[:, :k].softmax(-1) + (1.0 - weight) * draft_scores.to(device).softmax(-1)
            best = torch.cat([mixed.argmax(dim=-1), best[:, k:]], dim=-1)
        return best[0].tolist(), ()
    if draft_scores is None:
        return torch.multinomial(scores.softmax(dim=-1)[0], num_samples=1)[:, 0].tolist(), ()
    us = torch.rand(k, dtype=torch.float32, device=device)
    _set_state(state, device)
    candidates, draft_scores = candidates.to(device), draft_scores.to(device)
    valid, _ = utils._speculative_sampling(
        candidates, draft_scores, k, scores, assistant_ensemble_weight=config.assistant_ensemble_weight
    )
    return valid[0].tolist(), tuple(us.tolist())


def _copied(logits: Any) -> np.ndarray:
    """float32 on the CPU, in memory of its own: transformers' processors write over logits."""
    return logits.detach().to("cpu", copy=True).float().numpy()


def _state(device: Any) -> Any:
    """Where the generator of a device stands; None where that cannot be asked."""
    import torch

    if device.type == "cpu":
        return torch.get_rng_state()
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_state(state: Any, device: Any) -> None:
    import torch

    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state, device)


@contextmanager
def _put_back(state: Any, device: Any) -> Iterator[None]:
    """The generator as it stood at `state`, and afterwards as it stands now."""
    now = _state(device)
    if state is not None:
        _set_state(state, device)
    try:
        yield
    finally:
        if now is not None:
            _set_state(now, device)


@contextmanager
def _hooked(module: Any, before: Callable[..., Any], after: Callable[..., Any]) -> Iterator[None]:
    handles = (
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after, with_kwargs=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _texts(tokenizer: Any, model: Any) -> Callable[[int], TokenText]:
    """From ids to texts: by the tokenizer, the one saved beside the model, or as ids."""
    from specviz.models.tokens import TokenTexts

    if tokenizer is None:
        tokenizer = saved_tokenizer(model)
    if tokenizer is not None:
        return TokenTexts(tokenizer)
    return lambda token: TokenText(f" {token}".encode())


def saved_tokenizer(model: Any) -> Any:
    """The tokenizer that lies where the model was loaded from; None if there is none on this machine."""
    from transformers import AutoTokenizer

    if not getattr(model, "name_or_path", ""):
        return None
    try:
        return AutoTokenizer.from_pretrained(name_of(model), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        return None
