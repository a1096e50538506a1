"""Our engine against transformers' own: assisted generation, prompt lookup, and plain decoding by both.

Everything runs in one process, in turns, so that what slows the machine down slows all of them.
transformers runs the models as it loads them; ours is the app's, with the full trace recorded. Greedy, so
that every system should write the same text; where two do not, the gap between the two best logits says
whether it is a near-tie.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specviz.decoding.drafters import make_drafter
from specviz.decoding.record import Made, record
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import Round
from specviz.speed import adaptive
from specviz.speed.adaptive import AdaptiveK
from specviz.speed.clock import Spread, clock_for
from specviz.speed.machine import Machine, this_machine
from specviz.speed.measure import TimedDrafter, TimedModel, chooser

PROMPTS = {
    "prose": "The history of the lighthouse begins",
    "code": "def fibonacci(n):\n",
    "copying": "Repeat this list exactly.\n- apples, pears and plums\n- bread, butter and honey\n"
    "- tea, coffee and milk\nThe list again:\n- apples,",
}
TOKENS = 48
ASSISTED_K, LOOKUP_K = 4, 10
PLAIN = "ours, plain"
THEIR_PLAIN = "transformers, plain"
ASSISTED = f"transformers, assisted, K = {ASSISTED_K}"
LOOKUP = f"transformers, prompt lookup, K = {LOOKUP_K}"
OURS = {
    f"ours, small model, K = {ASSISTED_K}": ("model", ASSISTED_K),
    "ours, small model, K = 2": ("model", 2),
    "ours, EAGLE, K = 2": ("eagle", 2),
    f"ours, n-gram, K = {LOOKUP_K}": ("ngram", LOOKUP_K),
}
ADAPTIVE_DRAFTER = "eagle"
ADAPTIVE = "ours, EAGLE, adaptive K"

# Two logits closer than this may change places between a pass over one row and one over several: twice what
# a row of the built-in target was seen to differ by.
NEAR_TIE = {"float32": 1e-3, "bfloat16": 1.0, "float16": 0.1}


@dataclass(frozen=True, slots=True)
class Difference:
    """Two systems that wrote different texts.

    Attributes:
        prompt, system: where; it is compared with our plain decoding.
        token: the first that differs, from 1.
        gap: difference of the two best logits there.
        near_tie: the gap is within what rounding explains in this dtype.
    """

    prompt: str
    system: str
    token: int
    gap: float
    near_tie: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Speeds of the systems.

    Attributes:
        machine, dtype: where, and in what.
        clock: what "second" means.
        tokens: most new tokens a text.
        prompts: the texts by name.
        speeds: tokens per second by prompt and system.
        ratios: the same over plain decoding by transformers, pairwise within each turn.
        over_plain: over our own plain decoding.
        over_peer: ours over the transformers system with the same draft (assisted, prompt lookup).
        host: share of the time of our runs that is neither drafting nor a pass of the target, by prompt
            and system.
        recording: what recording the trace takes of it, as a share of the whole time too.
        differences: texts that differ.
    """

    machine: Machine
    dtype: str
    clock: str
    tokens: int
    prompts: dict[str, str]
    speeds: dict[str, dict[str, Spread]]
    ratios: dict[str, dict[str, Spread]]
    over_plain: dict[str, dict[str, Spread]]
    over_peer: dict[str, dict[str, Spread]]
    host: dict[str, dict[str, Spread]]
    recording: dict[str, dict[str, Spread]]
    differences: list[Difference]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Comparison":
        """What `to_dict` gave."""
        spreads = ("speeds", "ratios", "over_plain", "over_peer", "host", "recording")
        values = data | {
            name: {p: {s: Spread(**v) for s, v in row.items()} for p, row in data[name].items()}
            for name in spreads
        }
        values["machine"] = Machine(**data["machine"])
        values["differences"] = [Difference(**difference) for difference in data["differences"]]
        return cls(**values)


class Systems:
    """The two engines with the same weights, in one dtype on one device.

    Args:
        dtype, device: see `load_pair`.
    """

    def __init__(self, dtype: str | None = None, device: str | None = None) -> None:
        from specviz.models import products, sources
        from specviz.models.drafts import model_draft
        from specviz.models.language_model import TransformersModel
        from specviz.models.pair import load_pair
        from specviz.models.progress import silent

        self.pair = load_pair(device=device, dtype=dtype)
        self.shares = (0.0, 0.0)  # host part and recording of what ours wrote last
        place = sources.place(device, self.pair.target.dtype)
        loaded = sources.load(sources.BUILT_IN, place, silent)
        self.target = loaded.model
        draft = model_draft(
            TransformersModel(loaded.model, loaded.name, loaded.vocab_size, loaded.known_ids()),
            loaded.fingerprint,
        )
        assert draft is not None
        products.unpack(draft.model)
        self.draft = full_head(loaded.model, draft.model)

    def ours(self, drafter: str, k: int, costs: AdaptiveK | None = None) -> Callable[[str], list[int]]:
        clock, _ = clock_for(self.pair.info.target.device)
        greedy = SamplingConfig(temperature=0.0)

        def write(prompt: str) -> list[int]:
            began = clock()
            timed: Any = copy.copy(self.pair)
            timed.target = TimedModel(self.pair.target, clock)
            recorded = 0.0
            made = TimedDrafter(make_drafter(drafter, self.pair, greedy), clock)

            def keep(done: Made) -> Round:
                nonlocal recorded
                start = clock()
                kept = record(done)
                recorded += clock() - start
                return kept

            # On a GPU only the usual recorder leaves full rows there.
            recorder = keep if self.pair.info.target.device == "cpu" else record
            run = DecodingRun(
                timed, prompt, drafter=made, k=k, sampling=greedy, max_new_tokens=TOKENS, record=recorder
            )
            for _ in run if costs is None else adaptive.decode(run, AdaptiveK(costs.c, costs.v)):
                pass
            spent = clock() - began
            recorded = recorded or sum(round.record_seconds for round in run.rounds)
            self.shares = (spent - timed.target.seconds - made.seconds) / spent, recorded / spent
            return run.tokens[len(run.prompt_ids) :]

        return write

    def theirs(self, **how: Any) -> Callable[[str], list[int]]:
        import torch

        def write(prompt: str) -> list[int]:
            ids = torch.tensor([self.pair.encode(prompt, chat=False)], device=self.target.device)
            done = self.target.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=TOKENS, **how
            )
            return done[0, ids.shape[1] :].tolist()

        return write

    def all(self) -> dict[str, Callable[[str], list[int]]]:
        """Every system by name: prompt to new tokens."""
        made = {
            THEIR_PLAIN: self.theirs(),
            ASSISTED: self.theirs(assistant_model=self.draft),
            LOOKUP: self.theirs(prompt_lookup_num_tokens=LOOKUP_K),
            PLAIN: self.ours("ngram", 0),
        }
        made |= {name: self.ours(drafter, k) for name, (drafter, k) in OURS.items()}
        clock, _ = clock_for(self.pair.info.target.device)
        costs = chooser(self.pair, PROMPTS["prose"], ADAPTIVE_DRAFTER, 0.0, clock)
        return made | {ADAPTIVE: self.ours(ADAPTIVE_DRAFTER, 0, costs)}


def full_head(target: Any, body: Any, k: int = ASSISTED_K) -> Any:
    """A causal model of a draft's body with the target's head, as assisted generation wants it."""
    import torch
    from transformers import AutoModelForCausalLM

    config = body.config.__class__.from_dict(body.config.to_dict())
    config.vocab_size = target.config.get_text_config().vocab_size
    config.pad_token_id = target.config.get_text_config().pad_token_id
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(config, dtype=target.dtype)
    setattr(made, made.base_model_prefix, body)
    made.set_output_embeddings(target.get_output_embeddings())
    made.generation_config.update(**target.generation_config.to_dict())
    made.generation_config.num_assistant_tokens = k
    made.generation_config.num_assistant_tokens_schedule = "constant"
    made.generation_config.assistant_confidence_threshold = 0.0
    return made.eval()


def compare(systems: Systems, tries: int, report: Callable[[int, int], None]) -> Comparison:
    """Let all systems write all texts `tries` times in turns, after one to warm up.

    Args:
        report: told how many texts are done, of how many.
    """
    clock, clock_name = clock_for(systems.pair.info.target.device)
    writers = systems.all()
    taken: dict[str, dict[str, list[float]]] = {p: {name: [] for name in writers} for p in PROMPTS}
    texts: dict[str, dict[str, list[int]]] = {p: {} for p in PROMPTS}
    host: dict[str, dict[str, list[float]]] = {p: {} for p in PROMPTS}
    recording: dict[str, dict[str, list[float]]] = {p: {} for p in PROMPTS}
    ours = (PLAIN, *OURS, ADAPTIVE)
    for turn in range(tries + 1):
        for number, (prompt, text) in enumerate(PROMPTS.items(), 1):
            for name, write in writers.items():
                began = clock()
                texts[prompt][name] = write(text)
                if turn:
                    taken[prompt][name].append(len(texts[prompt][name]) / (clock() - began))
                    if name in ours:
                        for shares, value in zip((host, recording), systems.shares, strict=True):
                            shares[prompt].setdefault(name, []).append(value)
            report(turn * len(PROMPTS) + number, (tries + 1) * len(PROMPTS))
    peers = {
        name: ASSISTED if drafter == "model" else LOOKUP
        for name, (drafter, k) in OURS.items()
        if (drafter, k) in (("model", ASSISTED_K), ("ngram", LOOKUP_K))
    }
    return Comparison(
        machine=this_machine(systems.pair.info.target.device),
        dtype=systems.pair.info.target.dtype,
        clock=clock_name,
        tokens=TOKENS,
        prompts=dict(PROMPTS),
        speeds=_spreads(taken),
        ratios=_ratios(taken, dict.fromkeys(writers, THEIR_PLAIN)),
        over_plain=_ratios(taken, dict.fromkeys(ours, PLAIN)),
        over_peer=_ratios(taken, peers),
        host=_spreads(host),
        recording=_spreads(recording),
        differences=list(_differences(systems, texts)),
    )


def _spreads(values: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, Spread]]:
    return {prompt: {name: Spread.of(v) for name, v in row.items()} for prompt, row in values.items()}


def _ratios(taken: dict[str, dict[str, list[float]]], over: dict[str, str]) -> dict[str, dict[str, Spread]]:
    """By prompt and system: speeds over those of another system, pairwise within each turn."""
    return {
        prompt: {
            name: Spread.of([a / b for a, b in zip(speeds[name], speeds[other], strict=True)])
            for name, other in over.items()
        }
        for prompt, speeds in taken.items()
    }


def _differences(systems: Systems, texts: dict[str, dict[str, list[int]]]) -> Iterator[Difference]:
    for prompt, written in texts.items():
        expected = written[PLAIN]
        for name, got in written.items():
            at = first_difference(got, expected)
            if at is None:
                continue
            before = [*systems.pair.encode(PROMPTS[prompt], chat=False), *expected[:at]]
            target = systems.pair.target
            best = sorted(target.forward(before, target.new_cache(), 1).logits[0].tolist())[-2:]
            gap = best[1] - best[0]
            yield Difference(prompt, name, at + 1, gap, gap <= NEAR_TIE.get(target.dtype, 0.0))


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first place where two texts differ; None if they are equal."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def table(result: Comparison) -> str:
    """Markdown: tokens per second of plain decoding by transformers, and every other system over it."""
    names = list(PROMPTS)
    lines = [f"| {result.dtype} | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    for system in next(iter(result.ratios.values())):
        cells = (
            f"{result.speeds[p][system].median:.1f} tokens/s"
            if system == THEIR_PLAIN
            else f"{result.ratios[p][system].median:.2f}×"
            for p in names
        )
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(result: Comparison) -> dict[str, str]:
    """What the goals ask for, in words."""
    said = {"measured": f"{result.machine.short}, {result.machine.date}, {result.clock}, medians"}
    for name in (*OURS, ADAPTIVE):
        over = [result.over_plain[p][name].median for p in result.prompts]
        said[f"{name}, over our plain"] = ", ".join(f"{x:.2f}" for x in over)
        peers = [result.over_peer[p][name].median for p in result.prompts if name in result.over_peer[p]]
        if peers:
            said[f"{name}, over its peer"] = ", ".join(f"{x:.2f}" for x in peers)
        for part, shares in (("host part", result.host), ("recording", result.recording)):
            of = [shares[p][name].median for p in result.prompts]
            said[f"{name}, {part} of the time"] = ", ".join(f"{x:.1%}" for x in of)
    for d in result.differences:
        kind = "a near-tie" if d.near_tie else "NOT a near-tie"
        said[f"{d.prompt}: {d.system}"] = f"differs at token {d.token}, {kind} (gap {d.gap:.3f})"
    return said
