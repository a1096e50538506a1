"""Draft checkpoints in the layouts that others publish: loaded, run, exact, and refused by name."""

import copy

import numpy as np
import published
import pytest
import torch
from branching import enumerate_law
from drafts import DraftedPair
from elsewhere import Elsewhere, move_checkpoint, require_same_there, same, timeless
from tables import total_variation
from test_drafters import PROMPT, plain_law
from tiny import VOCAB, letter_tokenizer
from tiny import save as save_model
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.decoding import cache as caches
from specviz.decoding.block import verify_whole_block
from specviz.decoding.features import share, together
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.tree import ROOT, Tree, shape
from specviz.exactness.cache_check import checked
from specviz.models import checkpoints, load_pair
from specviz.models.errors import LoadError
from specviz.models.language_model import TransformersModel
from specviz.models.progress import silent

DEPTH = 5  # layers of the target: EAGLE-3 reads what goes into 2, 2 and 2


def llama(vocabulary, seed=1):
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=published.H,
        intermediate_size=24,
        num_hidden_layers=DEPTH,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.4,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def target_of(vocabulary):
    return TransformersModel(llama(vocabulary).double(), "target", vocabulary)


def loaded(folder, made, target):
    config, tensors = made
    return checkpoints.find(published.save(folder, config, tensors), silent).load(target, silent)


def pair_with(draft, target, kind="eagle"):
    return DraftedPair(target, None, **{"medusa": None, "eagle": None, kind: draft}, exit_early=None)


READ = [0, 3]  # layers that one of the speculators checkpoints reads
LAYOUTS = {
    "EAGLE-1": published.eagle_one,
    "EAGLE-1 without bias, two layers": lambda v, **k: published.eagle_one(v, bias=False, layers=2, **k),
    "EAGLE-1, speculators": published.speculators_one,
    "EAGLE-3": published.eagle_three,
    "EAGLE-3, fewer ids": lambda v, **k: published.eagle_three(v, ids=[0, *range(2, v)], **k),
    "EAGLE-3, own embedding": lambda v, **k: published.eagle_three(v, embedding=True, **k),
    "EAGLE-3, speculators": lambda v, **k: published.speculators_three(v, ids=[*range(1, v)], **k),
    "EAGLE-3, speculators, two layers of Qwen3": lambda v, **k: published.speculators_three(
        v, layers=2, family="qwen3", norm_before_residual=True, read=READ, norm_before_fc=True, **k
    ),
    "EAGLE-3, speculators, 3.1": lambda v, **k: published.speculators_three(
        v, norm_output=True, fc_norm=True, **k
    ),
}


def reference(name, made, target, text, drafts):
    """(K, V) logits of a block that drafts `drafts` behind `text`, by the formulas alone."""
    config, tensors = made
    vocabulary = target.vocab_size
    model = target.model
    with torch.no_grad():
        out = model.model(torch.tensor([list(text)]), output_hidden_states=True)
    hidden = [states[0].numpy() for states in out.hidden_states]
    embedding = model.get_input_embeddings().weight.detach().numpy()
    if "embed_tokens.weight" in tensors:
        embedding = tensors["embed_tokens.weight"].double().numpy()
    head = model.lm_head.weight.detach().numpy()
    layers = config.get("transformer_layer_config", config)["num_hidden_layers"]
    tokens = list(text)
    if name.startswith("EAGLE-1"):
        states = list(hidden[-1][:-1])
        if "speculators" in name:  # one layer, called "transformer"
            tensors = {
                n.replace("transformer.", "layers.0.").replace("fusion_fc", "fc"): t
                for n, t in tensors.items()
            }
    else:
        read = config.get("eagle_aux_hidden_state_layer_ids") or (2, DEPTH // 2, DEPTH - 3)
        states = list(published.three_merged(tensors, np.concatenate([hidden[i] for i in read], 1))[:-1])
    rows = []
    for token in drafts:
        embedded = embedding[tokens[1:]]
        if name.startswith("EAGLE-1"):
            last = published.one_states(tensors, embedded, np.array(states), layers)[-1]
            rows.append(head @ last)
            states.append(last)
        else:
            first = "layers.0" if "speculators" in name else "midlayer"
            last = published.three_states(
                tensors, embedded, np.array(states), layers, first, config.get("norm_before_residual", False)
            )[-1]
            rows.append(published.three_logits(tensors, last, vocabulary))
            if config.get("norm_output"):
                last = published.rms(last, tensors["norm.weight"].double().numpy())
            states.append(last)
        tokens.append(token)
    return np.array(rows)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_run_drafts_what_the_formulas_say(name, tmp_path):
    target, made = target_of(7), LAYOUTS[name](7)
    draft = loaded(tmp_path, made, target)
    run = DecodingRun(
        pair_with(draft, target),
        [t % 7 for t in (3, 1, 4, 1, 5, 9, 2)],
        drafter="eagle",
        k=4,
        max_new_tokens=20,
    )
    compared = 0
    while run.finish is None:
        text = list(run.tokens)
        round = run.step()
        if not round.k:
            continue
        logits = reference(name, made, target, text, round.draft_tokens)
        probs = np.exp(logits - logits.max(1, keepdims=True))
        probs /= probs.sum(1, keepdims=True)
        np.testing.assert_allclose(run.recent.draft_probs, probs, atol=2e-5)
        compared += round.k
    assert compared >= 8
    require_same_there(pair_with(draft, target), PROMPT, drafter="eagle", k=3, max_new_tokens=9)


def test_its_rounds_on_a_device_come_to_the_host_in_one_copy(tmp_path):
    made = LAYOUTS["EAGLE-3, fewer ids"](7)
    require_one_copy(lambda folder, target: loaded(folder, made, target), "eagle", tmp_path)


def require_one_copy(load, kind, tmp_path):
    settings = {"drafter": kind, "k": 3, "max_new_tokens": 6, "seed": 2}
    here, there = target_of(7), target_of(7)
    host = DecodingRun(pair_with(load(tmp_path / "here", here), here, kind), PROMPT, **settings)
    draft = load(tmp_path / "there", there)
    move_checkpoint(draft, there)
    with Elsewhere() as device:
        run = DecodingRun(pair_with(draft, there, kind), PROMPT, on_device=True, **settings)
        for expected in host:
            device.clear()
            assert same(timeless(run.step()), timeless(expected))
            assert (device.down, device.waits) == (1, [])
    assert run.tokens == host.tokens and sum(round.k for round in run.rounds) > 0


@pytest.mark.parametrize("verifier", [None, verify_whole_block], ids=["token", "block"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_law_is_the_targets(name, verifier, tmp_path):
    target = target_of(3)
    pair = pair_with(loaded(tmp_path, LAYOUTS[name](3), target), target)
    more = {} if verifier is None else {"verifier": verifier}

    def program(randomness):
        run = DecodingRun(pair, PROMPT, drafter="eagle", k=2, max_new_tokens=3, randomness=randomness, **more)
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    assert total_variation(enumerate_law(program), plain_law(pair, 3)) < 1e-12


# A bias in fc, a head of fewer ids, several layers, a normed state that goes on.
BRANCHED = (
    "EAGLE-1",
    "EAGLE-3, fewer ids",
    "EAGLE-3, speculators, two layers of Qwen3",
    "EAGLE-3, speculators, 3.1",
)


@pytest.mark.parametrize("name", BRANCHED)
def test_behind_each_node_of_a_tree_stands_what_the_formulas_say_of_its_path(name, tmp_path):
    target, made = target_of(7), LAYOUTS[name](7)
    pair = pair_with(loaded(tmp_path, made, target), target)
    run = DecodingRun(pair, PROMPT, drafter="eagle", tree=shape("2-2"), max_new_tokens=20)
    assert not run.step().tree and run.step().tree
    text, (a, b, c, d) = list(run.tokens), [1, 3, 4, 5]
    tree = Tree((a, b, c, d, a, b), (ROOT, ROOT, 0, 0, 1, 4), ())
    for level in ((ROOT,), (0, 1), (2, 3, 4), (5,)):
        logits = run.drafter.branch(text, tree, level)
        assert len(logits) == len(level)
        for node, row in zip(level, logits, strict=True):
            path = [] if node == ROOT else tree.path(node)
            expected = reference(name, made, target, text, [*path, 0])[-1]
            found, wanted = (np.exp(r - r.max()) / np.exp(r - r.max()).sum() for r in (row, expected))
            np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize("draw", ["", ":iid"], ids=["without", "with replacement"])
@pytest.mark.parametrize("name", BRANCHED)
def test_the_law_with_a_tree_is_the_targets(name, draw, tmp_path):
    target = target_of(3)
    pair = pair_with(loaded(tmp_path, LAYOUTS[name](3), target), target)

    def program(randomness):
        settings = {"tree": shape(f"2-1{draw}"), "max_new_tokens": 3, "randomness": randomness}
        run = DecodingRun(pair, PROMPT, drafter="eagle", sampling=SamplingConfig(top_k=2), **settings)
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    wanted = {text: mass for text, mass in plain_law(pair, 3, SamplingConfig(top_k=2)).items() if mass}
    assert total_variation(enumerate_law(program), wanted) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", BRANCHED)
def test_with_a_tree_greedy_text_is_the_targets_and_the_caches_keep_the_path(name, tmp_path):
    target = target_of(9)
    pair = pair_with(loaded(tmp_path, LAYOUTS[name](9), target), target)
    greedy = {"sampling": SamplingConfig(0.0), "max_new_tokens": 12}
    plain = DecodingRun(pair, PROMPT, drafter="ngram", k=0, **greedy)
    list(plain)
    for tree in ("4", "16", "3-2:top"):
        run = DecodingRun(pair, PROMPT, drafter="eagle", tree=shape(tree), **greedy)
        for _, found in checked(run):
            assert len(found) == 2 and all(check.ok for check in found), [check.sentence for check in found]
        assert run.tokens == plain.tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", ["EAGLE-1", "EAGLE-3", "EAGLE-3, speculators"])
def test_greedy_text_is_the_targets_and_the_caches_are_right_for_every_k(name, tmp_path):
    target = target_of(9)
    pair = pair_with(loaded(tmp_path, LAYOUTS[name](9), target), target)
    with torch.no_grad():
        ids = torch.tensor([PROMPT])
        plain = pair.target.model.generate(ids, max_new_tokens=9, do_sample=False)[0].tolist()
    for k in range(1, 9):
        run = DecodingRun(pair, PROMPT, drafter="eagle", k=k, sampling=SamplingConfig(0.0), max_new_tokens=9)
        for _, found in checked(run):
            assert len(found) == 2 and all(check.ok for check in found), [check.sentence for check in found]
            assert all(len(check.row_diffs) == check.held for check in found)
        assert run.tokens == plain


@pytest.mark.parametrize("name", ["EAGLE-1", "EAGLE-3, fewer ids"])
def test_the_drafts_cache_holds_what_an_uncached_pass_would(name, tmp_path):
    target = target_of(7)
    pair = pair_with(loaded(tmp_path, LAYOUTS[name](7), target), target)
    run = DecodingRun(pair, PROMPT, drafter="eagle", k=3, max_new_tokens=20, seed=3)
    compared = 0
    for _ in run:
        held = caches.length(run.drafter.cache)
        if not held:
            continue
        reads = pair.eagle.reads
        features = target.forward(run.tokens, target.new_cache(), 1, reads).features
        fresh = pair.eagle.new_cache()
        pair.eagle.forward(run.tokens[:held], [None, *features[: held - 1]], fresh)
        for ours, theirs in zip(run.drafter.cache.layers, fresh.layers, strict=True):
            # The first row is none of the draft's: nothing looks at it.
            torch.testing.assert_close(ours.keys[:, :, 1:], theirs.keys[:, :, 1:], atol=1e-9, rtol=0)
            torch.testing.assert_close(ours.values[:, :, 1:], theirs.values[:, :, 1:], atol=1e-9, rtol=0)
        compared += 1
    assert compared > 3


@pytest.mark.parametrize("at", [1, 2, 5])
def test_an_interrupted_round_has_not_happened(at, tmp_path):
    target = target_of(7)
    draft = loaded(tmp_path, LAYOUTS["EAGLE-3"](7), target)
    whole = DecodingRun(pair_with(draft, target), PROMPT, drafter="eagle", k=3, max_new_tokens=16)
    list(whole)
    broken, left = copy.copy(draft), [at]

    def forward(*args):
        out = draft.forward(*args)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return out

    broken.forward = forward
    run = DecodingRun(pair_with(broken, target), PROMPT, drafter="eagle", k=3, max_new_tokens=16)
    with pytest.raises(KeyboardInterrupt):
        list(run)
    list(run)
    assert run.tokens == whole.tokens


def test_a_prompt_of_one_token_starts_without_a_draft(tmp_path):
    target = target_of(7)
    pair = pair_with(loaded(tmp_path, LAYOUTS["EAGLE-3"](7), target), target)
    run = DecodingRun(pair, [3], drafter="eagle", k=3, max_new_tokens=8)
    assert [round.k for round in run][:2] == [0, 3]


def names_of(layout):
    return sorted(LAYOUTS[layout](7)[1])


EVERY = [(layout, name) for layout in LAYOUTS for name in names_of(layout) if name != "embed_tokens.weight"]
ONE_EACH = sorted(
    {name: (layout, name) for layout, name in EVERY}.values()
)  # each name once, under some layout that has it


@pytest.mark.parametrize(("layout", "name"), ONE_EACH)
def test_a_missing_renamed_or_misshapen_tensor_is_refused_by_name(layout, name, tmp_path):
    target = target_of(7)
    config, tensors = LAYOUTS[layout](7)
    lacking = {n: t for n, t in tensors.items() if n != name}
    with pytest.raises(LoadError, match=name.replace(".", r"\.")):
        made = checkpoints.find(published.save(tmp_path / "a", config, lacking), silent)
        assert made is not None or name == "fc.weight"
        if made is None:
            raise LoadError("fc.weight")
        made.load(target, silent)
    with pytest.raises(LoadError, match=r"another\.weight"):
        loaded(tmp_path / "b", (config, {**tensors, "another.weight": tensors[name]}), target)
    wrong = {**tensors, name: torch.cat([tensors[name], tensors[name]])}
    with pytest.raises(LoadError, match=name.replace(".", r"\.")):
        loaded(tmp_path / "c", (config, wrong), target)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"d2t": torch.tensor([0, 0, 9, 0, 0, 0])}, "d2t leads from draft id 2 to 11"),
        ({"d2t": torch.tensor([0, 0, 0, 0, 0, -1])}, "two draft ids to one"),
        ({"t2d": torch.tensor([True] * 6 + [False])}, "t2d does not mark"),
    ],
)
def test_maps_of_ids_that_contradict_each_other_are_refused(change, said, tmp_path):
    config, tensors = LAYOUTS["EAGLE-3, fewer ids"](7)
    with pytest.raises(LoadError, match=said):
        loaded(tmp_path, (config, {**tensors, **change}), target_of(7))


def test_a_draft_for_other_sizes_is_refused_with_both(tmp_path):
    config, tensors = LAYOUTS["EAGLE-3"](7)
    with pytest.raises(LoadError, match="have 24 numbers, and those of target have 16"):
        loaded(tmp_path / "a", ({**config, "target_hidden_size": 24}, tensors), target_of(7))
    config, tensors = LAYOUTS["EAGLE-3, speculators"](7)
    far = {**config, "eagle_aux_hidden_state_layer_ids": [2, 5, 40]}
    with pytest.raises(LoadError, match=r"layers 2, 5, 40 .* this one has 5"):
        loaded(tmp_path / "b", (far, tensors), target_of(7))
    inner = {**config["transformer_layer_config"], "model_type": "gpt2"}
    with pytest.raises(LoadError, match="family 'gpt2'"):
        loaded(tmp_path / "c", ({**config, "transformer_layer_config": inner}, tensors), target_of(7))
    config, tensors = LAYOUTS["EAGLE-1"](7)
    with pytest.raises(LoadError, match="hidden_size"):
        loaded(tmp_path / "e", ({"vocab_size": 7}, tensors), target_of(7))
    rope = {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    with pytest.raises(LoadError, match="dynamic"):
        loaded(tmp_path / "f", ({**config, **rope}, tensors), target_of(7))


@pytest.mark.parametrize(
    "layout, change, extra, said",
    [
        ("EAGLE-3", {"parallel_drafting": True}, {}, "P-EAGLE"),
        ("EAGLE-3", {}, {"mask_hidden": (1, 48)}, "P-EAGLE"),
        ("EAGLE-3", {"eagle_config": {"parallel_draft_step": 4}}, {}, "P-EAGLE"),
        ("EAGLE-3, speculators", {"speculators_model_type": "peagle"}, {}, "P-EAGLE"),
        ("EAGLE-3, speculators", {"speculators_model_type": "dflash"}, {}, "DFlash"),
        ("EAGLE-3, speculators", {"speculators_model_type": "newest"}, {}, "'newest'"),
        ("EAGLE-1, speculators", {"layernorms": True}, {}, "EAGLE-1 with layernorms"),
        ("EAGLE-1", {"architectures": ["DFlashDraftModel"]}, {}, "DFlash"),
        ("EAGLE-1", {"architectures": ["Qwen3DSparkModel"]}, {}, "DSpark"),
        ("EAGLE-1", {"architectures": ["MLPSpeculatorPreTrainedModel"]}, {}, "MLP speculator"),
    ],
)
def test_kinds_that_are_not_read_are_refused_by_their_name(layout, change, extra, said, tmp_path):
    config, tensors = LAYOUTS[layout](7)
    added = {name: torch.ones(shape) for name, shape in extra.items()}
    with pytest.raises(LoadError, match=said) as refused:
        loaded(tmp_path, ({**config, **change}, {**tensors, **added}), target_of(7))
    sentence = str(refused.value)
    assert "which is not read" in sentence and sentence.count(". ") == 0 and "\n" not in sentence


@pytest.fixture(scope="module")
def target_folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("a-target"), llama(len(VOCAB)), letter_tokenizer())


def test_a_pair_is_loaded_reported_and_run(target_folder, tmp_path):
    config, tensors = published.speculators_three(len(VOCAB), ids=range(4, 40))
    folder = published.save(tmp_path / "draft", config, tensors)
    pair = load_pair(target_folder, folder, device="cpu", dtype="float32")
    said = {line.subject: line for line in pair.report}
    assert "EAGLE-3, in the speculators format" in said["draft"].text
    assert said["verifier"].state == "handled" and "someone/a-target" in said["verifier"].text
    assert "36 of the target's 64" in said["ids"].text and said["ids"].state == "handled"
    assert "layers 2, 2, 2" in said["features"].text
    assert pair.info.draft.name == "draft" and pair.info.draft_vocab_size == 36
    run = DecodingRun(pair, "the end", k=3, max_new_tokens=12)  # "model" is the pair's own draft
    assert sum(round.k for round in run) > 0
    assert run.trace().drafter == "eagle" and run.trace().pair.draft.name == "draft"


def test_a_pickle_is_not_loaded_and_the_way_out_is_named(target_folder, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    torch.save({"fc.weight": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(LoadError, match="convert-draft"):
        load_pair(target_folder, str(tmp_path))


def test_hidden_states_of_layers_are_those_that_transformers_lists():
    target = target_of(7)
    with torch.no_grad():
        listed = target.model.model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
    found = target.forward(PROMPT, target.new_cache(), 1, (3, 0, 3)).features
    torch.testing.assert_close(found, torch.cat([listed[3], listed[0], listed[3]], -1)[0], atol=0, rtol=0)
    asked = together([(2, 0), True, False, (4,)])
    both = target.forward(PROMPT, target.new_cache(), 1, asked).features
    for wanted, meant in (((2, 0), [listed[2], listed[0]]), (True, [listed[-1]]), ((4,), [listed[4]])):
        part = torch.stack(list(share(list(both), asked, wanted)))
        torch.testing.assert_close(part, torch.cat(meant, -1)[0], atol=0, rtol=0)
    assert share(list(both), asked, False) == [] and not together([False])
    assert together([True, False]) is True
