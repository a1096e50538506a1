"""Turn the built-in GGUF file into a folder that transformers loads fast.

Run as a process of its own, `python -m specviz.models.convert GGUF FOLDER`: it needs 1.6 GB for half a
minute, which the caller need not keep, and a server stays responsive meanwhile.
"""

import sys
from pathlib import Path
from typing import Any

from specviz.models import gguf

EOS_IDS = [2, 0]  # <|im_end|>, which ends a chat turn, and <|endoftext|>, which ends a text


def convert(path: Path, folder: Path) -> None:
    """Dequantise to float32, and save model and tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    gguf.mend_tokenizer(tokenizer, path)
    read = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # A model read from GGUF counts as quantised and refuses to be saved: its weights go to one that is
    # built from a config without that mark.
    config = read.config.to_dict()
    config.pop("quantization_config", None)
    model = type(read)(type(read.config).from_dict(config))
    model.load_state_dict(read.state_dict())
    model.generation_config.eos_token_id = EOS_IDS
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
