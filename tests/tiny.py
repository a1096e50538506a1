"""Tiny random transformers models and tokenizers, made in memory."""

from pathlib import Path

import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.models.language_model import TransformersModel
from specviz.models.pair import LoadedPair

SPECIAL = ["<s>", "</s>", "<|user|>"]
LETTERS = "ĠĊabcdefghijklmnopqrstuvwxyz0123456789.,!?'\":;-()<>|_/=+*&ABC"
VOCAB = [*SPECIAL, *LETTERS]

CHAT = (
    "{% for message in messages %}<|user|>{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}:{% endif %}"
)


def fast(tokenizer: Tokenizer, bos: bool = False, template: str | None = None) -> PreTrainedTokenizerFast:
    """A transformers tokenizer around `tokenizer`, whose ids 0 and 1 are <s> and </s>."""
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    made.chat_template = template
    return made


def letter_tokenizer(vocab=VOCAB, bos=False, template=None) -> PreTrainedTokenizerFast:
    """One token a character, byte-level; characters outside the vocabulary are dropped."""
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(vocab)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return fast(tokenizer, bos, template)


def byte_tokenizer(text: str, **kwargs) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on `text`, so that tokens end inside words and inside characters."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator([text], trainer)
    return fast(tokenizer, **kwargs)


def sentencepiece_tokenizer() -> PreTrainedTokenizerFast:
    """Like SentencePiece with byte fallback: ▁ for a space, <0xNN> for bytes of unknown characters."""
    pieces = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdefghijklmnopqrstuvwxyz"]
    vocab = {piece: id for id, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab, [], byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return fast(tokenizer)


def llama(seed: int, width: int = len(VOCAB), layers: int = 2) -> LlamaForCausalLM:
    """A random Llama whose distributions are far from uniform."""
    config = LlamaConfig(
        vocab_size=width,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.4,
        bos_token_id=0,
        eos_token_id=1,
    )
    # Only this model is seeded: other tests may rely on torch's own generator.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def save(folder: Path, model, tokenizer) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def tiny_pair(draft_seed: int | None = 2, **kwargs) -> LoadedPair:
    """A pair of tiny random Llamas; the draft equals the target if its seed is 1."""
    tokenizer = letter_tokenizer(**kwargs)
    target = TransformersModel(llama(1), "tiny target", len(VOCAB))
    draft = None
    if draft_seed is not None:
        draft = TransformersModel(llama(draft_seed), "tiny draft", len(VOCAB))
    return LoadedPair("tiny", target, draft, tokenizer)


def tiny_gpt2_pair(context_length: int = 32) -> LoadedPair:
    """A pair of tiny random GPT-2s: positions are learnt, and there is none beyond the context."""
    from transformers import GPT2Config, GPT2LMHeadModel

    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        config = GPT2Config(
            vocab_size=len(VOCAB),
            n_positions=context_length,
            n_embd=16,
            n_layer=2,
            n_head=2,
            bos_token_id=0,
            eos_token_id=1,
        )
        models.append(TransformersModel(GPT2LMHeadModel(config).eval(), f"tiny gpt2 {seed}", len(VOCAB)))
    return LoadedPair("tiny gpt2", models[0], models[1], letter_tokenizer())
