"""Reading a table from a file, whatever its kind."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from .._core.errors import InvalidInput
from .arff import read_arff
from .delimited import read_delimited
from .files import ending
from .parquet import read_parquet
from .svmlight import ENDINGS as SVMLIGHT
from .svmlight import read_svmlight
from .tables import Table, listed

__all__ = ["read_table"]

_KINDS = (".csv", ".tsv", ".arff", *SVMLIGHT, ".parquet")


def read_table(
    path: str | os.PathLike[str],
    *,
    text: Iterable[str] = (),
    label_sets: bool = False,
    needed: Sequence[str] = (),
) -> Table:
    """Read a table from CSV (``.csv``, ``.tsv``), ARFF (``.arff``), svmlight (``.svm``, ``.svmlight``, ``.libsvm``), all
    of them also with ``.gz``, or Parquet (``.parquet``).

    CSV is UTF-8 with a header row, separated by commas, semicolons or tabs, whichever makes most columns of the
    header. A column is numeric if all its values are numbers; values that are empty or NA, N/A, NaN, null or ?
    are missing. Of ARFF, attributes that are numeric, or nominal with no values but 0 and 1, become numbers, others texts.
    The features of svmlight are columns x1, x2, ... by their index, the rest a column label, or with ``label_sets``
    (labels written 0,3) a column of 0 and 1 for each label: label0, label3, ... Where three quarters of the numbers
    of an ARFF or svmlight file are zero they are kept as :class:`SparseColumns`.

    ``text`` names columns to be taken as they are written, digits or not. ``needed`` names columns that must be there; what
    a svmlight file does not mention is zero.
    """
    source = Path(path)
    if source.is_dir():
        raise InvalidInput(f"{str(source)!r} is a folder, expected a file ending in {', '.join(_KINDS)}")
    if not source.exists():
        raise FileNotFoundError(f"there is no file {str(source)!r}")
    kind = ending(source)
    if kind not in _KINDS or (kind == ".parquet" and source.suffix.lower() == ".gz"):
        raise InvalidInput(
            f"{str(source)!r} is no known kind of table; names of tables end in {', '.join(_KINDS)}, all but "
            ".parquet also with .gz"
        )
    if kind == ".parquet":
        table = read_parquet(source, set(text))
    elif kind == ".arff":
        table = read_arff(source, set(text))
    elif kind in SVMLIGHT:
        table = read_svmlight(source, set(text), label_sets, needed)
    else:
        table = read_delimited(source, set(text))
    absent = [name for name in needed if name not in table]
    if absent:
        word = "the column" if len(absent) == 1 else "the columns"
        raise InvalidInput(
            f"{table.source} lacks {word} {listed(absent)}, which the model was trained with; it has "
            f"{listed(table.names)}{table.near(absent[0], but=needed)}"
        )
    return table
