"""Everything that determines a run, as one value: what links, presets and the command line agree on."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from specviz.decoding.sampling import SamplingConfig

if TYPE_CHECKING:
    from specviz.decoding.protocols import Pair
    from specviz.decoding.run import DecodingRun

BUILT_IN = "built-in"
EXACT = "exact"
LONGEST_PROMPT = 8000  # characters in a link; what a browser and the proxies in between pass on
# Ranges of the numbers, as controls offer them and as values from links are clamped to them.
LIMITS: dict[str, tuple[float, float]] = {
    "k": (0, 16),
    "temperature": (0.0, 2.0),
    "top_k": (0, 200),
    "top_p": (0.05, 1.0),
    "min_p": (0.0, 0.5),
    "penalty": (0.5, 2.0),
    "seed": (0, 2**31 - 1),
    "max_tokens": (1, 1024),
}
CONTROLS = ("temperature", "top_k", "top_p", "min_p", "penalty")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a run. Names are those of the link's parameters.

    Attributes:
        prompt, chat: the text, and whether the chat template goes around it.
        drafter, k: kind of drafter, draft tokens a round.
        temperature, top_k, top_p, min_p, penalty: the target's sampling controls.
        own: True if the draft has controls of its own, the `draft_…` ones; else it has the target's.
        seed, max_tokens, stop: the rest of `DecodingRun`'s arguments; `stop` is one string or "".
        target, draft: what to load; draft "" is the built-in target's own draft, or none; a draft equal
            to the target shares its weights.
        rule: "exact", or the name of a fault that the run is made with.
    """

    prompt: str = "The capital of France is"
    chat: bool = False
    drafter: str = "model"
    k: int = 4
    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0
    own: bool = False
    draft_temperature: float = 0.7
    draft_top_k: int = 0
    draft_top_p: float = 1.0
    draft_min_p: float = 0.0
    draft_penalty: float = 1.0
    seed: int = 8
    max_tokens: int = 24
    stop: str = ""
    target: str = BUILT_IN
    draft: str = ""
    rule: str = EXACT

    @property
    def sampling(self) -> SamplingConfig:
        return SamplingConfig(self.temperature, self.top_k, self.top_p, self.min_p, self.penalty)

    @property
    def draft_sampling(self) -> SamplingConfig:
        if not self.own:
            return self.sampling
        return SamplingConfig(*(getattr(self, f"draft_{name}") for name in CONTROLS))

    def start(self, pair: "Pair", **more: Any) -> "DecodingRun":
        """A new run. `more` goes to `DecodingRun`.

        Raises:
            ValueError: if the prompt or a setting does not fit the pair.
        """
        from specviz.decoding.faults import get_fault
        from specviz.decoding.run import DecodingRun

        begin = DecodingRun if self.rule == EXACT else get_fault(self.rule).start
        return begin(
            pair,
            more.pop("prompt", self.prompt),
            drafter=self.drafter,
            k=self.k,
            sampling=self.sampling,
            draft_sampling=self.draft_sampling,
            max_new_tokens=self.max_tokens,
            stop=(self.stop,) if self.stop else (),
            seed=self.seed,
            chat=self.chat,
            **more,
        )


def limits(name: str) -> tuple[float, float]:
    """The range of a number; a draft's control has the target's."""
    return LIMITS[name.removeprefix("draft_")]


def clamp(name: str, value: Any) -> Any:
    """`value` as the setting's type and within its range; the default if it cannot be read."""
    default = getattr(DEFAULT, name)
    if isinstance(default, bool):
        text = str(value).strip().lower()
        return text in ("1", "true", "yes", "on") if text else default
    if isinstance(default, str):
        return str(value).encode("utf-8", "ignore").decode()[:LONGEST_PROMPT]
    low, high = limits(name)
    try:
        number = float(value)
        if number != number:  # NaN is in no range
            return default
        number = min(max(number, low), high)
        return type(default)(number)
    except (TypeError, ValueError, OverflowError):
        return default


def from_link(parameters: Mapping[str, str]) -> Recipe:
    """The recipe in a link's parameters; what is missing or unusable is the default."""
    given = {f.name: clamp(f.name, parameters[f.name]) for f in fields(Recipe) if f.name in parameters}
    return replace(DEFAULT, **given)


def to_link(recipe: Recipe) -> dict[str, str]:
    """The parameters that differ from the defaults."""
    values = {f.name: getattr(recipe, f.name) for f in fields(Recipe)}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value != getattr(DEFAULT, name)
    }


DEFAULT = Recipe()
