"""SGLang: /generate on token ids with log-probabilities of the input, a whole answer at once."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis.log_requests import readings_in
from specviz.diagnosis.served.engine import Answer, Engine, ids_of, named_of, tokenized
from specviz.diagnosis.served.http import Refused
from specviz.diagnosis.served.rows import Row


class Sglang(Engine):
    name = "SGLang"

    def rows(self, tokens: Sequence[int], first: int, available: np.ndarray) -> Iterator[list[Row]]:
        n = len(tokens) - first
        answer = self.server.ask(
            "/generate",
            {
                "input_ids": list(tokens),
                "sampling_params": {"max_new_tokens": 1, "temperature": 1.0},
                "return_logprob": True,
                "logprob_start_len": first - 1,  # nothing is said of the first token from there on
                "top_logprobs_num": self.asked(available),
            },
        )
        meta = _meta(answer)
        chosen, leading = meta.get("input_token_logprobs"), meta.get("input_top_logprobs")
        if (
            not isinstance(chosen, list)
            or not isinstance(leading, list)
            or min(len(chosen), len(leading)) < n
        ):
            raise self.wrong("input_token_logprobs and input_top_logprobs for the whole answer")
        rows = []
        for token, own, others in zip(tokens[first:], chosen[-n:], leading[-n:], strict=True):
            entries = [own, *(others if isinstance(others, list) else [])]
            usable = all(isinstance(e, list | tuple) and len(e) >= 2 for e in entries)
            named = (
                named_of((entry[1], entry[0]) for entry in entries) if usable and len(entries) > 1 else None
            )
            if named is None or named[0][0] != token:
                raise self.wrong("log-probabilities of the very tokens that were sent")
            rows.append(self.row(named, available, len(others)))
        yield rows

    def answer(
        self, prompt: Sequence[int], sampling: SamplingConfig, room: int, seed: int, ignore_eos: bool
    ) -> Answer:
        controls = {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k or -1,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repetition_penalty": 1.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "max_new_tokens": room,
            "ignore_eos": ignore_eos,
            "skip_special_tokens": False,
        }
        answer = self.server.ask(
            "/generate",
            {"input_ids": list(prompt), "sampling_params": controls, "return_logprob": True},
        )
        written = _meta(answer).get("output_token_logprobs")
        ids = ids_of(answer.get("output_ids"))
        if ids is None and isinstance(written, list):
            ids = ids_of([entry[1] for entry in written if isinstance(entry, list) and len(entry) > 1])
        if ids is None:
            raise self.wrong("output_ids")
        return Answer(ids, tuple(readings_in(answer)))

    def encode(self, text: str) -> list[int] | None:
        return tokenized(self.server, {"model": self.model, "prompt": text, "add_special_tokens": False})


def _meta(answer: dict[str, Any]) -> dict[str, Any]:
    """SGLang's `meta_info`; an aborted request comes with status 200."""
    meta = answer.get("meta_info")
    meta = meta if isinstance(meta, dict) else {}
    reason = meta.get("finish_reason")
    if isinstance(reason, dict) and reason.get("type") == "abort":
        raise Refused(f"the server refuses it: {str(reason.get('message', ''))[:300]}")
    return meta
