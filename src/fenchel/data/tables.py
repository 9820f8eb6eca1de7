"""Tables with named columns: reading CSV and Parquet, and columns as a matrix of features."""

from __future__ import annotations

import csv
import difflib
import gzip
import os
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_count
from .._core.errors import InvalidInput, MissingDependency
from .._core.types import Array

__all__ = ["Table", "TableEncoder", "read_table"]

_MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"})
_DELIMITERS = (",", ";", "\t")
_CELLS_AT_ONCE = 1_000_000
_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_FOREIGN = {
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "compressed by gzip",
    b"PK\x03\x04": "a zip archive or an Excel file",
}


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of one length: float64 where all values are numbers, else objects that are texts.

    A missing number is NaN, a missing text None. ``columns`` may hold lists, arrays, or a pandas DataFrame may be given
    in place of the mapping.

    >>> table = Table({"size": [1, 2, None], "colour": ["red", "blue", None]})
    >>> table["size"], table["colour"]
    (array([ 1.,  2., nan]), array(['red', 'blue', None], dtype=object))
    """

    columns: Mapping[str, Array]
    source: str = "the table"
    """What error messages call it."""
    lines: Array | None = None
    """The line of each row in the file, if it came from a file with lines."""

    def __post_init__(self) -> None:
        columns: dict[str, Array] = {}
        for name in self.columns:
            if str(name) in columns:
                raise InvalidInput(f"{self.source}: two columns are named {str(name)!r}")
            columns[str(name)] = _as_column(self.columns[name], str(name), self)
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"{self.source}: columns have different lengths: {lengths}")
        object.__setattr__(self, "columns", columns)

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Array:
        try:
            return self.columns[name]
        except KeyError:
            by_lower = {str(other).lower(): other for other in self.names}
            near = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.5)
            hint = f"; did you mean {by_lower[near[0]]!r}?" if near else ""
            raise InvalidInput(f"{self.source} has no column {name!r}, it has {_listed(self.names)}{hint}") from None

    def is_numeric(self, name: str) -> bool:
        return self[name].dtype != object

    def take(self, rows: Array) -> Table:
        """The rows with these numbers, in this order."""
        lines = None if self.lines is None else self.lines[rows]
        return _made({name: column[rows] for name, column in self.columns.items()}, self.source, lines)

    def drop(self, names: Iterable[str]) -> Table:
        """All columns but these."""
        gone = set(names)
        for name in gone:
            self[name]
        kept = {name: column for name, column in self.columns.items() if name not in gone}
        return _made(kept, self.source, self.lines)

    def where(self, row: int) -> str:
        """What a reader of the source would call this row."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def first_missing(self, name: str) -> int | None:
        """The first row where this column holds nothing."""
        missing = _missing(self[name])
        return int(np.argmax(missing)) if missing.any() else None

    def __repr__(self) -> str:
        return f"Table({len(self)} rows, columns {_listed(self.names)})"


def _made(columns: dict[str, Array], source: str, lines: Array | None) -> Table:
    """A table of columns that are known to be in order (checking them again would cost a pass over all texts)."""
    table = object.__new__(Table)
    for name, value in (("columns", columns), ("source", source), ("lines", lines)):
        object.__setattr__(table, name, value)
    return table


def as_table(value: Any) -> Table:
    """A Table from itself, a mapping of columns or a pandas DataFrame."""
    if isinstance(value, Table):
        return value
    if isinstance(value, Mapping) or hasattr(value, "columns"):
        return Table(value)
    raise InvalidInput(f"expected a Table, a mapping of columns or a pandas DataFrame, got a {type(value).__name__}")


def _as_column(values: Any, name: str, table: Table) -> Array:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"{table.source}: column {name!r} has shape {array.shape}, expected one value in each row")
    if array.dtype.kind in "iuf":
        return _finite(array.astype(np.float64), name, table)
    if array.dtype.kind in "bU":
        return _texts(array.astype(str).tolist())
    if array.dtype.kind == "M":
        return _texts([None if np.isnat(value) else str(value) for value in array])
    if array.dtype.kind != "O":
        raise InvalidInput(f"{table.source}: column {name!r} has type {array.dtype}, expected numbers or texts")
    items = [None if _is_missing(value) else value for value in array.tolist()]
    if all(value is None or (isinstance(value, Real) and not isinstance(value, bool)) for value in items):
        return _finite(np.array([np.nan if v is None else float(v) for v in items], dtype=np.float64), name, table)
    return _texts([_text(value) for value in items])


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _missing(column: Array) -> Array:
    if column.dtype != object:
        return np.isnan(column)
    return np.fromiter((value is None for value in column), dtype=bool, count=len(column))


def _finite(column: Array, name: str, table: Table) -> Array:
    infinite = np.isinf(column)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise InvalidInput(
            f"{table.source}, {table.where(row)}: column {name!r} holds {column[row]}; numbers must be finite"
        )
    return column


def _texts(values: Sequence[str | None]) -> Array:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _text(value: Any) -> str | None:
    """A value as a text; whole numbers without a point, so that 1.0 and "1" are the same category."""
    if value is None or value != value:
        return None
    if not isinstance(value, float | np.floating):
        return str(value)
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


# -- reading -----------------------------------------------------------------------------------------------------------


def read_table(path: str | os.PathLike[str], *, text: Iterable[str] = ()) -> Table:
    """Read a table from CSV (``.csv``, ``.tsv``, either with ``.gz``) or Parquet (``.parquet``).

    CSV is UTF-8 with a header row, separated by commas, semicolons or tabs, whichever makes most columns of the
    header. A column is numeric if all its values are numbers; values that are empty or NA, N/A, NaN, null or ?
    are missing. ``text`` names columns to be taken as they are written, digits or not.
    """
    source = Path(path)
    if source.is_dir():
        raise InvalidInput(f"{str(source)!r} is a folder, expected a file ending in {', '.join(_ENDINGS)}")
    if not source.exists():
        raise FileNotFoundError(f"there is no file {str(source)!r}")
    lower = source.name.lower()
    if lower.endswith(".parquet"):
        return _read_parquet(source, set(text))
    if lower.endswith(_ENDINGS):
        return _read_csv(source, set(text))
    raise InvalidInput(f"{str(source)!r} is no known kind of table; names of tables end in {', '.join(_ENDINGS)}")


def _read_csv(path: Path, text: set[str]) -> Table:
    try:
        try:
            return _csv_pass(path, text)
        except _TextAfterAll as found:
            # Some column looked numeric at first, and what its numbers were written like is gone: read once more.
            return _csv_pass(path, text | found.columns)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path}: the gzip archive is damaged ({error})") from None


class _TextAfterAll(Exception):
    def __init__(self, columns: set[str]) -> None:
        super().__init__(columns)
        self.columns = columns


def _csv_pass(path: Path, text: set[str]) -> Table:
    with _open(path) as stream:
        lines = _decoded(stream, path)
        first = next(lines, None)
        if first is None:
            raise InvalidInput(f"{path} is empty; expected a header row and rows under it")
        delimiter = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else _sniff(first)
        records = _records(_again(first, lines), delimiter, path)
        number, header = next(records, (1, []))
        names = _check_header([name.strip() for name in header], path, number)
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
    return _made({column.name: column.finish() for column in columns}, str(path), at)


def _open(path: Path) -> IO[bytes]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    stream = path.open("rb")
    start = stream.read(4)
    stream.seek(0)
    for magic, kind in _FOREIGN.items():
        if start.startswith(magic):
            stream.close()
            raise InvalidInput(f"{path} is {kind}, whatever its name says; expected CSV")
    return stream


def _decoded(stream: IO[bytes], path: Path) -> Iterator[str]:
    for number, raw in enumerate(stream, 1):
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            raise InvalidInput(
                f"{path}, line {number}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
            ) from None


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
    numbers = [_number(name) for name in names]
    if all(x is not None and not (x.is_integer() and x >= 0) for x in numbers):
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
            known[cell] = None if stripped in _MISSING else stripped
        self.parts.append(_texts([known[cell] for cell in cells]))

    def finish(self) -> Array:
        if not self.is_text:
            return np.concatenate(self.parts)
        return np.concatenate([part if part.dtype == object else _texts([None] * len(part)) for part in self.parts])


def _numbers(cells: Sequence[str]) -> Array | None:
    """All cells as numbers, NaN where missing, or None if some cell is something else."""
    try:
        values = list(map(float, cells))
    except ValueError:
        try:
            values = [np.nan if cell.strip() in _MISSING else float(cell) for cell in cells]
        except ValueError:
            return None
    if "_" in "".join(cells):  # Python reads 1_000 as a number, but in a table it is a name
        return None
    return np.array(values, dtype=np.float64)


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _read_parquet(path: Path, text: set[str]) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingDependency(
            f"reading {str(path)!r} needs pyarrow, which is not installed: pip install 'fenchel[parquet]'"
        ) from None
    try:
        with pq.ParquetFile(path) as file:
            content = file.read()
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{path} is no Parquet file, or a damaged one ({reason})") from None
    if content.num_rows == 0 or content.num_columns == 0:
        raise InvalidInput(f"{path} is empty; expected named columns and rows")
    names = content.column_names
    if len(set(names)) < len(names):
        double = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidInput(f"{path}: two columns are named {double!r}")
    columns = {name: _arrow_column(pa, content.column(name), name, path) for name in names}
    for name in text & columns.keys():
        columns[name] = _as_text(columns[name])
    return Table(columns, str(path))


def _arrow_column(pa: Any, column: Any, name: str, path: Path) -> Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise InvalidInput(f"{path}: column {name!r} has type {kind}, expected numbers or texts")
    return _texts([None if value is None else str(value) for value in column.to_pylist()])


def _as_text(column: Array) -> Array:
    return column if column.dtype == object else _texts([_text(value) for value in column.tolist()])


# -- columns as features -----------------------------------------------------------------------------------------------


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The columns of a table as a matrix of features that a linear model can use.

    Numbers are standardised; a missing one becomes the mean, and columns that had missing numbers in training get
    a second feature that says where. Texts become one feature for each category met in training; other ones, and
    missing ones where none was missing in training, get zero in all of them. Columns that were constant in training
    are left out, and ``notes_`` says so.

    Parameters
    ----------
    max_categories : int, default=50
        A text column with more different values raises.

    Attributes
    ----------
    feature_names_in_ : the columns, as they must be named again
    numeric_ : which of them are numbers
    means_, scales_ : of the numbers; a scale of 0 marks what is constant
    indicators_ : which columns get a feature for missing values
    categories_ : the categories of each text column (None for numbers)
    notes_ : what was left out and why

    Examples
    --------
    >>> from fenchel.data import Table, TableEncoder
    >>> table = Table({"size": [1.0, 3.0, None], "colour": ["red", "blue", "red"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out()
    array(['size', 'size missing', 'colour=blue', 'colour=red'], dtype=object)
    >>> encoder.transform(table)
    array([[-1.,  0.,  0.,  1.],
           [ 1.,  0.,  1.,  0.],
           [ 0.,  1.,  0.,  1.]])
    """

    def __init__(self, max_categories: int = 50) -> None:
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn means, scales and categories from a Table (or a DataFrame or mapping of columns)."""
        table = as_table(X)
        check_count(self.max_categories, "max_categories")
        if not len(table):
            raise InvalidInput(f"{table.source} has no rows to learn from")
        d = len(table.names)
        self.feature_names_in_ = np.array(table.names, dtype=object)
        self.n_features_in_ = d
        self.numeric_ = np.array([table.is_numeric(name) for name in table.names], dtype=bool)
        self.means_, self.scales_ = np.zeros(d), np.zeros(d)
        self.indicators_ = np.zeros(d, dtype=bool)
        self.categories_: list[Array | None] = [None] * d
        self.notes_: list[str] = []
        for j, name in enumerate(table.names):
            if self.numeric_[j]:
                self._fit_numbers(j, name, table[name])
            else:
                self._fit_texts(j, name, table)
        if not self._width():
            raise InvalidInput(
                f"{table.source} has no column to learn from: " + ("; ".join(self.notes_) or "none is left")
            )
        return self

    def _fit_numbers(self, j: int, name: str, column: Array) -> None:
        missing = np.isnan(column)
        known = column[~missing]
        if not len(known):
            self.notes_.append(f"column {name!r} is left out: it holds no values")
            return
        self.indicators_[j] = bool(missing.any())
        largest = float(np.abs(known).max())
        if known.min() == known.max():
            self.means_[j] = known[0]
            also = " where it is known" if self.indicators_[j] else ""
            self.notes_.append(f"column {name!r} is left out: it is always {known[0]:g}{also}")
            return
        unit = known / largest  # squares of large numbers overflow
        self.means_[j] = unit.mean() * largest
        self.scales_[j] = unit.std() * largest
        if self.scales_[j] == 0:
            self.notes_.append(f"column {name!r} is left out: its values do not differ in double precision")

    def _fit_texts(self, j: int, name: str, table: Table) -> None:
        column = table[name]
        missing = _missing(column)
        found = sorted(set(column[~missing].tolist()))
        if len(found) > self.max_categories:
            raise InvalidInput(self._too_many(name, found, table.source))
        if len(found) + bool(missing.any()) < 2:
            what = f"it is always {found[0]!r}" if found else "it holds no values"
            self.notes_.append(f"column {name!r} is left out: {what}")
            found = []
        elif missing.any():
            self.indicators_[j] = True
        self.categories_[j] = _texts(found)

    def _too_many(self, name: str, found: list[str], source: str) -> str:
        text = (
            f"{source}: text column {name!r} holds {len(found)} different values, more than max_categories="
            f"{self.max_categories}; leave it out (--drop {shlex.quote(name)} on the command line)"
        )
        odd = [value for value in found if _number(value) is None]
        commas = [value for value in odd if _number(value.replace(",", ".")) is not None]
        if commas and len(commas) == len(odd):
            return f"{text}, or write its numbers with a point ({commas[0]!r} has a comma)"
        if len(odd) < len(found) / 2:
            return f"{text}, or mend what makes it text: most values are numbers, but not {_listed(odd, 3)}"
        return text

    def transform(self, X: Any) -> Array:
        """The matrix of features, float64, one row for each row of the table. Columns it does not know are ignored."""
        check_is_fitted(self)
        table = as_table(X)
        absent = [name for name in self.feature_names_in_ if name not in table]
        if absent:
            word = "the column" if len(absent) == 1 else "the columns"
            raise InvalidInput(f"{table.source} lacks {word} {_listed(absent)}, which the model was trained with")
        out = np.zeros((len(table), self._width()))
        at = 0
        for j, name in enumerate(self.feature_names_in_):
            part = self._numbers(j, table, name) if self.numeric_[j] else self._texts(j, table[name])
            for feature in part:
                out[:, at] = feature
                at += 1
        return out

    def _numbers(self, j: int, table: Table, name: str) -> Iterator[Array]:
        column = table[name]
        if column.dtype == object:
            numbers = [np.nan if value is None else _number(value) for value in column]
            if None in numbers:
                row = numbers.index(None)
                raise InvalidInput(
                    f"{table.source}, {table.where(row)}: column {name!r} holds {column[row]!r}, "
                    "but held only numbers in training"
                )
            column = _finite(np.array(numbers, dtype=np.float64), name, table)
        missing = np.isnan(column)
        if self.scales_[j] > 0:
            yield np.where(missing, 0.0, (column - self.means_[j]) / self.scales_[j])
        if self.indicators_[j]:
            yield missing.astype(np.float64)

    def _texts(self, j: int, column: Array) -> Iterator[Array]:
        column = _as_text(column)
        categories = self.categories_[j]
        if categories is None or not (len(categories) or self.indicators_[j]):
            return
        place = {value: i for i, value in enumerate(categories.tolist())}
        codes = np.array([place.get(value, -1) for value in column.tolist()], dtype=np.int64)
        for i in range(len(categories)):
            yield (codes == i).astype(np.float64)
        if self.indicators_[j]:
            yield _missing(column).astype(np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the features: the column, ``column missing``, or ``column=category``."""
        check_is_fitted(self)
        names: list[str | None] = []
        for j, name in enumerate(self.feature_names_in_):
            categories = self.categories_[j]
            if categories is None:
                names += [name] if self.scales_[j] > 0 else []
            else:
                names += [f"{name}={value}" for value in categories]
            names += [f"{name} missing"] if self.indicators_[j] else []
        return _texts(names)

    def _width(self) -> int:
        return len(self.get_feature_names_out())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "feature_names_in_")
