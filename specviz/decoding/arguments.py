"""What a run is asked for, checked before anything is done: no run begins that no file could hold."""

import json
from collections.abc import Sequence
from typing import Any

from specviz.decoding.protocols import Pair
from specviz.decoding.ranges import MAX_COUNT, MAX_K, MAX_TEXT
from specviz.decoding.trace import Conversation


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


def prompt_ids(
    pair: Pair, prompt: str | Sequence[int], chat: bool, conversation: Conversation | None = None
) -> tuple[int, ...]:
    """The tokens of a prompt: a text, perhaps with a conversation around it, or token ids already.

    Raises:
        ValueError: if it is empty, too long for the target, or has characters or ids that are none, or for a
            conversation without a chat template.
    """
    if isinstance(prompt, str):
        around = {} if conversation is None else template_parts(conversation)
        for text in (prompt, *around.get("earlier", ()), around.get("system", "")):
            _require_text(text, "the prompt")
        if around and not chat:
            raise ValueError("a system prompt, earlier turns and template settings need the chat template")
        prompt = pair.encode(prompt, chat, **around)
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


def template_parts(conversation: Conversation) -> dict[str, Any]:
    """The parts of a conversation that are there, as `Pair.encode` takes them.

    Raises:
        ValueError: for turns that do not come in twos, or settings that are no JSON object.
    """
    if len(conversation.earlier) % 2:
        raise ValueError("earlier turns come in twos: a message of the user and the model's answer to it")
    try:
        settings = json.loads(conversation.settings or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the template settings are not JSON: {error}") from None
    if not isinstance(settings, dict):
        raise ValueError('the template settings must be a JSON object, as {"enable_thinking": false}')
    parts = {"system": conversation.system, "earlier": conversation.earlier, "settings": settings}
    return {name: value for name, value in parts.items() if value}


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
