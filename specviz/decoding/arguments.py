"""What a run is asked for, checked before anything is done: no run begins that no file could hold."""

from collections.abc import Sequence

from specviz.decoding.protocols import Pair
from specviz.decoding.trace import MAX_COUNT, MAX_K, MAX_TEXT


def require_limits(k: int, max_new_tokens: int, stop: Sequence[str]) -> None:
    """
    Raises:
        ValueError: naming the argument that is out of range.
    """
    if not 0 <= k <= MAX_K:
        raise ValueError(f"k must be 0 … {MAX_K}, not {k}")
    if not 1 <= max_new_tokens <= MAX_COUNT:
        raise ValueError(f"max_new_tokens must be 1 … {MAX_COUNT:,}, not {max_new_tokens:,}")
    for text in stop:
        if not text:
            raise ValueError("a stop string must not be empty")
        _require_text(text, "a stop string")


def prompt_ids(pair: Pair, prompt: str | Sequence[int], chat: bool) -> tuple[int, ...]:
    """The tokens of a prompt: a text, or token ids already.

    Raises:
        ValueError: if it is empty, too long for the target, or has characters or ids that are none.
    """
    if isinstance(prompt, str):
        _require_text(prompt, "the prompt")
        prompt = pair.encode(prompt, chat)
    ids = tuple(prompt)
    unknown = next((token for token in ids if not 0 <= token < pair.vocab_size), None)
    if unknown is not None:
        raise ValueError(f"the prompt has the token id {unknown}; ids go from 0 to {pair.vocab_size - 1}")
    if not ids:
        raise ValueError("the prompt has no tokens: type at least one character")
    if len(ids) > pair.target.context_length:
        raise ValueError(
            f"the prompt has {len(ids)} tokens, the target takes at most {pair.target.context_length}: "
            "shorten it"
        )
    return ids


def _require_text(text: str, what: str) -> None:
    if len(text) > MAX_TEXT:
        raise ValueError(f"{what} has at most {MAX_TEXT:,} characters, not {len(text):,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start + 1} of {what} is half of a surrogate pair, which is no character: "
            "remove it"
        ) from None
