"""What went wrong, as a sentence that says what to do, with the details folded below."""

import errno
import gc
import traceback
from dataclasses import dataclass

import streamlit as st

from specviz.decoding.run import RunError
from specviz.models import memory
from specviz.models.errors import LoadError


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception as values: the exception itself would keep what its frames hold.

    Attributes:
        reason: what happened, in the words of whoever raised it; data, not markup.
        advice: what to do about it.
        details: the traceback; "" where the reason says all.
    """

    reason: str
    advice: str
    details: str = ""


def failure(error: BaseException) -> Failure:
    """The failure that an exception means."""
    details = "".join(traceback.format_exception(error))[-8000:]
    said = str(error).strip() or type(error).__name__
    if is_out_of_memory(error):
        return Failure(
            f"The memory of the device is full. {said.splitlines()[0]}",
            "Wait until other runs have ended, or choose a shorter text, a smaller K or a smaller pair; then "
            "press the button again.",
            details,
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure(
            f"The disk is full: {said}",
            "Make room on the server's disk, or set SPECVIZ_HOME to a folder elsewhere; then try again.",
            details,
        )
    if isinstance(error, (LoadError, RunError, ValueError)):
        return Failure(said, "")
    return Failure(
        f"{type(error).__name__}: {said}",
        "This was not foreseen. Press the button again to go on from here; if it comes back, the details "
        "below tell what to report.",
        details,
    )


def is_out_of_memory(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    text = str(error).lower()
    told = isinstance(error, RuntimeError) and (
        "out of memory" in text or "can't allocate memory" in text or "failed to allocate" in text
    )
    return bool(names & {"OutOfMemoryError", "MemoryError"}) or told


def free(frozen: bool = False) -> None:
    """Give memory back to the system and to the device, as far as the libraries let one.

    Args:
        frozen: look through what was exempt from garbage collection as well, as loaded models are.
    """
    import sys

    if frozen:
        gc.unfreeze()
    gc.collect()
    if frozen:
        gc.freeze()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
    memory.give_back()


def show(what: str, found: Failure, error: Exception | None = None) -> None:
    """Say on the page what went wrong. Texts of models, files and links stay text.

    Args:
        what: a sentence of ours, such as "The run stopped."
        found: why.
        error: the exception itself, where it is at hand: then it stands in the details.
    """
    st.error(what, icon=":material/error:")
    st.text(found.reason)
    if found.advice:
        st.caption(found.advice)
    if found.details or error is not None:
        with st.expander("Details", icon=":material/bug_report:"):
            if error is None:
                st.code(found.details, language=None, wrap_lines=True)
            else:
                st.exception(error)
