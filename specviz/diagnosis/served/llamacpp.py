"""llama.cpp: /completion with n_probs, a completion a position on the text that its cache still holds."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis.log_requests import readings_in
from specviz.diagnosis.served.engine import Answer, Engine, field_of, first_of, ids_of, named_of, tokenized
from specviz.diagnosis.served.rows import Row


class LlamaCpp(Engine):
    name = "llama.cpp"
    usual = 100

    def rows(self, tokens: Sequence[int], first: int, available: np.ndarray) -> Iterator[list[Row]]:
        body = {
            "n_predict": 1,
            "n_probs": self.asked(available),
            "post_sampling_probs": False,
            "cache_prompt": True,
            **_llama_controls(SamplingConfig()),
        }
        for i in range(first, len(tokens)):
            answer = self.server.ask("/completion", {"prompt": list(tokens[:i]), **body})
            place = first_of(answer.get("completion_probabilities"))
            leading = place.get("top_logprobs")
            drawn = [place] if "id" in place and "logprob" in place else []
            leading = leading if isinstance(leading, list) else []
            entries = [*leading, *drawn] if leading else []
            named = named_of((field_of(e, "id"), field_of(e, "logprob")) for e in entries)
            if not named:
                raise self.wrong("ids with logprobs in completion_probabilities: it takes a build of 2025")
            yield [self.row(named, available, len(leading))]

    def answer(
        self, prompt: Sequence[int], sampling: SamplingConfig, room: int, seed: int, ignore_eos: bool
    ) -> Answer:
        answer = self.server.ask(
            "/completion",
            {
                "prompt": list(prompt),
                "n_predict": room,
                "seed": seed,
                "ignore_eos": ignore_eos,
                "return_tokens": True,
                "cache_prompt": True,
                **_llama_controls(sampling),
            },
        )
        ids = ids_of(answer.get("tokens"))
        if ids is None:
            raise self.wrong("tokens (return_tokens)")
        return Answer(ids, tuple(readings_in(answer)))

    def encode(self, text: str) -> list[int] | None:
        return tokenized(self.server, {"content": text, "add_special": False, "parse_special": False})


def _llama_controls(sampling: SamplingConfig) -> dict[str, Any]:
    """In our order, which is not its own: it would apply the temperature last."""
    return {
        "samplers": ["temperature", "top_k", "top_p", "min_p"],
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": 1.0,
        "stream": False,
    }
