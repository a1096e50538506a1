"""What a pass cannot be faster than on this machine: its shape, and the machine's measured rates."""

from math import inf
from typing import Any

from specviz.speed.clock import clock_for
from specviz.speed.formulas import Machine, Shape
from specviz.speed.machine import memory

BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}


def shape_of(target: Any) -> Shape:
    """Of a `TransformersModel`. Its weights are those that a pass multiplies with: the head's, not the
    embedding's."""
    config = target.model.config.get_text_config()
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    layers = config.num_hidden_layers
    embedding = target.model.get_input_embeddings().weight
    head = target.width * config.hidden_size
    tied = getattr(target.model.config, "tie_word_embeddings", False)
    return Shape(
        name=target.name,
        weights=float(target.parameters - embedding.numel() + (head if tied else 0)),
        bytes_per_weight=BYTES.get(target.dtype, 4.0),
        layers=layers,
        width=heads * width,
        cache_width=kv_heads * width,
    )


def rates(device: str, dtype: str) -> Machine:
    """Bandwidth by summing an array that no cache holds, operations by a product of square matrices.

    Measured now; takes about a second.
    """
    import torch

    clock, _ = clock_for(device)

    def best(run: Any) -> float:
        shortest = inf
        for _ in range(5):
            began = clock()
            run()
            if device.startswith("cuda"):
                torch.cuda.synchronize(device)
            shortest = min(shortest, clock() - began)
        return shortest

    with torch.inference_mode():
        # More than a cache holds; a GPU needs more than that to show its rate.
        array = torch.ones((512 if device.startswith("cuda") else 48) << 20, device=device)
        bandwidth = array.numel() * array.element_size() / best(array.sum)
        side = 8192 if device.startswith("cuda") else 1024
        square = torch.ones((side, side), device=device, dtype=getattr(torch, dtype))
        operations = 2 * side**3 / best(lambda: square @ square)
    held = torch.cuda.mem_get_info(device)[0] if device.startswith("cuda") else memory()
    return Machine(device, operations, bandwidth, float(held))
