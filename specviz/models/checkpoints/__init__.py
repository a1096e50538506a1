"""Draft checkpoints as engines publish and serve them, recognised by what is in their folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.models import sources, weights
from specviz.models.checkpoints import eagle, files, medusa
from specviz.models.errors import LoadError
from specviz.models.hub import MEDUSA
from specviz.models.language_model import TransformersModel
from specviz.models.progress import Progress, Report

# Kinds that are known by name only, by what stands in their architecture, or by what speculators calls them.
PARALLEL = "P-EAGLE (EAGLE that drafts all positions in one pass)"
NOT_READ = {
    "peagle": PARALLEL,
    "dflash": "DFlash (a block that is drafted in one pass over mask tokens)",
    "dspark": "DSpark (DFlash with a corrector)",
    "mlpspeculator": "MLP speculator",
}
PICKLES = ("pytorch_model.bin", "medusa_lm_head.pt")


@dataclass(frozen=True)
class Checkpoint:
    """A draft checkpoint before its weights are read.

    Attributes:
        source: what was asked for: a folder or a hub id.
        kind: of drafter that it makes.
        layout: how it is laid out, and how to read it.
        weights: its files.
        shapes: of its tensors, by name.
        verifier: the target that it says it was made for, "" if it does not say.
        revision: the hub's commit, or "".
    """

    source: str
    kind: str
    layout: eagle.Layout | medusa.Layout
    weights: weights.Weights
    shapes: dict[str, tuple[int, ...]]
    verifier: str
    revision: str = ""

    def load(self, target: TransformersModel, report: Report) -> Any:
        """The draft for a target, where the target is and in its dtype.

        Raises:
            LoadError: naming what is missing or does not fit.
        """
        size = self.weights.size
        report(Progress(f"loading {self.source}", 0, size))
        weights.require_memory(self.weights.numbers, str(target.device), target.dtype, self.source)
        made = self.layout.load(self.shapes, lambda: files.tensors(self.weights.files, self.source), target)
        report(Progress(f"loading {self.source}", size, size))
        return made


def find(source: str, report: Report) -> Checkpoint | None:
    """The draft checkpoint that a source is; None if it is a model of its own.

    Raises:
        LoadError: if it cannot be had, or is a draft checkpoint of a kind that is not read.
    """
    if source == sources.BUILT_IN or Path(source).suffix.lower() == ".gguf":
        return None
    folder, revision = sources.locate(source, report)
    if not folder.is_dir():
        return None
    config = files.read_config(folder, source)
    _refuse_pickles(folder, source)
    if not any(folder.glob("*.safetensors")):
        return None  # the message of a model without weights fits
    found = _weights(folder, source)
    shapes = files.shapes(found.files)
    if other := _not_read(config, tuple(shapes)):
        raise LoadError(
            f"{source} is a draft checkpoint of the kind {other}, which is not read: EAGLE-1, -2 and -3 "
            "(SafeAILab's layout and speculators'), Medusa, and modules for multi-token prediction that a "
            "target brings along are"
        )
    heads = medusa.recognise(config, tuple(shapes), source)
    layout = heads or eagle.recognise(config, tuple(shapes), source)
    if layout is None:
        return None
    kind = "eagle" if heads is None else "medusa"
    return Checkpoint(source, kind, layout, found, shapes, verifier(config), revision)


def _not_read(config: dict[str, Any], names: tuple[str, ...]) -> str:
    """The kind of a draft checkpoint that is known by name only; "" for any other."""
    built = " ".join(map(str, config.get("architectures") or ()))
    known = next((kind for mark, kind in NOT_READ.items() if mark in built.lower()), "")
    eagle_config = config.get("eagle_config") or {}
    parallel = bool(config.get("parallel_drafting")) or "mask_hidden" in names
    steps = eagle_config.get("parallel_draft_step") if isinstance(eagle_config, dict) else None
    if parallel or steps not in (None, 0, 1):
        return PARALLEL
    said = config.get("speculators_model_type")
    if said is not None and said not in ("eagle", "eagle3"):
        return NOT_READ.get(str(said).lower(), f"{said!r} (speculators)"[:80])
    if said == "eagle" and config.get("layernorms"):
        return "EAGLE-1 with layernorms (speculators)"
    return known


def verifier(config: dict[str, Any]) -> str:
    """The target that a draft's config declares, "" if none."""
    declared = (config.get("speculators_config") or {}).get("verifier") or {}
    return str(declared.get("name_or_path") or config.get("base_model_name_or_path") or "")


def _weights(folder: Path, source: str) -> weights.Weights:
    """The checkpoint's files: a model's, or the one that Medusa's authors write."""
    alone = folder / MEDUSA
    if alone.is_file() and not (folder / weights.SINGLE).is_file():
        return weights.Weights((alone,), weights.count(weights.read_header(alone)))
    return weights.find(folder, source)


def _refuse_pickles(folder: Path, source: str) -> None:
    """Point to the converter, where a folder has pickled weights only."""
    pickled = next((name for name in PICKLES if (folder / name).is_file()), None)
    if pickled is not None and not any(folder.glob("*.safetensors")):
        raise LoadError(
            f"{source} has its weights in {pickled}, a pickle, which is never loaded here: a pickle can run "
            f"code. `python -m specviz convert-draft {folder} NEW_FOLDER` reads its tensors, and nothing "
            "else, into safetensors"
        )
