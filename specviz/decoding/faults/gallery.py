"""The gallery: every fault by name, with what it does, what becomes of the output, and where it happened."""

from collections.abc import Callable
from functools import partial

import numpy as np

from specviz.decoding.block import EXACT_RULES
from specviz.decoding.faults import blocks, bookkeeping, trees
from specviz.decoding.faults.fault import Fault
from specviz.decoding.faults.rules import Coin, Hand, Rule
from specviz.decoding.faults.spot import unfiltered, untempered
from specviz.decoding.faults.variations import (
    RESEEDED,
    correction_argmax,
    correction_p,
    correction_softmax,
    in_leading_set,
    is_argmax,
    last_rejection_counts,
    row_before,
    typical,
)
from specviz.decoding.run import DecodingRun
from specviz.decoding.tree import Shape


def lenience(factor: float = 0.5) -> Fault:
    """Accept with probability min(1, p / (factor · q)), factor in (0, 1]; 1 is the exact rule."""
    if not 0.0 < factor <= 1.0:
        raise ValueError(f"the lenience must be above 0, at most 1, not {factor}")
    return Fault(
        name=f"lenience={factor:g}",
        title="Lenience",
        kind="lossy",
        does=f"Multiplies q by {factor:g} before the accept test, so that more draft tokens pass; no token "
        f"becomes more likely than p / {factor:g}.",
        timeline="Longer blocks than the exact rule gives; tokens pass with u above p/q.",
        seen=("arXiv 2211.17192",),
        rule=Rule(odds=lambda p, q, x: (p[x], factor * q[x])),
    )


def top_p_set(mass: float = 0.9) -> Fault:
    """Accept whatever lies in the target's smallest leading set with at least this mass, in (0, 1]."""
    if not 0.0 < mass <= 1.0:
        raise ValueError(f"the mass must be above 0, at most 1, not {mass}")
    return Fault(
        name=f"top-p-set={mass:g}",
        title="Top-p-set acceptance",
        kind="lossy",
        does="Keeps a draft token whenever it is among the target's leading tokens that hold "
        f"{mass:g} of the mass, and draws from p otherwise.",
        timeline="Whether a token passes does not depend on u at all.",
        rule=Rule(odds=lambda p, q, x: (1.0 * in_leading_set(p, mass)[x], 1.0), correction=correction_p),
        rejudge=False,
    )


def typical_acceptance(epsilon: float = 0.09, delta: float = 0.3) -> Fault:
    """Medusa's rule: accept iff p(x) > min(ε, δ·exp(-entropy of p))."""
    return Fault(
        name="typical-acceptance",
        title="Typical acceptance (Medusa)",
        kind="lossy",
        does=f"Keeps a draft token whenever p of it exceeds min({epsilon:g}, {delta:g}·exp(−entropy of p)), "
        "and draws from p otherwise (where vLLM's version of the rule took the target's favourite).",
        timeline="Whether a token passes does not depend on u or q; unlikely tokens never pass.",
        seen=("arXiv 2401.10774", "vllm-project/vllm#5131"),
        rule=Rule(
            odds=lambda p, q, x: (1.0 * (p[x] > typical(p, epsilon, delta)), 1.0), correction=correction_p
        ),
        rejudge=False,
    )


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
    Fault(
        name="correction-from-p",
        title="Correction drawn from p",
        kind="law",
        does="After a rejection it draws the correction from p instead of from the residual max(0, p − q).",
        timeline="Acceptance is as it should be; now and then a correction repeats the token just refused.",
        rule=Rule(correction=correction_p),
    ),
    Fault(
        name="correction-argmax",
        title="Correction is the target's favourite",
        kind="law",
        does="After a rejection it takes the target's most likely token.",
        timeline="Every correction is the longest p bar, whatever the correction uniform says.",
        rule=Rule(correction=correction_argmax),
        rejudge=False,
    ),
    Fault(
        name="softmax-of-residual",
        title="Softmax of the residual",
        kind="law",
        does="It passes the residual max(0, p − q) through a softmax instead of dividing by its sum, which "
        "spreads the correction almost evenly over the whole vocabulary.",
        timeline="Corrections are words that neither model would ever say.",
        seen=("huggingface/transformers#28508",),
        rule=Rule(correction=correction_softmax),
        rejudge=False,
    ),
    Fault(
        name="argmax-draft",
        title="Draft takes its favourite, q stays soft",
        kind="law",
        does="The draft proposes its most likely token and reports its whole distribution as q.",
        timeline="The proposed token is always the longest q bar; no draft uniform is recorded.",
        needs="a draft that is not greedy",
        seen=("jaymody/speculative-sampling#3", "huggingface/transformers#32867"),
        deal=lambda spot: Hand(spot.p, spot.q, 1.0 * (np.arange(len(spot.q)) == spot.q.argmax())),
        change_drafter=lambda drafter, sampling: bookkeeping.ArgmaxDrafter(drafter),
        rejudge=False,
    ),
    Fault(
        name="always-accept",
        title="Everything accepted",
        kind="law",
        does="It keeps every draft token, so that the draft writes the text.",
        timeline="Full blocks and a bonus in every round, at the best acceptance rate there is.",
        rule=Rule(odds=lambda p, q, x: (1.0, 1.0)),
    ),
    Fault(
        name="ratio-inverted",
        title="Ratio upside down",
        kind="law",
        does="It keeps a token with probability min(1, q/p) instead of min(1, p/q).",
        timeline="Tokens that the draft overrates pass, and tokens that the target prefers are refused.",
        rule=Rule(odds=lambda p, q, x: (q[x], p[x])),
    ),
    Fault(
        name="no-stop",
        title="No stop at the rejection",
        kind="law",
        does="It goes on judging after a rejection and stops at the last one, so that tokens refused before "
        "it are committed.",
        timeline="Rows count as accepted although their u is above p/q.",
        needs="K of 2 or more; over several positions",
        verifier=last_rejection_counts,
        one_position=False,
    ),
    Fault(
        name="block-residual",
        title="Block rule with the ordinary residual",
        kind="law",
        does="It keeps the longest beginning that passes, as block verification does, and then draws the "
        "correction from max(0, p − q) instead of max(0, r·p − q).",
        timeline="Acceptance is as the block rule's should be; corrections are too likely to be tokens that "
        "a full weight r would have left over.",
        needs="K of 2 or more; over several positions",
        seen=("arXiv 2403.10444", "vllm-project/vllm#46781"),
        verifier=blocks.ordinary_residual,
        one_position=False,
        rejudge=False,
    ),
    Fault(
        name="block-stops-early",
        title="Block rule that stops at the first failure",
        kind="law",
        does="It walks through the beginnings of the block and stops at the first one that does not pass, "
        "although a longer one may: the rule keeps the longest that passes.",
        timeline="Rows behind a failed one are never looked at, and few tokens are accepted.",
        needs="K of 2 or more; over several positions",
        seen=("arXiv 2403.10444",),
        verifier=blocks.stops_early,
        one_position=False,
        rejudge=False,
    ),
    Fault(
        name="block-token-acceptance",
        title="Block residual behind token-wise acceptance",
        kind="law",
        does="It accepts token by token with p/q, as the token rule does, and draws the correction from the "
        "block rule's residual max(0, r·p − q).",
        timeline="Acceptance is the token rule's; corrections avoid tokens that the residual still owes.",
        needs="K of 2 or more; over several positions",
        seen=("arXiv 2403.10444",),
        verifier=blocks.token_by_token,
        one_position=False,
        rejudge=False,
    ),
    Fault(
        name="tree-marginals",
        title="Tree of favourites, judged as if drawn",
        kind="law",
        does="It takes the draft's likeliest tokens as the candidates of a tree and judges each with p/q, as "
        "if it had been drawn from q. A token that was chosen has q = 1.",
        timeline="More candidates pass than should: the draft's favourites come out too often.",
        needs="a drafter that can fill a tree",
        tree=Shape((2, 1), "top"),
        tree_verifier=trees.by_marginals,
        one_position=False,
        rejudge=False,
    ),
    Fault(
        name="one-stream",
        title="One random stream for draft and correction",
        kind="law",
        does="It draws the correction with the very uniform that drew the refused token.",
        timeline="Draft uniform and correction uniform of a rejected row are the same; the residual's heavy "
        "tokens follow the draft's favourites.",
        seen=("vllm-project/vllm#47386", "vllm-project/vllm#54282"),
        needs="a draft that draws",
        rule=Rule(reuse_draft_u=True),
        rejudge=False,
    ),
    Fault(
        name="reseeded",
        title="Reseeded before every accept test",
        kind="law",
        does=f"It seeds the generator again before each accept test, so that u is {RESEEDED:.4f} every time.",
        timeline="Whether a token passes depends on p/q alone: never below that number, always above it.",
        seen=("feifeibear/LLMSpeculativeSampling#19",),
        rule=Rule(coin=Coin(fixed=RESEEDED)),
    ),
    Fault(
        name="inclusive",
        title="p = 0 accepted at u = 0",
        kind="law",
        does="It compares with ≤ instead of <. Single-precision uniforms are 0 once in 16.8 million draws, "
        "and then a token passes that the target never emits.",
        timeline="Nothing to see, until a token outside top-k stands in the text.",
        needs="tokens with p = 0 that the draft proposes (a filter on the target's side)",
        seen=("sgl-project/sglang#35771",),
        rule=Rule(coin=Coin(bits=24, inclusive=True)),
    ),
    Fault(
        name="coarse-uniforms",
        title="Uniforms with 8 bits",
        kind="law",
        does="Its uniforms have 8 bits, multiples of 1/256, so that every p/q is rounded up to the next one. "
        "Generators that fill a bfloat16 err in the same direction by about half as much.",
        timeline="A slightly better acceptance rate; u comes in steps of 0.0039.",
        rule=Rule(coin=Coin(bits=8)),
    ),
    Fault(
        name="argmax-only",
        title="Only the target's favourite passes",
        kind="law",
        does="It keeps a draft token if it is the target's most likely one, and draws from p otherwise.",
        timeline="Every accepted token is the longest p bar; the text is blander than the temperature says.",
        needs="a temperature above 0",
        seen=("EricLBuehler/mistral.rs#2424",),
        rule=Rule(odds=lambda p, q, x: (1.0 * is_argmax(p, x), 1.0), correction=correction_p),
        rejudge=False,
    ),
    Fault(
        name="row-shifted",
        title="Target rows shifted by one",
        kind="law",
        does="It judges each draft token by the row before the right one; the first has no such row and "
        "passes unjudged.",
        timeline="The first token of every round is accepted; the later ones answer to the wrong context.",
        seen=("mlx-node/mlx-node#11",),
        deal=lambda spot: Hand(spot.q if spot.p_before is None else spot.p_before, spot.q, spot.q),
        verifier=row_before,
        rejudge=False,
    ),
    Fault(
        name="temperature-one-side",
        title="Temperature on one side only",
        kind="law",
        does="The draft draws at its temperature and reports q at temperature 1.",
        timeline="The q bars do not match how often the draft proposes them.",
        needs="a temperature other than 1",
        deal=lambda spot: Hand(spot.p, spot.draft_scored(untempered(spot.draft_sampling)), spot.q),
        change_drafter=lambda drafter, sampling: bookkeeping.MisreportingDrafter(
            drafter, untempered(sampling)
        ),
        rejudge=False,
    ),
    Fault(
        name="q-before-filters",
        title="Drawn after the filters, q from before",
        kind="law",
        does="The draft draws after top-k, top-p and min-p and reports q as it was before them, which is "
        "smaller, so that tokens pass more often.",
        timeline="The acceptance rate looks better than β allows.",
        needs="top-k, top-p or min-p on the draft's side",
        seen=("huggingface/transformers#47932",),
        deal=lambda spot: Hand(spot.p, spot.draft_scored(unfiltered(spot.draft_sampling)), spot.q),
        change_drafter=lambda drafter, sampling: bookkeeping.MisreportingDrafter(
            drafter, unfiltered(sampling)
        ),
        rejudge=False,
    ),
    Fault(
        name="target-unfiltered",
        title="Target scored without the filters",
        kind="law",
        does="It judges by p as it is before top-k, top-p and min-p, although the user set them.",
        timeline="Corrections and bonus tokens that the filters should have taken out.",
        needs="top-k, top-p or min-p on the target's side",
        seen=("vllm-project/vllm#9834",),
        deal=lambda spot: Hand(
            spot.target_scored(unfiltered(spot.sampling), [*spot.committed, *spot.drafts]), spot.q, spot.q
        ),
        score=bookkeeping.unfiltered_score,
        rejudge=False,
    ),
    Fault(
        name="stale-history",
        title="Penalties with the wrong history",
        kind="law",
        does="The repetition penalty of a row counts the committed tokens only, not the draft tokens before "
        "the row.",
        timeline="Words repeat inside a block that plain decoding would have penalised.",
        needs="a repetition penalty, and a row behind the first",
        seen=("sgl-project/sglang#40244",),
        deal=lambda spot: Hand(spot.target_scored(spot.sampling, spot.committed), spot.q, spot.q),
        score=bookkeeping.stale_history,
        rejudge=False,
    ),
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
