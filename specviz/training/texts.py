"""Texts that the target wrote: JSON lines, one text a line."""

import gzip
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

HELD_OUT = 20  # one text in this many is kept out of training


@dataclass(frozen=True, slots=True)
class Text:
    """One text.

    Attributes:
        T: the temperature it was sampled at.
        k: leading tokens that are the prompt, at least 1.
        ids: all token ids, the prompt's first.
    """

    T: float
    k: int
    ids: tuple[int, ...]

    @property
    def held_out(self) -> bool:
        """True for texts that measure and never train. It hangs on the text alone, so adding texts or
        changing their order moves none across."""
        return zlib.crc32(np.array(self.ids, dtype="<i4").tobytes()) % HELD_OUT == 0


def read(path: Path) -> list[Text]:
    """The texts of a .jsonl or .jsonl.gz file. A last line that was cut off by a crash is left out.

    Raises:
        ValueError: naming the line that is not a text.
    """
    found = []
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = file.readlines()
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            text = Text(float(value["T"]), int(value["k"]), tuple(int(i) for i in value["ids"]))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines) and not line.endswith("\n"):
                break
            raise ValueError(f"{path}, line {number} is not a text: {error}") from error
        if not 1 <= text.k < len(text.ids) or min(text.ids) < 0:
            raise ValueError(
                f"{path}, line {number}: a text needs a prompt, a continuation and ids of 0 or more"
            )
        found.append(text)
    return found


def append(path: Path, texts: Iterable[Text]) -> None:
    """Add texts to a .jsonl file, as one write."""
    with path.open("a") as file:
        file.write("".join(json.dumps(asdict(text)) + "\n" for text in texts))
