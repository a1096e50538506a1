"""vLLM: /v1/completions on token ids with prompt_logprobs, a whole text at once."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis.log_requests import readings_in
from specviz.diagnosis.served.engine import Answer, Engine, field_of, first_of, ids_of, named_of, tokenized
from specviz.diagnosis.served.http import Refused, ServerError
from specviz.diagnosis.served.rows import Row

ALLOWED = re.compile(r"max allowed:\s*(\d+)")


class Vllm(Engine):
    name = "vLLM"

    def rows(self, tokens: Sequence[int], first: int, available: np.ndarray) -> Iterator[list[Row]]:
        found = self._scored(list(tokens))
        if not isinstance(found, list) or len(found) != len(tokens):
            raise self.wrong("prompt_logprobs for every token of the prompt")
        rows = []
        for entry in found[first:]:
            if not isinstance(entry, dict) or not entry:
                raise self.wrong(
                    "log-probabilities of tokens that its prefix cache holds: start it with "
                    "--no-enable-prefix-caching"
                )
            named = named_of((id, field_of(value, "logprob")) for id, value in entry.items())
            if named is None:
                raise self.wrong("ids and logprobs in prompt_logprobs")
            rows.append(self.row(named, available))
        yield rows

    def _scored(self, tokens: list[int]) -> Any:
        body = {
            "model": self.model,
            "prompt": tokens,
            "max_tokens": 1,
            **_vllm_controls(SamplingConfig()),
        }
        try:
            answer = self.server.ask("/v1/completions", {**body, "prompt_logprobs": self.leading or -1})
        except Refused as error:
            most = ALLOWED.search(str(error))
            if most is None or not int(most.group(1)):
                raise
            if not self.leading:
                raise ServerError(
                    f"{self.server.url} gives at most {most.group(1)} leading tokens: start it with "
                    "--max-logprobs -1, or ask for fewer (--served-leading)"
                ) from None
            self.leading = int(most.group(1))
            answer = self.server.ask("/v1/completions", {**body, "prompt_logprobs": self.leading})
        return first_of(answer.get("choices")).get("prompt_logprobs")

    def answer(
        self, prompt: Sequence[int], sampling: SamplingConfig, room: int, seed: int, ignore_eos: bool
    ) -> Answer:
        answer = self.server.ask(
            "/v1/completions",
            {
                "model": self.model,
                "prompt": list(prompt),
                "max_tokens": room,
                "seed": seed,
                "ignore_eos": ignore_eos,
                "return_token_ids": True,
                **_vllm_controls(sampling),
            },
        )
        ids = ids_of(first_of(answer.get("choices")).get("token_ids"))
        if ids is None:
            raise self.wrong("token_ids: it takes vLLM 0.10.2 or newer, or answers in the file of prompts")
        return Answer(ids, tuple(readings_in(answer)))

    def encode(self, text: str) -> list[int] | None:
        return tokenized(self.server, {"model": self.model, "prompt": text, "add_special_tokens": False})


def _vllm_controls(sampling: SamplingConfig) -> dict[str, Any]:
    """All of them: what is left out is taken from the model's generation_config."""
    return {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or -1,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repetition_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    }
