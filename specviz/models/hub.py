"""Models from the Hugging Face hub: only the files that are data, pinned by their commit, with progress
in bytes."""

import json
import shutil
from pathlib import Path
from typing import Any

from specviz.models import weights
from specviz.models.errors import LoadError, first_line
from specviz.models.progress import Progress, Report

# Files beside the weights: what says how the model is built, and its tokenizer.
MEDUSA = "medusa_lm_head.safetensors"  # heads without a model, as Medusa's authors write them
BESIDE = (".json", ".jinja", ".model", ".txt")


def download(name: str, report: Report, with_weights: bool = True) -> tuple[Path, str]:
    """The folder that the hub's client keeps a model's files in, and the commit they are of.

    Args:
        name: a hub id, with "@revision" (a branch, tag or commit) if it should not be the newest.
        report: told the bytes.
        with_weights: False for what stands beside them alone.

    Raises:
        LoadError: if the hub does not give it, or cannot be reached and it was not downloaded before.
    """
    from huggingface_hub.errors import HFValidationError

    repo, _, revision = name.partition("@")
    try:
        return _download(repo, revision or None, report, with_weights)
    except LoadError:
        raise
    except HFValidationError as error:
        raise LoadError(f"{name!r} is neither a local folder nor a hub id: {first_line(error)}") from error
    except Exception as online:  # the client's transport raises errors of its own, which change
        found = _earlier(repo, revision or None)
        if found is None:
            raise LoadError(_said(name, online)) from online
        return found


def _earlier(repo: str, revision: str | None) -> tuple[Path, str] | None:
    """What an earlier download left, which may be half of it: whoever reads it finds that out."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repo, revision=revision, local_files_only=True))
    except (OSError, ValueError):
        return None
    return folder, folder.name


def _said(name: str, error: Exception) -> str:
    """What to tell people of a model that the hub did not give."""
    import errno

    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    if isinstance(error, GatedRepoError):
        return (
            f"{name} asks for consent before it is downloaded: accept its terms on its page of the hub, log "
            "in "
            "with `hf auth login`, and load it again"
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{name}: the hub has the model, but not this revision"
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"{name} is no local folder, and the hub has no such model, or not for you: check the name, or "
            "log "
            "in with `hf auth login` if it is private"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{name} cannot be downloaded: the disk is full"
    return (
        f"{name} cannot be loaded: it is no local folder, the hub said: {type(error).__name__}: "
        f"{first_line(error)}; and no earlier download is in the cache. Check the name and the network, or "
        "give the path of a local folder"
    )


def _download(repo: str, revision: str | None, report: Report, with_weights: bool) -> tuple[Path, str]:
    from huggingface_hub import HfApi, hf_hub_download

    info = HfApi().model_info(repo, revision=revision, files_metadata=True)
    commit = info.sha or revision or "main"
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or () if "/" not in file.rfilename}
    if "config.json" in sizes:  # asked for by name, so that the cache knows later which commit that was
        hf_hub_download(repo, "config.json", revision=revision)
    names = _weight_names(repo, commit, sizes) if with_weights else []
    files = [name for name in sizes if name.endswith(BESIDE)] + names
    total, done = sum(sizes[name] for name in files), 0
    _require_room(repo, [sizes[name] for name in files if not _cached(repo, name, commit)])
    folder = Path()
    for name in files:
        stage = f"downloading {name} of {repo}"
        report(Progress(stage, done, total))
        bar = _bar(stage, done, total, report)
        folder = Path(hf_hub_download(repo, name, revision=commit, tqdm_class=bar)).parent
        done += sizes[name]
    report(Progress(f"downloaded {repo}", total, total))
    return folder, commit


def _weight_names(repo: str, commit: str, sizes: dict[str, int]) -> list[str]:
    """The weight files: those that the index names, or the one there is."""
    from huggingface_hub import hf_hub_download

    if weights.INDEX in sizes:
        index = json.loads(Path(hf_hub_download(repo, weights.INDEX, revision=commit)).read_text())
        names = sorted(set(index["weight_map"].values()))
        absent = [name for name in names if name not in sizes]
        if absent:
            raise LoadError(f"{repo} is incomplete: its index names {absent[0]}, which the hub does not have")
        return names
    if weights.SINGLE in sizes:
        return [weights.SINGLE]
    if MEDUSA in sizes:
        return [MEDUSA]
    if weights.ADAPTER in sizes:
        raise LoadError(f"{repo} is an adapter and no whole model: load a merged model")
    gguf = [name for name in sizes if name.endswith(".gguf")]
    hint = f"; it has GGUF files: download {gguf[0]} and name that file" if gguf else ""
    raise LoadError(f"{repo} has no .safetensors weights; pickled weights are not read{hint}")


def _cached(repo: str, name: str, commit: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(repo, name, revision=commit), str)


def _require_room(repo: str, sizes: list[int]) -> None:
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE)
    while not folder.exists():
        folder = folder.parent
    free, needed = shutil.disk_usage(folder).free, sum(sizes)
    if needed > free:
        raise LoadError(
            f"downloading {repo} needs {needed / 1e9:.1f} GB in {HF_HUB_CACHE}, and {free / 1e9:.1f} GB are "
            "free: make room, or set HF_HOME to a folder elsewhere"
        )


def _bar(stage: str, before: int, total: int, report: Report) -> type:
    """A progress bar class that draws nothing and reports bytes: `before` plus those of this file."""
    from tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs["disable"] = True
            kwargs.pop("name", None)
            super().__init__(*args, **kwargs)
            self.n = kwargs.get("initial") or 0

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            report(Progress(stage, min(total, before + int(self.n)), total))

    return Bar
