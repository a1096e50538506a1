"""What has been computed, so that starting the script over costs nothing; shared by all sessions."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar

from cachetools import LRUCache

from specviz.settings import settings
from specviz.ui.state.sizes import weigh

T = TypeVar("T")
_lock = Lock()
_known: LRUCache = LRUCache(settings().kept_rows * 2**20, getsizeof=weigh)


def remember(key: Hashable, make: Callable[[], T]) -> T:
    """The value of `key`, made at the first call. What was used longest ago goes when there is too much.

    Args:
        key: determines the value; has the owner in it if the value is of his doing.
    """
    with _lock:
        if key in _known:
            return _known[key]
    made = make()
    with _lock:
        if weigh(made) <= _known.maxsize:
            _known[key] = made
    return made
