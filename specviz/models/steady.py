"""torch's default dtype is one for the whole process, and transformers changes it while it builds a model.

A pass of another session in that moment would make tensors of the wrong dtype. So building waits until no
pass runs, and passes wait while a model is built: milliseconds, since its weights are read afterwards.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class Steady:
    """Many passes at once, or one model being built."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passes = 0
        self._builder: int | None = None  # the thread that builds

    @contextmanager
    def passing(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._builder in (None, threading.get_ident()))
            self._passes += 1
        try:
            yield
        finally:
            with self._changed:
                self._passes -= 1
                self._changed.notify_all()

    @contextmanager
    def building(self) -> Iterator[None]:
        if self._builder == threading.get_ident():  # a model made of models
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: self._builder is None)
            self._builder = threading.get_ident()  # no new pass begins
            self._changed.wait_for(lambda: not self._passes)
        try:
            yield
        finally:
            with self._changed:
                self._builder = None
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
