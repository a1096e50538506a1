"""How many positions a model can be fed."""

from typing import Any

# A model whose config names no limit is taken to have none.
NO_LIMIT = 10_000_000

# Families whose attention window is not in their masks: only a cache that drops old positions keeps it.
WINDOW_IN_CACHE = frozenset({"moshi"})


def context_limit(config: Any) -> tuple[int, str]:
    """Positions that a text model can be fed, and why if that is fewer than its config promises."""
    most = getattr(config, "max_position_embeddings", None) or NO_LIMIT
    rope = getattr(config, "rope_parameters", None) or {}
    rope = (
        rope if "rope_type" in rope else next((part for part in rope.values() if isinstance(part, dict)), {})
    )
    switch = getattr(config, "original_max_position_embeddings", None) or rope.get(
        "original_max_position_embeddings"
    )
    if rope.get("rope_type") == "longrope" and switch and switch < most:
        return switch, (
            f"beyond {switch:,} tokens its rotary embedding (longrope) switches to other frequencies, and "
            "all keys cached before would be wrong"
        )
    window = getattr(config, "sliding_window", None)
    if config.model_type in WINDOW_IN_CACHE and window and window < most:
        return window, f"its window of {window:,} tokens is kept by a cache that cannot be rolled back"
    return most, ""
