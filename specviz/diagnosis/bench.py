"""What all prompts of an audit share, from loaded pairs."""

from pathlib import Path
from typing import Any

from specviz.decoding.drafters import DRAFTERS
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.setting import Setting


def second_model(setting: Setting) -> str:
    """The model that has to be loaded as the second draft; "" if the second is a kind of drafter, or none."""
    return "" if setting.second.partition(":")[0] in DRAFTERS else setting.second


def bench_of(pair: Any, setting: Setting, other: Any = None) -> Bench:
    """The bench of an audit.

    Args:
        pair: target and draft.
        setting: of the audit.
        other: a pair whose draft is `second_model`; None without one.

    Raises:
        ValueError: for tokens in the setting that this pair does not have.
    """
    return Bench(pair, setting.for_pair(pair), other, own_tokenizer(pair))


def own_tokenizer(pair: Any) -> Any:
    """The draft's own tokenizer if its chat template is another one than the target's; None otherwise."""
    draft = getattr(getattr(pair, "draft", None), "model", None)
    folder = getattr(draft, "name_or_path", "")
    if not folder or not Path(folder).is_dir():
        return None
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        return None
    differs = tokenizer.chat_template and tokenizer.chat_template != pair.tokenizer.chat_template
    return tokenizer if differs else None
