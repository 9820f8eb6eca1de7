"""Reading ARFF, the format of Weka, MEKA and Mulan: dense and sparse rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array
from .files import text_lines
from .tables import Table, as_number, as_texts, listed, made, of_entries, texts

__all__ = ["attribute_names", "read_arff"]

_AT_ONCE = 20_000
_NUMERIC = ("numeric", "real", "integer")
_TEXTUAL = ("string", "date")
# A quoted piece with backslash escapes, or what goes on to the next separator.
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_CELL = re.compile(rf"\s*({_QUOTED}|[^,%'\"]*)\s*(?:(,)|(?=%|$))")
_ITEM = re.compile(rf"\s*(\d+)\s+({_QUOTED}|[^,%'\"}}\s]+)\s*(?:(,)|(?=}}))")
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s'\"{{][^\s{{]*)\s*(.*)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True)
class _Attribute:
    name: str
    values: tuple[str, ...] | None
    """Those of a nominal attribute."""
    numeric: bool
    """Whether the column holds numbers: also nominal ones that are only 0 and 1."""


def read_arff(path: Path, text: set[str]) -> Table:
    """Read an ARFF file, plain or gzip; ``text`` names columns to be taken as texts.

    Numeric attributes, and nominal ones with no values but 0 and 1, become numbers; nominal, string and date attributes
    texts. ``?`` is missing. What a sparse row ``{3 0.5, 7 red}`` leaves out is 0, the first value of a nominal attribute,
    or missing for strings, as Weka reads it. O(characters).
    """
    with text_lines(path, "ARFF") as content:
        numbered = enumerate(content, 1)
        attributes = _header(numbered, path)
        rows = ((line, raw.strip()) for line, raw in numbered)
        rows = ((line, row) for line, row in rows if row and not row.startswith("%"))
        first = next(rows, None)
        if first is None:
            raise InvalidInput(f"{path} has no rows under @data")
        read = _sparse_rows if first[1].startswith("{") else _dense_rows
        table = read(_again(first, rows), attributes, path)
    columns = {name: as_texts(column) if name in text else column for name, column in table.columns.items()}
    return made(columns, table.source, table.lines, table.sparse)


def attribute_names(path: Path) -> list[str]:
    """The names of the attributes in the order of the file."""
    with text_lines(path, "ARFF") as content:
        return [attribute.name for attribute in _header(enumerate(content, 1), path)]


def _again(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


# -- the header --------------------------------------------------------------------------------------------------------


def _header(numbered: Iterator[tuple[int, str]], path: Path) -> list[_Attribute]:
    """The attributes, read up to the line ``@data``."""
    found: dict[str, _Attribute] = {}
    for line, raw in numbered:
        text = raw.strip()
        where = f"{path}, line {line}"
        keyword = text.split(maxsplit=1)[0].lower() if text else ""
        if not text or text.startswith("%") or keyword == "@relation":
            continue
        if keyword == "@data":
            if not found:
                raise InvalidInput(f"{where}: there is no @attribute before @data")
            return list(found.values())
        if keyword != "@attribute":
            raise InvalidInput(f"{where}: {_short(text)} is no line of an ARFF header; expected @attribute or @data")
        attribute = _attribute(text, where)
        if attribute.name in found:
            raise InvalidInput(f"{where}: two attributes are named {attribute.name!r}")
        found[attribute.name] = attribute
    if not found:
        raise InvalidInput(f"{path} is no ARFF file: it has no line @attribute")
    raise InvalidInput(f"{path} has no line @data, with the rows under it")


def _attribute(text: str, where: str) -> _Attribute:
    match = _ATTRIBUTE.match(text)
    if match is None:
        raise InvalidInput(f"{where}: {_short(text)} does not say @attribute NAME TYPE")
    name, kind = _unquoted(match[1]), match[2].strip()
    if kind.startswith("{"):
        inside, closed, _ = kind[1:].rpartition("}")
        values = _cells(inside) if closed and inside.strip() else None
        if values is None or None in values:
            raise InvalidInput(f"{where}: the values of {name!r} are not written {{a, b, 'c d'}}")
        nominal = tuple(str(value) for value in values)
        return _Attribute(name, nominal, set(nominal) <= {"0", "1"})
    word = kind.split(maxsplit=1)[0].lower() if kind else ""
    if word in _NUMERIC or word in _TEXTUAL:
        return _Attribute(name, None, word in _NUMERIC)
    raise InvalidInput(
        f"{where}: attribute {name!r} has the type {kind or 'of nothing'!r}, expected one of "
        f"{', '.join(_NUMERIC + _TEXTUAL)} or a list of values {{a, b}}"
    )


# -- rows --------------------------------------------------------------------------------------------------------------


def _dense_rows(rows: Iterator[tuple[int, str]], attributes: Sequence[_Attribute], path: Path) -> Table:
    lines: list[int] = []
    cells: list[list[str | None]] = []
    parts: list[list[Array]] = [[] for _ in attributes]

    def flush() -> None:
        at = lines[len(lines) - len(cells) :]
        for part, attribute, column in zip(parts, attributes, zip(*cells, strict=True), strict=True):
            part.append(_column(attribute, column, at, path))
        cells.clear()

    for line, row in rows:
        if row.startswith("{"):
            raise InvalidInput(f"{path}, line {line}: a sparse row among rows that are not")
        found = _cells(row)
        if found is None:
            raise InvalidInput(f"{path}, line {line}: the quotation marks of {_short(row)} do not match")
        if len(found) != len(attributes):
            count = "1 value" if len(found) == 1 else f"{len(found)} values"
            raise InvalidInput(f"{path}, line {line}: {count}, but the header has {len(attributes)} attributes")
        lines.append(line)
        cells.append(found)
        if len(cells) == max(1, min(_AT_ONCE, 1_000_000 // len(attributes))):
            flush()
    if cells:
        flush()
    columns = {a.name: np.concatenate(part) for a, part in zip(attributes, parts, strict=True)}
    return made(columns, str(path), np.array(lines, dtype=np.int64))


def _column(attribute: _Attribute, cells: Sequence[str | None], lines: Sequence[int], path: Path) -> Array:
    """Cells of one attribute, checked."""
    if attribute.values is not None:
        strange = set(cells) - {None, *attribute.values}
        if strange:
            at = next(i for i, cell in enumerate(cells) if cell in strange)
            raise InvalidInput(f"{path}, line {lines[at]}: {_no_value(attribute, cells[at])}")
    if not attribute.numeric:
        return texts(cells)
    numbers = [_number(cell) for cell in cells]
    if None in numbers:
        at = numbers.index(None)
        raise InvalidInput(f"{path}, line {lines[at]}: {_no_number(attribute, cells[at])}")
    return np.array(numbers, dtype=np.float64)


def _sparse_rows(rows: Iterator[tuple[int, str]], attributes: Sequence[_Attribute], path: Path) -> Table:
    d = len(attributes)
    # What is mostly zero is collected as entries, the rest as what differs from the value of rows that leave it out.
    light = [a.numeric and (a.values is None or a.values[0] == "0") for a in attributes]
    place = np.cumsum(light) - 1
    lines: list[int] = []
    at_row: list[int] = []
    at_place: list[int] = []
    numbers: list[float] = []
    others: list[dict[int, tuple[str | None, int]]] = [{} for _ in attributes]
    for line, row in rows:
        items = _items(row)
        if items is None:
            raise InvalidInput(f"{path}, line {line}: {_short(row)} is no sparse row such as {{0 1.5, 7 red}}")
        seen = set()
        for j, cell in items:
            if j >= d:
                raise InvalidInput(
                    f"{path}, line {line}: there is no attribute {j}; the header has {d}, counted from 0"
                )
            if j in seen:
                raise InvalidInput(f"{path}, line {line}: attribute {j} ({attributes[j].name!r}) is given twice")
            seen.add(j)
            if not light[j]:
                others[j][len(lines)] = (cell, line)
                continue
            attribute = attributes[j]
            value = _number(cell)
            if value is None:
                raise InvalidInput(f"{path}, line {line}: {_no_number(attribute, cell)}")
            if attribute.values is not None and cell is not None and cell not in attribute.values:
                raise InvalidInput(f"{path}, line {line}: {_no_value(attribute, cell)}")
            at_row.append(len(lines))
            at_place.append(int(place[j]))
            numbers.append(value)
        lines.append(line)
    n = len(lines)
    names = [a.name for a, is_light in zip(attributes, light, strict=True) if is_light]
    block, sparse = of_entries(names, n, np.array(at_row, int), np.array(at_place, int), np.array(numbers, float))
    columns = {}
    for j, attribute in enumerate(attributes):
        if light[j]:
            if attribute.name in block:
                columns[attribute.name] = block[attribute.name]
            continue
        cells: list[str | None] = [None if attribute.values is None else attribute.values[0]] * n
        known = [0] * n
        for i, (cell, line) in others[j].items():
            cells[i], known[i] = cell, line
        columns[attribute.name] = _column(attribute, cells, known, path)
    return made(columns, str(path), np.array(lines, dtype=np.int64), sparse)


def _number(cell: str | None) -> float | None:
    """A finite number, NaN where it is missing, or None."""
    if cell is None:
        return math.nan
    value = as_number(cell)
    return value if value is not None and math.isfinite(value) else None


def _no_value(attribute: _Attribute, cell: str | None) -> str:
    return f"{attribute.name!r} is {cell!r}, which is none of its values {listed(attribute.values or ())}"


def _no_number(attribute: _Attribute, cell: str | None) -> str:
    return f"{attribute.name!r} is {cell!r}, expected a finite number (? where it is missing)"


# -- words -------------------------------------------------------------------------------------------------------------


def _cells(text: str) -> list[str | None] | None:
    """What stands between commas, up to a comment, None for ``?``; None in all if quotation marks do not match."""
    if "'" not in text and '"' not in text and "%" not in text:
        return [None if cell == "?" else cell for cell in map(str.strip, text.split(","))]
    cells: list[str | None] = []
    at = 0
    while True:
        match = _CELL.match(text, at)
        if match is None:
            return None
        cells.append(_cell(match[1].strip()))
        if match[2] is None:
            return cells
        at = match.end()


def _items(row: str) -> list[tuple[int, str | None]] | None:
    """The numbers of attributes and their values in a sparse row, or None if it is none."""
    if not row.startswith("{"):
        return None
    if "'" in row or '"' in row:
        return _quoted_items(row)
    body, closed, rest = row[1:].partition("}")
    pairs = [item.split() for item in body.split(",")] if body.strip() else []
    if not closed or rest.strip()[:1] not in ("", "%"):
        return None
    if any(len(pair) != 2 or not pair[0].isdecimal() for pair in pairs):
        return None
    return [(int(j), _cell(cell)) for j, cell in pairs]


def _quoted_items(row: str) -> list[tuple[int, str | None]] | None:
    items: list[tuple[int, str | None]] = []
    at = 1
    while True:
        match = _ITEM.match(row, at)
        if match is None:
            return None
        items.append((int(match[1]), _cell(match[2])))
        at = match.end()
        if match[3] is None:
            return items if row[at + 1 :].strip()[:1] in ("", "%") else None


def _cell(text: str) -> str | None:
    return None if text == "?" else _unquoted(text)


def _unquoted(text: str) -> str:
    """
    >>> print(_unquoted(r"'it\\'s'"), _unquoted("red"))
    it's red
    """
    return _ESCAPE.sub(r"\1", text[1:-1]) if text[:1] in ("'", '"') else text


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
