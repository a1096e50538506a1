"""Prompts of an audit: from a text file, from JSON lines, or with the answers that were served.

A `.txt` file holds a prompt a line. A `.jsonl` file holds an object a line:

prompt                text, or
messages              [{"role": …, "content": …}, …], put into the chat template
answer                what a served target wrote; with it, nothing is generated (scored only)
group                 any word, to compare groups of prompts
chat_template_kwargs  passed to the template, as in {"enable_thinking": false}
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LONGEST_LINE = 4_000_000  # characters
MOST = 100_000  # prompts


class PromptError(ValueError):
    """A file of prompts that cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of an audit.

    Attributes:
        index: from 0, in the order of the file.
        text: what the user says; the last user message of a conversation.
        messages: (role, content) of a conversation; () for plain text.
        group: "" if none was given.
        answer: a text that is scored instead of generating one; None for a run.
        template: further arguments of the chat template.
    """

    index: int
    text: str
    messages: tuple[tuple[str, str], ...] = ()
    group: str = ""
    answer: str | None = None
    template: dict[str, Any] = field(default_factory=dict)


def read(path: Path) -> list[Prompt]:
    """The prompts of a .txt or .jsonl file.

    Raises:
        PromptError: naming the line that cannot be used.
        OSError: if the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError(f"{path.name} is not UTF-8 text: {error}") from None
    return parse(text, path.suffix.lower() in (".jsonl", ".ndjson", ".json"), path.name)


def parse(text: str, json_lines: bool, name: str = "the text") -> list[Prompt]:
    """The prompts of a text: an object a line, or a prompt a line."""
    prompts: list[Prompt] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip("\r")
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE or len(prompts) >= MOST:
            raise PromptError(
                f"{name}, line {number}: at most {MOST:,} prompts of {LONGEST_LINE:,} characters"
            )
        try:
            prompts.append(_object(line, len(prompts)) if json_lines else Prompt(len(prompts), line))
        except PromptError as error:
            raise PromptError(f"{name}, line {number}: {error}") from None
    if not prompts:
        raise PromptError(f"{name} holds no prompt")
    return prompts


def _object(line: str, index: int) -> Prompt:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise PromptError("not a JSON object") from None
    if not isinstance(data, dict):
        raise PromptError("not a JSON object")
    messages = _messages(data.get("messages"))
    text = data.get("prompt")
    if text is None and messages:
        text = next((content for role, content in reversed(messages) if role == "user"), messages[-1][1])
    if not isinstance(text, str) or not text:
        raise PromptError('give "prompt" (text) or "messages" (a list)')
    answer, template, group = data.get("answer"), data.get("chat_template_kwargs", {}), data.get("group", "")
    if answer is not None and not (isinstance(answer, str) and answer):
        raise PromptError('"answer" should be the text that was served')
    if not isinstance(template, dict):
        raise PromptError('"chat_template_kwargs" should be an object')
    if not isinstance(group, str | int | float | bool):
        raise PromptError('"group" should be a word')
    return Prompt(index, text, messages, str(group), answer, template)


def _messages(data: Any) -> tuple[tuple[str, str], ...]:
    if data is None:
        return ()
    usable = isinstance(data, list) and all(
        isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str)
        for m in data
    )
    if not usable or not data:
        raise PromptError('"messages" should be a list of objects with a role and a content, both text')
    return tuple((m["role"], m["content"]) for m in data)


def digest(prompts: Sequence[Prompt]) -> str:
    """Identifies the prompts, so that an audit is only ever resumed with the same ones."""
    content = json.dumps([asdict(p) for p in prompts], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def encode(pair: Any, prompt: Prompt, style: str, tokenizer: Any = None) -> list[int]:
    """Token ids that a model reads before the answer.

    Args:
        pair: says how text becomes ids.
        prompt: what was asked.
        style: "plain" (the text alone) or "chat" (in the chat template).
        tokenizer: whose template is used; the target's if None. Its ids mean the same.

    Raises:
        ValueError: if there is no template, or it does not take these messages.
    """
    if style == "plain":
        return pair.encode(prompt.text, False)
    if not prompt.messages and not prompt.template and tokenizer is None:
        return pair.encode(prompt.text, True)
    messages = prompt.messages or (("user", prompt.text),)
    return _render(pair, tokenizer or pair.tokenizer, messages, prompt.template)


def answer_ids(pair: Any, answer: str) -> list[int]:
    """Token ids of a served answer; text that looks like a control token stays text."""
    tokenizer = getattr(pair, "tokenizer", None)
    return pair.encode(answer, False) if tokenizer is None else _encode(tokenizer, answer, split=True)


def _render(
    pair: Any, tokenizer: Any, messages: Sequence[tuple[str, str]], kwargs: dict[str, Any]
) -> list[int]:
    """A conversation in a chat template. What people wrote never becomes a control token: the template is
    rendered around placeholders where it would, and the contents are encoded as text in between."""
    if not tokenizer.chat_template:
        raise ValueError("the model has no chat template; use plain prompts")
    control = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    if not any(token in content for token in control for _, content in messages):
        text = _templated(tokenizer, messages, kwargs)
        return _encode(tokenizer, text, split=False)
    marks = [f"SpecvizMessage{i}Placeholder" for i in range(len(messages))]
    text = _templated(
        tokenizer, [(role, mark) for (role, _), mark in zip(messages, marks, strict=True)], kwargs
    )
    ids: list[int] = []
    for (_, content), mark in zip(messages, marks, strict=True):
        before, found, text = text.partition(mark)
        ids += _encode(tokenizer, before, split=False)
        # Some templates leave out a message, as a thought of an earlier turn.
        ids += _encode(tokenizer, content, split=True) if found else []
    return ids + _encode(tokenizer, text, split=False)


def _templated(tokenizer: Any, messages: Sequence[tuple[str, str]], kwargs: dict[str, Any]) -> str:
    from jinja2 import TemplateError

    shown = [{"role": role, "content": content} for role, content in messages]
    try:
        return tokenizer.apply_chat_template(shown, tokenize=False, add_generation_prompt=True, **kwargs)
    except (TemplateError, ValueError, TypeError) as error:
        raise ValueError(f"the chat template refuses these messages: {error}") from error


def _encode(tokenizer: Any, text: str, *, split: bool) -> list[int]:
    if not text:
        return []
    return tokenizer(text, add_special_tokens=False, split_special_tokens=split).input_ids
