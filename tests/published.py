"""Tiny draft checkpoints in the layouts that others publish, and what they should compute.

Nothing here uses the code under test. Names and shapes are written down from SafeAILab/EAGLE,
vllm-project/speculators and vLLM; the numbers are computed in NumPy, token by token, without a cache, from
the papers' formulas (EAGLE: arXiv 2401.15077; EAGLE-3: arXiv 2503.01840).
"""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

H, HEADS, KV, INNER, HEAD_DIM, EPS, THETA = 16, 4, 2, 24, 4, 1e-5, 10_000.0

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": H,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "max_position_embeddings": 64,
    "rms_norm_eps": EPS,
    "hidden_act": "silu",
    "rope_theta": THETA,
    "tie_word_embeddings": False,
}


def layer(prefix, given, wide=False, bare=False, qwen=False):
    """Tensors of a decoder layer: twice as wide at its entry (EAGLE-3), or without a first norm (EAGLE-1)."""
    entry = 2 * H if wide else H
    made = {
        f"{prefix}.self_attn.q_proj.weight": given(HEADS * HEAD_DIM, entry),
        f"{prefix}.self_attn.k_proj.weight": given(KV * HEAD_DIM, entry),
        f"{prefix}.self_attn.v_proj.weight": given(KV * HEAD_DIM, entry),
        f"{prefix}.self_attn.o_proj.weight": given(H, HEADS * HEAD_DIM),
        f"{prefix}.mlp.gate_proj.weight": given(INNER, H),
        f"{prefix}.mlp.up_proj.weight": given(INNER, H),
        f"{prefix}.mlp.down_proj.weight": given(H, INNER),
        f"{prefix}.post_attention_layernorm.weight": 1 + given(H),
    }
    if not bare:
        made[f"{prefix}.input_layernorm.weight"] = 1 + given(H)
    if wide:
        made[f"{prefix}.hidden_norm.weight"] = 1 + given(H)
    if qwen:
        made[f"{prefix}.self_attn.q_norm.weight"] = 1 + given(HEAD_DIM)
        made[f"{prefix}.self_attn.k_norm.weight"] = 1 + given(HEAD_DIM)
    return made


def numbers(seed):
    rng = np.random.default_rng(seed)
    return lambda *shape: torch.from_numpy(rng.normal(0.0, 0.4, shape).astype(np.float32))


def maps(ids, vocabulary):
    marked = torch.zeros(vocabulary, dtype=torch.bool)
    marked[list(ids)] = True
    return {"d2t": torch.tensor([id - i for i, id in enumerate(ids)]), "t2d": marked}


def eagle_one(vocabulary, seed=1, bias=True, layers=1):
    given = numbers(seed)
    tensors = {"fc.weight": given(H, 2 * H)}
    if bias:
        tensors["fc.bias"] = given(H)
    for i in range(layers):
        tensors |= layer(f"layers.{i}", given, bare=i == 0)
    config = {**LLAMA, "vocab_size": vocabulary, "num_hidden_layers": layers}
    return (config if bias else {**config, "bias": False}), tensors


def eagle_three(vocabulary, ids=None, seed=1, embedding=False, taken=3):
    given = numbers(seed)
    count = vocabulary if ids is None else len(ids)
    tensors = {
        "fc.weight": given(H, taken * H),
        **layer("midlayer", given, wide=True),
        "norm.weight": 1 + given(H),
        "lm_head.weight": given(count, H),
    }
    if ids is not None:
        tensors |= maps(ids, vocabulary)
    if embedding:
        tensors["embed_tokens.weight"] = given(vocabulary, H)
    return {**LLAMA, "vocab_size": vocabulary, "draft_vocab_size": count}, tensors


def speculators_three(vocabulary, ids=None, seed=1, layers=1, family="llama", read=None, **flags):
    config, tensors = eagle_three(vocabulary, ids, seed, taken=len(read or (0, 0, 0)))
    given = numbers(seed + 100)
    tensors = {name.replace("midlayer.", "layers.0."): value for name, value in tensors.items()}
    if family == "qwen3":
        tensors |= layer("layers.0", given, wide=True, qwen=True)
    for i in range(1, layers):
        tensors |= layer(f"layers.{i}", given, qwen=family == "qwen3")
    width = tensors["fc.weight"].shape[1]
    if flags.get("norm_before_fc"):
        tensors["input_norm.weight"] = 1 + given(width)
    if flags.get("fc_norm"):
        tensors |= {f"fc_norm.{i}.weight": 1 + given(H) for i in range(width // H)}
    inner = {**LLAMA, "model_type": family, "vocab_size": vocabulary, "num_hidden_layers": layers}
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "speculators_config": declared("eagle3"),
        "transformer_layer_config": {**inner, "head_dim": HEAD_DIM},
        "draft_vocab_size": config["draft_vocab_size"],
        "norm_before_residual": False,
        "target_hidden_size": None,
        "eagle_aux_hidden_state_layer_ids": read,
        **flags,
    }, tensors


def speculators_one(vocabulary, seed=1, bias=False):
    _, tensors = eagle_one(vocabulary, seed, bias)
    renamed = {
        name.replace("layers.0.", "transformer.").replace("fc.", "fusion_fc.", 1)
        if name.startswith(("layers.0.", "fc."))
        else name: value
        for name, value in tensors.items()
    }
    return {
        "architectures": ["EagleSpeculator"],
        "speculators_model_type": "eagle",
        "speculators_config": declared("eagle"),
        "transformer_layer_config": {**LLAMA, "vocab_size": vocabulary},
        "layernorms": False,
        "fusion_bias": bias,
    }, renamed


def declared(algorithm, verifier="someone/a-target"):
    return {
        "algorithm": algorithm,
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
        "default_proposal_method": "greedy",
        "verifier": {"name_or_path": verifier, "architectures": ["LlamaForCausalLM"]},
    }


def save(folder: Path, config, tensors, name="model.safetensors") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({key: value.clone().contiguous() for key, value in tensors.items()}, folder / name)
    return str(folder)


# What they compute. Vectors are rows; `t` holds tensors as float64 arrays by name.


def arrays(tensors):
    return {name: value.double().numpy() for name, value in tensors.items()}


def rms(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def turned(x, position):
    """Rotary embedding of heads (heads, HEAD_DIM) at a position."""
    half = HEAD_DIM // 2
    angle = position * THETA ** (-np.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], 1)


def attended(t, prefix, entries):
    """Output of causal attention for every row of `entries` (n, width), which sit at positions 0, 1, …"""
    queries, keys, values = [], [], []
    for position, x in enumerate(entries):
        parts = []
        for name, heads in (("q", HEADS), ("k", KV), ("v", KV)):
            part = (t[f"{prefix}.self_attn.{name}_proj.weight"] @ x).reshape(heads, HEAD_DIM)
            if f"{prefix}.self_attn.{name}_norm.weight" in t:
                part = rms(part, t[f"{prefix}.self_attn.{name}_norm.weight"])
            parts.append(part if name == "v" else turned(part, position))
        for kept, part in zip((queries, keys, values), parts, strict=True):
            kept.append(part)
    out = []
    for i in range(len(entries)):
        heads = []
        for h in range(HEADS):
            shared = h // (HEADS // KV)
            scores = np.array([queries[i][h] @ keys[j][shared] for j in range(i + 1)]) / np.sqrt(HEAD_DIM)
            weight = np.exp(scores - scores.max())
            weight /= weight.sum()
            heads.append(sum(w * values[j][shared] for j, w in enumerate(weight)))
        out.append(t[f"{prefix}.self_attn.o_proj.weight"] @ np.concatenate(heads))
    return np.array(out)


def fed_forward(t, prefix, x):
    normed = rms(x, t[f"{prefix}.post_attention_layernorm.weight"])
    gate = silu(normed @ t[f"{prefix}.mlp.gate_proj.weight"].T)
    return x + (gate * (normed @ t[f"{prefix}.mlp.up_proj.weight"].T)) @ t[f"{prefix}.mlp.down_proj.weight"].T


def plain_layer(t, prefix, x):
    name = f"{prefix}.input_layernorm.weight"
    return fed_forward(t, prefix, x + attended(t, prefix, rms(x, t[name]) if name in t else x))


def one_states(tensors, embedded, states, layers=1):
    """EAGLE-1: states (n, H) predicted from embeddings and the states before them (n, H)."""
    t = arrays(tensors)
    x = np.concatenate([embedded, states], 1) @ t["fc.weight"].T + t.get("fc.bias", 0.0)
    for i in range(layers):
        x = plain_layer(t, f"layers.{i}", x)
    return x


def three_states(tensors, embedded, states, layers=1, first="midlayer", norm_before_residual=False):
    """EAGLE-3: states (n, H), before the last norm, from embeddings and one state a row (after fc)."""
    t = arrays(tensors)
    normed = rms(states, t[f"{first}.hidden_norm.weight"])
    entries = np.concatenate([rms(embedded, t[f"{first}.input_layernorm.weight"]), normed], 1)
    residual = normed if norm_before_residual else states
    x = fed_forward(t, first, residual + attended(t, first, entries))
    for i in range(1, layers):
        x = plain_layer(t, f"layers.{i}", x)
    return x


def three_merged(tensors, features):
    """EAGLE-3: (n, 3H) hidden states of the target to (n, H)."""
    t = arrays(tensors)
    if "input_norm.weight" in t:
        features = rms(features, t["input_norm.weight"])
    if "fc_norm.0.weight" in t:
        parts = features.reshape(len(features), -1, H)
        features = np.concatenate(
            [rms(parts[:, i], t[f"fc_norm.{i}.weight"]) for i in range(parts.shape[1])], 1
        )
    return features @ t["fc.weight"].T


def three_logits(tensors, x, vocabulary):
    """(V,) logits after one state; -inf for ids that the draft does not have."""
    t = arrays(tensors)
    small = t["lm_head.weight"] @ rms(x, t["norm.weight"])
    ids = np.arange(len(small)) + (tensors["d2t"].numpy() if "d2t" in tensors else 0)
    logits = np.full(vocabulary, -np.inf)
    logits[ids] = small
    return logits


def medusa_authors(vocabulary, seed=1, heads=3, blocks=1):
    given = numbers(seed)
    tensors = {}
    for i in range(heads):
        for j in range(blocks):
            tensors |= {f"{i}.{j}.linear.weight": given(H, H), f"{i}.{j}.linear.bias": given(H)}
        tensors[f"{i}.{blocks}.weight"] = given(vocabulary, H)
    return {
        "medusa_num_heads": heads,
        "medusa_num_layers": blocks,
        "base_model_name_or_path": "someone/a-target",
    }, tensors


def medusa_vllm(vocabulary, seed=1, heads=3, blocks=2, bias=False, ids=None, one=False, prefix=""):
    given = numbers(seed)
    count = vocabulary if ids is None else len(ids)
    tensors = {}
    for i in range(heads):
        for j in range(blocks):
            tensors[f"blocks.{i}.layers.{j}.weight"] = given(H, H)
            if bias:
                tensors[f"blocks.{i}.layers.{j}.bias"] = given(H)
        tensors["lm_head.weight" if one else f"lm_heads.{i}.weight"] = given(count, H)
    if ids is not None:
        tensors["token_map"] = torch.tensor(list(ids))
    return {
        "model_type": "medusa",
        "hidden_size": H,
        "vocab_size": vocabulary,
        "truncated_vocab_size": count,
        "num_heads": heads,
        "num_hidden_layers": blocks,
        "medusa_fc_bias": bias,
        "original_lm_head": one,
        "logit_scale": 0.5,
    }, {prefix + name: value for name, value in tensors.items()}


def medusa_logits(config, tensors, state, vocabulary):
    """(heads, V) logits from a hidden state (H,)."""
    t = {name.removeprefix("medusa_heads."): value for name, value in arrays(tensors).items()}
    authors = "medusa_num_heads" in config
    heads = config["medusa_num_heads" if authors else "num_heads"]
    blocks = config["medusa_num_layers" if authors else "num_hidden_layers"]
    rows = []
    for i in range(heads):
        x = state
        for j in range(blocks):
            name = f"{i}.{j}.linear" if authors else f"blocks.{i}.layers.{j}"
            x = x + silu(t[f"{name}.weight"] @ x + t.get(f"{name}.bias", 0.0))
        name = f"{i}.{blocks}" if authors else "lm_head" if config["original_lm_head"] else f"lm_heads.{i}"
        row = np.full(vocabulary, -np.inf)
        ids = t["token_map"].astype(int) if "token_map" in t else np.arange(vocabulary)
        row[ids] = config.get("logit_scale", 1.0) * (t[f"{name}.weight"] @ x)
        rows.append(row)
    return np.array(rows)
