"""The engine's exact output law, by enumeration of every draw on table models."""

from itertools import product

import numpy as np
import pytest
from branching import enumerate_law
from tables import TableModel, TablePair, joint_law, table_pair, total_variation

from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig, effective_probs

PROMPT = (0, 1, 0, 2, 0, 1)  # has repeated n-grams, so that prompt lookup proposes
DRAFTERS = ("model", "ngram")


def engine_law(pair, drafter, m, k=2, **settings):
    def program(randomness):
        run = DecodingRun(
            pair, PROMPT, drafter=drafter, k=k, max_new_tokens=m, randomness=randomness, **settings
        )
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    return enumerate_law(program)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("seed", range(3))
def test_the_law_of_whole_texts_is_the_targets(drafter, seed):
    """Four tokens: several rounds, so both ways of feeding the draft (one token, two) are taken."""
    pair = table_pair(3, seed)
    law = engine_law(pair, drafter, m=4)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert total_variation(law, joint_law(pair.target, PROMPT, 4)) < 1e-12


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_law_does_not_depend_on_k(drafter, k):
    pair = table_pair(2, seed=4)
    prompt_law = joint_law(pair.target, [t % 2 for t in PROMPT], 4)

    def program(randomness):
        run = DecodingRun(
            pair, [t % 2 for t in PROMPT], drafter=drafter, k=k, max_new_tokens=4, randomness=randomness
        )
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    assert total_variation(enumerate_law(program), prompt_law) < 1e-12


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_law_when_k_alternates_with_zero(drafter):
    pair = table_pair(3, seed=5)

    def program(randomness):
        run = DecodingRun(pair, PROMPT, drafter=drafter, k=2, max_new_tokens=4, randomness=randomness)
        while run.finish is None:
            run.k = 0 if len(run.rounds) % 2 else 2
            run.step()
        return tuple(run.tokens[len(PROMPT) :])

    assert total_variation(enumerate_law(program), joint_law(pair.target, PROMPT, 4)) < 1e-12


CONTROLS = {
    "temperature": SamplingConfig(temperature=0.6),
    "top-k": SamplingConfig(top_k=2),
    "top-p": SamplingConfig(top_p=0.8),
    "min-p": SamplingConfig(min_p=0.4),
    "penalty": SamplingConfig(repetition_penalty=1.7),
    "banned": SamplingConfig(banned=(1,)),
    "all": SamplingConfig(0.7, 2, 0.95, 0.05, 1.3),
}


def controlled_law(model, sampling, m):
    """Joint law of plain sampling under the controls, computed without the engine."""
    law = {}
    for tokens in product(range(model.vocab_size), repeat=m):
        mass = 1.0
        for i, token in enumerate(tokens):
            prefix = [*PROMPT, *tokens[:i]]
            mass *= effective_probs(model.logits(prefix)[None], [prefix], sampling).probs[0, token]
        law[tokens] = mass
    return law


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_law_under_each_control(drafter, name):
    pair = table_pair(3, seed=6)
    law = engine_law(pair, drafter, m=3, sampling=CONTROLS[name])
    assert total_variation(law, controlled_law(pair.target, CONTROLS[name], 3)) < 1e-12


@pytest.mark.parametrize("name", CONTROLS)
def test_the_draft_may_have_other_controls(name):
    """The law is that of the target's controls, whatever the draft's are."""
    pair = table_pair(3, seed=7)
    for draft, target in ((CONTROLS[name], SamplingConfig()), (SamplingConfig(), CONTROLS[name])):
        law = engine_law(pair, "model", m=3, sampling=target, draft_sampling=draft)
        assert total_variation(law, controlled_law(pair.target, target, 3)) < 1e-12


def test_a_greedy_draft_under_a_sampled_target():
    pair = table_pair(3, seed=8)
    law = engine_law(pair, "model", m=3, draft_sampling=SamplingConfig(temperature=0.0))
    assert total_variation(law, joint_law(pair.target, PROMPT, 3)) < 1e-12


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_output_is_the_targets_greedy_output(drafter):
    pair = table_pair(5, seed=9)
    for k in range(1, 9):
        run = DecodingRun(pair, PROMPT, drafter=drafter, k=k, sampling=SamplingConfig(0.0), max_new_tokens=20)
        list(run)
        plain = list(PROMPT)
        for _ in range(20):
            plain.append(int(pair.target.logits(plain).argmax()))
        assert run.tokens == plain


def test_a_trimmed_draft_vocabulary_keeps_the_law():
    pair = TablePair(TableModel(3, salt=1), TableModel(3, salt=2, available=np.array([0, 2])))
    law = engine_law(pair, "model", m=3)
    assert total_variation(law, joint_law(pair.target, PROMPT, 3)) < 1e-12


def test_eos_keeps_the_law_of_texts_that_end():
    pair = table_pair(3, seed=10, eos=[2])
    law = engine_law(pair, "model", m=3)
    exact = {}
    for tokens, mass in joint_law(pair.target, PROMPT, 3).items():
        cut = tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
        exact[cut] = exact.get(cut, 0.0) + mass
    assert total_variation(law, exact) < 1e-12


def test_a_draft_equal_to_the_target_is_always_accepted_in_every_round():
    pair = TablePair(*(TableModel(50, salt=3, context_length=1000) for _ in range(2)))
    rounds = list(DecodingRun(pair, PROMPT, k=4, max_new_tokens=200, seed=2))
    assert len(rounds) == 40
    assert all(r.accepted == r.k for r in rounds)


def test_the_enumeration_would_notice_a_wrong_law():
    pair = table_pair(3, seed=1)
    other = joint_law(pair.draft, PROMPT, 4)
    assert total_variation(engine_law(pair, "model", m=4), other) > 0.05
