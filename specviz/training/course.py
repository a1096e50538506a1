"""A whole training, from a target to a file of weights; each step resumable in one work folder."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from specviz.models import builtin, drafts, sources
from specviz.models.errors import LoadError
from specviz.models.language_model import TransformersModel
from specviz.models.pair import eos_ids
from specviz.models.progress import Report
from specviz.models.prompts import PromptEncoder
from specviz.training import fit, states, write
from specviz.training import texts as text_files
from specviz.training.fit import Budget, Progress
from specviz.training.objective import Measured, Objective
from specviz.training.states import Example, Store
from specviz.training.texts import Text
from specviz.training.trainees import TRAINEES, Trainee

IDS = 12288  # of the trimmed vocabulary, unless asked for otherwise
HELD_OUT_TEXTS = drafts.FOLDER / "held-out.jsonl"  # written by the built-in target


@dataclass
class Course:
    """Training one kind of draft for one target.

    Attributes:
        kind: kind of draft.
        loaded: the target.
        target: the same as the engine sees it.
        work: folder for text, states and checkpoints.
    """

    kind: str
    loaded: sources.Loaded
    target: TransformersModel
    work: Path

    @classmethod
    def open(
        cls, target: str, device: str | None, dtype: str | None, kind: str, work: Path | None, report: Report
    ) -> "Course":
        """Load the target; see `load_pair` for the arguments.

        Raises:
            LoadError: if it cannot be loaded.
        """
        loaded = sources.load(target, sources.place(device, dtype), report)
        model = TransformersModel(loaded.model, loaded.name, loaded.vocab_size, loaded.known_ids())
        folder = drafts.trained_path(kind, loaded.fingerprint).parent / "training"
        return cls(kind, loaded, model, work or folder)

    def texts(
        self, path: Path | None, tokens: int, seed: int, report: Callable[[int, int], None]
    ) -> list[Text]:
        """Texts with `tokens` tokens in all: from a file, or written by the target."""
        if path is None:
            encoder = PromptEncoder(self.loaded.tokenizer)
            ends = eos_ids(self.loaded.model, self.loaded.tokenizer)
            return write.write(self.target, encoder, ends, self.work / "text", tokens, report, seed)
        found, total = [], 0
        for text in self._read(path):
            if total >= tokens:
                break
            found.append(text)
            total += len(text.ids) - text.k
        return found

    def _read(self, path: Path) -> list[Text]:
        found = text_files.read(path)
        highest = max((max(text.ids) for text in found), default=-1)
        if not 0 <= highest < self.target.vocab_size:
            raise ValueError(f"{path} holds no text of {self.loaded.name}: its largest token id is {highest}")
        return [text for text in found if len(text.ids) <= self.target.context_length]

    def look(
        self, texts: Sequence[Text], report: Callable[[int, int], None]
    ) -> tuple[list[Example], list[Example]]:
        """The target's view of all texts: those to train on, and those held out.

        Raises:
            ValueError: if one of the two is empty.
        """
        identity = f"{self.loaded.fingerprint} {self.target.dtype}"
        width = self.target.logits_of.width
        store = Store(self.work / "states", texts, width, identity)
        states.fill(store, self.target, report)
        examples = [store[i] for i in range(len(store))]
        training = [example for example in examples if not example.text.held_out]
        held_out = [example for example in examples if example.text.held_out]
        if not training or not held_out:
            raise ValueError(f"{len(texts)} texts are too few to train on some and measure on others")
        return training, held_out

    def train(
        self,
        training: Sequence[Example],
        held_out: Sequence[Example],
        *,
        passes: float,
        seconds: float | None,
        start: Path | None,
        vocabulary: int | None,
        report: fit.Report,
        seed: int,
    ) -> tuple[Progress, Measured]:
        """Train for some passes over the text or some seconds, whichever ends first; go on from the
        checkpoint in the work folder if there is one. The result is measured on all held-out texts.

        Args:
            vocabulary: how many ids the draft may propose, the most frequent ones of the text. None keeps
                those of `start`, or takes `IDS`. Trained weights do not depend on it: the head is the
                target's own.
        """
        torch.manual_seed(seed)
        file = None if start is None else drafts.read_draft(start, self.kind, self.loaded.fingerprint)
        if file is None or vocabulary is not None:
            ids = _frequent(training, self.target, vocabulary or IDS)
        else:
            ids = file.tensors["draft_vocab"].long()
        self._trainee, self._objective = self._build(file, ids)
        tokens = passes * sum(len(example.text.ids) for example in training)
        progress = fit.fit(
            self._trainee,
            self._objective,
            training,
            held_out,
            Budget(tokens, seconds or float("inf")),
            self.work / f"{self.kind}.pt",
            report,
            seed=seed,
        )
        return progress, self._objective.measure(self._trainee, held_out)

    def save(self, path: Path | None, measured: Measured, about: dict[str, str]) -> Path:
        """Write the weights with what is known about them; returns the file."""
        path = path or drafts.trained_path(self.kind, self.loaded.fingerprint)
        tensors = self._trainee.tensors()
        tensors["draft_vocab"] = self._objective.ids
        figures = {
            "target": self.loaded.name,
            "beta_heldout_T1": " ".join(f"{value:.3f}" for value in measured.beta),
            "greedy_agreement_heldout": " ".join(f"{value:.3f}" for value in measured.agreement),
        }
        drafts.write_draft(
            path,
            self.kind,
            self.loaded.fingerprint,
            tensors,
            {**self._trainee.metadata(), **figures, **about},
        )
        return path

    def evaluate(self, path: Path | None, text: Path | None) -> tuple[Path, int, Measured]:
        """Measure weights on texts that they were not trained on.

        Args:
            path: the weights; those that `load_pair` would use if None.
            text: texts to measure on, all of them; if None, the held-out texts that ship with SpecViz for
                the built-in target, and the held-out part of the work folder's text for others.

        Returns:
            the file, the number of texts, and the measures.

        Raises:
            LoadError: if there are no weights or no texts, or the weights are for another target.
        """
        path = path or drafts.draft_path(self.kind, self.loaded.fingerprint)
        if path is None:
            raise LoadError(f"there are no {self.kind} weights for {self.loaded.name} yet")
        file = drafts.read_draft(path, self.kind, self.loaded.fingerprint)
        trainee, objective = self._build(file, file.tensors["draft_vocab"].long())
        texts = self._held_out(text)
        examples = []
        for first in range(0, len(texts), states.BATCH):
            examples += states.look(self.target, texts[first : first + states.BATCH])
        return path, len(texts), objective.measure(trainee, examples)

    def _held_out(self, text: Path | None) -> list[Text]:
        if text is not None:
            return self._read(text)
        if self.loaded.fingerprint == builtin.FINGERPRINT:
            return self._read(HELD_OUT_TEXTS)
        files = sorted((self.work / "text").glob("*.jsonl"))
        found = [text for file in files for text in self._read(file) if text.held_out]
        if not found:
            raise LoadError(f"there is no text of {self.loaded.name} in {self.work}: name some with --text")
        return found

    def _build(self, file: drafts.DraftFile | None, ids: torch.Tensor) -> tuple[Trainee, Objective]:
        """A draft from a file, or as it starts, and what judges it; on the target's device, in float32."""
        with drafts.refusing(self.work if file is None else file.path):
            if file is None:
                trainee = TRAINEES[self.kind](self.target)
            else:
                trainee = TRAINEES[self.kind].like(self.target, file.metadata)
                weights = {name: tensor for name, tensor in file.tensors.items() if name != "draft_vocab"}
                trainee.trained.load_state_dict(weights)
        return trainee.to(self.target.device), Objective(self.target.logits_of, ids)


def _frequent(examples: Sequence[Example], target: TransformersModel, count: int) -> torch.Tensor:
    """Sorted ids of the trimmed vocabulary: those that occur most often, filled up with the lowest."""
    counts = Counter(token for example in examples for token in example.text.ids)
    emittable = range(target.vocab_size) if target.available is None else target.available.tolist()
    order = sorted(emittable, key=lambda token: (-counts[token], token))
    return torch.tensor(sorted(order[:count]))
