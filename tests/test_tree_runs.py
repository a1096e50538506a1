"""Trees of candidates in real runs: exact by enumeration, one pass, caches that keep the path alone."""

import msgspec
import numpy as np
import pytest
import torch
from branching import enumerate_law
from tables import (
    BranchingTable,
    TableModel,
    TablePair,
    branching_pair,
    joint_law,
    table_pair,
    total_variation,
)
from tiny import llama, tiny_pair
from transformers import MistralConfig, MistralForCausalLM

from specviz.decoding import cache as caches
from specviz.decoding import codec
from specviz.decoding.faults import FAULTS
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import Trace
from specviz.decoding.tree import SHAPES, Shape, descend, shape, verify_tree
from specviz.exactness.cache_check import checked
from specviz.models.language_model import TransformersModel
from specviz.recipe import Recipe, from_link, to_link
from specviz.recipe import checked as checked_setting
from specviz.speed import accepted
from specviz.speed.accepted import Count

PROMPT = (0, 1, 0)
DRAWS = ("", ":iid", ":top")


class TableEagle:
    """A table as a draft on features: a feature is the history itself."""

    reads = True
    no_feature = ()
    available = None
    context_length = 64

    def __init__(self, table):
        self.table = table

    def new_cache(self):
        return self.table.new_cache()

    def info(self):
        return None

    def forward(self, tokens, before, cache):
        out = self.table.forward(tokens, cache, 1)
        return type(out)(out.logits, tuple(cache.layers[0].tokens))

    def forward_branching(self, tokens, before, cache, places):
        for visible, history in zip(places.visible, before, strict=True):
            seen = [cache.layers[0].tokens[i] for i in np.flatnonzero(visible[: len(cache.layers[0].tokens)])]
            assert seen == list(history)  # each node was given what its own parent predicted
        out = self.table.forward_branching(tokens, cache, places, len(tokens))
        features = [(*history, token) for history, token in zip(before, tokens, strict=True)]
        return type(out)(out.logits, features)

    def branching_problem(self):
        return ""


class FeatureTable(BranchingTable):
    """A target that hands out its rows as features."""

    def forward(self, tokens, cache, rows, features=False):
        out = super().forward(tokens, cache, rows)
        return type(out)(out.logits, np.zeros((len(tokens), 1)) if features else None)

    def forward_branching(self, tokens, cache, places, rows, features=False):
        out = super().forward_branching(tokens, cache, places, rows)
        return type(out)(out.logits, np.zeros((len(tokens), 1)) if features else None)


class TableHeads:
    count = 2
    available = None

    def __init__(self, vocab_size):
        self.rows = np.random.default_rng(5).normal(size=(2, vocab_size))

    def forward(self, feature):
        return self.rows

    def info(self):
        return None


def pair_for(drafter, v=3, seed=1):
    if drafter == "model":
        return branching_pair(v, seed)
    pair = TablePair(FeatureTable(v, salt=seed, name="target"), BranchingTable(v, salt=seed + 7))
    if drafter == "eagle":
        pair.eagle = TableEagle(BranchingTable(v, salt=seed + 1000))
    elif drafter == "medusa":
        pair.medusa = TableHeads(v)
    else:
        pair.early_exit = lambda layers: EarlyTable(v, salt=seed + 2000)
    return pair


class EarlyTable(BranchingTable):
    def info(self):
        return None


def tree_law(pair, drafter, tree, m, start=DecodingRun, **more):
    def program(randomness):
        run = start(
            pair, PROMPT, drafter=drafter, tree=shape(tree), max_new_tokens=m, randomness=randomness, **more
        )
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    return enumerate_law(program)


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(
    "drafter, widths, v, m",
    [
        ("model", "2-1", 3, 3),
        ("model", "2-1", 2, 4),
        ("model", "3", 3, 2),
        ("model", "1-2", 2, 4),
        ("early-exit", "2-1", 2, 4),
        ("medusa", "2-1", 2, 4),
        ("eagle", "2-1", 2, 4),
    ],
)
def test_the_law_of_whole_texts_is_the_targets(drafter, widths, v, m, draw):
    """Several rounds, so that the caches are cut to a path and used again."""
    pair = pair_for(drafter, v)
    law = tree_law(pair, drafter, widths + draw, m)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert total_variation(law, joint_law(pair.target, PROMPT, m)) < 1e-12


def test_the_law_with_controls_of_the_drafts_own_and_where_it_ends():
    pair = branching_pair(3, 4)
    law = tree_law(pair, "model", "2-1", 3, draft_sampling=SamplingConfig(0.6, top_k=2))
    assert total_variation(law, joint_law(pair.target, PROMPT, 3)) < 1e-12
    greedy = tree_law(pair, "model", "2-1", 3, draft_sampling=SamplingConfig(0.0))
    assert total_variation(greedy, joint_law(pair.target, PROMPT, 3)) < 1e-12
    ends = branching_pair(3, 4, eos=[2])
    exact = {}
    for tokens, mass in joint_law(ends.target, PROMPT, 3).items():
        cut = tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
        exact[cut] = exact.get(cut, 0.0) + mass
    assert total_variation(tree_law(ends, "model", "2-1", 3), exact) < 1e-12


def without_replacement_of_p(target_probs, tree, randomness):
    """Judges every sibling against p itself."""
    from specviz.decoding.tree import ROOT, TreeVerdict

    kept, node = [], ROOT
    while children := tree.children(node):
        p = target_probs[node + 1]
        for child in children:
            if randomness.accept(
                child, float(p[tree.tokens[child]]), float(tree.probs[child][tree.tokens[child]])
            ):
                kept.append(child)
                node = child
                break
        else:
            return TreeVerdict(tuple(kept), "corrected", randomness.correct(p))
    return TreeVerdict(tuple(kept), "bonus", randomness.correct(target_probs[node + 1]))


def shifted(target_probs, tree, randomness):
    """The rows of p one node off."""
    return verify_tree(np.roll(target_probs, 1, axis=0), tree, randomness)


def by_marginals(target_probs, tree, randomness):
    return descend(target_probs, tree, randomness, tree.marginals)


@pytest.mark.slow
@pytest.mark.parametrize("rule, tree", [
    (without_replacement_of_p, "2-1"),
    (without_replacement_of_p, "2-1:iid"),
    (shifted, "2-1"),
    (by_marginals, "2-1"),
    (by_marginals, "2-1:top"),
])  # fmt: skip
def test_mutants_of_the_rule_die(rule, tree):
    pair = branching_pair(3, 4)
    law = tree_law(pair, "model", tree, 3, tree_verifier=rule)
    assert total_variation(law, joint_law(pair.target, PROMPT, 3)) > 1e-3


@pytest.mark.parametrize("which", ["first rows", "no rows picked"])
def test_mutants_of_the_caches_die(which, monkeypatch):
    """A cache that keeps the first rows of the tree, or all of them, gives another law."""
    real = caches.pick

    def pick(cache, full, rows):
        if which == "first rows":
            real(cache, full, range(len(rows)))

    monkeypatch.setattr(caches, "pick", pick)
    pair = branching_pair(2, 4)
    law = tree_law(pair, "model", "2-1", 5)
    assert total_variation(law, joint_law(pair.target, PROMPT, 5)) > 1e-3


def test_the_gallery_s_fault_is_biased_and_says_so():
    pair = branching_pair(3, 4)
    fault = FAULTS["tree-marginals"]
    law = tree_law(pair, "model", "2-1", 3, start=fault.start)
    assert total_variation(law, joint_law(pair.target, PROMPT, 3)) > 1e-2
    run = Recipe(rule="tree-marginals", prompt="ab", max_tokens=8).start(pair)
    assert {round.verifier for round in run} == {"tree-marginals"} and run.tree == Shape((2, 1), "top")
    assert Recipe(rule="tree-marginals", prompt="ab", tree="3").start(pair).tree == Shape((3,), "top")


# --- real models ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("drafter", ["model", "early-exit:1"])
@pytest.mark.parametrize("tree", ["4", "8", "16", "2-2-2:iid", "3-2:top"])
def test_the_caches_keep_the_path_after_every_round(tree, drafter, tiny_llama_pair):
    run = DecodingRun(
        tiny_llama_pair, "hello world", drafter=drafter, tree=shape(tree), seed=3, max_new_tokens=24
    )
    kept = 0
    for round, audit in checked(run):
        assert all(check.ok for check in audit), [check.sentence for check in audit]
        kept += round.accepted
    assert codec.loads(codec.dumps(run.trace())) == run.trace()
    assert len(run.tokens) - len(run.prompt_ids) == 24


def test_an_equal_draft_is_accepted_to_a_leaf_in_every_round_and_greedy_texts_are_equal():
    same = tiny_pair(1)
    run = DecodingRun(same, "hello world", tree=shape("3-2-1"), max_new_tokens=40)
    assert all(round.accepted == round.k for round in run)
    plain = DecodingRun(same, "hello world", k=0, sampling=SamplingConfig(0.0), max_new_tokens=24)
    list(plain)
    for tree in ("4", "16", "3-2:top"):
        run = DecodingRun(
            tiny_pair(), "hello world", tree=shape(tree), sampling=SamplingConfig(0.0), max_new_tokens=24
        )
        list(run)
        assert run.tokens == plain.tokens


def test_a_step_that_breaks_off_leaves_both_caches_as_they_were(tiny_llama_pair):
    def make():
        return DecodingRun(tiny_llama_pair, "hello world", tree=shape("2-2"), seed=3, max_new_tokens=16)

    whole, broken = make(), make()
    list(whole)
    broken.step()
    for layer in range(2):
        for model in (tiny_llama_pair.target, tiny_llama_pair.draft):
            module = model.model.model.layers[layer]
            with module.register_forward_hook(lambda *args: 1 / 0), pytest.raises(ZeroDivisionError):
                broken.step()
            assert caches.length(broken.target_cache) == len(broken.tokens) - 1
    list(broken)
    assert broken.tokens == whole.tokens


def test_picking_rows_can_be_repeated(tiny_llama_pair):
    target = tiny_llama_pair.target
    cache = target.new_cache()
    target.forward([3, 4, 5, 6, 7], cache, 1)
    before = cache.layers[0].values.clone()
    cache.layers[0].keys = cache.layers[0].keys[..., [0, 1, 4], :]  # broken off behind the first half
    for _ in range(2):
        caches.pick(cache, 5, [0, 1, 4])
        assert caches.lengths(cache) == (3, 3)
        assert torch.equal(cache.layers[0].values, before[..., [0, 1, 4], :])


def test_what_a_trace_keeps_of_a_tree(tiny_llama_pair):
    run = DecodingRun(tiny_llama_pair, "hello world", tree=shape("3-2"), seed=5, max_new_tokens=30)
    rounds = list(run)
    for round in rounds[:-2]:
        assert round.drafted == len(round.tree) == 9 and round.k == 2
        for node in round.tree:
            siblings = [n for n in round.tree if n.parent == node.parent]
            before = siblings[: siblings.index(node)]
            assert node.drawn == pytest.approx(node.q / (1 - sum(n.q for n in before)))
            assert node.u is not None and node.draft_u is not None
        kept = [node.token for node in round.tree if node.state == "kept"]
        assert kept == list(round.committed[: round.accepted])
    assert any(node.state == "kept" for round in rounds for node in round.tree)
    # Near the limit the tree is cut in depth, and no more is committed than asked for.
    assert len(run.tokens) == len(run.prompt_ids) + 30


def changed(trace: Trace, change) -> bytes:
    data = msgspec.json.decode(codec.dumps(trace))
    change(data)
    return msgspec.json.encode(data)


def test_files_whose_trees_do_not_fit_are_refused(tiny_llama_pair):
    run = DecodingRun(tiny_llama_pair, "hello world", tree=shape("3-2"), seed=5, max_new_tokens=12)
    list(run)
    trace = run.trace()
    number, first = next((i, r.tree[0]) for i, r in enumerate(trace.rounds) if r.tree[0].state == "refused")

    def node(data, i=0):
        return data["rounds"][number]["tree"][i]

    wrong = {
        "parent": lambda d: node(d).update(parent=3),
        "vocabulary": lambda d: node(d).update(token=999),
        "drawn": lambda d: node(d).update(drawn=0.0),
        "against": lambda d: node(d).update(against=None),
        "numbers": lambda d: node(d).update(state="kept"),
        "share": lambda d: d["rounds"][number].update(share=None),
        "missing": lambda d: d["rounds"][number].update(tree=[], share=None),
        "trace.tree": lambda d: d.update(tree=""),
        "lines": lambda d: node(d).update(q=first.q / 2),
        "at most 64": lambda d: d["rounds"][number].update(tree=d["rounds"][number]["tree"] * 8),
    }
    for word, change in wrong.items():
        with pytest.raises(codec.TraceError, match=word):
            codec.loads(changed(trace, change))


# --- what cannot have a tree ------------------------------------------------------------------------------


def test_what_cannot_fill_or_read_a_tree_is_refused_in_a_sentence(tiny_llama_pair):
    cases = [
        (branching_pair(), {"drafter": "ngram"}, "ngram proposes one continuation"),
        (table_pair(), {}, "takes no attention mask"),
        (TablePair(BranchingTable(3), TableModel(3)), {}, "takes no attention mask"),
    ]
    for pair, more, words in cases:
        with pytest.raises(ValueError, match=words):
            DecodingRun(pair, PROMPT, tree=shape("4"), **more)
    with pytest.raises(ValueError, match="the rule block judges chains"):
        Recipe(rule="block", tree="4", prompt="ab").start(branching_pair())


def test_models_that_do_not_take_the_mask_are_found_by_trying():
    class Deaf(TransformersModel):
        def _pass(self, fed, cache, rows, features, **more):
            more.pop("attention_mask", None)
            return super()._pass(fed, cache, rows, features, **more)

    assert TransformersModel(llama(1), "fine", 64).branching_problem() == ""
    assert "does not follow the mask" in Deaf(llama(1), "deaf", 64).branching_problem()
    flash = TransformersModel(llama(1), "flash", 64)
    flash.model.config._attn_implementation = "flash_attention_2"
    assert "flash_attention_2 attention" in flash.branching_problem()
    config = MistralConfig(
        vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, sliding_window=8, max_position_embeddings=64,
    )  # fmt: skip
    short = TransformersModel(MistralForCausalLM(config).eval(), "short", 64)
    assert "8 tokens back" in short.branching_problem()


def test_shapes_and_recipes():
    assert {size: Shape(widths).nodes for size, widths in SHAPES.items()} == {"4": 4, "8": 8, "16": 16}
    assert shape("2-2-1:iid") == Shape((2, 2, 1), "iid") and str(shape("16:top")) == "4-1-1-1:top"
    for text in ("", "0", "x", "2-", "9-9", "4:often", "2-2-2-2-2-2", "1" * 400):
        with pytest.raises(ValueError):
            shape(text)
    recipe = Recipe(tree="8:iid")
    assert from_link(to_link(recipe)) == recipe
    assert checked_setting("tree", "<b>") == ("", "does not exist")
    assert checked_setting("tree", "2-2:iid") == ("2-2:iid", "")


def test_the_benchmark_counts_what_is_kept(monkeypatch):
    monkeypatch.setattr(accepted, "WAYS", {"chain": {}, "wide": {"tree": "5-5"}})
    recipe = Recipe(k=2, temperature=1.0, max_tokens=12)
    chain, wide = accepted.measure(Count(branching_pair(5, seed=3), ["ab", "ba"], 1, recipe)).kept
    assert chain.texts == wide.texts == 2 and wide.drafted == 30
    # Every token of the vocabulary is a candidate: some path is whole, but in a last round of less room.
    assert wide.mean > 1.5 > chain.mean and "2 texts" in str(wide)
