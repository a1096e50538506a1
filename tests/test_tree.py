"""Trees of candidates: exact by enumeration however they are drawn, and biased where p/q is misused."""

from itertools import product

import numpy as np
import pytest
from branching import enumerate_law
from tables import TableModel

from specviz.decoding.randomness import SeededRandomness, accepts
from specviz.decoding.tree import ROOT, Shape, Tree, TreeVerdict, grow, verify_tree
from specviz.decoding.verify import VerifyError, verify_block

PROMPT = (0, 1)
P, Q = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])


def rows(target, tree):
    """p behind the text and behind every node."""
    nodes = [ROOT, *range(len(tree.tokens))]
    return np.stack([target((*PROMPT, *tree.path(node))) for node in nodes])


def chosen(draft, widths):
    """The likeliest tokens instead of drawn ones; q one-hot."""
    tokens, parents, probs, level, paths = [], [], [], [ROOT], {ROOT: ()}
    for width in widths:
        below = []
        for node in level:
            for token in np.argsort(-draft(paths[node]), kind="stable")[:width].tolist():
                paths[len(tokens)] = (*paths[node], token)
                below.append(len(tokens))
                tokens.append(token)
                parents.append(node)
                probs.append(np.eye(len(draft(())))[token])
        level = below
    return Tree(tuple(tokens), tuple(parents), np.array(probs))


def grown(draft, widths, randomness, how):
    def rows_behind(tree, level):
        return [draft(tree.path(node)) for node in level]

    return grow(rows_behind, Shape(widths, how.replace(".", "")), randomness)


def text_law(target, draft, widths, how, verify=verify_tree):
    """The exact distribution of the first len(widths) + 1 tokens: a round, and the target's own behind it."""

    def program(randomness):
        tree = chosen(draft, widths) if how == "chosen" else grown(draft, widths, randomness, how)
        verdict = verify(rows(target, tree), tree, randomness)
        return (*(tree.tokens[node] for node in verdict.nodes), verdict.token)

    law = {}
    for committed, mass in enumerate_law(program).items():
        level = {committed: mass}
        for _ in range(len(widths) + 1 - len(committed)):
            level = {
                (*text, x): m * p for text, m in level.items() for x, p in enumerate(target((*PROMPT, *text)))
            }
        for text, m in level.items():
            law[text] = law.get(text, 0.0) + m
    return law


def target_law(target, length):
    law = {(): 1.0}
    for _ in range(length):
        law = {(*text, x): m * p for text, m in law.items() for x, p in enumerate(target((*PROMPT, *text)))}
    return law


def distance(law, other):
    return sum(abs(law.get(x, 0.0) - other.get(x, 0.0)) for x in {*law, *other}) / 2


def models(v, seed):
    target, draft = TableModel(v, seed), TableModel(v, seed + 50)
    return target.probs, lambda path: draft.probs((*PROMPT, *path))


@pytest.mark.parametrize("how", ["i.i.d.", "distinct", "chosen"])
@pytest.mark.parametrize(
    "v, widths", [(3, (1,)), (3, (3,)), (3, (2, 1)), (2, (2, 2)), (3, (1, 2)), (4, (2,))]
)
def test_the_output_follows_the_target_by_enumeration(how, v, widths):
    for seed in (1, 2):
        target, draft = models(v, seed)
        law = text_law(target, draft, widths, how)
        assert distance(law, target_law(target, len(widths) + 1)) < 1e-12


def kept_first(widths, how, verify=verify_tree):
    """Probability that some candidate of the first level is kept."""

    def program(randomness):
        tree = grown(lambda path: Q, widths, randomness, how)
        return verify(np.tile(P, (len(tree.tokens) + 1, 1)), tree, randomness).accepted > 0

    return enumerate_law(program).get(True, 0.0)


def test_golden_values_of_two_symbols():
    assert kept_first((1,), "i.i.d.") == pytest.approx(2 / 3)
    assert kept_first((2,), "i.i.d.") == pytest.approx(7 / 9)
    assert kept_first((2,), "distinct") == pytest.approx(1.0)


def test_one_candidate_a_position_is_the_token_rule():
    rng = np.random.default_rng(1)
    for seed in range(200):
        p, q = rng.dirichlet(np.ones(5), 4), rng.dirichlet(np.ones(5), 3)
        randomness = SeededRandomness(seed).round(1)
        drafts = [randomness.draft(row, q[row]) for row in range(3)]
        tree = Tree(tuple(drafts), (ROOT, 0, 1), q)
        verdict, block = verify_tree(p, tree, randomness), verify_block(p, q, drafts, randomness)
        assert (verdict.accepted, verdict.outcome, verdict.token) == (
            block.accepted,
            block.outcome,
            block.token,
        )


def test_more_candidates_never_keep_less():
    kept = {how: [kept_first((n,), how) for n in (1, 2, 3)] for how in ("i.i.d.", "distinct")}
    for values in kept.values():
        assert values == sorted(values)


def mutant(kind):
    def verify(target_probs, tree, randomness):
        kept, node = [], ROOT
        while children := tree.children(node):
            p = target_probs[node + 1]
            for child in children:
                token = tree.tokens[child]
                q = Q4 if kind == "q of the marginals" else tree.probs[child]
                if randomness.accept(child, float(p[token]), float(q[token])):
                    kept.append(child)
                    node = child
                    break
                if kind == "residual of the first only" and p is not target_probs[node + 1]:
                    continue
                if kind != "p not replaced":
                    left = np.maximum(p - q, 0.0)
                    p = left / left.sum() if left.any() else p
            else:
                return TreeVerdict(tuple(kept), "corrected", randomness.correct(p))
        return TreeVerdict(tuple(kept), "bonus", randomness.correct(target_probs[node + 1]))

    return verify


Q3 = np.array([0.6, 0.3, 0.1])
P4, Q4 = np.array([0.2, 0.35, 0.15, 0.3]), np.array([0.4, 0.3, 0.25, 0.05])


@pytest.mark.parametrize(
    "kind, how",
    [
        ("p not replaced", "distinct"),
        ("residual of the first only", "distinct"),
        # The k likeliest tokens judged with p/q, as if they had been drawn.
        ("q of the marginals", "chosen"),
        # Drawn without replacement, judged with q as it was before.
        ("q of the marginals", "distinct"),
    ],
)
def test_mutants_die(kind, how):
    def target(text):
        return P4

    law = text_law(target, lambda path: Q4, (3,), how, mutant(kind))
    assert distance(law, target_law(target, 2)) > 1e-3


def test_a_tree_knows_its_paths():
    tree = grown(lambda path: Q3, (2, 2), SeededRandomness(1).round(1), "distinct")
    assert len(tree.tokens) == 6 and tree.parents == (ROOT, ROOT, 0, 0, 1, 1)
    assert tree.children(ROOT) == [0, 1] and tree.children(1) == [4, 5] and tree.children(5) == []
    assert tree.path(5) == (tree.tokens[1], tree.tokens[5]) and tree.path(ROOT) == ()
    assert tree.tokens[0] != tree.tokens[1] and tree.tokens[4] != tree.tokens[5]
    assert tree.probs[1][tree.tokens[0]] == 0.0 and np.sum(tree.probs, axis=1) == pytest.approx(np.ones(6))


def test_where_q_has_fewer_tokens_there_are_fewer_candidates():
    tree = grown(lambda path: np.array([0.0, 1.0, 0.0]), (3,), SeededRandomness(1).round(1), "distinct")
    assert tree.tokens == (1,)
    same = grown(lambda path: np.array([0.0, 1.0, 0.0]), (3,), SeededRandomness(1).round(1), "iid")
    assert same.tokens == (1, 1, 1)


class Given:
    def __init__(self, us):
        self.us = us

    def accept(self, row, p, q):
        return accepts(self.us[row], p, q)

    def correct(self, weights):
        return int(np.argmax(weights))


def test_equal_models_keep_the_first_path_and_bad_rows_are_named():
    for tokens in product(range(3), repeat=2):
        tree = Tree(tokens, (ROOT, 0), np.tile(Q3, (2, 1)))
        assert verify_tree(np.tile(Q3, (3, 1)), tree, Given([0.9999] * 2)).nodes == (0, 1)
    with pytest.raises(VerifyError, match="draft model, position 2"):
        tree = Tree((0, 1), (ROOT, ROOT), np.array([[1.0, 0.0], [1.0, 0.0]]))
        verify_tree(np.tile(P, (3, 1)), tree, Given([0.99, 0.5]))
