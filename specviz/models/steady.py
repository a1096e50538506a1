"""torch's default dtype is one for the whole process, and transformers changes it while it builds a model.

A pass of another session in that moment would make tensors of the wrong dtype. So building waits until no
pass runs, and passes wait while a model is built: milliseconds, since its weights are read afterwards. A turn
of the device counts as a pass, whatever it does.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class Steady:
    """Many at once that rely on the default dtype, or one model being built."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passes: Counter[int] = Counter()  # begun and not ended, by thread
        self._builder: int | None = None  # the thread that builds

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Nothing is built meanwhile, but by this thread itself."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._builder in (None, me) or self._passes[me] > 0)
            self._passes[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._passes[me] -= 1
                if not self._passes[me]:
                    del self._passes[me]
                self._changed.notify_all()

    @contextmanager
    def building(self) -> Iterator[None]:
        """Nothing passes meanwhile, but what this thread itself has begun."""
        me = threading.get_ident()
        if self._builder == me:  # a model made of models
            yield
            return
        with self._changed:
            own = self._passes.pop(me, 0)  # or two that build in mid-pass would wait for each other
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._builder is None)
            self._builder = me  # no new pass begins
            self._changed.wait_for(lambda: not self._passes)
        try:
            yield
        finally:
            with self._changed:
                self._builder = None
                if own:
                    self._passes[me] = own
                self._changed.notify_all()


STEADY = Steady()


@cache
def guard_transformers() -> None:
    """Let transformers change the default dtype only while no pass runs. Once a process."""
    from transformers import modeling_utils

    change = modeling_utils.local_torch_dtype

    @contextmanager
    def guarded(*args: Any, **kwargs: Any) -> Iterator[None]:
        with STEADY.building(), change(*args, **kwargs):
            yield

    modeling_utils.local_torch_dtype = guarded
