"""`bench passes`: the target's pass over a few rows beside one row, by PyTorch's products and packed.

The lesson "Same pair, two precisions" quotes these figures. Passes of all kinds take turns in one process.
"""

import argparse
from copy import copy
from statistics import median
from time import process_time
from typing import Any

ROWS = (1, 2, 3, 5, 9)
TURNS = 15
PROMPT = "The history of the lighthouse begins"


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """By products and dtype: one row in milliseconds, each of `ROWS` over it; CPU seconds of one thread."""
    import torch

    from specviz.models import sources
    from specviz.models.language_model import TransformersModel
    from specviz.models.pair import load_pair
    from specviz.models.progress import silent
    from specviz.speed.clock import in_turns
    from specviz.speed.measure import Bench

    torch.set_num_threads(1)
    works: dict[Any, Any] = {}
    for dtype in ("float32", "bfloat16"):
        packed = load_pair(args.target, device="cpu", dtype=dtype)
        loaded = sources.load(args.target, sources.place("cpu", dtype), silent)
        plain = copy(packed)
        plain.target = TransformersModel(loaded.model, loaded.name, loaded.vocab_size, loaded.known_ids())
        for name, pair in (("torch", plain), ("packed", packed)):
            bench = Bench(pair, PROMPT, 0.0)
            works |= {(name, dtype, n): bench.rows(n) for n in ROWS}
    taken = {key: median(times) for key, times in in_turns(works, TURNS, process_time).items()}
    return {
        f"{name}, {dtype}": {
            "one_row_ms": round(1000 * taken[name, dtype, 1]),
            "passes": [round(taken[name, dtype, n] / taken[name, dtype, 1], 2) for n in ROWS],
        }
        for name in ("torch", "packed")
        for dtype in ("float32", "bfloat16")
    }
