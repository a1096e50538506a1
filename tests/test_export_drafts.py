"""Drafts trained here, in the layouts that engines load: written, read back, and the same draft."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny import letter_tokenizer, llama, save
from transformers import Gemma2Config, Gemma2ForCausalLM

from specviz.__main__ import main
from specviz.decoding.run import DecodingRun
from specviz.models import drafts, load_pair
from specviz.models.language_model import TransformersModel
from specviz.training import states, write
from specviz.training.objective import collate
from specviz.training.texts import Text
from specviz.training.trainees import TRAINEES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("target"), llama(1, layers=4), letter_tokenizer())


@pytest.fixture
def trained(folder, tmp_path, monkeypatch):
    """Trains a kind of draft for the target, and exports it."""
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(write, "NEW_TOKENS", 40)

    def make(kind, *more):
        common = ["--target", folder, "--kind", kind, "--device", "cpu"]
        assert main(["train-drafts", *common, "--tokens", "3000", "--passes", "2", *more]) == 0
        assert main(["export-draft", str(tmp_path / kind), *common]) == 0
        return str(tmp_path / kind)

    return make


@pytest.mark.slow
def test_an_eagle_draft_drafts_as_it_was_trained(trained, folder, capsys):
    out = trained("eagle-1")
    assert "read back" in capsys.readouterr().out
    config = json.loads((Path(out) / "config.json").read_text())
    assert config["bias"] is False and config["num_hidden_layers"] == 1 and config["hidden_size"] == 32
    names = set(load_file(Path(out) / "model.safetensors"))
    layer = {f"self_attn.{x}_proj" for x in "qkvo"} | {f"mlp.{x}_proj" for x in ("gate", "up", "down")}
    assert names == {
        "fc.weight",
        *(f"layers.0.{n}.weight" for n in (*layer, "post_attention_layernorm")),
    }

    pair = load_pair(folder, out, device="cpu", dtype="float32")
    run = DecodingRun(pair, "ab", k=4, max_new_tokens=60, seed=1)
    assert sum(round.accepted for round in run) > 0
    # What training predicts at a place is what decoding drafts from there.
    target = pair.target
    trainee = TRAINEES["eagle-1"](TransformersModel(target.model, "t", pair.vocab_size))
    weights = drafts.read_draft(
        drafts.trained_path("eagle-1", pair.info.fingerprint), "eagle-1", pair.info.fingerprint
    )
    own = {name: value.float() for name, value in weights.tensors.items() if name != "draft_vocab"}
    trainee.trained.load_state_dict(own)
    tokens = run.tokens[:20]
    (example,) = states.look(target, [Text(1.0, 2, tuple(tokens))])
    with torch.no_grad():
        predicted, again = (
            states[0] for states, _ in trainee.predict(collate([example], torch.device("cpu")))
        )
        features = target.states(torch.tensor([tokens]))[0]
        for n in (2, 7, 20):
            before = [None, *features[: n - 1]]
            found = pair.eagle.forward(tokens[:n], before, pair.eagle.new_cache())
            np.testing.assert_allclose(found.features.state, predicted[n - 1], atol=0.02)
        for n in (4, 9):  # one step further, on its own state
            cache = pair.eagle.new_cache()
            first = pair.eagle.forward(tokens[: n - 1], [None, *features[: n - 2]], cache)
            found = pair.eagle.forward(tokens[n - 1 : n], [first.features], cache)
            np.testing.assert_allclose(found.features.state, again[n - 1], atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("ids", [9, 64])
def test_medusa_heads_are_the_same_heads(ids, trained, folder):
    out = trained("medusa", "--vocabulary", str(ids))
    config = json.loads((Path(out) / "config.json").read_text())
    assert config["truncated_vocab_size"] == ids and config["architectures"] == ["MedusaModel"]
    ours = load_pair(folder, device="cpu", dtype="float32").medusa
    theirs = load_pair(folder, out, device="cpu", dtype="float32").medusa
    feature = torch.linspace(-2, 2, 32)
    np.testing.assert_allclose(theirs.forward(feature), ours.forward(feature), atol=0.02)
    assert theirs.available.tolist() == ours.available.tolist() and theirs.count == ours.count == 4


def test_what_cannot_be_written_is_said(trained, folder, tmp_path, capsys):
    line = ["export-draft", str(tmp_path / "x"), "--target", folder, "--device", "cpu", "--kind"]
    (tmp_path / "home").mkdir()
    assert main([*line, "medusa"]) == 1
    assert "train-drafts --kind medusa" in capsys.readouterr().err
    config = Gemma2Config(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        final_logit_softcapping=1.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        other = save(tmp_path / "gemma", Gemma2ForCausalLM(config).eval(), letter_tokenizer())
    common = ["--target", other, "--kind", "medusa", "--device", "cpu"]
    pair = load_pair(other, device="cpu", dtype="float32")
    trainee, print_of = TRAINEES["medusa"](pair.target), pair.info.fingerprint
    tensors = {**trainee.tensors(), "draft_vocab": torch.arange(64)}
    path = drafts.trained_path("medusa", print_of)
    drafts.write_draft(path, "medusa", print_of, tensors, trainee.metadata())
    assert main(["export-draft", str(tmp_path / "y"), *common]) == 1
    assert "more than a matrix" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    assert main(["export-draft", str(tmp_path / "full"), *common]) == 1
    assert "new folder" in capsys.readouterr().err
