"""Every causal family that transformers offers, tried on tiny random models: equal, or refused and why.

Greedy speculative text is compared with the model's own `generate`, for several K, with a draft of other
weights and with the target as its own draft. `python -m specviz pair --families` makes the table.
"""

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from specviz.decoding import cache as caches
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.trace import PairInfo, Round, TokenText
from specviz.models.errors import NEEDS, LoadError, first_line, why
from specviz.models.language_model import TransformersModel
from specviz.models.suitability import require_causal_config, require_suitable
from specviz.models.target_drafts import EarlyExit

VOCAB = 64
NEW_TOKENS = 16
PROMPT = (5, 17, 33, 9, 60, 21)
KS = (1, 4, 8)
LARGEST = 15_000_000  # parameters of a model that is tried

# Names of the numbers that set the size of some family's model, by the tiny size that they get.
NAMES: dict[int, str] = {
    VOCAB: "vocab_size vocab_size_per_layer_input",
    32: "hidden_size d_model n_embd embedding_size emb_dim dim embedding_dim word_embed_proj_dim "
    "input_embedding_size output_embedding_size lru_width attention_hidden_size router_hidden_size",
    48: "intermediate_size ffn_dim ffn_hidden_size n_inner moe_intermediate_size encoder_ffn_dim "
    "decoder_ffn_dim dim_ff dff d_inner feed_forward_size shared_expert_intermediate_size "
    "moe_shared_expert_intermediate_size shared_experts_intermediate_size shared_intermediate_size "
    "intermediate_size_mlp",
    4: "num_attention_heads n_head n_heads num_heads decoder_attention_heads encoder_attention_heads "
    "num_experts n_routed_experts num_local_experts",
    2: "num_hidden_layers n_layer n_layers num_layers decoder_layers num_key_value_heads "
    "num_experts_per_tok num_experts_per_token moe_topk num_global_key_value_heads multi_query_group_num",
    1: "encoder_layers first_k_dense_replace num_decoder_layers n_group topk_group n_shared_experts "
    "num_shared_experts",
    8: "head_dim dim_head v_head_dim qk_nope_head_dim qk_rope_head_dim global_head_dim rotary_dim "
    "attention_head_dim hidden_size_per_layer_input sliding_window window_size attention_window_size "
    "attention_chunk_size",
    16: "q_lora_rank kv_lora_rank o_lora_rank qk_head_dim",
    128: "max_position_embeddings n_positions n_ctx max_seq_len context_length "
    "original_max_position_embeddings max_target_positions model_max_length",
}
SIZES = {name: size for size, names in NAMES.items() for name in names.split()}
ROPE = {"rope_type": "default", "rope_theta": 1e4}
NO_LAYER_INPUT = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
QWEN4 = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 2,
    "indexer_head_dim": 16,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
    "ngram_vocab_size_base": 64,
    "split_ngram_parts": 1,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "hc_lowrank": 8,
    "ple_embed_dim": 32,
    "make_ngram_vocab_size_divisible_by": 8,
}
# What a family needs beside a smaller size for each number.
SPECIAL: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 2},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "reformer": {
        "is_decoder": True,
        "axial_pos_embds": False,
        "attention_head_size": 8,
        "num_buckets": 4,
        "attn_layers": ["local", "lsh"],
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "moshi": {"sliding_window": 64},
    "nemotron": {"num_key_value_heads": 2},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "roc_bert": {"shape_vocab_size": 64, "pronunciation_vocab_size": 64},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
        "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "longcat_flash": {"expert_ffn_hidden_size": 48, "zero_expert_num": 2},
    "cohere_compass_text": {"rope_parameters": dict.fromkeys(("full_attention", "sliding_attention"), ROPE)},
    "blt": {"encoder_hash_byte_group_vocab": 64, "hidden_size_global": 32},
    "gemma4_assistant": {**NO_LAYER_INPUT, "num_kv_shared_layers": 2},
    **{
        family: {"per_layer_config": {}, "index_head_dim": 16, "index_n_heads": 2, "index_topk": 64}
        for family in ("dots3_note", "dots3_note_text")
    },
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), QWEN4),
}
# Families whose default config is none that they accept: what makes it one.
ACCEPTED: dict[str, dict[str, Any]] = {
    "gemma4_assistant": {
        "text_config": {"model_type": "gemma4_text", "use_double_wide_mlp": False, **NO_LAYER_INPUT}
    }
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one family: "equal", "refused" with the reason, "wrong" with what differs, or
    "not tried" with what stood in the way."""

    family: str
    result: Literal["equal", "refused", "wrong", "not tried"]
    reason: str = ""


def families() -> tuple[str, ...]:
    """Model types that transformers offers as causal language models."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def tiny_config(family: str, **more: Any) -> Any:
    """The family's default config with tiny sizes."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(family, **ACCEPTED.get(family, {}))
    return _shrunk(config, {**SPECIAL.get(family, {}), **more})


def _shrunk(config: Any, special: dict[str, Any]) -> Any:
    """A config of the same kind, parts included, with tiny sizes."""
    given = config.to_dict()
    small: dict[str, Any] = {}
    for name, size in SIZES.items():
        value = given.get(name)
        if (isinstance(value, int) and not isinstance(value, bool)) or (name == "head_dim" and name in given):
            small[name] = size
    if "kv_lora_rank" in small and "num_key_value_heads" in small:  # latent attention has no groups
        small["num_key_value_heads"] = small["num_attention_heads"]
    kinds = given.get("layer_types")
    if kinds:
        small["layer_types"] = [*dict.fromkeys(kinds), *kinds][: SIZES["num_hidden_layers"]]
    small |= {
        name: id for id, name in enumerate(("pad_token_id", "bos_token_id", "eos_token_id")) if name in given
    }
    held: dict[str, Any] = {name: getattr(config, name, None) for name in config.sub_configs or {}}
    parts = {name: _shrunk(part, special) for name, part in held.items() if part is not None}
    small |= {name: part.to_dict() for name, part in parts.items()}
    small |= {name: value for name, value in special.items() if name in given}
    try:
        return type(config)(**small)
    except Exception:  # sizes that depend on each other: those that can be set one by one
        for name, value in (small | parts).items():
            with suppress(Exception):
                setattr(config, name, value)
        return config


def tiny_model(family: str, seed: int = 1, **more: Any) -> Any:
    """A random causal model of the family, in eval mode, with distributions far from uniform."""
    import torch
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    config = tiny_config(family, **more)
    require_causal_config(config, family)
    made: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    if made.config_class is not type(config):  # as AutoModelForCausalLM does
        config = config.get_text_config()
    with torch.device("meta"):
        size = sum(weight.numel() for weight in made(config).parameters())
    if size > LARGEST:
        raise MemoryError(f"its smallest model here would have {size:,} parameters")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = made(config).float().eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0.0, 0.3)
    # The texts are compared to their full length.
    model.generation_config.eos_token_id = None
    return model


def check(family: str) -> Finding:
    """Try one family: is it refused, and if not, is everything that it drafts and writes right?"""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target = _suitable(family, 1)
            draft = _suitable(family, 2)
            wrong = next(problems(target, draft), "")
    except LoadError as error:
        return Finding(family, "refused", str(error))
    except ImportError as error:  # as when such a model is loaded
        return Finding(family, "refused", f"{family} cannot be loaded: {why(error)}")
    except Exception as error:  # a family whose tiny model cannot even be built here
        return Finding(family, "not tried", f"{type(error).__name__}: {first_line(error)}")
    return Finding(family, "wrong" if wrong else "equal", wrong)


def _suitable(family: str, seed: int) -> TransformersModel:
    model = TransformersModel(tiny_model(family, seed), family, VOCAB)
    require_suitable(model)
    return model


# What a sentence of refusal says, in short: for the table.
SHORT = {
    "running state": "refused: recurrent or hybrid, its state cannot be rolled back",
    "of kind Linear": "refused: recurrent or hybrid, its state cannot be rolled back",
    "cache of a kind of its own": "refused: a cache of a kind of its own",
    "does not fill": "refused: no key-value cache",
    "not causal": "refused: not causal",
    "encoder–decoder": "refused: encoder–decoder",
    "after its cache was cut": "refused: wrong after its cache was cut",
    "feeding it a few tokens fails": "refused: feeding it token ids alone fails",
}


def summary(finding: Finding) -> str:
    """A finding in a few words."""
    if finding.result == "equal":
        return "equal to `generate()`"
    if finding.result == "not tried":
        return "no tiny model could be made here: tried when such a model is loaded"
    if finding.result == "wrong":
        return "wrong"
    _, needs, command = finding.reason.partition(NEEDS)
    if needs:
        return f"refused without a library: `{command}`"
    return next((short for part, short in SHORT.items() if part in finding.reason), "refused")


def problems(target: TransformersModel, draft: TransformersModel) -> Iterator[str]:
    """What is wrong with decoding this pair, one sentence each."""
    expected = generated(target)
    for k in KS:
        tokens, _ = _decoded(target, draft, k)
        if tokens != expected:
            yield f"greedy text with K = {k} is {tokens}, and generate() writes {expected}"
    for temperature in (0.0, 1.0):
        _, rounds = _decoded(target, target, 3, temperature)
        kept = [round.accepted for round in rounds]
        if kept != [round.k for round in rounds]:
            drafted = [round.k for round in rounds]
            yield f"the target as its own draft has {kept} of {drafted} accepted at T = {temperature}"


def generated(target: TransformersModel) -> list[int]:
    """The greedy continuation that transformers itself writes."""
    import torch
    from transformers import GenerationConfig

    settings = GenerationConfig(do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0)
    with torch.inference_mode():
        fed = torch.tensor([PROMPT], device=target.device)
        out = target.model.generate(fed, attention_mask=torch.ones_like(fed), generation_config=settings)
    return out[0, len(PROMPT) :].tolist()


def _decoded(
    target: TransformersModel, draft: TransformersModel, k: int, temperature: float = 0.0
) -> tuple[list[int], list[Round]]:
    run = DecodingRun(
        _Pair(target, draft),
        PROMPT,
        k=k,
        sampling=SamplingConfig(temperature),
        max_new_tokens=NEW_TOKENS,
    )
    rounds = []
    for round in run:
        rounds.append(round)
        if not caches.audit(target, run.target_cache, run.tokens, len(run.tokens) - 1).ok:
            raise AssertionError(f"after round {round.number} the target's cache is not that of its text")
    return run.tokens[len(PROMPT) :], rounds


class _Pair:
    """As much of a pair as a run over token ids needs."""

    eos_ids: frozenset[int] = frozenset()
    special_ids: frozenset[int] = frozenset()
    medusa = eagle = mtp = None

    def __init__(self, target: TransformersModel, draft: TransformersModel) -> None:
        self.target, self.draft = target, draft
        self.vocab_size = target.vocab_size
        self.info = PairInfo("trial", target.info(), draft.info(), self.vocab_size, self.vocab_size)

    def encode(self, prompt: str, chat: bool, **conversation: Any) -> list[int]:
        raise NotImplementedError

    def early_exit(self, layers: int | None) -> EarlyExit:
        return EarlyExit(self.target, layers or 1)

    def token_text(self, token: int) -> TokenText:
        return TokenText(str(token).encode(), False)
