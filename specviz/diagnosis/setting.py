"""Everything that determines an audit beside its prompts, as one value that is kept with the results."""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import msgspec

from specviz.decoding.controls import SamplingConfig
from specviz.models import asked
from specviz.recipe import Recipe

LISTS = ("bias", "ban", "force")
STYLES = ("plain", "chat", "own")
TEMPERATURES = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of an audit.

    Attributes:
        target, draft: what was loaded, by the names it was loaded by; draft "" is the target's own.
        drafter: kind of drafter.
        k: draft tokens a round.
        sampling, draft_sampling: the controls of target and draft.
        chat: put the target's chat template around the prompts. Conversations always get it.
        draft_prompt: how the draft's prompt is written: "same" (as the target reads it), "plain", "chat"
            (the target's template), "own" (the template of the draft's own tokenizer).
        max_new_tokens: of an answer.
        seed: of the audit; each prompt gets one of its own from it.
        rule: "exact", or the fault of the gallery that the engine is made with.
        second: another drafter that is measured on the same texts: a kind such as "ngram" or "early-exit:20",
            or a model to load; "" for none.
        ignore_eos: answers go on behind an EOS.
        self_checks: how many prompts are also drafted by the target itself, and have their caches audited.
        served: address of the server that the target's probabilities come from; "" for a target loaded here.
        bias, ban, force: lists of tokens as they were written, where texts are among them: a tokenizer has to
            read them, and `for_pair` puts them into the controls. "" where ids alone stand in these.
        constrain: whose tokens these lists are for; see `specviz.recipe.Recipe`.
        leading: likeliest tokens a position that the server is asked for: 0 for all, -1 for what is usual
            with it.
    """

    target: str = "built-in"
    draft: str = ""
    drafter: str = "model"
    k: int = 4
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    draft_sampling: SamplingConfig = field(default_factory=SamplingConfig)
    chat: bool = False
    draft_prompt: str = "same"
    max_new_tokens: int = 128
    seed: int = 0
    rule: str = "exact"
    second: str = ""
    self_checks: int = 2
    ignore_eos: bool = False
    served: str = ""
    leading: int = -1
    bias: str = ""
    ban: str = ""
    force: str = ""
    constrain: str = "both"

    def __post_init__(self) -> None:
        if not 1 <= self.k <= 16:
            raise ValueError(f"K must be 1 to 16 in an audit, not {self.k}")
        if self.draft_prompt not in ("same", *STYLES):
            raise ValueError(
                f"the draft's prompt is one of same, {', '.join(STYLES)}; not {self.draft_prompt!r}"
            )
        if self.max_new_tokens < 2:
            raise ValueError("an audit needs answers of 2 tokens or more")
        listed = (self.bias or self.ban or self.force) and self.constrain != "draft"
        if self.served and (listed or self.sampling.constrained):
            raise ValueError(
                "a server sends log-probabilities: penalties, bias, bans, forced tokens and grammars of the "
                "target, which work on its logits, cannot be audited against it"
            )
        if self.served and self.rule != "exact":
            raise ValueError("a wrong verifier needs a target that is loaded here, not a served one")

    def constrained(self, recipe: Recipe) -> "Setting":
        """With a recipe's constraints: in the controls at once, but for lists of tokens with texts.

        Raises:
            ValueError: naming what is not understood.
        """
        lists: dict[str, Any] = {name: getattr(recipe, name) for name in LISTS}
        if not asked.needs_tokenizer(*lists.values()):
            lists = dict.fromkeys(LISTS, "")
        else:
            recipe = replace(recipe, bias="", ban="", force="")
            lists["constrain"] = recipe.constrain
        target, draft = recipe.constrained((self.sampling, self.draft_sampling), None)
        return replace(self, sampling=target, draft_sampling=draft, ignore_eos=recipe.ignore_eos, **lists)

    def for_pair(self, pair: Any) -> "Setting":
        """With every list of tokens read by the pair's tokenizer.

        Raises:
            ValueError: naming what does not fit the pair.
        """
        if not (self.bias or self.ban or self.force):
            return self
        more = asked.tokens(self.bias, self.ban, self.force, pair)
        target, draft = (
            sampling if self.constrain == other else replace(sampling, **more)
            for sampling, other in ((self.sampling, "draft"), (self.draft_sampling, "target"))
        )
        return replace(
            self, sampling=target, draft_sampling=draft, bias="", ban="", force="", constrain="both"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Setting":
        """The settings that `to_dict` described; fields that this version does not know are ignored.

        Raises:
            ValueError: for values that no audit can have.
        """
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        for name in ("sampling", "draft_sampling"):
            if isinstance(known.get(name), dict):
                known[name] = msgspec.convert(known[name], SamplingConfig)
        try:
            return cls(**known)
        except TypeError as error:
            raise ValueError(f"the audit's settings cannot be read: {error}") from None

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The draft temperatures that are tried, the present one and the target's included."""
        if self.draft_sampling.greedy:
            return (0.0, *TEMPERATURES)
        wanted = {*TEMPERATURES, self.draft_sampling.temperature, self.sampling.temperature}
        return tuple(sorted(wanted))

    def style(self, conversation: bool) -> str:
        """How the target's prompt is written."""
        return "chat" if self.chat or conversation else "plain"
