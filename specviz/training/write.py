"""Let the target write the text that its drafts are trained on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from specviz.models.language_model import TransformersModel
from specviz.models.prompts import PromptEncoder
from specviz.training import prompts, texts
from specviz.training.texts import Text

AT_ONCE = 32  # texts written together, and the texts of one file
NEW_TOKENS = 200


def write(
    target: TransformersModel,
    encoder: PromptEncoder,
    eos_ids: frozenset[int],
    folder: Path,
    tokens: int,
    report: Callable[[int, int], None],
    seed: int = 0,
    new_tokens: int | None = None,
) -> list[Text]:
    """All texts of a folder, after adding files until they hold `tokens` tokens beside the prompts.

    Each file is one batch at one temperature, determined by the seed and its number; an interruption
    loses the batch being written. `report` gets the tokens written, and `tokens`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Text] = []
    number = written = 0
    while written < tokens:
        report(written, tokens)
        path = folder / f"{seed}-{number:05}.jsonl"
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            texts.append(partial, _batch(target, encoder, eos_ids, (seed, number), new_tokens or NEW_TOKENS))
            partial.replace(path)
        batch = texts.read(path)
        found += batch
        written += sum(len(text.ids) - text.k for text in batch)
        number += 1
    report(written, tokens)
    return found


def _batch(
    target: TransformersModel,
    encoder: PromptEncoder,
    eos_ids: frozenset[int],
    seed: tuple[int, int],
    new_tokens: int,
) -> list[Text]:
    """Plain samples, one a prompt, without top-k or top-p."""
    import torch
    from transformers import GenerationConfig

    temperature = prompts.TEMPERATURES[seed[1] % len(prompts.TEMPERATURES)]
    has_chat = bool(encoder.tokenizer.chat_template)
    asked = [
        encoder.chat(prompt.text) if prompt.chat else encoder.plain(prompt.text)
        for prompt in prompts.prompts(AT_ONCE, seed, has_chat)
    ]
    longest = max(len(ids) for ids in asked)
    missing = [longest - len(ids) for ids in asked]
    padded = torch.tensor(
        [[0] * n + ids for n, ids in zip(missing, asked, strict=True)], device=target.device
    )
    real = torch.arange(longest, device=target.device) >= torch.tensor(missing, device=target.device)[:, None]
    settings = GenerationConfig(
        do_sample=True,
        temperature=temperature,
        top_k=0,
        top_p=1.0,
        max_new_tokens=min(new_tokens, target.context_length - longest),
        pad_token_id=0,
        eos_token_id=sorted(eos_ids) or None,
        suppress_tokens=_rows_of_no_token(target) or None,
    )
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(seed[0] * 1_000_003 + seed[1])
        out: Any = target.model.generate(padded, attention_mask=real.long(), generation_config=settings)
    return [
        Text(temperature, len(ids), (*ids, *_until_eos(row[longest:], eos_ids)))
        for ids, row in zip(asked, out.tolist(), strict=True)
    ]


def _rows_of_no_token(target: TransformersModel) -> list[int]:
    """Rows of the head that stand for no token."""
    width = int(target.model.get_output_embeddings().weight.shape[0])
    known = range(target.vocab_size) if target.available is None else target.available.tolist()
    return sorted(set(range(width)) - set(known))


def _until_eos(ids: list[int], eos_ids: frozenset[int]) -> list[int]:
    """Up to and including the first end-of-text token."""
    for i, token in enumerate(ids):
        if token in eos_ids:
            return ids[: i + 1]
    return ids
