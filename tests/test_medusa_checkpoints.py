"""Published Medusa heads: loaded, run, exact, refused by name; and pickles made safe."""

import os
import pickle

import numpy as np
import published
import pytest
import torch
from branching import enumerate_law
from elsewhere import require_same_there
from tables import total_variation
from test_checkpoints import loaded, pair_with, require_one_copy, target_of
from test_drafters import PROMPT, plain_law

from specviz.__main__ import main
from specviz.decoding.block import verify_whole_block
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.tree import shape
from specviz.models import checkpoints, hub
from specviz.models.errors import LoadError
from specviz.models.progress import silent

LAYOUTS = {
    "authors": published.medusa_authors,
    "authors, two blocks": lambda v: published.medusa_authors(v, blocks=2),
    "vLLM": published.medusa_vllm,
    "vLLM, fewer ids, bias": lambda v: published.medusa_vllm(v, ids=[*range(1, v)], bias=True),
    "vLLM, one head, prefix": lambda v: published.medusa_vllm(v, one=True, prefix="medusa_heads."),
}


def medusa(tmp_path, name, vocabulary=7, **changes):
    target = target_of(vocabulary)
    config, tensors = LAYOUTS[name](vocabulary)
    made = ({**config, **changes}, tensors)
    return target, made, pair_with(loaded(tmp_path, made, target), target, "medusa")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_run_drafts_what_the_formulas_say(name, tmp_path):
    target, made, pair = medusa(tmp_path, name)
    run = DecodingRun(pair, PROMPT, drafter="medusa", k=3, max_new_tokens=16)
    compared = 0
    while run.finish is None:
        text = list(run.tokens)
        round = run.step()
        if round.k:
            with torch.no_grad():
                states = target.model.model(torch.tensor([text[:-1]])).last_hidden_state[0, -1]
            logits = published.medusa_logits(*made, states.numpy(), 7)[: round.k]
            probs = np.exp(logits - logits.max(1, keepdims=True))
            np.testing.assert_allclose(run.recent.draft_probs, probs / probs.sum(1, keepdims=True), atol=2e-5)
            compared += round.k
    require_same_there(pair, PROMPT, drafter="medusa", k=3, max_new_tokens=16)
    assert compared >= 8


def test_its_rounds_on_a_device_come_to_the_host_in_one_copy(tmp_path):
    made = LAYOUTS["vLLM, fewer ids, bias"](7)
    require_one_copy(lambda folder, target: loaded(folder, made, target), "medusa", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [{}, {"verifier": verify_whole_block}, {"tree": shape("2-1")}], ids=["token", "block", "tree"]
)
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_law_is_the_targets(name, rule, tmp_path):
    _, _, pair = medusa(tmp_path, name, 3)

    def program(randomness):
        run = DecodingRun(
            pair, PROMPT, drafter="medusa", k=2, max_new_tokens=3, randomness=randomness, **rule
        )
        list(run)
        return tuple(run.tokens[len(PROMPT) :])

    assert total_variation(enumerate_law(program), plain_law(pair, 3)) < 1e-12


@pytest.mark.parametrize("name", ["authors", "vLLM, fewer ids, bias"])
def test_greedy_text_is_the_targets_for_every_k(name, tmp_path):
    target, _, pair = medusa(tmp_path, name)
    with torch.no_grad():
        plain = target.model.generate(torch.tensor([PROMPT]), max_new_tokens=10, do_sample=False)[0].tolist()
    for k in range(1, 9):
        run = DecodingRun(
            pair, PROMPT, drafter="medusa", k=k, sampling=SamplingConfig(0.0), max_new_tokens=10
        )
        list(run)
        assert run.tokens == plain


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_missing_renamed_or_misshapen_tensor_is_refused_by_name(name, tmp_path):
    config, tensors = LAYOUTS[name](7)
    for number, one in enumerate(sorted(tensors)):
        lacking = {n: t for n, t in tensors.items() if n != one}
        wrong = {**tensors, one: torch.cat([tensors[one], tensors[one]])}
        for kind, bad in (("lacking", lacking), ("wrong", wrong)):
            with pytest.raises(LoadError) as raised:
                loaded(tmp_path / f"{kind}{number}", (config, bad), target_of(7))
            assert one in str(raised.value)
    with pytest.raises(LoadError, match=r"stranger\.weight"):
        loaded(tmp_path / "more", (config, {**tensors, "stranger.weight": torch.ones(2)}), target_of(7))


def test_more_heads_than_the_config_names_are_used_and_fewer_are_refused(tmp_path):
    _, _, pair = medusa(tmp_path / "a", "authors", medusa_num_heads=2)
    assert pair.medusa.count == 3
    with pytest.raises(LoadError, match=r"3\.0\.linear"):
        medusa(tmp_path / "b", "authors", medusa_num_heads=4)


def test_a_map_that_names_an_id_twice_is_refused(tmp_path):
    config, tensors = LAYOUTS["vLLM, fewer ids, bias"](7)
    tensors["token_map"][0] = tensors["token_map"][1]
    with pytest.raises(LoadError, match="token_map"):
        loaded(tmp_path, (config, tensors), target_of(7))


class TestPickles:
    def folder(self, tmp_path, content, name):
        config, _ = LAYOUTS["authors"](7)
        published.save(tmp_path / "old", config, {"x": torch.ones(1)})
        (tmp_path / "old" / "model.safetensors").unlink()
        torch.save(content, tmp_path / "old" / name)
        return tmp_path / "old"

    def test_heads_are_rewritten_and_read(self, tmp_path, capsys):
        _, tensors = LAYOUTS["authors"](7)
        old = self.folder(tmp_path, tensors, "medusa_lm_head.pt")
        with pytest.raises(LoadError, match="convert-draft"):
            checkpoints.find(str(old), silent)
        assert main(["convert-draft", str(old), str(tmp_path / "new")]) == 0
        assert "FasterDecoding" in capsys.readouterr().out
        found = checkpoints.find(str(tmp_path / "new"), silent)
        assert found.kind == "medusa" and found.verifier == "someone/a-target"
        made = found.load(target_of(7), silent)
        state = torch.linspace(-1, 1, published.H, dtype=torch.float64)
        expected = published.medusa_logits(*LAYOUTS["authors"](7), state.numpy(), 7)
        np.testing.assert_allclose(made.forward(state), expected, atol=1e-5)

    def test_eagle_weights_are_rewritten_and_read(self, tmp_path):
        config, tensors = published.eagle_one(7)
        old = self.folder(tmp_path, tensors, "pytorch_model.bin")
        published.save(old, config, {"x": torch.ones(1)}, "unused.safetensors")
        (old / "unused.safetensors").unlink()
        assert main(["convert-draft", str(old), str(tmp_path / "new")]) == 0
        assert checkpoints.find(str(tmp_path / "new"), silent).kind == "eagle"

    def test_a_pickle_that_would_run_something_is_refused_unrun(self, tmp_path, capsys):
        class Bad:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "ran"),)

        old = self.folder(tmp_path, {"0.0.linear.weight": Bad()}, "medusa_lm_head.pt")
        assert main(["convert-draft", str(old), str(tmp_path / "new")]) == 1
        (old / "medusa_lm_head.pt").write_bytes(pickle.dumps(Bad(), protocol=2))
        assert main(["convert-draft", str(old), str(tmp_path / "new")]) == 1
        assert "more than tensors" in capsys.readouterr().err
        assert not (tmp_path / "ran").exists() and not (tmp_path / "new").exists()

    @pytest.mark.parametrize("content", [[torch.ones(1)], {}, {"a": "text"}])
    def test_what_is_no_table_of_tensors_is_refused(self, content, tmp_path, capsys):
        old = self.folder(tmp_path, content, "medusa_lm_head.pt")
        assert main(["convert-draft", str(old), str(tmp_path / "new")]) == 1
        assert capsys.readouterr().err.startswith("specviz: ")

    def test_an_existing_folder_is_not_written_over(self, tmp_path, capsys):
        old = self.folder(tmp_path, LAYOUTS["authors"](7)[1], "medusa_lm_head.pt")
        assert main(["convert-draft", str(old), str(old)]) == 1
        assert "new folder" in capsys.readouterr().err


def test_of_a_repository_with_heads_alone_the_heads_are_fetched():
    sizes = {"config.json": 1, "medusa_lm_head.safetensors": 2, "medusa_lm_head.pt": 2}
    assert hub._weight_names("someone/heads", "0" * 40, sizes) == ["medusa_lm_head.safetensors"]
