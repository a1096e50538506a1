"""From a prompt to token ids: chat template, BOS, and text that only looks like a control token."""

import threading
from typing import Any

from specviz.models.tokens import special_ids

# Stands for the user's text while a template is rendered. Letters only, so that no template changes it.
PLACEHOLDER = "SpecvizUserTextPlaceholder"


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

    def chat(self, prompt: str) -> list[int]:
        """The prompt as the user's message in the chat template, up to where the answer begins.

        Raises:
            ValueError: if there is no template, or it does not take a single user message.
        """
        if not any(control in prompt for control in self._control):
            ids = self._markup(self._render(prompt))
        else:
            before, found, after = self._render(PLACEHOLDER).partition(PLACEHOLDER)
            if not found:
                raise ValueError("the model's chat template leaves the message out; use a plain prompt")
            ids = [*self._markup(before), *self._text(prompt), *self._markup(after)]
        # Most templates write the BOS themselves.
        return ids if ids[: len(self._prefix)] == self._prefix else [*self._prefix, *ids]

    def _render(self, content: str) -> str:
        from jinja2 import TemplateError

        if not self.tokenizer.chat_template:
            raise ValueError("the model has no chat template; use a plain prompt")
        message = [{"role": "user", "content": content}]
        try:
            return self.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        except (TemplateError, ValueError, TypeError) as error:
            raise ValueError(f"the model's chat template refuses a single message: {error}") from error

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
