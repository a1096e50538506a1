"""What can go wrong before a pair is ready."""

import re
from typing import Any

NEEDS = "it needs a library that is not installed here: "


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


def why(error: BaseException) -> str:
    """What keeps a model from being loaded, for the end of a sentence: of a library that is missing, how to
    install it."""
    if not isinstance(error, ImportError):
        return first_line(error)
    named = re.search(r"pip install ([A-Za-z0-9][\w.\[\]-]*)", str(error))  # transformers' own words
    library = named[1] if named else (error.name or "").partition(".")[0]
    if not library:
        return f"a library that it needs is missing ({first_line(error)})"
    return f"{NEEDS}pip install {library}"
