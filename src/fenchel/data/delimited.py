"""Reading CSV and TSV: a header row, then rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array
from .files import ending, text_lines
from .tables import MISSING, Table, as_number, made, texts

__all__ = ["read_delimited"]

_DELIMITERS = (",", ";", "\t")
_CELLS_AT_ONCE = 1_000_000


def read_delimited(path: Path, text: set[str]) -> Table:
    """Read CSV or TSV, plain or gzip; ``text`` names columns to be taken as they are written."""
    try:
        return _pass(path, text)
    except _TextAfterAll as found:
        # Some column looked numeric at first, and what its numbers were written like is gone: read once more.
        return _pass(path, text | found.columns)


class _TextAfterAll(Exception):
    def __init__(self, columns: set[str]) -> None:
        super().__init__(columns)
        self.columns = columns


def _pass(path: Path, text: set[str]) -> Table:
    with text_lines(path, "CSV") as lines:
        first = next(lines, None)
        if first is None:
            raise InvalidInput(f"{path} is empty; expected a header row and rows under it")
        delimiter = "\t" if ending(path) == ".tsv" else _sniff(first)
        records = _records(_again(first, lines), delimiter, path)
        line, header = next(records, (1, []))
        names = _check_header([name.strip() for name in header], path, line)
        columns = [_Column(name, name in text) for name in names]
        at = _fill_columns(columns, records, path)
    if not len(at):
        raise InvalidInput(f"{path} has a header but no rows under it")
    again = {column.name for column in columns if column.is_text and column.had_numbers}
    if again:
        raise _TextAfterAll(again)
    for column in columns:
        if not column.is_text and column.infinite is not None:
            line, cell = column.infinite
            raise InvalidInput(f"{path}, line {line}: column {column.name!r} holds {cell!r}; numbers must be finite")
    return made({column.name: column.finish() for column in columns}, str(path), at)


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _sniff(header: str) -> str:
    try:
        return max(_DELIMITERS, key=lambda delimiter: len(next(csv.reader([header], delimiter=delimiter), [])))
    except csv.Error:  # what is wrong is said when the record is read
        return ","


_CSV_ERRORS = {
    "unexpected end of data": "a quotation mark is opened here and never closed",
    "field larger than": "a value is longer than 131072 characters; is a quotation mark never closed?",
    "expected after": "a value goes on after its closing quotation mark",
    "new-line character": "lines end in bare carriage returns; save the file with ordinary line ends",
    "NUL": "there is a NUL byte; is this a text file?",
}


def _records(lines: Iterator[str], delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Records with the line each begins at; empty lines are skipped."""
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != "\t", strict=True)
    start = 1
    while True:
        try:
            record = next(reader, None)
        except csv.Error as error:
            hint = next((ours for theirs, ours in _CSV_ERRORS.items() if theirs in str(error)), str(error))
            raise InvalidInput(f"{path}, line {start}: {hint}") from None
        if record is None:
            return
        if record:
            yield start, record
        start = reader.line_num + 1


def _check_header(names: list[str], path: Path, line: int) -> list[str]:
    where = f"{path}, line {line}"
    if not names or not any(names):
        raise InvalidInput(f"{path} is empty; expected a header row and rows under it")
    found = [as_number(name) for name in names]
    if all(x is not None and not (x.is_integer() and x >= 0) for x in found):
        raise InvalidInput(
            f"{where}: the header holds only numbers ({', '.join(names[:3])}, ...); is the header missing?"
        )
    for i, name in enumerate(names):
        if not name:
            raise InvalidInput(
                f"{where}: column {i + 1} has no name (a row index? leave it out: to_csv(index=False) in pandas)"
            )
    if len(set(names)) < len(names):
        double = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidInput(f"{where}: two columns are named {double!r}")
    return names


def _fill_columns(columns: list[_Column], records: Iterator[tuple[int, list[str]]], path: Path) -> Array:
    """Take the records into the columns, piece by piece (cells as texts need ten times the memory of numbers)."""
    most = max(1, min(20_000, _CELLS_AT_ONCE // len(columns)))
    at: list[int] = []
    rows: list[list[str]] = []

    def flush() -> None:
        lines = at[len(at) - len(rows) :]
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
            column.add(cells, lines)
        rows.clear()

    for line, record in records:
        if len(record) != len(columns):
            count = "1 field" if len(record) == 1 else f"{len(record)} fields"
            raise InvalidInput(f"{path}, line {line}: {count}, but the header names {len(columns)} columns")
        at.append(line)
        rows.append(record)
        if len(rows) == most:
            flush()
    if rows:
        flush()
    return np.array(at, dtype=np.int64)


class _Column:
    """A column while it is read: numbers until something else turns up."""

    def __init__(self, name: str, is_text: bool) -> None:
        self.name = name
        self.is_text = is_text
        self.had_numbers = False
        self.infinite: tuple[int, str] | None = None
        self.parts: list[Array] = []

    def add(self, cells: Sequence[str], lines: list[int]) -> None:
        if not self.is_text:
            values = _numbers(cells)
            if values is not None:
                self.had_numbers |= not bool(np.isnan(values).all())
                if self.infinite is None and np.isinf(values).any():
                    i = int(np.argmax(np.isinf(values)))
                    self.infinite = (lines[i], cells[i].strip())
                self.parts.append(values)
                return
            self.is_text = True
        # Columns hold few different texts; sharing them saves memory and makes comparing quick.
        known: dict[str, str | None] = {}
        for cell in set(cells):
            stripped = cell.strip()
            known[cell] = None if stripped in MISSING else stripped
        self.parts.append(texts([known[cell] for cell in cells]))

    def finish(self) -> Array:
        if not self.is_text:
            return np.concatenate(self.parts)
        return np.concatenate([part if part.dtype == object else texts([None] * len(part)) for part in self.parts])


def _numbers(cells: Sequence[str]) -> Array | None:
    """All cells as numbers, NaN where missing, or None if some cell is something else."""
    try:
        values = list(map(float, cells))
    except ValueError:
        try:
            values = [np.nan if cell.strip() in MISSING else float(cell) for cell in cells]
        except ValueError:
            return None
    if "_" in "".join(cells):  # Python reads 1_000 as a number, but in a table it is a name
        return None
    return np.array(values, dtype=np.float64)
