"""From a prompt to token ids: chat template, BOS, and text that only looks like a control token."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from specviz.models.tokens import special_ids

# Stands for the user's text while a template is rendered. Letters only, so that no template changes it.
PLACEHOLDER = "SpecvizUserTextPlaceholder"
# What decides that a text with a place for the answer is made.
RESERVED = {
    "conversation",
    "chat_template",
    "tokenize",
    "add_generation_prompt",
    "continue_final_message",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
}


class PromptEncoder:
    """Encodes prompts for one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        # Whether control tokens are recognised is state of the tokenizer, which several sessions share.
        self._turn = threading.Lock()
        control = special_ids(tokenizer)
        self._control = [t.content for i, t in tokenizer.added_tokens_decoder.items() if i in control]
        self._prefix = self._added_prefix()

    def plain(self, prompt: str) -> list[int]:
        """BOS, where the tokenizer adds one, and the text. The empty prompt is the BOS, if there is one."""
        if prompt:
            return [*self._prefix, *self._text(prompt)]
        bos = self.tokenizer.bos_token_id
        return self._prefix or ([] if bos is None else [bos])

    def chat(
        self,
        prompt: str,
        *,
        system: str = "",
        earlier: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """The prompt as the user's message in the chat template, up to where the answer begins.

        The text of a control token in any of the messages stays text.

        Args:
            prompt: the user's last message.
            system: what stands before the conversation; "" for nothing, or what the template puts there.
            earlier: the turns before, the user's and the model's in turn, beginning with the user's.
            settings: further variables of the template, as {"enable_thinking": False}.

        Raises:
            ValueError: if there is no template, or it does not take these messages or settings.
        """
        if len(earlier) % 2:
            raise ValueError("earlier turns come in twos: a message of the user and the model's answer to it")
        texts = [*([system] if system else []), *earlier, prompt]
        roles = [*(["system"] if system else []), *("user", "assistant") * (len(earlier) // 2), "user"]
        plain = not any(control in text for control in self._control for text in texts)
        shown = texts if plain else [f"{PLACEHOLDER}{number}X" for number in range(len(texts))]
        messages = [{"role": role, "content": text} for role, text in zip(roles, shown, strict=True)]
        rendered = self._render(messages, dict(settings or {}))
        ids = (
            self._markup(rendered) if plain else self._filled(rendered, dict(zip(shown, texts, strict=True)))
        )
        # Most templates write the BOS themselves.
        return ids if ids[: len(self._prefix)] == self._prefix else [*self._prefix, *ids]

    def _filled(self, rendered: str, texts: dict[str, str]) -> list[int]:
        """Ids of a rendered template in which texts stand for their placeholders."""
        ids: list[int] = []
        for placeholder, text in texts.items():
            before, found, rendered = rendered.partition(placeholder)
            if not found:
                raise ValueError("the model's chat template leaves the message out; use a plain prompt")
            ids += [*self._markup(before), *self._text(text)]
        return ids + self._markup(rendered)

    def _render(self, messages: list[dict[str, str]], settings: dict[str, Any]) -> str:
        from jinja2 import TemplateError

        if not self.tokenizer.chat_template:
            raise ValueError("the model has no chat template; use a plain prompt")
        kind = "a single message" if len(messages) == 1 else "these messages"
        if clash := settings.keys() & RESERVED:
            raise ValueError(f"the chat template's {min(clash)} is not yours to set")
        try:
            return self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **settings
            )
        except (TemplateError, ValueError, TypeError) as error:
            raise ValueError(f"the model's chat template refuses {kind}: {error}") from error

    def _text(self, text: str) -> list[int]:
        """Ids of a text in which nothing is a control token."""
        return self._encode(text, split_special_tokens=True)

    def _markup(self, text: str) -> list[int]:
        """Ids of a text in which control tokens are recognised."""
        return self._encode(text, split_special_tokens=False)

    def _encode(
        self, text: str, *, split_special_tokens: bool, add_special_tokens: bool = False
    ) -> list[int]:
        with self._turn:
            return self.tokenizer(
                text, add_special_tokens=add_special_tokens, split_special_tokens=split_special_tokens
            ).input_ids

    def _added_prefix(self) -> list[int]:
        """What the tokenizer puts before a text by itself: a BOS, or nothing."""
        text = self._text("a")
        whole = self._encode("a", split_special_tokens=True, add_special_tokens=True)
        for start in range(len(whole)):
            if whole[start : start + len(text)] == text:
                return whole[:start]
        return []
