"""What training needs to know of the target, stored once: hidden states and log normalisers.

With the last hidden state h and log Z over the whole vocabulary, p(x) = exp(z_x(h) − log Z) for any x of
a trimmed vocabulary, without running the target again; z is what the target puts behind h.
"""

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specviz.models.language_model import TransformersModel
from specviz.training.texts import Text

WINDOW, BATCH = 128, 16  # texts sorted by length together; texts in one pass
ROWS = 512  # rows of full-vocabulary logits in memory at once


@dataclass(frozen=True, slots=True)
class Example:
    """One text with the target's view of it; row i belongs to token i and predicts token i + 1.

    Attributes:
        text: the text, n tokens.
        states: (n, width) float16, after the final norm.
        log_z: (n,) float32, log normaliser over the target's vocabulary at T = 1.
        top: (n,) int32, the target's greedy token.
    """

    text: Text
    states: np.ndarray
    log_z: np.ndarray
    top: np.ndarray


class Store:
    """Examples in memory-mapped files, filled by `fill`. Stopping in between loses one batch at most.

    Args:
        folder: where the files are; created if missing.
        texts: the texts; their order in the store is a fixed function of these.
        width: of the hidden states.
        identity: of target and dtype. Files made for another one, or for other texts, are made anew.
    """

    def __init__(self, folder: Path, texts: Sequence[Text], width: int, identity: str) -> None:
        self.texts = _arranged(texts)
        self.starts = np.cumsum([0, *(len(text.ids) for text in self.texts)])
        self._progress = folder / "progress.json"
        tokens = int(self.starts[-1])
        content = zlib.crc32(np.concatenate([np.array(text.ids, "<i4") for text in self.texts]).tobytes())
        self._meant = {"identity": identity, "width": width, "tokens": tokens, "content": content}
        folder.mkdir(parents=True, exist_ok=True)
        found = json.loads(self._progress.read_text()) if self._progress.exists() else {}
        self.done = found.pop("done", 0) if found.keys() > self._meant.keys() else 0
        if found != self._meant:
            self.done = 0
        mode: Any = "r+" if self.done else "w+"
        self._states = np.memmap(folder / "states.f16", np.float16, mode, shape=(tokens, width))
        self._log_z = np.memmap(folder / "log-z.f32", np.float32, mode, shape=(tokens,))
        self._top = np.memmap(folder / "top.i32", np.int32, mode, shape=(tokens,))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: int) -> Example:
        span = slice(self.starts[i], self.starts[i + 1])
        return Example(self.texts[i], self._states[span], self._log_z[span], self._top[span])

    def put(self, examples: Sequence[Example]) -> None:
        """Store the next examples. They count only once they are on disk."""
        for i, example in enumerate(examples, self.done):
            place = self[i]
            place.states[:], place.log_z[:], place.top[:] = example.states, example.log_z, example.top
        for array in (self._states, self._log_z, self._top):
            array.flush()
        self.done += len(examples)
        self._progress.write_text(json.dumps({**self._meant, "done": self.done}))


def _arranged(texts: Sequence[Text]) -> list[Text]:
    """Texts of similar length together, so that passes over several waste little on padding."""
    windows = [texts[i : i + WINDOW] for i in range(0, len(texts), WINDOW)]
    return [text for window in windows for text in sorted(window, key=lambda text: len(text.ids))]


def fill(store: Store, target: TransformersModel, report: Callable[[int, int], None]) -> None:
    """Run the target over the texts that are not stored yet. `report` gets the tokens done, and all."""
    while store.done < len(store):
        report(int(store.starts[store.done]), int(store.starts[-1]))
        store.put(look(target, store.texts[store.done : store.done + BATCH]))


def look(target: TransformersModel, texts: Sequence[Text]) -> list[Example]:
    """The target's view of some texts, in one pass."""
    import torch

    longest = max(len(text.ids) for text in texts)
    # Padding at the end changes nothing before it: the model looks back only.
    padded = [[*text.ids, *[0] * (longest - len(text.ids))] for text in texts]
    known = None if target.available is None else torch.from_numpy(target.available).to(target.device)
    with torch.inference_mode():
        hidden = target.states(torch.tensor(padded, device=target.device))
        rows = [row[: len(text.ids)] for row, text in zip(hidden, texts, strict=True)]
        log_z, top = [], []
        for some in torch.cat(rows).split(ROWS):
            logits = target.logits_of(some)[:, : target.vocab_size]
            logits = (logits if known is None else logits[:, known]).float()
            best = logits.argmax(-1)
            log_z.append(logits.logsumexp(-1))
            top.append(best if known is None else known[best])
        lengths = [len(row) for row in rows]
        return [
            Example(text, row.half().cpu().numpy(), z.cpu().numpy(), best.int().cpu().numpy())
            for text, row, z, best in zip(
                texts, rows, torch.cat(log_z).split(lengths), torch.cat(top).split(lengths), strict=True
            )
        ]
