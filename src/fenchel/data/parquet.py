"""Reading Parquet, where pyarrow is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import InvalidInput, MissingDependency
from .._core.types import Array
from .tables import Table, as_texts, texts

__all__ = ["read_parquet"]


def read_parquet(path: Path, text: set[str]) -> Table:
    """Read Parquet; ``text`` names columns to be taken as texts."""
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
        columns[name] = as_texts(columns[name])
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
    return texts([None if value is None else str(value) for value in column.to_pylist()])
