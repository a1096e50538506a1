"""Mistakes in the rule, and in the p, q and uniforms given to it: they change the output's distribution."""

import numpy as np

from specviz.decoding.faults import blocks, bookkeeping, trees
from specviz.decoding.faults.fault import Fault
from specviz.decoding.faults.rules import Coin, Hand, Rule
from specviz.decoding.faults.spot import unfiltered, untempered
from specviz.decoding.faults.variations import (
    RESEEDED,
    correction_argmax,
    correction_p,
    correction_softmax,
    is_argmax,
    last_rejection_counts,
    row_before,
)
from specviz.decoding.tree import Shape

MISTAKES = (
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
)
