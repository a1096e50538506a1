"""What can go wrong before a pair is ready."""

from typing import Any


class LoadError(Exception):
    """A model cannot be loaded or used. The message is one or two sentences a user can act on.

    Attributes:
        lines: what was found of the pair until then, as `specviz.models.report.Line`s.
    """

    lines: tuple[Any, ...] = ()


class FetchError(LoadError):
    """The built-in target could not be fetched or prepared."""


class IncompatiblePair(LoadError):
    """Target and draft disagree about what token ids mean."""


def first_line(error: BaseException, longest: int = 200) -> str:
    """What an error of another library says, short enough for one sentence; its kind if it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    return said if len(said) <= longest else said[: longest - 1].rstrip() + "…"
