"""A component's JavaScript as the one module that the browser gets.

The sources are modules that import one another, so that tools read and check them as they stand. A
component of an app that is not installed as a package has no files to import from: here they are put one
behind the other, each once and before those that need it.
"""

import re
from pathlib import Path

_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


def script(entry: Path) -> str:
    """The module `entry` with all that it imports. Names at the top level have to differ between them."""
    parts: dict[Path, str] = {}
    _collect(entry.resolve(), parts)
    return "\n".join(parts.values())


def _collect(path: Path, parts: dict[Path, str]) -> None:
    if path in parts:
        return
    source = path.read_text(encoding="utf-8")
    for name in _IMPORT.findall(source):
        _collect((path.parent / name).resolve(), parts)
    parts[path] = _EXPORT.sub("", _IMPORT.sub("", source))
