"""Everything that determines a run, as one value: what links, presets and the command line agree on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from specviz.decoding.controls import COLDEST, SamplingConfig
from specviz.decoding.grammar import KINDS, Grammar
from specviz.settings import settings

if TYPE_CHECKING:
    from specviz.decoding.protocols import Pair
    from specviz.decoding.run import DecodingRun
    from specviz.decoding.trace import Conversation

BUILT_IN = "built-in"
EXACT = "exact"
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
# Ranges of the numbers, as controls offer them and as values from links are clamped to them. `limits` has
# those that whoever runs the server decides.
LIMITS: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 2.0),
    "top_k": (0, 200),
    "top_p": (0.05, 1.0),
    "min_p": (0.0, 0.5),
    "penalty": (0.5, 2.0),
    "seed": (0, 2**31 - 1),
}
CONTROLS = ("temperature", "top_k", "top_p", "min_p", "penalty")
WHERE = ("both", "target", "draft")
DTYPES = ("float32", "bfloat16", "float16")


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
        system, turns, template: what stands around the prompt in the chat template: a system prompt, the
            turns before it (see `models.asked.turns`), and further variables of the template as JSON.
        ids: token ids in place of the prompt, or "".
        bias, ban, force: lists of tokens, ids or quoted texts, for both models' logits; see
            `SamplingConfig`.
        min_tokens: no EOS before so many tokens.
        ignore_eos: the text goes on behind an EOS.
        grammar, grammar_kind: what the text has to follow, "" for anything; and the notation of that.
        constrain: whose tokens bias, ban, force, min_tokens and grammar are for: "both", "target" (the text
            obeys, the draft does not know it) or "draft" (which changes acceptance only).
        device, dtype, draft_device, draft_dtype: where and in which numbers to run; "" is chosen by what the
            machine has, for a draft the target's.
        rule: "exact" for the token rule, "block" for block verification, or the name of a fault that the
            run is made with.
        tree: shape of a tree of candidates in place of a chain of k, as `specviz.decoding.tree.shape` reads
            it; "" for chains.
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
    system: str = ""
    turns: str = ""
    template: str = ""
    ids: str = ""
    bias: str = ""
    ban: str = ""
    force: str = ""
    min_tokens: int = 0
    ignore_eos: bool = False
    grammar: str = ""
    grammar_kind: str = "json"
    constrain: str = "both"
    device: str = ""
    dtype: str = ""
    draft_device: str = ""
    draft_dtype: str = ""
    tree: str = ""

    @property
    def sampling(self) -> SamplingConfig:
        return SamplingConfig(self.temperature, self.top_k, self.top_p, self.min_p, self.penalty)

    @property
    def draft_sampling(self) -> SamplingConfig:
        if not self.own:
            return self.sampling
        return SamplingConfig(*(getattr(self, f"draft_{name}") for name in CONTROLS))

    @property
    def conversation(self) -> "Conversation":
        """What stands around the prompt; nothing without the chat template."""
        from specviz.decoding.trace import Conversation
        from specviz.models.asked import turns

        return Conversation(self.system, turns(self.turns), self.template)

    def samplings(self, pair: "Pair | None") -> tuple[SamplingConfig, SamplingConfig]:
        """All controls of target and draft.

        Args:
            pair: whose tokenizer reads quoted texts; None where only ids can be understood.

        Raises:
            ValueError: naming what does not fit the pair.
        """
        return self.constrained((self.sampling, self.draft_sampling), pair)

    def constrained(
        self, samplings: tuple[SamplingConfig, SamplingConfig], pair: "Pair | None"
    ) -> tuple[SamplingConfig, SamplingConfig]:
        """Controls of target and draft with this recipe's bias, bans, forced tokens, minimum and grammar."""
        from specviz.models import asked

        target, draft = samplings
        more: dict[str, Any] = {
            **asked.tokens(self.bias, self.ban, self.force, pair),
            "min_new_tokens": self.min_tokens,
            "grammar": Grammar(self.grammar_kind, self.grammar) if self.grammar.strip() else None,  # type: ignore[arg-type]
        }
        if self.constrain != "draft":
            target = replace(target, **more)
        if self.constrain != "target":
            draft = replace(draft, **more)
        return target, draft

    def prompt_ids(self, pair: "Pair") -> list[int]:
        """Token ids of the prompt and what stands around it.

        Raises:
            ValueError: if they do not fit the pair.
        """
        from specviz.decoding.arguments import prompt_ids

        return list(prompt_ids(pair, self._prompt(pair), self.chat, self.conversation))

    def _prompt(self, pair: "Pair") -> "str | list[int]":
        from specviz.models import asked

        return list(asked.ids(self.ids, pair)) if self.ids.strip() else self.prompt

    def start(self, pair: "Pair", **more: Any) -> "DecodingRun":
        """A new run.

        Args:
            pair: what to run it on.
            more: arguments of `DecodingRun` that are no part of a recipe, or that take the place of one.

        Raises:
            ValueError: if the prompt or a setting does not fit the pair.
        """
        from specviz.decoding.faults import starter
        from specviz.decoding.tree import shape

        sampling, draft_sampling = self.samplings(pair)
        settings: dict[str, Any] = {
            "drafter": self.drafter,
            "k": self.k,
            "sampling": sampling,
            "draft_sampling": draft_sampling,
            "max_new_tokens": self.max_tokens,
            "stop": (self.stop,) if self.stop else (),
            "seed": self.seed,
            "chat": self.chat,
            "conversation": self.conversation,
            "ignore_eos": self.ignore_eos,
        }
        if self.tree:
            settings["tree"] = shape(self.tree)
        whole = more.keys() <= {"on_device"}
        prompt = more.pop("prompt") if "prompt" in more else self._prompt(pair)
        run = starter(self.rule)(pair, prompt, **settings | more)
        if whole:
            run.recipe = tuple(to_link(replace(self, prompt=DEFAULT.prompt)).items())
        return run


DEVICE = re.compile(r"|cpu|mps|auto|cuda(:\d{1,2})?")
CHOICES = {
    "grammar_kind": KINDS,
    "constrain": WHERE,
    "dtype": ("", *DTYPES),
    "draft_dtype": ("", *DTYPES),
}


def limits(name: str) -> tuple[float, float]:
    """The range of a number; a draft's control has the target's."""
    if name == "k":
        return 0, settings().max_k
    if name in ("max_tokens", "min_tokens"):
        return int(name == "max_tokens"), settings().max_new_tokens
    return LIMITS[name.removeprefix("draft_")]


def longest_prompt() -> int:
    """Characters of a prompt: by default what browsers and proxies pass on in a link."""
    return settings().max_prompt


@dataclass(frozen=True, slots=True)
class Replaced:
    """A value of a link that could not be taken as it stands.

    Attributes:
        name: of the setting.
        given: what the link says.
        used: the value in its place.
        why: what is wrong with it, as a verb and on. It repeats nothing of the link.
    """

    name: str
    given: str
    used: Any
    why: str


def checked(name: str, value: Any) -> tuple[Any, str]:
    """A value as the setting's type and within its range.

    Returns:
        What can be used, and what is wrong with the value, "" if nothing is. A number out of range becomes
        the nearest in it; anything else that cannot be used, the default.
    """
    default = getattr(DEFAULT, name)
    if isinstance(default, bool):
        text = str(value).strip().lower()
        return (text in ON, "") if text in (*ON, *OFF) else (default, "is neither on nor off")
    if isinstance(default, str):
        return _checked_text(name, str(value), default)
    try:
        number = float(value)
        if not isfinite(number):
            raise ValueError
        whole = int(value) if isinstance(default, int) and str(value).lstrip("+-").isdigit() else number
    except (TypeError, ValueError, OverflowError):
        return default, "is not a number"
    low, high = limits(name)
    if not low <= number <= high:
        return type(default)(min(max(number, low), high)), f"lies outside {low:g} … {high:g}"
    if isinstance(default, int) and number != int(number):
        return int(number), "is not a whole number"
    if name.removeprefix("draft_") == "temperature" and 0.0 < number < COLDEST:
        return 0.0, f"is neither 0 nor at least {COLDEST:.5f}"
    return type(default)(whole), ""


def _checked_text(name: str, text: str, default: str) -> tuple[str, str]:
    from specviz.models import asked

    if len(text) > longest_prompt():
        return default, f"has {len(text):,} characters, and at most {longest_prompt():,} are taken"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return default, "contains half of a surrogate pair, which is no character"
    try:
        if name == "rule" and text != EXACT:
            from specviz.decoding.faults import starter

            starter(text)
        if name == "tree" and text:
            from specviz.decoding.tree import shape

            shape(text)
        if name == "drafter":
            from specviz.decoding.drafters import settings_of

            settings_of(text)
    except ValueError:
        return default, "does not exist"
    if name in CHOICES:
        return (text, "") if text in CHOICES[name] else (default, "does not exist")
    if name in ("device", "draft_device") and not DEVICE.fullmatch(text):
        return default, "is no device: cpu, cuda, cuda:1, mps or auto"
    try:
        asked.CHECKS.get(name, str)(text)
    except ValueError:  # its words may repeat the text, which a link must not put there
        return default, "cannot be read"
    return text, ""


def clamp(name: str, value: Any) -> Any:
    """`value` as the setting's type and within its range; the default if it cannot be used."""
    return checked(name, value)[0]


def from_link(parameters: Mapping[str, str]) -> Recipe:
    """The recipe in a link's parameters; what is missing or unusable is the default. See `replaced`."""
    given = {f.name: clamp(f.name, parameters[f.name]) for f in fields(Recipe) if f.name in parameters}
    return replace(DEFAULT, **given)


def replaced(parameters: Mapping[str, str]) -> tuple[Replaced, ...]:
    """The values of a link's parameters that `from_link` cannot take as they stand."""
    found = []
    for name in (f.name for f in fields(Recipe) if f.name in parameters):
        used, why = checked(name, parameters[name])
        if why:
            found.append(Replaced(name, str(parameters[name]), used, why))
    return tuple(found)


def to_link(recipe: Recipe) -> dict[str, str]:
    """The parameters that differ from the defaults."""
    values = {f.name: getattr(recipe, f.name) for f in fields(Recipe)}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value != getattr(DEFAULT, name)
    }


DEFAULT = Recipe()
