"""Modules for multi-token prediction that a target brings along: loaded strictly, run, exact.

The reference is transformers' own `MtpModel`, led over the whole text at once and without a cache.
"""

import numpy as np
import pytest
import torch
from branching import enumerate_law
from elsewhere import require_same_there
from safetensors.torch import load_file, save_file
from tables import total_variation
from tiny import VOCAB, letter_tokenizer, save
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, Glm4MoeConfig, Glm4MoeForCausalLM
from transformers.modeling_layers import MtpModel

from specviz.decoding.block import verify_whole_block
from specviz.decoding.drafters import DraftUnavailable, make_drafter
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.tree import ROOT, Tree, shape
from specviz.exactness.cache_check import checked
from specviz.models import load_pair
from specviz.models.errors import LoadError

SHAPE = {
    "vocab_size": len(VOCAB),
    "hidden_size": 16,
    "intermediate_size": 24,
    "moe_intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
LATENT = {
    "q_lora_rank": None,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 4,
    "v_head_dim": 4,
}
FAMILIES = {
    "deepseek": (DeepseekV3ForCausalLM, DeepseekV3Config, {**LATENT, "num_key_value_heads": 2}),
    "glm": (Glm4MoeForCausalLM, Glm4MoeConfig, {"head_dim": 8}),
}
LAST = 2  # number of the module's layer in the file: behind the model's own


def with_module(folder, family):
    """A target's folder with a module, as published: layer `n` of a model of `n` layers."""
    cls, config, more = FAMILIES[family]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = cls(config(**{**SHAPE, **more}, num_nextn_predict_layers=1)).eval()
        # The published files name a whole decoder layer; a model of one layer more has its tensors.
        longer = cls(config(**{**SHAPE, **more, "num_hidden_layers": 3}, num_nextn_predict_layers=1)).eval()
    cls._keys_to_ignore_on_load_unexpected = [rf"model\.layers\.{LAST}.*"]
    save(folder, model, letter_tokenizer())
    longer.save_pretrained(folder / "longer")
    own = load_file(folder / "model.safetensors")
    rng = np.random.default_rng(4)
    prefix = f"model.layers.{LAST}."
    extra = {
        name: value
        for name, value in load_file(folder / "longer" / "model.safetensors").items()
        if name.startswith(prefix)
    }
    for name, size in (
        ("enorm.weight", (16,)),
        ("hnorm.weight", (16,)),
        ("eh_proj.weight", (16, 32)),
        ("shared_head.norm.weight", (16,)),
    ):
        extra[prefix + name] = torch.from_numpy(rng.normal(0.5, 0.4, size).astype(np.float32))
    write(folder, {**own, **extra})
    return own, extra


def write(folder, tensors):
    save_file(
        {k: v.clone().contiguous() for k, v in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )


@pytest.fixture
def published(request, monkeypatch, tmp_path):
    for cls in (DeepseekV3ForCausalLM, Glm4MoeForCausalLM):
        monkeypatch.setattr(cls, "_keys_to_ignore_on_load_unexpected", cls._keys_to_ignore_on_load_unexpected)
    return tmp_path


def reference(model, text, drafts):
    """(K, V) logits of a block that drafts `drafts` behind `text`."""
    module = MtpModel.from_pretrained(model)
    with torch.no_grad():
        ids = torch.tensor([list(text)])
        states = model.model(ids).last_hidden_state[:, :-1]
        rows, tokens = [], list(text[1:])
        for token in drafts:
            n = len(tokens)
            out = module.forward_layer(
                0, states, torch.arange(1, n + 1)[None], None, input_ids=torch.tensor([tokens])
            )
            rows.append(model.lm_head(out[0, -1]).numpy())
            states = torch.cat([states, out[:, -1:]], 1)
            tokens.append(token)
    return np.array(rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_drafts_what_transformers_computes(family, published):
    with_module(published, family)
    pair = load_pair(str(published), device="cpu", dtype="float32")
    run = DecodingRun(pair, "the end of it", drafter="mtp", k=3, max_new_tokens=16, seed=2)
    compared = 0
    while run.finish is None:
        text = list(run.tokens)
        round = run.step()
        if round.k:
            logits = reference(pair.target.model, text, round.draft_tokens)[:, : pair.vocab_size]
            probs = np.exp(logits - logits.max(1, keepdims=True))
            probs /= probs.sum(1, keepdims=True)
            np.testing.assert_allclose(run.recent.draft_probs, probs, atol=1e-4)
            compared += round.k
    require_same_there(pair, "the end of it", drafter="mtp", k=3, max_new_tokens=16, seed=2)
    assert compared >= 6
    assert run.trace().drafter == "mtp" and run.trace().pair.draft.name.endswith("MTP")


@pytest.mark.parametrize("family", FAMILIES)
def test_behind_each_node_of_a_tree_stands_what_transformers_computes_of_its_path(family, published):
    with_module(published, family)
    pair = load_pair(str(published), device="cpu", dtype="float32")
    run = DecodingRun(pair, "the end of it", drafter="mtp", tree=shape("2-2"), max_new_tokens=16, seed=2)
    assert not run.step().tree and run.step().tree
    text, tree = list(run.tokens), Tree((5, 9, 7, 11, 5), (ROOT, ROOT, 0, 0, 1), ())
    for level in ((ROOT,), (0, 1), (2, 3, 4)):
        for node, row in zip(level, run.drafter.branch(text, tree, level), strict=True):
            path = [] if node == ROOT else tree.path(node)
            expected = reference(pair.target.model, text, [*path, 0])[-1][: pair.vocab_size]
            np.testing.assert_allclose(row, expected, atol=2e-4)
    for _, found in checked(DecodingRun(pair, "the end", drafter="mtp", tree=shape("4"), max_new_tokens=8)):
        assert all(check.ok for check in found), [check.sentence for check in found]


@pytest.mark.slow
def test_greedy_text_is_the_targets_and_the_caches_are_right_for_every_k(published):
    with_module(published, "deepseek")
    pair = load_pair(str(published), device="cpu", dtype="float32")
    prompt = pair.encode("the end", False)
    with torch.no_grad():
        plain = pair.target.model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False)[
            0
        ].tolist()
    for k in range(1, 9):
        run = DecodingRun(pair, prompt, drafter="mtp", k=k, sampling=SamplingConfig(0.0), max_new_tokens=8)
        for _, found in checked(run):
            assert all(check.ok for check in found), [check.sentence for check in found]
            assert all(len(check.row_diffs) == check.held for check in found)
        assert run.tokens == plain


RULES = {"token": {}, "block": {"verifier": verify_whole_block}, "tree": {"tree": shape("2-1")}}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_law_is_the_targets(rule, published):
    with_module(published, "glm")
    pair = load_pair(str(published), device="cpu", dtype="float32")
    for model in (pair.target.model, pair.mtp.module):
        model.double()
        for module in model.modules():
            if hasattr(module, "config"):  # grouped products are not made in double precision
                module.config._experts_implementation = "eager"
    only = SamplingConfig(top_k=2)
    prompt = tuple(pair.encode("the end", False))

    def program(randomness):
        run = DecodingRun(
            pair,
            prompt,
            drafter="mtp",
            k=2,
            sampling=only,
            max_new_tokens=3,
            randomness=randomness,
            **rule,
        )
        list(run)
        return tuple(run.tokens[len(prompt) :])

    found = enumerate_law(program)
    texts = {tokens: mass for tokens, mass in _law(pair, only, prompt).items() if mass}
    assert total_variation(found, texts) < 1e-12


def _law(pair, sampling, prompt):
    """The target's law of three tokens under top-k 2, which leaves eight texts."""
    from specviz.decoding.sampling import effective_probs

    law = {(): 1.0}
    for _ in range(3):
        longer = {}
        for tokens, mass in law.items():
            text = [*prompt, *tokens]
            if tokens and tokens[-1] in pair.eos_ids:
                longer[tokens] = mass
                continue
            logits = pair.target.forward(text, pair.target.new_cache(), 1).logits
            row = effective_probs(logits, [text], sampling, pair.target.available).probs[0]
            longer |= {(*tokens, int(t)): mass * row[t] for t in np.flatnonzero(row)}
        law = longer
    return law


@pytest.mark.parametrize(
    "name", ["enorm.weight", "eh_proj.weight", "self_attn.o_proj.weight", "shared_head.norm.weight"]
)
def test_a_missing_tensor_of_the_module_is_refused_by_name(name, published):
    own, extra = with_module(published, "deepseek")
    write(published, own | {n: v for n, v in extra.items() if not n.endswith(name)})
    pair = load_pair(str(published), device="cpu", dtype="float32")
    said = name.split(".")[-2] if "shared" not in name else "post_norm"
    with pytest.raises(LoadError, match=said):
        make_drafter("mtp", pair, SamplingConfig())


def test_a_tensor_without_a_place_is_refused_by_name(published):
    own, extra = with_module(published, "deepseek")
    write(published, own | extra | {f"model.layers.{LAST}.stranger.weight": torch.ones(3)})
    pair = load_pair(str(published), device="cpu", dtype="float32")
    with pytest.raises(LoadError, match="stranger"):
        make_drafter("mtp", pair, SamplingConfig())


def test_a_target_without_one_says_so(published):
    own, _ = with_module(published, "deepseek")
    write(published, own)
    pair = load_pair(str(published), device="cpu", dtype="float32")
    assert pair.mtp is None
    with pytest.raises(DraftUnavailable, match="brings no module"):
        make_drafter("mtp", pair, SamplingConfig())
