"""Training: a tiny target's drafts get better in seconds, resume, and fit no other target."""

import copy
import json
import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch
from tiny import VOCAB as TOKENS
from tiny import letter_tokenizer, llama, save
from transformers import AutoModelForCausalLM, GPT2Config, Qwen2Config

from specviz.__main__ import main
from specviz.decoding.run import DecodingRun
from specviz.models import LoadError, drafts, load_pair
from specviz.models.language_model import TransformersModel
from specviz.training import fit, states, texts, write
from specviz.training.objective import BETA_WEIGHT, Divergence, Objective, collate
from specviz.training.texts import Text
from specviz.training.trainees import TRAINEES, EagleTrainee

VOCAB = len(TOKENS)


@pytest.fixture(scope="module")
def target() -> TransformersModel:
    return TransformersModel(llama(1, layers=4), "tiny target", VOCAB)


@pytest.fixture(scope="module")
def examples(target) -> list[states.Example]:
    """Texts that the target wrote, as the target sees them."""
    made = write._batch(target, _encoder(), frozenset([1]), (3, 0), 40)
    made += write._batch(target, _encoder(), frozenset([1]), (3, 1), 40)
    return states.look(target, made)


def _encoder():
    from specviz.models.prompts import PromptEncoder

    return PromptEncoder(letter_tokenizer())


def objective_of(target, ids=None) -> Objective:
    kept = torch.arange(VOCAB) if ids is None else torch.tensor(ids)
    return Objective(target.logits_of, kept)


class TestTexts:
    def test_they_survive_a_file(self, tmp_path):
        made = [Text(0.5, 1, (3, 4, 5)), Text(1.0, 2, (0, 1, 2))]
        texts.append(tmp_path / "a.jsonl", made)
        assert texts.read(tmp_path / "a.jsonl") == made

    def test_a_line_that_a_crash_cut_off_is_left_out_and_a_wrong_one_is_named(self, tmp_path):
        path = tmp_path / "a.jsonl"
        texts.append(path, [Text(0.5, 1, (3, 4, 5))])
        whole = path.read_text()
        path.write_text(whole + whole[:10])
        assert len(texts.read(path)) == 1
        for wrong in (
            "nonsense\n",
            '{"T": 1, "k": 3, "ids": [1, 2, 3]}\n',
            '{"T": 1, "k": 1, "ids": [1, -2]}\n',
        ):
            path.write_text(whole + wrong)
            with pytest.raises(ValueError, match="line 2"):
                texts.read(path)

    def test_the_split_hangs_on_the_text_alone(self):
        many = [Text(1.0, 1, (i, i + 1, 7)) for i in range(2000)]
        held_out = [text for text in many if text.held_out]
        assert 50 < len(held_out) < 150
        assert held_out == [text for text in reversed(many) if text.held_out][::-1]


class TestWriting:
    def test_it_goes_on_where_it_stopped_and_repeats_itself(self, target, tmp_path):
        def written(folder, tokens):
            return write.write(
                target, _encoder(), frozenset([1]), folder, tokens, lambda *a: None, seed=4, new_tokens=12
            )

        first = written(tmp_path / "a", 100)
        kept = {path: path.read_bytes() for path in (tmp_path / "a").iterdir()}
        more = written(tmp_path / "a", 600)
        assert more[: len(first)] == first and len(more) > len(first)
        assert all(path.read_bytes() == content for path, content in kept.items())
        assert written(tmp_path / "b", 600) == more

    def test_texts_are_samples_of_the_target_after_their_prompts(self, target):
        """Batched with padding at the left: the mean surprise of the first token is its entropy."""
        made = [t for n in range(6) for t in write._batch(target, _encoder(), frozenset(), (9, n * 5), 1)]
        assert {text.T for text in made} == {1.0}
        surprise = entropy = 0.0
        for text in made:
            logits = target.forward(text.ids[: text.k], target.new_cache(), 1).logits[0].astype(float)
            log_p = logits - np.logaddexp.reduce(logits)
            surprise -= log_p[text.ids[-1]]
            entropy -= float(np.exp(log_p) @ log_p)
        assert surprise / len(made) == pytest.approx(entropy / len(made), abs=0.5)


class TestStates:
    def test_they_give_the_targets_distribution(self, target, examples):
        example = examples[5]
        logits = target.forward(example.text.ids, target.new_cache(), len(example.text.ids)).logits
        expected = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
        head = target.model.get_output_embeddings().weight.detach().numpy()
        p = np.exp(example.states.astype("float32") @ head.T - example.log_z[:, None])
        np.testing.assert_allclose(p, expected, atol=0.01)
        np.testing.assert_array_equal(example.top, logits.argmax(axis=1))

    def test_the_store_goes_on_where_it_stopped(self, target, examples, tmp_path, monkeypatch):
        monkeypatch.setattr(states, "BATCH", 8)
        made = [example.text for example in examples]
        store = states.Store(tmp_path, made, 32, "x")
        store.put(states.look(target, store.texts[:8]))
        passes = []
        monkeypatch.setattr(
            states, "look", lambda t, batch, look=states.look: passes.append(len(batch)) or look(t, batch)
        )
        again = states.Store(tmp_path, made, 32, "x")
        assert again.done == 8
        states.fill(again, target, lambda *a: None)
        assert sum(passes) == len(made) - 8
        for i in (0, 20, len(made) - 1):
            alone = states.look(target, [again[i].text])[0]
            np.testing.assert_allclose(again[i].states, alone.states, atol=0.01)
            np.testing.assert_allclose(again[i].log_z, alone.log_z, atol=1e-3)

    @pytest.mark.parametrize("other", ["identity", "texts"])
    def test_a_store_of_something_else_is_made_anew(self, target, examples, tmp_path, other):
        made = [example.text for example in examples][:8]
        states.fill(states.Store(tmp_path, made, 32, "x"), target, lambda *a: None)
        assert states.Store(tmp_path, made, 32, "x").done == 8
        if other == "texts":
            made = [*made[:-1], Text(1.0, 1, tuple(reversed(made[-1].ids)))]
        assert states.Store(tmp_path, made, 32, "y" if other == "identity" else "x").done == 0


class TestObjective:
    def test_the_gradient_is_that_of_kl_and_overlap(self):
        torch.manual_seed(0)
        z = torch.randn(5, 7, dtype=torch.double, requires_grad=True)
        p = torch.rand(5, 7, dtype=torch.double)
        p /= 1.1 * p.sum(-1, keepdim=True)
        assert torch.autograd.gradcheck(lambda z: Divergence.apply(z, p), z)
        q = z.softmax(-1)
        expected = -(p * q.log()).sum(-1) - BETA_WEIGHT * torch.minimum(p, q).sum(-1)
        torch.testing.assert_close(Divergence.apply(z, p), expected)

    def test_the_target_itself_measures_as_perfect(self, target, examples):
        trainee = TRAINEES["model"](target, 4)
        measured = objective_of(target).measure(trainee, examples[:10])
        assert measured.beta[0] == pytest.approx(1.0, abs=0.01)
        assert measured.agreement[0] > 0.98
        assert measured.tokens == sum(len(e.text.ids) - e.text.k for e in examples[:10])
        assert measured.outside == pytest.approx(0.0, abs=0.01)

    def test_a_trimmed_vocabulary_bounds_beta_by_its_mass(self, target, examples):
        measured = objective_of(target, range(20)).measure(TRAINEES["model"](target, 4), examples[:10])
        assert 0.1 < measured.outside < 0.9
        assert measured.beta[0] <= 1.0 - measured.outside + 1e-6

    def test_a_medusa_head_is_measured_against_the_position_it_leads_to(self, target, examples):
        """Heads that are told the future state are perfect."""
        trainee = TRAINEES["medusa"](target, 2)
        trainee.predict = lambda batch: ((torch.roll(batch.states, -lead, dims=1), lead) for lead in (1, 2))
        measured = objective_of(target).measure(trainee, examples[:10])
        assert measured.beta == pytest.approx((1.0, 1.0), abs=0.01)


def test_eagle_trains_on_what_it_meets_when_drafting(target, examples):
    """Its second step is what the drafter computes for the second token of a block."""
    trainee = EagleTrainee(target).eval()
    batch = collate(examples[:3], torch.device("cpu"))
    with torch.no_grad():
        (first, _), (second, _) = trainee.predict(batch)
    core, embed = trainee.trained, trainee.embed
    row, position = 1, 9
    states_before = torch.nn.functional.pad(batch.states[row], (0, 0, 1, 0))
    with torch.no_grad():
        from transformers import DynamicCache

        cache = DynamicCache()
        own = core(embed(batch.ids[row, :position])[None], states_before[None, :position], cache)[0, -1]
        torch.testing.assert_close(own, first[row, position - 1], atol=1e-4, rtol=1e-4)
        next_one = core(embed(batch.ids[row, position : position + 1])[None], own[None, None], cache)[0, -1]
    torch.testing.assert_close(next_one, second[row, position], atol=1e-4, rtol=1e-4)


def train(target, examples, kind, tokens, folder, objective=None):
    trainee = TRAINEES[kind](target)
    notes = []
    progress = fit.fit(
        trainee,
        objective or objective_of(target),
        examples[8:],
        examples[:8],
        fit.Budget(tokens=tokens),
        folder / f"{kind}.pt",
        lambda progress, measured: notes.append(measured.beta),
        every=1e9,
    )
    return trainee, notes, progress


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRAINEES)
def test_beta_rises(target, examples, kind, tmp_path):
    _, notes, _ = train(target, examples, kind, 40_000, tmp_path)
    assert all(after > before + 0.005 for before, after in zip(notes[0], notes[-1], strict=True))


@pytest.mark.parametrize("kind", TRAINEES)
@pytest.mark.parametrize("config", [GPT2Config, Qwen2Config])
def test_other_architectures_train(examples, kind, config, tmp_path):
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config(**shape, num_key_value_heads=2, vocab_size=VOCAB))
    other = TransformersModel(model.eval(), "other", VOCAB)
    seen = states.look(other, [example.text for example in examples[:16]])
    _, notes, _ = train(other, seen, kind, 4_000, tmp_path)
    assert notes[-1][0] > notes[0][0] or notes[0][0] > 0.9


@pytest.mark.parametrize("kind", TRAINEES)
def test_training_leaves_the_target_alone(target, examples, kind, tmp_path):
    before = copy.deepcopy(target.model.state_dict())
    train(target, examples, kind, 2_000, tmp_path)
    assert all(torch.equal(before[name], weight) for name, weight in target.model.state_dict().items())
    assert all(weight.grad is None for weight in target.model.parameters())


def test_an_interrupted_training_ends_up_where_an_uninterrupted_one_does(target, examples, tmp_path):
    whole, _, _ = train(target, examples, "medusa", 8_000, tmp_path / "a")
    budget = fit.Budget(tokens=8_000)
    steps = 0
    original = fit._step

    def interrupted(*args):
        nonlocal steps
        steps += 1
        if steps == 4:
            raise KeyboardInterrupt
        return original(*args)

    parts = {"objective": objective_of(target), "training": examples[8:], "held_out": examples[:8]}
    path = tmp_path / "b.pt"
    again = TRAINEES["medusa"](target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "_step", interrupted)
        patch.setattr(fit, "SAVE_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            fit.fit(again, **parts, budget=budget, checkpoint=path, report=lambda *a: None)
    resumed = TRAINEES["medusa"](target)
    assert torch.load(path, weights_only=True)["progress"]["step"] == 3
    fit.fit(resumed, **parts, budget=budget, checkpoint=path, report=lambda *a: None)
    for one, other in zip(whole.trained.parameters(), resumed.trained.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def train_until_killed(folder):
    """A process of its own: dies while it saves its fourth step, half of it written."""
    target = TransformersModel(llama(1, layers=4), "tiny target", VOCAB)
    made = write._batch(target, _encoder(), frozenset([1]), (3, 0), 40)
    found = states.look(target, made + write._batch(target, _encoder(), frozenset([1]), (3, 1), 40))
    parts = {"objective": objective_of(target), "training": found[8:], "held_out": found[:8]}
    path, saved = folder / "b.pt", fit._save

    def save(*given):
        if given[-1].step == 4:
            path.with_suffix(".partial").write_bytes(b"half a checkpoint")
            os.kill(os.getpid(), signal.SIGKILL)
        saved(*given)

    fit._save, fit.SAVE_SECONDS = save, 0.0
    fit.fit(
        TRAINEES["medusa"](target), **parts, budget=fit.Budget(tokens=8_000), checkpoint=path, report=print
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kills with a POSIX signal")
def test_a_killed_training_goes_on_from_its_checkpoint(target, examples, tmp_path):
    whole, _, _ = train(target, examples, "medusa", 8_000, tmp_path / "a")
    process = multiprocessing.get_context("spawn").Process(target=train_until_killed, args=(tmp_path,))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    path, budget = tmp_path / "b.pt", fit.Budget(tokens=8_000)
    assert torch.load(path, weights_only=True)["progress"]["step"] == 3
    parts = {"objective": objective_of(target), "training": examples[8:], "held_out": examples[:8]}
    resumed = TRAINEES["medusa"](target)
    fit.fit(resumed, **parts, budget=budget, checkpoint=path, report=lambda *a: None)
    for one, other in zip(whole.trained.parameters(), resumed.trained.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_an_average_of_weights_stands_between_them(target):
    trainee = TRAINEES["medusa"](target, 1)
    average = fit.Average(trainee.trained)
    with torch.no_grad():
        for weight in trainee.trained.parameters():
            weight.fill_(1.0)  # it starts as zeros
    average.add(trainee.trained, 1)
    assert all(torch.allclose(w, torch.tensor(1 - 2 / 11)) for w in average.weights.values())


def test_the_better_of_last_and_averaged_weights_stays(target, examples):
    trainee, objective = TRAINEES["model"](target, 4), objective_of(target)  # the target: perfect
    best = objective.measure(trainee, examples[:4]).beta[0]
    perfect = {name: value.clone() for name, value in trainee.trained.state_dict().items()}
    average = fit.Average(trainee.trained)
    average.weights = {name: torch.zeros_like(value) for name, value in perfect.items()}
    assert fit._keep_the_better(trainee, average, objective, examples[:4]).beta[0] == pytest.approx(best)
    trainee.trained.load_state_dict(average.weights)
    average.weights = perfect
    assert fit._keep_the_better(trainee, average, objective, examples[:4]).beta[0] == pytest.approx(best)
    assert objective.measure(trainee, examples[:4]).beta[0] == pytest.approx(best)


class TestCommand:
    """The whole way, on a target in a folder."""

    @pytest.fixture
    def folder(self, tmp_path_factory):
        return save(tmp_path_factory.mktemp("target"), llama(1, layers=4), letter_tokenizer())

    @pytest.fixture
    def home(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
        monkeypatch.setattr(write, "NEW_TOKENS", 40)
        return tmp_path / "home"

    def options(self, folder, kind, *more):
        return ["train-drafts", "--target", folder, "--kind", kind, "--device", "cpu", *map(str, more)]

    @pytest.mark.parametrize("kind", ["model", "medusa", "eagle"])
    def test_trained_weights_are_found_and_draft_exactly(self, folder, kind, home, capsys):
        assert main(self.options(folder, kind, "--tokens", 4000, "--passes", 2)) == 0
        out = capsys.readouterr().out
        assert "β" in out and str(home) in out
        pair = load_pair(folder, device="cpu")
        assert (pair.draft if kind == "model" else getattr(pair, kind)) is not None
        run = DecodingRun(pair, "ab", drafter=kind, k=4, max_new_tokens=40, seed=1)
        list(run)
        assert any(round.accepted for round in run.rounds)
        assert main(self.options(folder, kind, "--evaluate")) == 0
        # The file holds float16, so a figure may differ in its last digit.
        measured = capsys.readouterr().out.splitlines()[-1].partition("β ")[2]
        assert measured.partition(",")[0][:3] == out.rpartition("β ")[2].partition(",")[0][:3]

    def test_the_file_says_what_it_is(self, folder, home, capsys, tmp_path):
        path = tmp_path / "eagle.safetensors"
        assert main(self.options(folder, "eagle", "--tokens", 4000, "--passes", 1, "--out", path)) == 0
        pair = load_pair(folder, device="cpu")
        metadata = drafts.read_draft(path, "eagle", pair.info.fingerprint).metadata
        assert metadata["kind"] == "eagle"
        assert (
            len(metadata["beta_heldout_T1"].split()) == len(metadata["greedy_agreement_heldout"].split()) == 2
        )
        assert int(metadata["tokens_seen"]) >= int(metadata["text_tokens"]) > 1000
        assert len(json.loads(metadata["curve"])) >= 2
        assert len(metadata["date"]) == 10

    def test_other_weights_can_be_a_start_with_another_vocabulary(self, folder, home, tmp_path):
        first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
        common = ("--tokens", 3000, "--passes", 0.2)
        assert main(self.options(folder, "medusa", *common, "--vocabulary", 9, "--out", first)) == 0
        more = ("--start", first, "--work", tmp_path / "work", "--out", second)
        assert main(self.options(folder, "medusa", *common, *more, "--vocabulary", 12)) == 0
        fingerprint = load_pair(folder, device="cpu").info.fingerprint
        ids = [
            set(drafts.read_draft(path, "medusa", fingerprint).tensors["draft_vocab"].tolist())
            for path in (first, second)
        ]
        assert [len(some) for some in ids] == [9, 12] and ids[0] <= ids[1]

    def test_weights_for_another_target_or_of_another_kind_are_refused(self, folder, home, capsys, tmp_path):
        path = tmp_path / "medusa.safetensors"
        assert main(self.options(folder, "medusa", "--tokens", 4000, "--passes", 1, "--out", path)) == 0
        other = save(tmp_path / "other", llama(7, layers=4), letter_tokenizer())
        assert main(self.options(other, "medusa", "--evaluate", path)) == 1
        assert "trained for another model or version" in capsys.readouterr().err
        assert main(self.options(other, "medusa", "--tokens", 4000, "--start", path)) == 1
        assert "trained for another model or version" in capsys.readouterr().err
        assert main(self.options(folder, "eagle", "--evaluate", path)) == 1
        assert "have kind 'medusa'" in capsys.readouterr().err

    def test_damaged_weights_are_refused(self, folder, home, tmp_path):
        target = load_pair(folder, device="cpu")
        fingerprint = target.info.fingerprint
        trainee = TRAINEES["medusa"](target.target)
        tensors = {**trainee.tensors(), "draft_vocab": torch.arange(20)}
        path = drafts.trained_path("medusa", fingerprint)
        for wrong in ({"r.9.weight": torch.zeros(2)}, {"draft_vocab": torch.tensor([10**6])}):
            drafts.write_draft(path, "medusa", fingerprint, {**tensors, **wrong}, trainee.metadata())
            with pytest.raises(LoadError, match="do not fit"):
                _ = load_pair(folder, device="cpu").medusa
        path.write_bytes(b"not weights")
        with pytest.raises(LoadError, match="cannot be read"):
            _ = load_pair(folder, device="cpu").medusa

    def test_text_of_another_vocabulary_is_refused(self, folder, home, capsys, tmp_path):
        texts.append(tmp_path / "a.jsonl", [Text(1.0, 1, (1, 10**6))])
        assert main(self.options(folder, "model", "--text", tmp_path / "a.jsonl")) == 1
        assert "holds no text of" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.pair
@pytest.mark.parametrize("kind", ["model", "medusa", "eagle"])
def test_the_shipped_weights_measure_as_their_card_says(kind, capsys):
    assert main(["train-drafts", "--kind", kind, "--device", "cpu", "--evaluate"]) == 0
    measured = capsys.readouterr().out.rpartition("β ")[2].partition(",")[0]
    beta = float(measured.partition(": ")[2].split()[0] if ":" in measured else measured)
    card = (drafts.FOLDER / "README.md").read_text()
    row = next(line for line in card.splitlines() if line.startswith(f"| {kind}.safetensors"))
    assert beta == pytest.approx(float(row.split("|")[3]), abs=0.002)
