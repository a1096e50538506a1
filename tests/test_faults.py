"""The gallery: each fault's exact law, its verifier, its run, and what the engine records of it."""

from itertools import pairwise

import numpy as np
import pytest
from branching import enumerate_law
from tables import TableModel, TablePair, branching_pair, joint_law, table_pair, total_variation

from specviz.decoding.faults import (
    EXACT,
    FAULTS,
    Hand,
    Spot,
    get_fault,
    lenience,
    make_verifier,
    output,
    top_p_set,
)
from specviz.decoding.faults.variations import RESEEDED
from specviz.decoding.randomness import SeededRandomness, inverse_cdf
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.verify import verify_block
from specviz.exactness.recompute import recompute
from specviz.reading.metrics import metrics
from specviz.reading.rejudge import rejudge

P = np.array([0.5, 0.3, 0.2])
Q = np.array([0.2, 0.3, 0.5])
GOLDEN = Spot(P, Q)
PROMPT = (0, 0)

LAWS = {
    "correction-from-p": (0.35, 0.39, 0.26),
    "correction-argmax": (0.5, 0.3, 0.2),
    "softmax-of-residual": (0.320888, 0.389556, 0.289556),
    "argmax-draft": (0.6, 0.0, 0.4),
    "always-accept": (0.2, 0.3, 0.5),
    "ratio-inverted": (0.08 + 0.12, 0.3, 0.5),
    "argmax-only": (0.2 + 0.8 * 0.5, 0.8 * 0.3, 0.8 * 0.2),
    "accept-on-match": (0.5, 0.3, 0.2),
    "reseeded": (0.2 + 0.5, 0.3, 0.0),
    "lenience=0.5": (0.2 + 0.1, 0.3, 0.4),
    "top-p-set=0.9": (0.2, 0.3, 0.5),
    "one-stream": (0.5, 0.3, 0.2),  # the residual has one token, whatever draws it
}
DISTANCES = {
    "correction-from-p": 0.15,
    "softmax-of-residual": 0.179,
    "argmax-draft": 0.3,
    "always-accept": 0.3,
}


@pytest.mark.parametrize("name", LAWS)
def test_golden_laws(name):
    assert FAULTS[name].law(GOLDEN) == pytest.approx(LAWS[name], abs=1e-6)


@pytest.mark.parametrize("name", DISTANCES)
def test_golden_distances(name):
    assert FAULTS[name].tv(GOLDEN) == pytest.approx(DISTANCES[name], abs=5e-4)


def test_the_exact_rule_gives_p_and_accepts_beta():
    result = output(EXACT, GOLDEN.hand)
    assert result.law == pytest.approx(P, abs=1e-15)
    assert result.acceptance == pytest.approx(0.7)


def random_spot(seed, v=4):
    """Rows with full support, and rows of which each side lacks a token."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(v)), rng.dirichlet(np.ones(v))
    if seed % 3 == 1:
        p[0] = 0.0
    if seed % 3 == 2:
        q[-1] = 0.0
    return Spot(p / p.sum(), q / q.sum())


DECISIONS = [
    name for name, fault in FAULTS.items() if not fault.rule.reuse_draft_u and fault.rule.coin == EXACT.coin
]


@pytest.mark.parametrize("name", [n for n in DECISIONS if FAULTS[n].one_position])
def test_each_law_is_what_the_verifier_does_by_enumeration(name):
    """The law summed in closed form against every path of the verifier through its decisions."""
    fault = FAULTS[name]
    for seed in range(9):
        spot = random_spot(seed)
        hand = fault.deal(spot)
        verifier = make_verifier("rule", fault.rule)

        def program(randomness, hand=hand, verifier=verifier):
            token = randomness.draft(0, hand.drawn)
            rows = np.stack([hand.p, np.full(4, 0.25)])
            verdict = verifier(rows, hand.q[None], [token], randomness)
            return token if verdict.accepted else verdict.token

        with np.errstate(divide="ignore"):
            law = enumerate_law(program)
        enumerated = np.array([law.get(x, 0.0) for x in range(4)])
        assert fault.law(spot) == pytest.approx(enumerated, abs=1e-14)
        assert enumerated.sum() == pytest.approx(1.0)


class Grid:
    """Uniforms given by hand, for rules that look at the number itself."""

    def __init__(self, draft, accept, correct):
        self.us = draft, accept, correct

    def draft(self, row, weights):
        return inverse(weights, self.us[0])

    def accept(self, row, p, q):
        return self.us[1] * q < p

    def correct(self, weights):
        return inverse(weights, self.us[2])

    def draft_u(self, row):
        return self.us[0]

    def accept_u(self, row):
        return self.us[1]

    def correct_u(self):
        return self.us[2]


def inverse(weights, u):
    order = np.argsort(-weights, kind="stable")
    return int(order[np.searchsorted(np.cumsum(weights[order]) / weights.sum(), u, side="right")])


TENTHS = [
    (P, Q),
    (np.array([0.4, 0.2, 0.3, 0.1]), np.array([0.1, 0.5, 0.0, 0.4])),
    (np.array([0.0, 0.2, 0.5, 0.3]), np.array([0.6, 0.1, 0.2, 0.1])),
]


@pytest.mark.parametrize("p, q", TENTHS)
@pytest.mark.parametrize("name", ["one-stream", "coarse-uniforms", "inclusive", "reseeded"])
def test_laws_of_rules_that_look_at_the_uniform(name, p, q):
    """Every uniform on a grid that hits no border: the sum over the grid is exact.

    All borders of the draft's and the correction's draws are multiples of 1/30 here. The accept uniform
    takes one value in every piece on which the verdict is constant, weighted by the piece's length.
    """
    fault = FAULTS[name]
    rows, law, grid = np.stack([p, p]), np.zeros(len(p)), (np.arange(30) + 0.5) / 30
    if name == "coarse-uniforms":
        pieces = [(j / 256, 1 / 256) for j in range(256)]
    else:
        borders = sorted({0.0, 1.0, *(min(1.0, a / b) for a, b in zip(p, q, strict=True) if b > 0)})
        pieces = [((a + b) / 2, b - a) for a, b in pairwise(borders)]
    if name == "inclusive":
        pieces.append((0.0, 2.0**-24))
    for d in grid:
        token = inverse(q, d)
        kept = [a for a in pieces if fault.verifier(rows, q[None], [token], Grid(d, a[0], 0.5)).accepted]
        law[token] += sum(weight for _, weight in kept) / 30
        for refused in [a for a in pieces if a not in kept][:1]:
            mass = sum(weight for a, weight in pieces if (a, weight) not in kept) / 900
            for c in grid:
                law[fault.verifier(rows, q[None], [token], Grid(d, refused[0], c)).token] += mass
    assert fault.law(Spot(p, q)) == pytest.approx(law, abs=3e-7 if name == "inclusive" else 1e-12)


def test_the_inclusive_comparison_lets_out_what_p_excludes():
    p, q = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    assert FAULTS["inclusive"].law(Spot(p, q))[0] == pytest.approx(0.5 * 2.0**-24)
    verdict = FAULTS["inclusive"].verifier(np.stack([p, p]), q[None], [0], Grid(0.1, 0.0, 0.5))
    assert verdict.accepted == 1
    assert verify_block(np.stack([p, p]), q[None], [0], Grid(0.1, 0.0, 0.5)).accepted == 0


def test_the_reseeded_uniform_is_the_first_of_its_generator():
    assert np.random.default_rng(0).random() == RESEEDED


def engine_law(name, pair, m=3, k=2, **settings):
    """Joint law of the tokens that a run with the fault emits, by enumeration."""

    def program(randomness):
        run = get_fault(name).start(pair, PROMPT, k=k, max_new_tokens=m, randomness=randomness, **settings)
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    return enumerate_law(program)


FILTERED = {"sampling": SamplingConfig(top_k=2)}
HOT = {"sampling": SamplingConfig(temperature=1.6)}
PENALISED = {"sampling": SamplingConfig(repetition_penalty=1.8)}
CONTROLS = {
    "temperature-one-side": HOT,
    "q-before-filters": FILTERED,
    "target-unfiltered": {**FILTERED, "draft_sampling": SamplingConfig()},
    "stale-history": PENALISED,
}
ENUMERATED = [
    n
    for n, f in FAULTS.items()
    if n in DECISIONS and n not in ("ngram-copies-eos", "eos-ignored") and f.kind != "bookkeeping"
]


@pytest.mark.parametrize("name", ENUMERATED)
def test_faults_change_the_law_of_a_run_and_exact_ones_do_not(name):
    make = branching_pair if name.startswith("tree-") else table_pair
    pair = make(3, seed=2 if name.startswith("block-") else 4)  # where a weight stays below 1
    settings = CONTROLS.get(name, {})
    law = engine_law(name, pair, **settings)
    assert sum(law.values()) == pytest.approx(1.0)
    right = enumerate_law(lambda r: tuple(_plain(pair, r, settings.get("sampling"))))
    distance = total_variation(law, right)
    assert distance < 1e-12 if FAULTS[name].kind == "wasteful" else distance > 1e-3


def _plain(pair, randomness, sampling):
    run = DecodingRun(pair, PROMPT, k=0, sampling=sampling, max_new_tokens=3, randomness=randomness)
    list(run)
    return run.tokens[len(PROMPT) :]


FIRST_ROW = [n for n in ENUMERATED if FAULTS[n].one_position and n not in ("stale-history", "row-shifted")]


@pytest.mark.parametrize("name", FIRST_ROW)
def test_a_runs_first_token_follows_the_law_at_its_spot(name):
    """The law predicted from a recomputed position is that of the engine with the fault."""
    pair = table_pair(3, seed=5)
    settings = CONTROLS.get(name, {})
    law = engine_law(name, pair, m=2, k=1, **settings)
    run = DecodingRun(pair, PROMPT, k=1, max_new_tokens=2, seed=1, **settings)
    run.step()
    spot = recompute(pair, run.trace(), 1).spots[0]
    first = np.zeros(3)
    for tokens, mass in law.items():
        first[tokens[0]] += mass
    assert FAULTS[name].law(spot) == pytest.approx(first, abs=1e-12)
    accepted = engine_acceptance(name, pair, **settings)
    assert FAULTS[name].acceptance(spot) == pytest.approx(accepted, abs=1e-12)


def engine_acceptance(name, pair, **settings):
    def program(randomness):
        run = get_fault(name).start(pair, PROMPT, k=1, max_new_tokens=2, randomness=randomness, **settings)
        return run.step().accepted

    return enumerate_law(program)[1]


@pytest.mark.parametrize("name, settings", [("stale-history", PENALISED), ("row-shifted", {})])
def test_laws_behind_the_first_row(name, settings):
    """Row 2 given the first draft token was accepted, by enumeration and from the recomputed spot."""
    pair = table_pair(3, seed=6)
    run = next(
        run
        for seed in range(40)
        if (run := DecodingRun(pair, PROMPT, k=2, max_new_tokens=3, seed=seed, **settings)).step().accepted
    )
    first = run.rounds[0].draft_tokens[0]
    spot = recompute(pair, run.trace(), 1).spots[1]

    def program(randomness):
        faulty = get_fault(name).start(pair, PROMPT, k=2, max_new_tokens=3, randomness=randomness, **settings)
        step = faulty.step()
        return (step.draft_tokens[0], step.accepted > 0, step.committed[1] if step.accepted else None)

    law = enumerate_law(program)
    given = np.array([law.get((first, True, x), 0.0) for x in range(3)])
    assert get_fault(name).law(spot) == pytest.approx(given / given.sum(), abs=1e-12)
    assert get_fault(name).tv(spot) > 1e-3


def test_no_stop_is_exact_at_k_1_and_wrong_from_k_2_on():
    pair = table_pair(3, seed=4)
    right = joint_law(pair.target, PROMPT, 3)
    assert total_variation(engine_law("no-stop", pair, k=1), right) < 1e-12
    assert total_variation(engine_law("no-stop", pair, k=2), right) > 1e-2
    assert FAULTS["no-stop"].law(GOLDEN) is FAULTS["no-stop"].tv(GOLDEN) is None


@pytest.mark.parametrize("name", [n for n, f in FAULTS.items() if f.kind == "bookkeeping"])
def test_bookkeeping_leaves_the_law_of_a_position_alone(name):
    assert FAULTS[name].tv(GOLDEN) < 1e-15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["draft-cache-hole", "draft-cache-cut-too-far"])
def test_a_spoilt_draft_cache_leaves_the_text_right_and_acceptance_decays(name):
    pair = table_pair(3, seed=4)
    law = engine_law(name, pair, m=4)
    assert total_variation(law, joint_law(pair.target, PROMPT, 4)) < 1e-12

    target, other = TableModel(12, salt=3, context_length=900), TableModel(12, salt=4)
    close = TableModel(12, law=lambda h: target.logits(h) + 0.3 * other.logits(h), context_length=900)
    honest, faulty = (
        start(TablePair(target, close), PROMPT, k=3, max_new_tokens=300, seed=1)
        for start in (DecodingRun, FAULTS[name].start)
    )
    assert metrics(list(honest)).alpha > 0.8
    assert metrics(list(faulty)).alpha < 0.6


@pytest.mark.parametrize("name", ["target-cache-cut-too-far", "target-cache-keeps-rejected"])
def test_a_spoilt_target_cache_changes_the_text(name):
    pair = table_pair(3, seed=4)
    law = engine_law(name, pair, m=4)
    assert total_variation(law, joint_law(pair.target, PROMPT, 4)) > 1e-2


def test_an_ignored_end_of_text_lets_the_text_run_on():
    pair = table_pair(3, seed=10, eos=[2])
    law = engine_law("eos-ignored", pair)
    beyond = sum(mass for tokens, mass in law.items() if 2 in tokens[:-1])
    assert beyond > 0.01
    assert all(2 not in tokens[:-1] for tokens in enumerate_law(lambda r: tuple(_plain(pair, r, None))))


def test_copied_control_tokens_are_exact_and_wasteful():
    prompt = (1, 0, 2, 1, 0)
    pair = table_pair(3, seed=10, eos=[2], special=[2])
    fault = FAULTS["ngram-copies-eos"]
    honest, faulty = (
        start(pair, prompt, drafter="ngram", k=2, max_new_tokens=3, seed=1)
        for start in (DecodingRun, fault.start)
    )
    assert 2 not in honest.step().draft_tokens
    assert 2 in faulty.step().draft_tokens

    def law(start):
        def program(randomness):
            run = start(pair, prompt, drafter="ngram", k=2, max_new_tokens=3, randomness=randomness)
            list(run)
            return tuple(run.tokens)

        return enumerate_law(program)

    assert total_variation(law(DecodingRun), law(fault.start)) < 1e-12


def test_q_before_filters_raises_the_acceptance():
    pair = table_pair(6, seed=3)
    sampling = SamplingConfig(top_k=2)
    run = DecodingRun(pair, PROMPT, k=1, sampling=sampling, max_new_tokens=30, seed=1)
    list(run)
    spots = [s for r in run.rounds for s in recompute(pair, run.trace(), r.number).spots]
    fault = FAULTS["q-before-filters"]
    raised = [fault.acceptance(s) - np.minimum(s.p, s.q).sum() for s in spots]
    assert min(raised) > -1e-12 and max(raised) > 0.05


def test_accept_on_match_accepts_the_product():
    for seed in range(9):
        spot = random_spot(seed)
        fault = FAULTS["accept-on-match"]
        assert fault.law(spot) == pytest.approx(spot.p, abs=1e-14)
        assert fault.acceptance(spot) == pytest.approx(float(spot.p @ spot.q))


def test_lenience_bounds_every_token_and_one_is_exact():
    for seed in range(9):
        spot = random_spot(seed)
        for factor in (0.2, 0.7):
            law = lenience(factor).law(spot)
            assert (law <= spot.p / factor + 1e-15).all()
        assert lenience(1.0).tv(spot) < 1e-15


def test_the_leading_set_is_the_one_of_top_p():
    p = np.array([0.1, 0.4, 0.2, 0.3])
    for mass, expected in ((0.4, [1]), (0.5, [1, 3]), (0.75, [1, 2, 3]), (1.0, [0, 1, 2, 3])):
        law = top_p_set(mass).output(Spot(p, np.full(4, 0.25)))
        assert np.flatnonzero(law.kept).tolist() == expected


def test_names_select_faults_with_their_parameter():
    assert get_fault("always-accept") is FAULTS["always-accept"]
    assert get_fault("lenience=0.25").name == "lenience=0.25"
    assert get_fault("top-p-set=0.5").verifier.__name__ == "top-p-set=0.5"
    for wrong in ("nonsense", "lenience=2", "lenience=x", "top-p-set=0", "always-accept=1"):
        with pytest.raises(ValueError, match=wrong):
            get_fault(wrong)


def test_every_fault_says_what_it_is():
    assert len(FAULTS) >= 14
    for name, fault in FAULTS.items():
        assert fault.name == name == fault.verifier.__name__
        assert fault.does.endswith(".") and fault.timeline.endswith(".") and fault.title
        assert all(link.startswith("https://") for link in fault.links)
    assert FAULTS["always-accept"].links == ()
    assert FAULTS["lenience=0.5"].links == ("https://arxiv.org/abs/2211.17192",)
    assert FAULTS["row-shifted"].links == ("https://github.com/mlx-node/mlx-node/issues/11",)


@pytest.mark.parametrize("name", FAULTS)
def test_a_run_with_a_fault_records_its_name_and_can_be_saved(name):
    from specviz.decoding import codec

    pair = (branching_pair if name.startswith("tree-") else table_pair)(5, seed=2)
    run = FAULTS[name].start(pair, (0, 1, 0, 1), k=3, max_new_tokens=30, seed=3)
    list(run)
    trace = run.trace()
    assert {r.verifier for r in trace.rounds} == {name}
    assert run.emitted == 30
    assert codec.loads(codec.dumps(trace)) == trace


def test_the_rule_of_the_gallery_is_the_engines_rule_draw_by_draw():
    verifier = make_verifier("rule", EXACT)
    rng = np.random.default_rng(5)
    for seed in range(300):
        p, q = rng.dirichlet(np.ones(6), 4), rng.dirichlet(np.ones(6), 3)
        tokens = [int(rng.choice(6, p=row)) for row in q]
        randomness = SeededRandomness(seed).round(1)
        assert verifier(p, q, tokens, randomness) == verify_block(p, q, tokens, randomness)


def test_hands_are_dealt_as_the_engine_would():
    hand = GOLDEN.hand
    assert isinstance(hand, Hand) and hand.drawn is hand.q


class Replayed:
    """The recorded uniforms of a round, over full rows."""

    def __init__(self, round):
        self.round = round

    def accept(self, row, p, q):
        return self.accept_u(row) * q < p

    def correct(self, weights):
        return inverse_cdf(weights, self.round.correct_u)

    def draft_u(self, row):
        return self.round.positions[row].draft_u

    def accept_u(self, row):
        return self.round.positions[row].u


@pytest.mark.parametrize("name", [n for n, f in FAULTS.items() if f.rejudge])
def test_what_a_trace_can_be_judged_again_by_agrees_with_full_rows(name):
    pair = table_pair(60, seed=3)
    run = DecodingRun(pair, PROMPT, k=3, max_new_tokens=60, seed=5)
    list(run)
    known = 0
    for round in run.rounds:
        rows = recompute(pair, run.trace(), round.number).rows
        full = FAULTS[name].verifier(
            rows.target_probs, rows.draft_probs, list(round.draft_tokens), Replayed(round)
        )
        again = rejudge(round, FAULTS[name].verifier)
        assert again.accepted == full.accepted and again.outcome == full.outcome
        if again.token is not None:
            assert again.token == full.token
            known += 1
    # A correction without the refused token is drawn from weights that the trace does not hold.
    assert known > 5 or name == "accept-on-match"
