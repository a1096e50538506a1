"""The gallery: every fault by name, with what it does, what becomes of the output, and where it happened."""

from collections.abc import Callable
from functools import partial

from specviz.decoding.block import EXACT_RULES
from specviz.decoding.faults import bookkeeping
from specviz.decoding.faults.fault import Fault
from specviz.decoding.faults.lossy import lenience, top_p_set, typical_acceptance
from specviz.decoding.faults.mistakes import MISTAKES
from specviz.decoding.faults.rules import Rule
from specviz.decoding.faults.variations import correction_p
from specviz.decoding.run import DecodingRun


def get_fault(name: str) -> Fault:
    """A fault by name; "lenience=0.3" and "top-p-set=0.5" choose their parameter.

    Raises:
        ValueError: naming the faults there are.
    """
    if name in FAULTS:
        return FAULTS[name]
    kind, _, value = name.partition("=")
    if kind in (makers := {"lenience": lenience, "top-p-set": top_p_set}) and value:
        try:
            return makers[kind](float(value))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    raise ValueError(f"unknown fault {name!r}; choose one of {', '.join(FAULTS)}")


def starter(rule: str) -> Callable[..., DecodingRun]:
    """What makes runs by this rule: one of `EXACT_RULES`, or a fault by name.

    Raises:
        ValueError: naming the rules there are.
    """
    if rule in EXACT_RULES:
        return partial(DecodingRun, verifier=EXACT_RULES[rule])
    return get_fault(rule).start


_ALL = (
    *MISTAKES,
    typical_acceptance(),
    lenience(),
    top_p_set(),
    Fault(
        name="accept-on-match",
        title="Accept on match",
        kind="wasteful",
        does="It draws a token from p, keeps the draft token if the two are equal, and commits the drawn one "
        "otherwise: exact, but it accepts Σ p·q instead of Σ min(p, q).",
        timeline="Right text at a lower acceptance rate; even a draft equal to the target is refused.",
        seen=("ml-explore/mlx-swift-lm#459", "lablup/mlxcel#992"),
        # A token drawn from p equals x with probability p(x); if it does not, it follows p without x.
        rule=Rule(odds=lambda p, q, x: (p[x], 1.0), correction=correction_p, never_again=True),
    ),
    Fault(
        name="ngram-copies-eos",
        title="Prompt lookup copies the end of a text",
        kind="wasteful",
        does="The n-gram drafter copies end-of-text and chat markers out of the prompt like any other token. "
        "Under the exact rule they end the text no more often than the target says, and what was drafted "
        "behind them is lost.",
        timeline="End-of-text tokens among the drafts, with discarded or pointless tokens behind them.",
        needs="the n-gram drafter, and a prompt with control tokens in it",
        change_drafter=lambda drafter, sampling: bookkeeping.CopiesControlTokens(drafter),
        rejudge=False,
    ),
    Fault(
        name="eos-ignored",
        title="End of text ignored inside a block",
        kind="law",
        does="It looks for the end of the text in the last token of a round only, so that an accepted "
        "end-of-text token in the middle of a block does not end anything.",
        timeline="Tokens are committed behind an end-of-text token.",
        needs="a text that ends; over several positions",
        seen=("huggingface/transformers#47912", "huggingface/transformers#31301"),
        cut=bookkeeping.cut_past_eos,
        rejudge=False,
    ),
    Fault(
        name="draft-cache-hole",
        title="Hole in the draft's cache after a full acceptance",
        kind="bookkeeping",
        does="After a full acceptance the draft is fed the bonus token but not its own last draft token, "
        "which it has never seen; everything behind sits one position too early.",
        timeline="The text is right. Acceptance decays from the first bonus on.",
        needs="the draft model, and a round with a bonus",
        seen=("vllm-project/vllm#9730",),
        change_pair=bookkeeping.faulty_draft(hole=True),
        rejudge=False,
    ),
    Fault(
        name="draft-cache-cut-too-far",
        title="Draft cache cut one too far",
        kind="bookkeeping",
        does="After each rejection one position too many is cut from the draft's cache and never fed again.",
        timeline="The text is right. Acceptance decays with every rejection.",
        needs="the draft model, and a rejection",
        seen=("lablup/mlxcel#994",),  # there it was two too far
        change_pair=bookkeeping.faulty_draft(slack=-1),
        rejudge=False,
    ),
    Fault(
        name="target-cache-cut-too-far",
        title="Target cache cut one too far",
        kind="bookkeeping",
        does="After each rejection one position too many is cut from the target's cache and never fed again.",
        timeline="Rounds look normal; the text forgets a word here and there.",
        needs="a rejection; over several positions",
        change_pair=bookkeeping.faulty_target(slack=-1),
        rejudge=False,
    ),
    Fault(
        name="target-cache-keeps-rejected",
        title="Target cache cut one too few",
        kind="bookkeeping",
        does="After each rejection the target's cache keeps one token that was not committed, as if it "
        "stood in the text.",
        timeline="Rounds look normal; the text goes on from words that are not in it.",
        needs="a rejection; over several positions",
        change_pair=bookkeeping.faulty_target(slack=1),
        rejudge=False,
    ),
)

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}
