"""A trace of somebody's own transformers run: watch `generate` draft and verify, and write it down.

    >>> with specviz.capture() as trace:  # doctest: +SKIP
    ...     model.generate(**inputs, assistant_model=draft, do_sample=True, max_new_tokens=64)
    >>> trace.save("run.json.gz")  # doctest: +SKIP

Nothing is drawn here. What `generate` drew is read off where it lies, and the uniforms that judged are found
by putting the generator back to where it stood, letting transformers' own function judge again, and putting
the generator forward again: `generate` returns what it returns without us.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

from specviz.decoding.trace import Trace
from specviz.diagnosis.watched import WatchedRun

WATCHED = ("_assisted_decoding", "_get_candidate_generator")  # methods of transformers' GenerationMixin
_lock = Lock()
_originals: dict[str, Any] = {}
_open: list["Capture"] = []


class CaptureError(ValueError):
    """There is no trace to read; the message says why."""


class Capture:
    """What `capture` yields. It reads like the trace of the last run: `.rounds`, `.save(path)` and all.

    Attributes:
        traces: a `Trace` for each call of `generate` that drafted, in their order.
        notes: what could not be captured, or not be named, as sentences.
        models: (target, draft) of each trace, as given to `generate`; the draft is None for a lookup.
    """

    def __init__(self, tokenizer: Any = None) -> None:
        self.traces: list[Trace] = []
        self.notes: list[str] = []
        self.models: list[tuple[Any, Any]] = []
        self.tokenizer = tokenizer
        self.thread = get_ident()
        self.run: WatchedRun | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "traces" not in self.__dict__:
            raise AttributeError(name)
        if not hasattr(Trace, name) and name not in Trace.__dataclass_fields__:
            raise AttributeError(f"a capture has no attribute {name!r}, nor has a trace")
        return getattr(self.last, name)

    @property
    def last(self) -> Trace:
        """The trace of the last run.

        Raises:
            CaptureError: if nothing was captured.
        """
        if not self.traces:
            why = " ".join(self.notes) or (
                "no call of generate drafted: give it assistant_model=… or prompt_lookup_num_tokens=…, in "
                "the thread that opened the capture"
            )
            raise CaptureError(f"nothing was captured: {why}")
        return self.traces[-1]

    def audit(self, folder: str | Path, tokenizer: Any = None) -> dict[str, int]:
        """Audit the captured runs: causes, and what would help. `audit show FOLDER` prints it.

        Runs both models once along each text, and draws nothing of torch's.

        Args:
            folder: new, or begun with the same runs.
            tokenizer: the target's, if `capture` was not given one.

        Returns:
            rows by table.

        Raises:
            CaptureError: if nothing was captured, or the runs are not of one pair and one set of controls.
        """
        from specviz.diagnosis.captured_audit import audit

        return audit(self, Path(folder), tokenizer)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            warnings.warn(text, stacklevel=3)


@contextmanager
def capture(tokenizer: Any = None) -> Iterator[Capture]:
    """Record every assisted `generate` of this thread, inside the block.

    Captured are `assistant_model=…` with the target's tokenizer, `assistant_early_exit=…` and
    `prompt_lookup_num_tokens=…` of transformers 5.24; anything else runs as ever, and `Capture.notes` says
    what was not recorded. The trace has the p and q that `generate` sampled from, after all its processors.
    transformers draws tokens without a single uniform (an exponential race), so only those that judged are in
    the trace; a prompt lookup while sampling has none. Costs about as much time as SpecViz's own recording.

    Args:
        tokenizer: gives tokens their texts. The one that was saved beside the model if None; without any,
            tokens show their ids.

    Yields:
        a `Capture`, which reads like the trace of the last run once there is one.
    """
    captured = Capture(tokenizer)
    with _lock:
        if not _open:
            _install()
        _open.append(captured)
    try:
        yield captured
    finally:
        with _lock:
            _open.remove(captured)
            if not _open:
                _restore()


def _install() -> None:
    from transformers.generation.utils import GenerationMixin

    for name, wrapper in zip(WATCHED, (_watched_run, _watched_drafter), strict=True):
        _originals[name] = original = getattr(GenerationMixin, name)
        setattr(GenerationMixin, name, wrapper(original))


def _restore() -> None:
    from transformers.generation.utils import GenerationMixin

    for name, original in _originals.items():
        setattr(GenerationMixin, name, original)
    _originals.clear()


def _mine() -> list[Capture]:
    """The captures that this thread opened, the innermost last."""
    return [captured for captured in _open if captured.thread == get_ident()]


def _watched_run(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def assisted(model: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
        captures = _mine()
        if not captures or captures[-1].run is not None:
            return original(model, input_ids, *args, **kwargs)
        run = WatchedRun(captures[-1], model, input_ids, kwargs)
        error = ""
        for captured in captures:
            captured.run = run
        try:
            return original(model, input_ids, *args, **kwargs)
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"[:500]
            raise
        finally:
            for captured in captures:
                captured.run = None
            run.close()
            trace = run.trace(error)
            if trace is not None:
                for captured in captures:
                    captured.traces.append(trace)
                    captured.models.append((model, run.draft))

    return assisted


def _watched_drafter(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def get_candidate_generator(model: Any, *args: Any, **kwargs: Any) -> Any:
        generator = original(model, *args, **kwargs)
        captures = _mine()
        if captures and captures[-1].run is not None and captures[-1].run.model is model:
            captures[-1].run.watch(generator)
        return generator

    return get_candidate_generator
