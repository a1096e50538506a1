"""Loaded pairs, shared by all sessions of the server.

A pair in use stays. Before a new one is loaded, pairs that nobody uses go, the one used longest ago first,
until there is room; where there is none the new pair is refused with the numbers. Pairs of one target share
its weights. Models are loaded on a thread of their own, beside the rounds of pairs that are there already.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import streamlit as st

from specviz.models.errors import LoadError
from specviz.models.progress import Progress, Report
from specviz.recipe import Recipe
from specviz.settings import settings
from specviz.ui.state import guard, trouble

Key = tuple[str, ...]
FROM = ("target", "draft", "device", "dtype", "draft_device", "draft_dtype")  # what a pair is loaded from
# One thread for all loading, as torch keeps a team of threads for every thread that computes.
LOADER = ThreadPoolExecutor(1, "specviz loading")


class PairShelf:
    """Pairs by what they were loaded from, the most recently used last.

    Attributes:
        on_drop: told of a pair that goes, so that nothing that rests keeps it alive.
    """

    def __init__(self) -> None:
        self.pairs: OrderedDict[Key, Any] = OrderedDict()
        self.on_drop: list[Callable[[Any], None]] = []
        self._users: Counter[Key] = Counter()
        self._lock = Lock()
        self._loading = Lock()

    def get(self, recipe: Recipe) -> Any | None:
        """The pair if it is loaded."""
        with self._lock:
            pair = self.pairs.get(_key(recipe))
            if pair is not None:
                self.pairs.move_to_end(_key(recipe))
            return pair

    def hold(self, recipe: Recipe) -> None:
        """Keep a pair, loaded or about to be, until `release`."""
        with self._lock:
            self._users[_key(recipe)] += 1

    def release(self, recipe: Recipe) -> None:
        with self._lock:
            self._users[_key(recipe)] -= 1

    def load(self, recipe: Recipe, report: Report) -> Any:
        """The pair of a recipe, loaded if need be. One is loaded at a time.

        Args:
            report: told of the progress; what it raises ends the loading.

        Raises:
            LoadError: if it cannot be had.
        """
        while not self._loading.acquire(timeout=0.3):
            report(Progress("waiting until another pair is loaded", 0, 0))
        self.hold(recipe)
        try:
            return self.get(recipe) or self._load(recipe, report)
        finally:
            self.release(recipe)
            self._loading.release()

    def _load(self, recipe: Recipe, report: Report) -> Any:
        report(Progress("starting PyTorch", 0, 0))
        from specviz.models import sources
        from specviz.models.pair import load_pair

        key = _key(recipe)
        target, draft = recipe.target, recipe.draft
        with self._lock:
            beside = next((p for k, p in reversed(self.pairs.items()) if _base(k) == _base(key)), None)
        new = {draft} - {"", target} if beside is not None else {target, draft} - {""}
        folders = [sources.fetch(source, report) for source in sorted(new)]
        self._make_room(recipe, folders)
        asked: dict[str, Any] = {name: getattr(recipe, name) for name in FROM[2:] if getattr(recipe, name)}
        pair = LOADER.submit(
            load_pair, target, draft or None, progress=report, beside=beside, **asked
        ).result()
        with self._lock:
            self.pairs[key] = pair
        return pair

    def _make_room(self, recipe: Recipe, folders: list) -> None:
        """Let pairs go until the new one fits.

        Raises:
            LoadError: if it does not fit beside what is in use.
        """
        from specviz.models import memory, sources

        place = sources.place(recipe.device or None, recipe.dtype or None)
        need = sum(memory.needed(folder, place.dtype) for folder in folders)
        limit = settings().kept_pairs * 2**20 or (memory.total(place.device) or 0) // 2
        while True:
            with self._lock:
                held = memory.held(self.pairs.values())
                idle = next((k for k in self.pairs if not self._users[k]), None)
            left = memory.available(place.device)
            if (not limit or held + need <= limit) and (left is None or need <= left):
                return
            if idle is None:
                names = " + ".join(filter(None, (recipe.target, recipe.draft)))
                raise LoadError(
                    f"{names} needs about {_gib(need)}, and there is no room: "
                    f"{_gib(held)} are taken by pairs that runs are using"
                    + (f", {_gib(left)} are left on {place.device}" if left is not None else "")
                    + (f", and this server keeps at most {_gib(limit)} of models" if limit else "")
                    + ". Wait until those runs have ended, or choose a smaller pair; whoever runs the server "
                    "can raise SPECVIZ_KEPT_PAIRS"
                )
            self.drop(idle)

    def drop(self, key: Key) -> None:
        """Let a pair go, and see to it that its memory is free."""
        with self._lock:
            pair = self.pairs.pop(key, None)
        if pair is None:
            return
        for tell in self.on_drop:
            tell(pair)
        del pair
        trouble.free(frozen=True)


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _key(recipe: Recipe) -> Key:
    return tuple(getattr(recipe, name) for name in FROM)


def _base(key: Key) -> Key:
    """What the target is loaded from: pairs that have it in common share its weights."""
    return key[0], *key[2:4]


_SHELF = PairShelf()


def shelf() -> PairShelf:
    """The server's pairs."""
    return _SHELF


def load(recipe: Recipe, report: Report) -> Any:
    """The pair of a recipe, if this server may load it; see `PairShelf.load`."""
    guard.require(recipe)
    return shelf().get(recipe) or shelf().load(recipe, report)


def obtain(recipe: Recipe, place: Any) -> Any:
    """The pair of a recipe; loading shows its progress in the container `place`, and the script waits.

    Raises:
        LoadError: if it cannot be had.
    """
    guard.require(recipe)
    known = shelf().get(recipe)
    if known is not None:
        return known
    with place, st.status("Loading the models …", expanded=True) as status:
        bar = st.progress(0.0)
        stage = st.empty()

        def report(progress: Progress) -> None:
            bar.progress(share(progress))
            stage.text(words(progress))

        pair = load(recipe, report)
        status.update(label="The models are loaded.", state="complete", expanded=False)
    return pair


def share(progress: Progress) -> float:
    """How much of a stage is done, between 0 and 1."""
    return min(1.0, progress.done / progress.total) if progress.total else 0.0


def words(progress: Progress) -> str:
    """A stage in words, with sizes. It may name what a link asked for: show it as text."""
    sizes = f" · {progress.done / 2**20:.0f} of {progress.total / 2**20:.0f} MiB" if progress.total else ""
    return progress.stage + sizes
