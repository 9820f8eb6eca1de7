"""Which columns of a table are labels, where a file says so: Mulan's XML, MEKA's count."""

from __future__ import annotations

import html
import re
from pathlib import Path

from .._core.errors import InvalidInput
from .arff import attribute_names
from .files import ending, text_lines

__all__ = ["meka_labels", "read_label_names"]

_MULAN = re.compile(r"<label\s[^>]*?\bname\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_MEKA = re.compile(r"@relation\s.*-C\s+(-?\d+)", re.IGNORECASE)


def read_label_names(path: Path) -> list[str]:
    """The names in a file: those of Mulan's ``<label name="...">`` in XML, else one on each line."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    with text_lines(path, "names of labels") as content:
        lines = [line.strip() for line in content]
    if ending(path) == ".xml":
        names = [html.unescape(a or b) for a, b in _MULAN.findall("\n".join(lines))]
    else:
        names = [line for line in lines if line]
    if not names:
        raise InvalidInput(f"{path} names no labels; expected XML with <label name=...> or a name on each line")
    return names


def meka_labels(path: Path) -> list[str]:
    """The first n attributes of an ARFF file whose relation says ``-C n``, the last ones for ``-C -n``; else none."""
    if ending(path) != ".arff":
        return []
    with text_lines(path, "ARFF") as content:
        relation = next((line for line in content if line.lower().lstrip().startswith("@relation")), "")
    match = _MEKA.match(relation.strip())
    if match is None or int(match[1]) == 0:
        return []
    names, count = attribute_names(path), int(match[1])
    return names[:count] if count > 0 else names[count:]
