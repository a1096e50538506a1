"""Small servers that speak as vLLM, SGLang and llama.cpp document it, with a model of ours behind."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from specviz.decoding.sampling import SamplingConfig, effective_probs

NOT_FOUND = (404, {"detail": "Not Found"})


class Served:
    """A served model, and what happened to its server.

    Args:
        model: has `new_cache` and `forward`, as a target has.
        tokenizer: of /tokenize; None for a server without it.
        key: without which 401 is answered; "" for none.
        most: vLLM's --max-logprobs.
        tokens: what it writes, by prompt; the model's greedy text otherwise.
    """

    def __init__(self, model, tokenizer=None, key="", most=20, context=256, draft=True):
        self.model, self.tokenizer, self.key, self.most, self.context = model, tokenizer, key, most, context
        self.draft = draft
        self.asked = []  # (path, body)
        self.faults = []  # answers that come before the real ones: (status, body, headers)
        self.cut_off = False  # no answer at all, the connection closed
        self.counters = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}
        self.lock = threading.Lock()

    def logprobs(self, tokens):
        """(n, V) log-probabilities of what follows each of the tokens, over the model's own ids."""
        output = self.model.forward(list(tokens), self.model.new_cache(), len(tokens))
        scores = output.logits.astype(np.float64)
        if self.model.available is not None:
            off = np.ones(scores.shape[1], dtype=bool)
            off[self.model.available] = False
            scores[:, off] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def write(self, prompt, room, seed, **controls):
        """A text drawn from the model, so that it follows its distribution."""
        sampling, draws = SamplingConfig(**controls), np.random.default_rng(seed)
        tokens = list(prompt)
        cache = self.model.new_cache()
        fed = tokens
        for _ in range(room):
            logits = self.model.forward(fed, cache, 1).logits
            law = effective_probs(logits, [tokens], sampling, self.model.available).probs[0]
            token = int(np.searchsorted(np.cumsum(law), draws.random() * law.sum(), side="right"))
            fed = [min(token, len(law) - 1)]
            tokens += fed
        return tokens[len(prompt) :]

    def leading(self, row, count):
        order = np.lexsort((np.arange(len(row)), -row))[:count]
        return [(int(i), float(row[i])) for i in order if np.isfinite(row[i])]

    def get(self, path):
        return NOT_FOUND

    def post(self, path, body):
        if path == "/tokenize" and self.tokenizer is not None:
            text = body.get("prompt", body.get("content"))
            return 200, {"tokens": self.tokenizer(text, add_special_tokens=False).input_ids}
        return NOT_FOUND

    def drafted(self, written):
        """As if K = 4 had been drafted in each of its rounds, and half of that accepted."""
        rounds = max(1, written // 3)
        with self.lock:
            for name, more in zip(self.counters, (rounds, 4 * rounds, 2 * rounds), strict=True):
                self.counters[name] += more
        return rounds


class VllmServer(Served):
    per_request = True
    ids_returned = True
    cached = 0  # prompt tokens whose log-probabilities a prefix cache swallowed

    def get(self, path):
        if path == "/v1/models":
            model = {"id": "tiny/served", "owned_by": "vllm", "max_model_len": self.context}
            return 200, {"object": "list", "data": [model]}
        if path == "/metrics" and self.draft:
            lines = [f'vllm:spec_decode_num_{n}_total{{engine="0"}} {v}.0' for n, v in self.counters.items()]
            return 200, "\n".join(["# TYPE vllm:spec_decode_num_drafts counter", *lines])
        return NOT_FOUND

    def post(self, path, body):
        if path != "/v1/completions":
            return super().post(path, body)
        tokens, room, wanted = body["prompt"], body["max_tokens"], body.get("prompt_logprobs")
        if len(tokens) + room > self.context:
            return 400, {
                "error": {
                    "message": f"This model's maximum context length is {self.context} tokens.",
                    "type": "BadRequestError",
                    "param": None,
                    "code": 400,
                }
            }
        choice = {"index": 0, "text": "…", "finish_reason": "length", "prompt_logprobs": None}
        answer = {"id": "cmpl-1", "object": "text_completion", "model": body["model"], "choices": [choice]}
        if wanted is None:
            controls = {name: body[name] for name in ("temperature", "top_p", "min_p")}
            ids = self.write(tokens, room, body["seed"], top_k=max(0, body["top_k"]), **controls)
            choice["token_ids"] = ids if self.ids_returned and body.get("return_token_ids") else None
            rounds = self.drafted(len(ids))
            if self.per_request and self.draft:
                counts = {"num_spec_steps": rounds, "num_draft_tokens": 4 * rounds}
                counts["num_accepted_draft_tokens"] = 2 * rounds
                answer["metrics"] = {"speculative_decoding": counts}
            return 200, answer
        count = self.model.vocab_size if wanted == -1 else wanted
        if self.most != -1 and count > self.most:
            said = f"Requested prompt logprobs of {count}, which is greater than max allowed: {self.most}"
            return 400, {"error": {"message": said, "type": "BadRequestError", "param": None, "code": 400}}
        found = [None]
        for token, row in zip(tokens[1:], self.logprobs(tokens)[:-1], strict=True):
            named = self.leading(row, count)
            ids = [id for id, _ in named]
            named += [] if token in ids else [(token, float(row[token]))]
            rank = {id: i for i, (id, _) in enumerate(named, 1)}
            found.append({str(id): {"logprob": p, "rank": rank[id], "decoded_token": "x"} for id, p in named})
        choice["prompt_logprobs"] = [None] * self.cached + found[self.cached :]
        return 200, answer


class SglangServer(Served):
    def get(self, path):
        if path == "/get_model_info":
            return 200, {"model_path": "tiny/served", "is_generation": True}
        return NOT_FOUND

    def post(self, path, body):
        if path != "/generate":
            return super().post(path, body)
        tokens, sampling = body["input_ids"], body["sampling_params"]
        if len(tokens) >= self.context:
            reason = {
                "type": "abort",
                "message": "The input is longer than the model's context length",
                "status_code": 400,
            }
            return 200, {"text": "", "meta_info": {"finish_reason": reason}}
        meta = {"prompt_tokens": len(tokens), "finish_reason": {"type": "length", "length": 1}}
        answer = {"text": "…", "meta_info": meta}
        if "top_logprobs_num" not in body:
            controls = {name: sampling[name] for name in ("temperature", "top_p", "min_p")}
            room = sampling["max_new_tokens"]
            ids = self.write(tokens, room, len(tokens), top_k=max(0, sampling["top_k"]), **controls)
            answer["output_ids"] = ids
            rounds = self.drafted(len(ids))
            meta |= {"completion_tokens": len(ids), "spec_verify_ct": rounds}
            meta |= {"spec_accept_token_num": 2 * rounds, "spec_draft_token_num": 4 * rounds}
            return 200, answer
        start = body["logprob_start_len"]
        rows = self.logprobs(tokens)
        chosen = [[float(rows[i - 1][tokens[i]]), tokens[i], None] for i in range(start + 1, len(tokens))]
        leading = [
            [[p, id, None] for id, p in self.leading(rows[i - 1], body["top_logprobs_num"])]
            for i in range(start + 1, len(tokens))
        ]
        meta["input_token_logprobs"] = [[None, tokens[start], None], *chosen]
        meta["input_top_logprobs"] = [None, *leading]
        return 200, answer


class LlamaServer(Served):
    def get(self, path):
        if path == "/v1/models":
            model = {"id": "served.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": self.context}}
            return 200, {"models": [], "object": "list", "data": [model]}
        return NOT_FOUND

    def post(self, path, body):
        if path != "/completion":
            return super().post(path, body)
        tokens, room = body["prompt"], body["n_predict"]
        if len(tokens) >= self.context:
            said = "the request exceeds the available context size"
            return 400, {"error": {"code": 400, "message": said, "type": "exceed_context_size_error"}}
        controls = {name: body[name] for name in ("temperature", "top_k", "top_p", "min_p")}
        ids = self.write(tokens, room, body.get("seed", len(tokens)), **controls)
        answer = {"content": "…", "tokens": ids if body.get("return_tokens") else [], "stop_type": "limit"}
        timings = {"predicted_n": len(ids), "prompt_n": len(tokens)}
        if room > 1:
            rounds = self.drafted(len(ids))
            timings |= {"draft_n": 4 * rounds, "draft_n_accepted": 2 * rounds}
        answer["timings"] = timings
        if body.get("n_probs"):
            row = self.logprobs(tokens)[-1]

            def entry(id, logprob):
                return {"id": id, "token": "x", "bytes": [120], "logprob": logprob}

            top = [entry(id, p) for id, p in self.leading(row, body["n_probs"])]
            answer["completion_probabilities"] = [{**entry(ids[0], float(row[ids[0]])), "top_logprobs": top}]
        return 200, answer


@contextmanager
def serving(served):
    """The address of a server that runs until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args):
            pass

        def do_GET(self):
            self.reply("")

        def do_POST(self):
            self.reply(self.rfile.read(int(self.headers["Content-Length"])))

        def reply(self, content):
            body = json.loads(content) if content else None
            served.asked.append((self.path, body))
            if served.cut_off:
                self.close_connection = True
                return
            headers = {}
            if served.faults and (body is not None or served.faults[0][3:]):
                status, said, headers = served.faults.pop(0)[:3]
            elif served.key and self.headers.get("Authorization") != f"Bearer {served.key}":
                # As a careless server does, with the key that was sent.
                status, said = 401, {"error": f"Unauthorized: {self.headers.get('Authorization')}"}
            else:
                status, said = served.get(self.path) if body is None else served.post(self.path, body)
            sent = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
