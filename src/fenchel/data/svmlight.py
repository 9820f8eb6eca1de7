"""Reading svmlight and LIBSVM files, with one label a row or with label sets: ``0,3 1:0.5 7:1``."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array
from .files import ending, text_lines
from .tables import MISSING, Table, as_number, as_texts, made, of_entries, texts

__all__ = ["ENDINGS", "FEATURE", "LABEL", "is_label", "is_svmlight", "read_svmlight"]

ENDINGS = (".svm", ".svmlight", ".libsvm")
FEATURE = "x"
"""What columns of features are called, before their index."""
LABEL = "label"
"""What the column of labels is called, and those of label sets before their number."""


def is_svmlight(path: Path) -> bool:
    """Whether the name is that of a svmlight file.

    >>> is_svmlight(Path("birds.svm.gz")), is_svmlight(Path("birds.csv"))
    (True, False)
    """
    return ending(path) in ENDINGS


def is_label(name: str) -> bool:
    """Whether a column is called as one of a svmlight file's label sets.

    >>> is_label("label12"), is_label("labels")
    (True, False)
    """
    return name.startswith(LABEL) and name[len(LABEL) :].isdecimal()


def read_svmlight(path: Path, text: set[str], label_sets: bool, needed: Sequence[str]) -> Table:
    """Read a svmlight file; columns in ``needed`` that it does not mention are zero.

    A line is ``labels index:value index:value ... # comment``, in any order of the indices; a line without labels begins
    with a space or with its first pair. ``qid:`` pairs, which group rows, are left out. O(characters).
    """
    labels: list[str] = []
    lines = array("q")
    rows, indices, values = array("q"), array("q"), array("d")
    with text_lines(path, "svmlight, lines such as 0,3 1:0.5 7:1") as content:
        for line, label, pairs, has_underscores in _rows(content):
            try:
                at = [int(index) for index, _, _ in pairs]
                numbers = [float(value) for _, _, value in pairs]
                if has_underscores and any("_" in index + value for index, _, value in pairs):
                    raise ValueError  # Python reads 1_000 as a number
            except ValueError:
                raise InvalidInput(f"{path}, line {line}: {_wrong_pair(pairs)}") from None
            if len(set(at)) < len(at) or (at and min(at) < 0):
                raise InvalidInput(f"{path}, line {line}: {_wrong_index(at)}")
            rows.extend([len(lines)] * len(at))
            indices.extend(at)
            values.extend(numbers)
            labels.append(label)
            lines.append(line)
    n = len(lines)
    if not n:
        raise InvalidInput(f"{path} is empty; expected lines such as 0,3 1:0.5 7:1")
    i, x = np.array(rows, dtype=np.int64), np.array(values, dtype=np.float64)
    where = np.array(lines, dtype=np.int64)
    if not np.isfinite(x).all():
        bad = int(np.argmin(np.isfinite(x)))
        raise InvalidInput(
            f"{path}, line {lines[rows[bad]]}: feature {indices[bad]} is {values[bad]}; numbers must be finite"
        )
    known, place = np.unique(np.array(indices, dtype=np.int64), return_inverse=True)
    used = [f"{FEATURE}{index}" for index in known.tolist()]
    names, places = _with_needed(used, FEATURE, needed)
    columns, sparse = of_entries(names, n, i, places[place], x)
    if label_sets:
        sets, at_row, at_set = _label_sets(labels, lines, path)
        names, places = _with_needed([f"{LABEL}{number}" for number in sets], LABEL, needed)
        if not names:
            raise InvalidInput(f"{path}: no row has a label")
        ones = np.zeros((len(names), n))
        ones[places[at_set], at_row] = 1.0
        columns = {**dict(zip(names, ones, strict=True)), **columns}
    else:
        columns = {LABEL: _label_column(labels, LABEL in text), **columns}
    for name in text & columns.keys():
        columns[name] = as_texts(columns[name])
    return made(columns, str(path), where, sparse)


def _rows(content: Iterator[str]) -> Iterator[tuple[int, str, list[tuple[str, str, str]], bool]]:
    """The number of each line that is not empty, its labels as written, its pairs, cut at the colon, and if it has a _."""
    for line, raw in enumerate(content, 1):
        body = raw.partition("#")[0]
        tokens = body.split()
        if not tokens:
            continue
        has_label = not body[0].isspace() and ":" not in tokens[0]
        pairs = [token.partition(":") for token in tokens[has_label:]]
        if any(name == "qid" for name, _, _ in pairs[:1]):
            pairs = pairs[1:]
        yield line, tokens[0] if has_label else "", pairs, "_" in body


def _wrong_pair(pairs: list[tuple[str, str, str]]) -> str:
    for index, colon, value in pairs:
        whole = as_number(index)
        if not colon or whole is None or not index.lstrip("+-").isdigit() or as_number(value) is None:
            return f"{index + colon + value!r} is no feature, expected index:value such as 7:0.5"
    return "expected pairs such as 7:0.5"


def _wrong_index(at: list[int]) -> str:
    least = min(at)
    if least < 0:
        return f"feature {least}: indices are whole numbers from 0 on"
    return f"feature {next(index for k, index in enumerate(at) if index in at[:k])} is given twice"


def _with_needed(used: list[str], prefix: str, needed: Sequence[str]) -> tuple[list[str], Array]:
    """The names of all columns, used ones and such as are needed, by their numbers; and the places of the used ones."""
    asked = {name for name in needed if name.startswith(prefix) and name[len(prefix) :].isdecimal()}
    names = sorted({*used, *asked}, key=lambda name: (int(name[len(prefix) :]), name))
    place = {name: j for j, name in enumerate(names)}
    return names, np.array([place[name] for name in used], dtype=np.int64)


def _label_sets(labels: list[str], lines: Sequence[int], path: Path) -> tuple[list[int], Array, Array]:
    """The labels there are, and for each time that one is given its row and its place among them."""
    rows, numbers = array("q"), array("q")
    for row, written in enumerate(labels):
        for part in written.split(",") if written else ():
            if not part.isdecimal():
                raise InvalidInput(
                    f"{path}, line {lines[row]}: the labels are {written!r}, expected whole numbers such as 0,3"
                )
            rows.append(row)
            numbers.append(int(part))
    sets, places = np.unique(np.array(numbers, dtype=np.int64), return_inverse=True)
    return sets.tolist(), np.array(rows, dtype=np.int64), places


def _label_column(labels: list[str], as_written: bool) -> Array:
    cells = [None if label in MISSING else label for label in labels]
    if not as_written:
        numbers = [np.nan if cell is None else as_number(cell) for cell in cells]
        if None not in numbers and not np.isinf(np.array(numbers, dtype=np.float64)).any():
            return np.array(numbers, dtype=np.float64)
    return texts(cells)
