"""Mutants of the rule and the engine. The suite must kill each: a named check fails under it.

Each check is a law of the engine; the unmutated engine passes all of them. Each mutant names the check
that has to fail.
"""

import numpy as np
import pytest
from branching import enumerate_law
from scipy import stats
from tables import TableModel, TablePair, joint_law, table_pair, total_variation

from specviz.decoding import cache, randomness, run, sampling, verify
from specviz.decoding.drafters import base, model, ngram, parallel, suffix
from specviz.decoding.faults import FAULTS
from specviz.decoding.faults.bookkeeping import WrappedDrafter
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.decoding.verify import Verdict, verify_block
from specviz.exactness.cache_check import checked

PROMPT = (0, 1, 0)
TOLERANCE = 1e-6  # of the total variation distance

# --- the checks ---------------------------------------------------------------------------------------


def engine_law(start, pair, m=3, k=2, **settings):
    def program(branching):
        decoding = start(pair, PROMPT, k=k, max_new_tokens=m, randomness=branching, **settings)
        list(decoding)
        return tuple(decoding.tokens[len(PROMPT) :])

    return enumerate_law(program)


def joint_law_model(start):
    pair = table_pair(3, seed=4)
    return total_variation(engine_law(start, pair), joint_law(pair.target, PROMPT, 3)) < TOLERANCE


def joint_law_ngram(start):
    pair = table_pair(3, seed=4)
    law = engine_law(start, pair, drafter="ngram")
    return total_variation(law, joint_law(pair.target, PROMPT, 3)) < TOLERANCE


def joint_law_suffix(start):
    pair = table_pair(3, seed=4)
    law = engine_law(start, pair, drafter="suffix")
    return total_variation(law, joint_law(pair.target, PROMPT, 3)) < TOLERANCE


def caches_right_parallel(start):
    """Nothing but text stays in the draft's cache."""
    run = start(table_pair(5, seed=4), PROMPT, drafter="parallel", k=3, max_new_tokens=40, seed=2)
    return all(check.ok for _, found in checked(run) for check in found)


CONTROLS = SamplingConfig(0.7, top_k=2, repetition_penalty=1.6)


def joint_law_controls(start):
    """Filters and penalties on both sides, of different strength."""
    pair = table_pair(3, seed=4)
    exact = {}
    for tokens in joint_law(pair.target, PROMPT, 3):
        exact[tokens] = 1.0
        for i, token in enumerate(tokens):
            prefix = [*PROMPT, *tokens[:i]]
            row = effective_probs(pair.target.logits(prefix)[None], [prefix], CONTROLS)
            exact[tokens] *= row.probs[0, token]
    draft = SamplingConfig(1.3, top_k=2)
    law = engine_law(start, pair, sampling=CONTROLS, draft_sampling=draft)
    return total_variation(law, exact) < TOLERANCE


def law_with_eos(start):
    pair = table_pair(3, seed=10, eos=[2])
    exact = {}
    for tokens, mass in joint_law(pair.target, PROMPT, 3).items():
        cut = tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
        exact[cut] = exact.get(cut, 0.0) + mass
    return total_variation(engine_law(start, pair), exact) < TOLERANCE


def greedy_equality(start):
    """With ties: the lowest id wins, on both sides."""
    pair = TablePair(*(TableModel(5, law=lambda h: np.round(np.sin([len(h) * j for j in range(5)]))),) * 2)
    plain = list(PROMPT)
    for _ in range(15):
        plain.append(int(pair.target.logits(plain).argmax()))
    for k in (1, 3):
        decoding = start(pair, PROMPT, k=k, max_new_tokens=15, sampling=SamplingConfig(0.0))
        list(decoding)
        if decoding.tokens != plain:
            return False
    return True


def seeded_law(start):
    """What the branching randomness cannot see: the streams. Two tokens of 4,000 seeded runs."""
    pair = table_pair(3, seed=4)
    law = joint_law(pair.target, PROMPT, 2)
    counts = dict.fromkeys(law, 0)
    for seed in range(4000):
        decoding = start(pair, PROMPT, k=1, max_new_tokens=2, seed=seed)
        list(decoding)
        counts[tuple(decoding.tokens[len(PROMPT) :])] += 1
    expected = np.array(list(law.values())) * 4000
    return stats.chisquare(list(counts.values()), expected).pvalue > 1e-3


def rejects_what_p_excludes(start):
    class Zero:
        def accept(self, row, p, q):
            return randomness.accepts(0.0, p, q)

        def correct(self, weights):
            return int(weights.argmax())

    p, q = np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[0.5, 0.5]])
    return verify.verify_block(p, q, [0], Zero()).accepted == 0


def caches_right(start):
    decoding = start(table_pair(6, 1), PROMPT, k=3, max_new_tokens=40, seed=4)
    for round, checks in checked(decoding):
        if not all(check.ok for check in checks):
            return False
        if round.target_cache.kept != len(decoding.tokens) - 1:
            return False
    return True


def equal_models_accept_everything(start):
    pair = TablePair(*(TableModel(20, salt=3, context_length=200) for _ in range(2)))
    return all(r.accepted == r.k for r in start(pair, PROMPT, k=3, max_new_tokens=60, seed=2))


CHECKS = {
    check.__name__: check
    for check in (
        joint_law_model,
        joint_law_ngram,
        joint_law_suffix,
        joint_law_controls,
        law_with_eos,
        greedy_equality,
        seeded_law,
        rejects_what_p_excludes,
        caches_right,
        caches_right_parallel,
        equal_models_accept_everything,
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_the_engine_passes(check):
    assert CHECKS[check](DecodingRun)


# --- the mutants --------------------------------------------------------------------------------------

MUTANTS = {}


def mutant(check):
    """A function that spoils the engine, and the check that must notice. It may return how to start runs."""

    def note(spoil):
        MUTANTS[spoil.__name__] = (spoil, check)
        return spoil

    return note


def judged_by(patch, verifier):
    patch.setitem(DecodingRun.__init__.__kwdefaults__, "verifier", verifier)


@mutant("joint_law_model")
def correction_drawn_from_p(patch):
    patch.setattr(verify, "residual", lambda p, q: (p, False))


@mutant("joint_law_model")
def residual_without_the_positive_part(patch):
    patch.setattr(verify, "residual", lambda p, q: (np.abs(p - q), False))


@mutant("joint_law_model")
def residual_with_an_epsilon(patch):
    patch.setattr(verify, "residual", lambda p, q: (np.maximum(p - q, 0.0) + 1e-4, False))


@mutant("joint_law_model")
def no_stop_at_the_rejection(patch):
    judged_by(patch, FAULTS["no-stop"].verifier)


@mutant("joint_law_model")
def ratio_inverted(patch):
    judged_by(patch, FAULTS["ratio-inverted"].verifier)


@mutant("joint_law_ngram")
def everything_accepted(patch):
    judged_by(patch, FAULTS["always-accept"].verifier)


@mutant("joint_law_model")
def rows_shifted_by_one(patch):
    judged_by(patch, FAULTS["row-shifted"].verifier)


@mutant("joint_law_model")
def bonus_from_the_row_before(patch):
    def wrong(target_probs, draft_probs, draft_tokens, draws):
        rows = target_probs.copy()
        rows[-1] = rows[max(0, len(rows) - 2)]
        return verify_block(rows, draft_probs, draft_tokens, draws)

    judged_by(patch, wrong)


@mutant("joint_law_model")
def first_token_never_judged(patch):
    def wrong(target_probs, draft_probs, draft_tokens, draws):
        if not draft_tokens:
            return verify_block(target_probs, draft_probs, draft_tokens, draws)
        rest = verify_block(target_probs[1:], draft_probs[1:], draft_tokens[1:], draws)
        return Verdict(rest.accepted + 1, rest.outcome, rest.token)

    judged_by(patch, wrong)


@mutant("equal_models_accept_everything")
def accept_on_match(patch):
    judged_by(patch, FAULTS["accept-on-match"].verifier)


@mutant("seeded_law")
def one_stream_for_draft_and_correction(patch):
    patch.setattr(randomness, "CORRECT", randomness.DRAFT)


@mutant("seeded_law")
def one_stream_for_draft_and_accept(patch):
    patch.setattr(randomness, "ACCEPT", randomness.DRAFT)


@mutant("seeded_law")
def the_same_uniforms_in_every_round(patch):
    right = randomness.SeededRandomness.round
    patch.setattr(randomness.SeededRandomness, "round", lambda self, number: right(self, 1))


@mutant("rejects_what_p_excludes")
def inclusive_comparison(patch):
    patch.setattr(randomness, "accepts", lambda u, p, q: u * q <= p)


@mutant("joint_law_controls")
def penalty_with_the_wrong_history(patch):
    return FAULTS["stale-history"].start


@mutant("joint_law_controls")
def target_without_its_filters(patch):
    return FAULTS["target-unfiltered"].start


@mutant("joint_law_controls")
def q_from_before_the_filters(patch):
    return FAULTS["q-before-filters"].start


@mutant("joint_law_controls")
def q_without_the_temperature(patch):
    return FAULTS["temperature-one-side"].start


@mutant("joint_law_model")
def draft_takes_its_favourite(patch):
    return FAULTS["argmax-draft"].start


@mutant("joint_law_ngram")
def chosen_tokens_reported_as_drawn(patch):
    patch.setattr(ngram, "one_hot", lambda tokens, v: np.full((len(tokens), v), 1 / v))


@mutant("joint_law_suffix")
def matched_tokens_reported_as_drawn(patch):
    patch.setattr(suffix, "one_hot", lambda tokens, v: np.full((len(tokens), v), 1 / v))


@mutant("caches_right_parallel")
def gaps_kept_in_the_drafts_cache(patch):
    def wrong(self, committed, target_features):
        cache.keep(self.cache, len(committed) - 1)

    patch.setattr(parallel.ParallelDrafter, "observe", wrong)


@mutant("joint_law_model")
def drawn_tokens_dropped_for_their_low_q(patch):
    class Dropping(WrappedDrafter):
        def propose(self, prefix, k, draws):
            proposal = self.inner.propose(prefix, k, draws)
            keep = len(proposal.tokens)
            while keep and proposal.probs[keep - 1, proposal.tokens[keep - 1]] < 0.3:
                keep -= 1
            return base.Proposal(proposal.tokens[:keep], proposal.probs[:keep])

    right = run.make_drafter
    patch.setattr(run, "make_drafter", lambda *args: Dropping(right(*args)))


@mutant("joint_law_model")
def probabilities_in_half_precision(patch):
    def coarse(*args):
        exact = effective_probs(*args)
        return sampling.Effective(exact.probs.astype(np.float16).astype(float), None, exact.logsumexp)

    patch.setattr(run, "effective_probs", coarse)


@mutant("law_with_eos")
def eos_ignored_inside_a_block(patch):
    return FAULTS["eos-ignored"].start


@mutant("greedy_equality")
def the_last_of_equal_scores_wins(patch):
    def last(scores, removed):
        probs = np.zeros(scores.shape)
        probs[np.arange(len(scores)), scores.shape[1] - 1 - scores[:, ::-1].argmax(axis=1)] = 1.0
        return sampling.Effective(probs, removed, np.zeros(len(scores)))

    patch.setattr(sampling, "_greedy", last)


@mutant("caches_right")
def caches_cut_one_too_far(patch):
    right = cache.keep
    patch.setattr(cache, "keep", lambda held, n: right(held, max(0, n - 1)))


@mutant("caches_right")
def caches_cut_one_too_few(patch):
    right = cache.keep
    patch.setattr(cache, "keep", lambda held, n: right(held, n + 1))


@mutant("joint_law_model")
def target_cache_keeps_the_rejected_token(patch):
    return FAULTS["target-cache-keeps-rejected"].start


@mutant("caches_right")
def hole_in_the_draft_cache(patch):
    return FAULTS["draft-cache-hole"].start


@mutant("caches_right")
def draft_cache_never_cut(patch):
    patch.setattr(model.LanguageModelDrafter, "observe", lambda self, committed, features: None)


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_killed(name, monkeypatch):
    spoil, check = MUTANTS[name]
    start = spoil(monkeypatch) or DecodingRun
    assert not CHECKS[check](start)


def test_there_are_at_least_twelve():
    assert len(MUTANTS) >= 12
