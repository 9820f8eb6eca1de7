"""Tables with named columns, in which most numbers may be zero."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._core.errors import InvalidInput
from .._core.types import Array

__all__ = [
    "MISSING",
    "SparseColumns",
    "Table",
    "as_number",
    "as_table",
    "as_text",
    "as_texts",
    "finite",
    "listed",
    "made",
    "missing_cells",
    "of_entries",
    "texts",
]

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"})
"""What is written where a value is missing."""

# From this share of zeros on, columns of numbers are kept as a sparse matrix.
_SPARSE_FROM = 0.75


class SparseColumns:
    """Named columns of finite numbers that are mostly zero, kept as one matrix.

    >>> import scipy.sparse as sp
    >>> SparseColumns(["a", "b"], sp.csc_array([[0.0, 2.0], [0.0, 0.0]])).column("b")
    array([2., 0.])
    """

    def __init__(self, names: Sequence[str], matrix: Any) -> None:
        self.names = list(names)
        self.matrix = sp.csc_array(matrix)
        self._place = {name: j for j, name in enumerate(self.names)}

    def __contains__(self, name: object) -> bool:
        return name in self._place

    def column(self, name: str) -> Array:
        """One column, zeros and all."""
        rows, values = self.entries(name)
        out = np.zeros(self.matrix.shape[0])
        out[rows] = values
        return out

    def entries(self, name: str) -> tuple[Array, Array]:
        """The rows of a column where it is not zero, and its numbers there."""
        j = self._place[name]
        part = slice(self.matrix.indptr[j], self.matrix.indptr[j + 1])
        return self.matrix.indices[part], self.matrix.data[part]

    def take(self, rows: Array) -> SparseColumns:
        """The rows with these numbers."""
        return SparseColumns(self.names, self.matrix.tocsr()[rows])

    def without(self, names: set[str]) -> SparseColumns | None:
        """All columns but these; None if none is left."""
        kept = [j for j, name in enumerate(self.names) if name not in names]
        return SparseColumns([self.names[j] for j in kept], self.matrix[:, kept]) if kept else None


def of_entries(
    names: Sequence[str], n: int, rows: Array, places: Array, values: Array
) -> tuple[dict[str, Array], SparseColumns | None]:
    """Columns of n rows from their entries that are not zero: dense ones, and sparse ones where most are zero.

    A column with a missing number is dense, because it will get a feature that says where.
    """
    if len(values) > (1 - _SPARSE_FROM) * n * len(names):
        block = np.zeros((len(names), n))
        block[places, rows] = values
        return dict(zip(names, block, strict=True)), None
    matrix = sp.csc_array((values, (rows, places)), shape=(n, len(names)))
    matrix.eliminate_zeros()
    sparse = SparseColumns(names, matrix)
    holed = [names[j] for j in np.unique(places[np.isnan(values)])]
    return {name: sparse.column(name) for name in holed}, sparse.without(set(holed))


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
    sparse: SparseColumns | None = None
    """Further columns, which are mostly zero."""

    def __post_init__(self) -> None:
        columns: dict[str, Array] = {}
        for name in self.columns:
            if str(name) in columns:
                raise InvalidInput(f"{self.source}: two columns are named {str(name)!r}")
            columns[str(name)] = _as_column(self.columns[name], str(name), self)
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"{self.source}: columns have different lengths: {lengths}")
        if self.sparse is not None:
            _check_sparse(self.sparse, columns, self.source)
        object.__setattr__(self, "columns", columns)

    @property
    def names(self) -> list[str]:
        return [*self.columns, *([] if self.sparse is None else self.sparse.names)]

    def __len__(self) -> int:
        if self.columns:
            return len(next(iter(self.columns.values())))
        return 0 if self.sparse is None else int(self.sparse.matrix.shape[0])

    def __contains__(self, name: object) -> bool:
        return name in self.columns or self.is_sparse(name)

    def __getitem__(self, name: str) -> Array:
        self._require(name)
        if self.sparse is not None and name in self.sparse:
            return self.sparse.column(name)
        return self.columns[name]

    def _require(self, name: str) -> None:
        if name not in self:
            raise InvalidInput(f"{self.source} has no column {name!r}, it has {listed(self.names)}{self.near(name)}")

    def near(self, name: str, but: Iterable[str] = ()) -> str:
        """The end of a message about a column that is not there: the name that is most like it, if one is."""
        others = set(but)
        by_lower = {other.lower(): other for other in self.names if other not in others}
        found = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.5)
        return f"; did you mean {by_lower[found[0]]!r}?" if found else ""

    def is_sparse(self, name: object) -> bool:
        return self.sparse is not None and name in self.sparse

    def is_numeric(self, name: str) -> bool:
        self._require(name)
        return self.is_sparse(name) or self.columns[name].dtype != object

    def take(self, rows: Array) -> Table:
        """The rows with these numbers, in this order."""
        lines = None if self.lines is None else self.lines[rows]
        sparse = None if self.sparse is None else self.sparse.take(rows)
        return made({name: column[rows] for name, column in self.columns.items()}, self.source, lines, sparse)

    def drop(self, names: Iterable[str]) -> Table:
        """All columns but these."""
        gone = set(names)
        for name in gone:
            self._require(name)
        kept = {name: column for name, column in self.columns.items() if name not in gone}
        return made(kept, self.source, self.lines, None if self.sparse is None else self.sparse.without(gone))

    def where(self, row: int) -> str:
        """What a reader of the source would call this row."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def first_missing(self, name: str) -> int | None:
        """The first row where this column holds nothing."""
        missing = missing_cells(self[name])
        return int(np.argmax(missing)) if missing.any() else None

    def __repr__(self) -> str:
        return f"Table({len(self)} rows, columns {listed(self.names)})"


def _check_sparse(sparse: SparseColumns, columns: Mapping[str, Array], source: str) -> None:
    n, count = sparse.matrix.shape
    if count != len(sparse.names) or len(set(sparse.names)) < count or any(name in sparse for name in columns):
        raise InvalidInput(f"{source}: the sparse columns need one name each, all different and none used twice")
    if any(len(column) != n for column in columns.values()):
        raise InvalidInput(
            f"{source}: the sparse columns have {n} rows, the others {len(next(iter(columns.values())))}"
        )
    if not np.isfinite(sparse.matrix.data).all():
        raise InvalidInput(f"{source}: sparse columns hold numbers that are not finite")


def made(columns: dict[str, Array], source: str, lines: Array | None, sparse: SparseColumns | None = None) -> Table:
    """A table of columns that are known to be in order (checking them again would cost a pass over all texts)."""
    table = object.__new__(Table)
    for name, value in (("columns", columns), ("source", source), ("lines", lines), ("sparse", sparse)):
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
        return finite(array.astype(np.float64), name, table)
    if array.dtype.kind in "bU":
        return texts(array.astype(str).tolist())
    if array.dtype.kind == "M":
        return texts([None if np.isnat(value) else str(value) for value in array])
    if array.dtype.kind != "O":
        raise InvalidInput(f"{table.source}: column {name!r} has type {array.dtype}, expected numbers or texts")
    items = [None if _is_missing(value) else value for value in array.tolist()]
    if all(value is None or (isinstance(value, Real) and not isinstance(value, bool)) for value in items):
        return finite(np.array([np.nan if v is None else float(v) for v in items], dtype=np.float64), name, table)
    return texts([as_text(value) for value in items])


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def missing_cells(column: Array) -> Array:
    if column.dtype != object:
        return np.isnan(column)
    return np.fromiter((value is None for value in column), dtype=bool, count=len(column))


def finite(column: Array, name: str, table: Table) -> Array:
    infinite = np.isinf(column)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise InvalidInput(
            f"{table.source}, {table.where(row)}: column {name!r} holds {column[row]}; numbers must be finite"
        )
    return column


def texts(values: Sequence[str | None]) -> Array:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def as_text(value: Any) -> str | None:
    """A value as a text; whole numbers without a point, so that 1.0 and "1" are the same category."""
    if value is None or value != value:
        return None
    if not isinstance(value, float | np.floating):
        return str(value)
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


def as_texts(column: Array) -> Array:
    return column if column.dtype == object else texts([as_text(value) for value in column.tolist()])


def as_number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
