"""What people type where tokens, turns and template settings are asked for, as what the engine takes."""

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from specviz.decoding.controls import MAX_BIAS, MAX_IDS
from specviz.decoding.grammar import Grammar, require_grammar
from specviz.decoding.protocols import Pair

if TYPE_CHECKING:
    from specviz.recipe import Recipe

# A token id, or a text in quotes; perhaps a colon and a number.
ITEM = re.compile(r'("(?:[^"\\]|\\.)*"|\d+)\s*(?::\s*([+\-−]?\d+(?:\.\d+)?))?\s*(?:,\s*|(?=\s)\s*|$)')
BETWEEN = "---"  # a line of its own between two turns


def items(text: str) -> list[tuple[int | str, float | None]]:
    """The ids and quoted texts of a list, each with the number behind its colon.

    Raises:
        ValueError: naming what is not understood.
    """
    found: list[tuple[int | str, float | None]] = []
    rest = text.strip()
    while rest:
        match = ITEM.match(rest)
        if match is None or len(match[1]) > 1000:
            raise ValueError(f'{rest[:20]!r} is neither a token id nor a text in double quotes, as " Paris"')
        try:
            token = json.loads(match[1])
        except ValueError:
            raise ValueError(
                f'{match[1][:20]} is no text: write \\n for a new line, \\" for a quote'
            ) from None
        found.append((token, None if match[2] is None else float(match[2].replace("−", "-"))))
        rest = rest[match.end() :]
    if len(found) > MAX_IDS:
        raise ValueError(f"at most {MAX_IDS:,} tokens can be listed")
    return found


def check_tokens(text: str) -> None:
    """
    Raises:
        ValueError: if `text` is no list of tokens.
    """
    if any(number is not None for _, number in items(text)):
        raise ValueError("a list of tokens has no colons")


def check_biases(text: str) -> None:
    """
    Raises:
        ValueError: if `text` is no list of tokens with a bias each.
    """
    for token, bias in items(text):
        if bias is None or abs(bias) > MAX_BIAS:
            raise ValueError(
                f"{token!r} needs a bias of −{MAX_BIAS:g} … {MAX_BIAS:g} behind a colon, as 42:-5"
            )


def ids(text: str, pair: Pair | None, single: bool = False) -> tuple[int, ...]:
    """Token ids of a list of ids and quoted texts.

    Args:
        text: the list.
        pair: whose tokenizer reads texts; None where only ids can be understood.
        single: each text has to be one token.

    Raises:
        ValueError: if a text is not, or an id is outside the vocabulary.
    """
    check_tokens(text)
    return tuple(id for token, _ in items(text) for id in _ids_of(token, pair, single))


def biases(text: str, pair: Pair | None) -> tuple[tuple[int, float], ...]:
    """Token ids with their biases; see `ids`."""
    check_biases(text)
    found = [(_ids_of(token, pair, True)[0], bias or 0.0) for token, bias in items(text)]
    if len(dict(found)) < len(found):
        raise ValueError("a token has two biases")
    return tuple(found)


def tokens(bias: str, ban: str, force: str, pair: Pair | None) -> dict[str, Any]:
    """The fields of `SamplingConfig` that three lists of tokens stand for; see `ids`."""
    return {
        "banned": tuple(sorted(set(ids(ban, pair, single=True)))),
        "bias": biases(bias, pair),
        "forced": ids(force, pair),
    }


def needs_tokenizer(*lists: str) -> bool:
    """True if any of some lists of tokens has a text, and not only ids."""
    return any(isinstance(token, str) for text in lists for token, _ in items(text))


def _ids_of(token: int | str, pair: Pair | None, single: bool) -> Sequence[int]:
    if isinstance(token, int):
        if pair is not None and token >= pair.vocab_size:
            raise ValueError(f"token id {token} is outside the vocabulary of {pair.vocab_size:,} ids")
        return [token]
    if pair is None:
        raise ValueError(f"{token!r}: token ids are needed here, and not texts")
    found = [id for id in pair.encode(token, False) if id not in pair.special_ids]
    if not found or (single and len(found) > 1):
        raise ValueError(
            f"{token!r} is {len(found)} tokens ({', '.join(map(str, found))}), and one is needed"
        )
    return found


def turns(text: str) -> tuple[str, ...]:
    """The turns of a conversation, between lines that say ---; () for no text.

    A line of a turn that says --- itself is written with a backslash in front.
    """
    if not text.strip():
        return ()
    found: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip() == BETWEEN:
            found.append([])
        else:
            found[-1].append(line.removeprefix("\\") if line.lstrip("\\").strip() == BETWEEN else line)
    return tuple("\n".join(lines) for lines in found)


def turns_text(texts: Sequence[str]) -> str:
    """What `turns` reads as these texts."""
    escaped = [
        "\n".join(f"\\{line}" if line.lstrip("\\").strip() == BETWEEN else line for line in text.split("\n"))
        for text in texts
    ]
    return f"\n{BETWEEN}\n".join(escaped)


def check_turns(text: str) -> None:
    """
    Raises:
        ValueError: if the turns do not come in twos.
    """
    if len(turns(text)) % 2:
        raise ValueError("earlier turns come in twos: a message of the user and the model's answer to it")


def check_settings(text: str) -> None:
    """
    Raises:
        ValueError: if `text` is no JSON object.
    """
    from specviz.decoding.arguments import template_parts
    from specviz.decoding.trace import Conversation

    template_parts(Conversation(settings=text))


# By the name of the setting, what checks it without a pair.
CHECKS: dict[str, Callable[[str], None]] = {
    "ban": check_tokens,
    "force": check_tokens,
    "ids": check_tokens,
    "bias": check_biases,
    "turns": check_turns,
    "template": check_settings,
}
TITLES = {
    "ban": "Banned tokens",
    "force": "Forced tokens",
    "ids": "Token ids",
    "bias": "Logit bias",
    "turns": "Earlier turns",
    "template": "Template settings",
}


def why_not(recipe: "Recipe") -> str:
    """Why a recipe cannot be run, as far as it can be told without its pair, in a sentence; "" if it can."""
    for name, check in CHECKS.items():
        try:
            check(getattr(recipe, name))
        except ValueError as error:
            return f"{TITLES[name]}: {error}."
    if recipe.grammar.strip():
        try:
            require_grammar(Grammar(recipe.grammar_kind, recipe.grammar))  # type: ignore[arg-type]
        except ValueError as error:
            return f"{str(error)[:1].upper()}{str(error)[1:]}."
    around = recipe.system or recipe.turns.strip() or recipe.template.strip()
    if around and not recipe.chat:
        return "A system prompt, earlier turns and template settings need the chat template: switch it on."
    if recipe.ids.strip() and recipe.chat:
        return "Token ids are the whole prompt: switch the chat template off."
    if (recipe.draft_device or recipe.draft_dtype) and not recipe.draft:
        return "A draft that comes with its target runs where that runs: leave out its device and dtype."
    return ""
