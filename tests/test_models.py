"""Models behind the engine: logits, caches, vocabularies, prompts, devices, and what is refused."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import CHAT, VOCAB, byte_tokenizer, letter_tokenizer, llama, save, tiny_pair
from transformers import MambaConfig, MambaForCausalLM

from specviz.decoding import cache as caches
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.models import LoadError, drafts, load_pair, sources
from specviz.models.language_model import TransformersModel
from specviz.models.prompts import PromptEncoder

PROMPT = [3, 10, 20, 30, 40, 7]
ROOT = Path(__file__).parent.parent


@pytest.fixture
def folders(tmp_path):
    """A target and a draft of different widths, saved as transformers saves them."""
    tokenizer = letter_tokenizer(bos=True, template=CHAT)
    target = save(tmp_path / "target", llama(1, width=72), tokenizer)
    draft = save(tmp_path / "draft", llama(2, width=len(VOCAB)), tokenizer)
    return target, draft


# --- logits, caches, features -----------------------------------------------------------------------


def test_logits_are_those_of_the_model():
    model = llama(1)
    wrapped = TransformersModel(model, "tiny", len(VOCAB))
    with torch.no_grad():
        plain = model(torch.tensor([PROMPT])).logits[0].numpy()
    out = wrapped.forward(PROMPT, wrapped.new_cache(), rows=3)
    assert out.logits.dtype == np.float32 and out.features is None
    np.testing.assert_allclose(out.logits, plain[-3:], atol=1e-5)


def test_passes_behind_a_cache_keep_their_positions():
    model = TransformersModel(llama(1), "tiny", len(VOCAB))
    whole = model.forward(PROMPT, model.new_cache(), rows=len(PROMPT)).logits
    cache = model.new_cache()
    parts = [model.forward(part, cache, rows=len(part)).logits for part in ([3], [10, 20], [30, 40, 7])]
    assert caches.length(cache) == len(PROMPT)
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-5)
    caches.keep(cache, 2)
    again = model.forward(PROMPT[2:], cache, rows=4).logits
    np.testing.assert_allclose(again, whole[2:], atol=1e-5)


def test_features_are_the_last_hidden_states_of_all_fed_tokens():
    model = llama(1)
    wrapped = TransformersModel(model, "tiny", len(VOCAB))
    with torch.no_grad():
        states = model.model(torch.tensor([PROMPT])).last_hidden_state[0]
    cache = wrapped.new_cache()
    wrapped.forward(PROMPT[:2], cache, rows=1)
    features = wrapped.forward(PROMPT[2:], cache, rows=1, features=True).features
    torch.testing.assert_close(features, states[2:], atol=1e-5, rtol=0)


def test_time_in_the_model_adds_up():
    model = TransformersModel(llama(1), "tiny", len(VOCAB))
    assert model.forward_seconds == 0
    model.forward(PROMPT, model.new_cache(), rows=1)
    once = model.forward_seconds
    model.forward(PROMPT, model.new_cache(), rows=1)
    assert 0 < once < model.forward_seconds


def test_half_precision_gives_float32_logits(folders):
    pair = load_pair(*folders, device="cpu", dtype="bfloat16")
    assert pair.info.target.dtype == pair.info.draft.dtype == "bfloat16"
    out = pair.target.forward(PROMPT, pair.target.new_cache(), rows=2)
    assert out.logits.dtype == np.float32
    assert pair.target.tolerance > tiny_pair().target.tolerance


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_tolerance_covers_rounding(folders, dtype):
    pair = load_pair(*folders, device="cpu", dtype=dtype)
    model, text = pair.target, np.random.default_rng(1).integers(3, 64, 120).tolist()
    cache = model.new_cache()
    for start in range(0, 119, 7):
        model.forward(text[start : start + 7][: 119 - start], cache, rows=1)
    audit = caches.audit(model, cache, text, expected=119)
    assert audit.ok, audit


# --- vocabularies -----------------------------------------------------------------------------------


def test_padded_rows_are_cut():
    model = llama(1, width=72)
    wrapped = TransformersModel(model, "wide", len(VOCAB))
    assert wrapped.available is None and wrapped.info().vocab_size == 72
    assert wrapped.forward(PROMPT, wrapped.new_cache(), rows=2).logits.shape == (2, 64)


def test_missing_rows_are_not_available():
    wrapped = TransformersModel(llama(1, width=50), "narrow", len(VOCAB))
    logits = wrapped.forward(PROMPT, wrapped.new_cache(), rows=2).logits
    assert logits.shape == (2, 64) and np.isneginf(logits[:, 50:]).all()
    assert wrapped.available.tolist() == list(range(50))
    probs = effective_probs(logits, [PROMPT] * 2, SamplingConfig(), wrapped.available).probs
    assert (probs[:, 50:] == 0).all() and np.allclose(probs.sum(axis=1), 1)


def test_ids_without_a_token_are_never_emitted(tmp_path):
    tokenizer = letter_tokenizer()
    tokenizer.add_tokens(["later"])  # id 64
    vocab = tokenizer.get_vocab()
    del vocab[VOCAB[60]]
    tokenizer.get_vocab = lambda: vocab
    loaded = sources.Loaded("x", "x", sources.Place("cpu", "float32"), llama(1, 72), tokenizer, "")
    model = TransformersModel(loaded.model, "x", loaded.vocab_size, loaded.known_ids())
    assert loaded.vocab_size == 65
    assert 60 not in model.available and 64 in model.available and len(model.available) == 64


def test_a_pair_of_different_widths_decodes(folders):
    pair = load_pair(*folders, device="cpu")
    assert (pair.vocab_size, pair.info.target.vocab_size, pair.info.draft.vocab_size) == (64, 72, 64)
    assert "heads of 72 and 64 rows" in str(pair.compatibility)
    run = DecodingRun(pair, "some text", drafter="model", k=4, max_new_tokens=20, seed=3)
    for _ in run:
        pass
    assert run.emitted == 20 or run.finish == "eos"
    assert all(token < 64 for token in run.tokens)


def test_a_target_alone_has_no_draft(folders):
    pair = load_pair(folders[0], device="cpu")
    assert pair.draft is None and pair.info.draft is None and pair.compatibility is None
    run = DecodingRun(pair, "abc abc abc ", drafter="ngram", k=3, max_new_tokens=8)
    assert list(run)


# --- whole runs -------------------------------------------------------------------------------------


def plain_greedy(model, prompt, count, stop):
    """Greedy decoding without any cache."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(model.forward(tokens, model.new_cache(), rows=1).logits[0].argmax()))
        if tokens[-1] in stop:
            break
    return tokens[len(prompt) :]


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_greedy_output_is_the_targets_own(tiny_llama_pair, drafter, k):
    pair = tiny_llama_pair
    greedy = SamplingConfig(temperature=0.0)
    run = DecodingRun(pair, "once upon", drafter=drafter, k=k, sampling=greedy, max_new_tokens=24)
    for _ in run:
        audit = caches.audit(pair.target, run.target_cache, run.tokens, len(run.tokens) - 1)
        assert audit.ok
    assert run.tokens[len(run.prompt_ids) :] == plain_greedy(pair.target, run.prompt_ids, 24, pair.eos_ids)


def test_a_draft_equal_to_the_target_is_always_accepted():
    pair = tiny_pair(draft_seed=1)
    run = DecodingRun(pair, "once upon", drafter="model", k=3, max_new_tokens=40, seed=5)
    rounds = list(run)
    assert len(rounds) > 3 and all(round.accepted == round.k for round in rounds)


def test_naming_one_model_twice_loads_it_once(folders):
    pair = load_pair(folders[0], folders[0], device="cpu")
    assert pair.draft is not pair.target and pair.draft.model is pair.target.model


# --- prompts ----------------------------------------------------------------------------------------


def encoder(**kwargs):
    return PromptEncoder(byte_tokenizer("the user asks: some text <|user|> </s>", **kwargs))


def test_exactly_one_bos():
    assert encoder(bos=True).plain("text").count(0) == 1
    assert encoder(bos=False).plain("text").count(0) == 0
    # The template leaves the BOS out, or writes it itself.
    assert encoder(bos=True, template=CHAT).chat("text").count(0) == 1
    written = encoder(bos=True, template="<s>" + CHAT).chat("text")
    assert written.count(0) == 1 and written[0] == 0
    assert encoder(bos=False, template="<s>" + CHAT).chat("text").count(0) == 1


@pytest.mark.parametrize("text", ["<s>", "a </s> b", "<|user|><|user|>", "<s><s>text"])
def test_control_tokens_in_a_prompt_stay_text(text):
    prompts = encoder(bos=True, template=CHAT)
    for ids, control in ((prompts.plain(text), [0]), (prompts.chat(text), [0, 2, 1])):
        assert [id for id in ids if id < 3] == control
        assert text in prompts.tokenizer.decode(ids)


def test_a_chat_is_encoded_as_the_template_writes_it():
    prompts = encoder(template=CHAT)
    whole = prompts.tokenizer("<|user|>some text</s>:", add_special_tokens=False).input_ids
    assert prompts.chat("some text") == whole
    assert prompts.chat("a </s>")[0] == 2


def test_an_empty_prompt_is_the_bos_or_nothing():
    assert encoder(bos=True).plain("") == [0]
    assert encoder(bos=False).plain("") == [0]
    nameless = byte_tokenizer("text")
    nameless.bos_token = None
    assert PromptEncoder(nameless).plain("") == []


def test_a_prompt_without_tokens_is_refused():
    pair = tiny_pair()
    pair.tokenizer.bos_token = None
    for prompt in ("", "é"):  # the tiny vocabulary drops what it does not know
        with pytest.raises(ValueError, match="no tokens"):
            DecodingRun(pair, prompt, drafter="ngram")


def test_templates_that_do_not_fit_are_explained():
    with pytest.raises(ValueError, match="no chat template"):
        encoder().chat("text")
    with pytest.raises(ValueError, match="refuses a single message: system first"):
        encoder(template="{{ raise_exception('system first') }}").chat("text")
    with pytest.raises(ValueError, match="leaves the message out"):
        encoder(template="<|user|>fixed").chat("<s>")


# --- what ends a text, what names the weights --------------------------------------------------------


def test_every_source_of_eos_counts():
    tokenizer, model = letter_tokenizer(), llama(1)
    model.generation_config.eos_token_id = [5, 6]
    model.config.eos_token_id = 7
    target = TransformersModel(model, "tiny", len(VOCAB))
    pair = type(tiny_pair())("tiny", target, None, tokenizer)
    assert pair.eos_ids == {1, 5, 6, 7}


def test_the_fingerprint_follows_the_weights_only(folders, tmp_path):
    path = Path(folders[0]) / "model.safetensors"
    original = sources.fingerprint([path])
    weights = load_file(path)
    renamed = tmp_path / "renamed.safetensors"
    save_file(weights, renamed, metadata={"note": "another header"})
    assert sources.fingerprint([renamed]) == original
    next(iter(weights.values())).view(-1)[0] += 1
    save_file(weights, renamed)
    assert sources.fingerprint([renamed]) != original
    assert load_pair(folders[0], device="cpu", dtype="bfloat16").info.fingerprint == original


# --- what is refused ---------------------------------------------------------------------------------


def test_recurrent_models_are_refused_with_the_reason(tmp_path):
    config = MambaConfig(vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=2)
    folder = save(tmp_path / "mamba", MambaForCausalLM(config), letter_tokenizer())
    with pytest.raises(LoadError, match="cannot be rolled back"):
        load_pair(folder, device="cpu")


def test_pickled_weights_are_refused(tmp_path):
    folder = Path(save(tmp_path / "model", llama(1), letter_tokenizer()))
    torch.save({}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(LoadError, match=r"no \.safetensors weights"):
        load_pair(str(folder), device="cpu")


def test_a_damaged_folder_is_refused(folders):
    (Path(folders[0]) / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0notjson!")
    with pytest.raises(LoadError, match="are damaged"):
        load_pair(folders[0], device="cpu")


@pytest.mark.parametrize("name", ["../nowhere", "two words"])
def test_a_name_that_cannot_be_a_model_is_refused(name):
    with pytest.raises(LoadError, match="neither a local folder nor a hub id"):
        load_pair(name, device="cpu")


def test_no_name_is_refused():
    with pytest.raises(LoadError, match="not by nothing"):
        load_pair("", device="cpu")


def test_an_unknown_hub_id_says_what_was_tried(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        LoadError, match=r"nobody/nothing cannot be loaded: it is no local folder, the hub said"
    ):
        load_pair("nobody/nothing", device="cpu")


def test_devices_and_dtypes_that_are_not_there():
    with pytest.raises(LoadError, match="device 'cuda:99' cannot be used"):
        sources.place("cuda:99", None)
    with pytest.raises(LoadError, match="device 'abacus' cannot be used"):
        sources.place("abacus", None)
    with pytest.raises(LoadError, match="unknown dtype 'int8'"):
        sources.place("cpu", "int8")
    with pytest.raises(LoadError, match="no numbers"):
        sources.place("meta", None)
    with pytest.raises(LoadError) as said:
        sources.place("mps", None)
    assert len(str(said.value)) < 200
    if not torch.cuda.is_available():
        with pytest.raises(LoadError, match="there are none"):
            sources.place("auto", None)


def test_the_device_is_chosen_by_what_is_there(monkeypatch):
    monkeypatch.setattr(torch, "empty", lambda *args, device: None)  # no such device here to allocate on
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (8, 0))
    assert sources.place(None, None) == sources.Place("cuda", "bfloat16")
    assert "natively" in sources.place(None, None).reason
    assert sources.place("auto", None) == sources.Place("auto", "bfloat16")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (7, 5))
    assert sources.place("cuda:1", None) == sources.Place("cuda:1", "float32")
    assert "7.5) has no native bfloat16" in sources.place(None, None).reason
    assert sources.place(None, "bfloat16").reason == "asked for"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert sources.place(None, None) == sources.Place("mps", "float32")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert sources.place(None, None) == sources.Place("cpu", "float32")


def test_importing_the_package_does_not_import_torch():
    code = "import sys, specviz.models; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


# --- the hub -----------------------------------------------------------------------------------------


class FakeHub(BaseHTTPRequestHandler):
    """As much of the hub's interface as a download needs; serves the files of `folder`."""

    folder: Path
    commit = "c" * 40

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        files = sorted(path.name for path in self.folder.iterdir())
        if "/api/models/" in self.path:
            siblings = [{"rfilename": n, "size": (self.folder / n).stat().st_size} for n in files]
            body = json.dumps({"id": "me/tiny", "sha": self.commit, "siblings": siblings}).encode()
        elif (name := self.path.rsplit("/", 1)[-1]) in files:
            body = (self.folder / name).read_bytes()
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{len(body)}{hash(body)}"')
        self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.mark.slow
def test_a_hub_model_is_downloaded_with_progress_and_kept(folders, tmp_path):
    folder = Path(folders[0])
    (folder / "pytorch_model.bin").write_bytes(b"a pickle nobody asked for")
    handler = type("Handler", (FakeHub,), {"folder": folder})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = """
from specviz.models import load_pair
steps = []
pair = load_pair("me/tiny", device="cpu", progress=steps.append)
seen = [step.done for step in steps if step.stage.startswith("downloading model.safetensors")]
print(pair.info.target.name, pair.vocab_size, len(seen) and seen[-1] > seen[0])
"""
    env = {"PATH": "/usr/bin:/bin", "HF_HOME": str(tmp_path / "hub")}
    env["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"

    def load() -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        return done.stdout or done.stderr

    assert load() == "tiny 64 True\n"
    kept = [path.name for path in (tmp_path / "hub").rglob("*")]
    assert "model.safetensors" in kept and "pytorch_model.bin" not in kept
    server.shutdown()
    server.server_close()
    assert load() == "tiny 64 0\n"  # the hub is gone: what was downloaded is used


# --- the draft that ships ----------------------------------------------------------------------------


def test_draft_weights_for_another_target_are_refused(tmp_path):
    shipped = drafts.FOLDER / "model.safetensors"
    with pytest.raises(LoadError, match="have target_fingerprint"):
        drafts.read_draft(shipped, "model", "sha256:another")
    with pytest.raises(LoadError, match="have kind 'model'"):
        drafts.read_draft(shipped, "medusa", "")
    with pytest.raises(LoadError, match="cannot be read"):
        drafts.read_draft(tmp_path / "missing.safetensors", "model", "")
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(shipped.read_bytes()[:5000])
    with pytest.raises(LoadError, match="cannot be read"):
        drafts.read_draft(damaged, "model", "")


def probability(pair, model, text, token):
    ids = pair.encode(text, chat=False)
    logits = model.forward(ids, model.new_cache(), rows=1).logits
    probs = effective_probs(logits, [ids], SamplingConfig(temperature=1.0), model.available).probs[0]
    (id,) = pair.encode(token, chat=False)
    return probs[id]


@pytest.mark.pair
def test_the_built_in_pair_says_what_it_should(built_in_pair):
    pair, text = built_in_pair, "The capital of France is"
    assert pair.info.target.dtype == "float32" or torch.cuda.is_available()
    room = 0.01 if pair.info.target.dtype == "float32" else 0.05
    for model, after, token, expected in (
        (pair.target, text, " Paris", 0.773),
        (pair.draft, text, " a", 0.108),
        (pair.draft, text, " the", 0.131),
        (pair.draft, text, " Paris", 0.354),
        (pair.target, text + " Paris", ".", 0.684),
        (pair.draft, text + " Paris", ".", 0.600),
    ):
        assert probability(pair, model, after, token) == pytest.approx(expected, abs=room)


@pytest.mark.pair
def test_the_built_in_pair_describes_itself(built_in_pair):
    info = built_in_pair.info
    assert (info.name, info.vocab_size, info.draft_vocab_size) == ("built-in", 49_152, 8_192)
    assert (info.target.parameters, info.target.layers) == (134_515_008, 30)
    assert built_in_pair.target.context_length == built_in_pair.draft.context_length == 8_192
    assert built_in_pair.eos_ids == {0, 2}
    assert info.fingerprint.startswith("sha256:b179c952")


@pytest.mark.pair
def test_the_built_in_draft_shares_the_targets_embedding_and_stays_in_its_vocabulary(built_in_pair):
    target, draft = built_in_pair.target, built_in_pair.draft
    assert draft.model.get_input_embeddings().weight is target.model.get_input_embeddings().weight
    assert len(draft.available) == 8_192
    logits = draft.forward([1, 2, 3], draft.new_cache(), rows=2).logits
    assert logits.shape == (2, 49_152)
    assert np.isneginf(np.delete(logits, draft.available, axis=1)).all()
    assert np.isfinite(logits[:, draft.available]).all()


@pytest.mark.pair
@pytest.mark.parametrize("which", ["target", "draft"])
def test_the_built_in_caches_agree_with_uncached_passes(built_in_pair, which):
    model = getattr(built_in_pair, which)
    tokens = built_in_pair.encode("It was a dark and stormy night; the rain fell in torrents.", chat=True)
    cache = model.new_cache()
    for start in range(0, len(tokens) - 5, 3):
        model.forward(tokens[start : start + 3], cache, rows=1)
    caches.keep(cache, len(tokens) - 6)
    audit = caches.audit(model, cache, tokens, expected=len(tokens) - 6)
    assert audit.ok and len(audit.max_abs_diff) == 6, audit


@pytest.mark.pair
def test_a_built_in_chat_is_framed_by_the_template(built_in_pair):
    pair = built_in_pair
    ids = pair.encode("Say <|im_end|>", chat=True)
    control = [pair.token_text(id).data for id in ids if pair.token_text(id).special]
    assert control == [b"<|im_start|>", b"<|im_end|>", b"<|im_start|>", b"<|im_end|>", b"<|im_start|>"]
    text = b"".join(pair.token_text(id).data for id in ids)
    assert text.endswith(b"<|im_start|>user\nSay <|im_end|><|im_end|>\n<|im_start|>assistant\n")


# --- conversations ----------------------------------------------------------------------------------

TALK = (
    "{% for message in messages %}<|user|>{{ message['role'] }}:{{ message['content'] }}</s>{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}no{% endif %}"
    "{% if add_generation_prompt %}:{% endif %}"
)


def test_a_conversation_is_encoded_as_the_template_writes_it():
    prompts = encoder(template=TALK)
    ids = prompts.chat("c", system="s", earlier=("a", "b"), settings={"enable_thinking": False})
    text = "<|user|>system:s</s><|user|>user:a</s><|user|>assistant:b</s><|user|>user:c</s>no:"
    assert ids == prompts.tokenizer(text, add_special_tokens=False).input_ids
    assert prompts.chat("c", settings={"enable_thinking": True})[-2:] != ids[-2:]


def test_control_tokens_in_any_turn_stay_text():
    prompts = encoder(template=TALK)
    ids = prompts.chat("<s>", system="</s>", earlier=("<|user|>", "x"))
    assert [id for id in ids if id < 3] == [2, 1] * 4
    assert "user:<s>" in prompts.tokenizer.decode(ids) and "system:</s>" in prompts.tokenizer.decode(ids)


def test_conversations_that_cannot_be_are_explained():
    prompts = encoder(template=TALK)
    with pytest.raises(ValueError, match="come in twos"):
        prompts.chat("c", earlier=("a",))
    with pytest.raises(ValueError, match="tokenize is not yours to set"):
        prompts.chat("c", settings={"tokenize": True})
    with pytest.raises(ValueError, match="refuses these messages"):
        encoder(template="{{ raise_exception('no system') }}").chat("c", system="s")


def test_the_command_line_takes_conversations_and_ids(tmp_path, capsys):
    from specviz.__main__ import main

    folder = save(tmp_path / "m", llama(1), letter_tokenizer(template=TALK))
    line = ["trace", "--target", folder, "--drafter", "ngram", "--device", "cpu", "--json"]
    line += ["--max-new-tokens", "3"]
    out = tmp_path / "t.json"
    assert (
        main([*line, "--prompt", "c", "--system", "s", "--turn", "a", "--turn", "b", "--out", str(out)]) == 0
    )
    saved = json.loads(out.read_text())
    assert saved["chat"] and saved["prompt_ids"].count(2) == 4
    assert main([*line, "--prompt-ids", "5, 6 7", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["prompt_ids"] == [5, 6, 7]
    written = json.loads(out.read_text())["rounds"][0]["committed"][0]
    assert main([*line, "--prompt-ids", "5, 6 7", "--ban", str(written), "--out", str(out)]) == 0
    again = json.loads(out.read_text())
    assert again["sampling"]["banned"] == again["draft_sampling"]["banned"] == [written]
    assert all(written not in round["committed"] for round in again["rounds"])
    capsys.readouterr()
    for wrong, said in (
        (["--prompt", "c", "--ban", "64"], "outside the vocabulary of 64"),
        (["--prompt-ids", "5 x"], "neither a token id nor a text"),
        (["--prompt-ids", "99"], "outside the vocabulary of 64"),
        (["--prompt-ids", "5", "--system", "s"], "whole prompt"),
        (["--prompt", "c", "--chat-settings", "[1]"], "must be a JSON object"),
        (["--prompt", "c", "--chat-settings", "{"], "are not JSON"),
    ):
        assert main([*line, *wrong]) == 1
        assert said in capsys.readouterr().err
