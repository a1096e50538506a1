"""Loaded pairs, shared by all sessions of the server."""

from collections import OrderedDict
from threading import Lock
from typing import Any

import streamlit as st

from specviz.models.progress import Progress
from specviz.recipe import Recipe

# A pair is hundreds of megabytes: the one in use and the one before it stay.
KEPT = 2


class PairShelf:
    """Pairs by what they were loaded from. `stepping` is held for each round, so that sessions take turns."""

    def __init__(self) -> None:
        self.loading = Lock()
        self.stepping = Lock()
        self.pairs: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def get(self, recipe: Recipe) -> Any | None:
        """The pair if it is loaded."""
        return self.pairs.get(_key(recipe))

    def load(self, recipe: Recipe, report) -> Any:
        from specviz.models.pair import LoadedPair, load_pair

        target, draft = key = _key(recipe)
        with self.loading:
            if key not in self.pairs:
                if draft == target:
                    base = self.pairs.get((target, "")) or load_pair(target, progress=report)
                    name = f"{target} + {draft}"
                    pair = LoadedPair(name, base.target, base.target, base.tokenizer, base.info.fingerprint)
                else:
                    pair = load_pair(target, draft or None, progress=report)
                while len(self.pairs) >= KEPT:
                    self.pairs.popitem(last=False)
                self.pairs[key] = pair
            self.pairs.move_to_end(key)
            return self.pairs[key]


def _key(recipe: Recipe) -> tuple[str, str]:
    return recipe.target, recipe.draft


@st.cache_resource(show_spinner=False)
def shelf() -> PairShelf:
    return PairShelf()


def obtain(recipe: Recipe, place: Any) -> Any:
    """The pair of a recipe; loading shows its progress in the container `place`.

    Raises:
        LoadError: if it cannot be had.
    """
    known = shelf().get(recipe)
    if known is not None:
        return known
    with place, st.status(f"Loading {recipe.target} …", expanded=True) as status:
        bar = st.progress(0.0, "waiting for another session" if shelf().loading.locked() else "starting")

        def report(progress: Progress) -> None:
            share = min(1.0, progress.done / progress.total) if progress.total else 0.0
            done, total = progress.done / 2**20, progress.total / 2**20
            bar.progress(share, progress.stage + (f" · {done:.0f} of {total:.0f} MiB" if total else ""))

        pair = shelf().load(recipe, report)
        why = f" in {pair.target.dtype}; {pair.dtype_reason}" if pair.dtype_reason else ""
        status.update(label=f"Loaded {pair.info.target.name}{why}", state="complete", expanded=False)
    return pair
