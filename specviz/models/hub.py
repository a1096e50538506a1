"""Models from the Hugging Face hub: only the files that are data, with progress in bytes."""

from pathlib import Path
from typing import Any

from specviz.models.errors import LoadError
from specviz.models.progress import Progress, Report

# No pickled weights and no code. "consolidated" files repeat the weights in another layout.
SUFFIXES = (".safetensors", ".json", ".jinja", ".model", ".txt")
REPEATED = "consolidated"


def download(repo: str, report: Report) -> Path:
    """The folder that the hub's client keeps the model's files in, brought up to date if it can be.

    Raises:
        LoadError: if the hub cannot be reached and the model was not downloaded before, or if the hub
            does not give it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return _download(repo, report)
    except HFValidationError as error:
        raise LoadError(f"{repo!r} is neither a local folder nor a hub id: {error}") from error
    except Exception as online:  # the client's transport raises errors of its own, which change
        try:
            return Path(snapshot_download(repo, local_files_only=True))
        except OSError:
            raise LoadError(
                f"{repo} cannot be loaded: it is no local folder, the hub said: {_reason(online)}; and no "
                "earlier download is in the cache. Check the name and the network, log in with "
                "`hf auth login` if the model asks for it, or give the path of a local folder"
            ) from online


def _download(repo: str, report: Report) -> Path:
    from huggingface_hub import HfApi, hf_hub_download

    info = HfApi().model_info(repo, files_metadata=True)
    files = {file.rfilename: file.size or 0 for file in info.siblings or () if _wanted(file.rfilename)}
    if not any(name.endswith(".safetensors") for name in files):
        raise LoadError(f"{repo} has no .safetensors weights; pickled weights are not read")
    total, done = sum(files.values()), 0
    folder = Path()
    for name, size in files.items():
        stage = f"downloading {name} of {repo}"
        report(Progress(stage, done, total))
        bar = _bar(stage, done, total, report)
        folder = Path(hf_hub_download(repo, name, tqdm_class=bar)).parent
        done += size
    report(Progress(f"downloaded {repo}", total, total))
    return folder


def _wanted(name: str) -> bool:
    return "/" not in name and name.endswith(SUFFIXES) and not name.startswith(REPEATED)


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


def _reason(error: Exception) -> str:
    """The first line of an error, or its kind."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
