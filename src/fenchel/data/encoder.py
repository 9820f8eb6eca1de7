"""The columns of a table as a matrix of features."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array
from .tables import SparseColumns, Table, as_number, as_table, as_texts, finite, listed, missing_cells, texts

__all__ = ["TableEncoder"]


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The columns of a table as a matrix of features that a linear model can use.

    Numbers are standardised; a missing one becomes the mean, and columns that had missing numbers in training get
    a second feature that says where. Texts become one feature for each category met in training; other ones, and
    missing ones where none was missing in training, get zero in all of them. Columns that were constant in training
    are left out, and ``notes_`` says so. Columns that came as sparse ones are divided by their largest absolute value
    and not shifted, so that zeros stay zeros; the features are then a sparse matrix.

    Parameters
    ----------
    max_categories : int, default=50
        A text column with more different values raises.

    Attributes
    ----------
    feature_names_in_ : the columns, as they must be named again
    numeric_ : which of them are numbers
    sparse_ : which of them came as sparse columns; they are the last ones
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
        self.sparse_ = np.array([table.is_sparse(name) for name in table.names], dtype=bool)
        self.means_, self.scales_ = np.zeros(d), np.zeros(d)
        self.indicators_ = np.zeros(d, dtype=bool)
        self.categories_: list[Array | None] = [None] * d
        self.notes_: list[str] = []
        for j, name in enumerate(table.columns):
            if self.numeric_[j]:
                self._fit_numbers(j, name, table[name])
            else:
                self._fit_texts(j, name, table)
        if table.sparse is not None:
            self._fit_sparse(table.sparse)
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

    def _fit_sparse(self, columns: SparseColumns) -> None:
        matrix, here = columns.matrix, np.flatnonzero(self.sparse_)
        low, high = (bound.toarray().ravel() for bound in (matrix.min(axis=0), matrix.max(axis=0)))
        largest = np.maximum(-low, high)
        constant = low == high
        self.scales_[here] = np.where(constant, 0.0, largest)
        divisors = np.where(largest > 0, largest, 1.0)
        unit = matrix.copy()  # sums of large numbers overflow
        unit.data /= np.repeat(divisors, np.diff(unit.indptr))
        self.means_[here] = unit.mean(axis=0) * largest
        names = [name for name, same in zip(columns.names, constant, strict=True) if same]
        if names:
            self.notes_.append(
                f"column {names[0]!r} is left out: it is always {low[constant][0]:g}"
                if len(names) == 1
                else f"{len(names)} columns are left out because they never differ: {listed(names, 5)}"
            )

    def _fit_texts(self, j: int, name: str, table: Table) -> None:
        column = table[name]
        missing = missing_cells(column)
        found = sorted(set(column[~missing].tolist()))
        if len(found) > self.max_categories:
            raise InvalidInput(self._too_many(name, found, table.source))
        if len(found) + bool(missing.any()) < 2:
            what = f"it is always {found[0]!r}" if found else "it holds no values"
            self.notes_.append(f"column {name!r} is left out: {what}")
            found = []
        elif missing.any():
            self.indicators_[j] = True
        self.categories_[j] = texts(found)

    def _too_many(self, name: str, found: list[str], source: str) -> str:
        text = (
            f"{source}: text column {name!r} holds {len(found)} different values, more than max_categories="
            f"{self.max_categories}; leave it out (--drop {shlex.quote(name)} on the command line)"
        )
        odd = [value for value in found if as_number(value) is None]
        commas = [value for value in odd if as_number(value.replace(",", ".")) is not None]
        if commas and len(commas) == len(odd):
            return f"{text}, or write its numbers with a point ({commas[0]!r} has a comma)"
        if len(odd) < len(found) / 2:
            return f"{text}, or mend what makes it text: most values are numbers, but not {listed(odd, 3)}"
        return text

    def transform(self, X: Any) -> Any:
        """The matrix of features, float64, one row for each row of the table. Columns it does not know are ignored.

        It is a sparse matrix where columns were sparse in training.
        """
        check_is_fitted(self)
        table = as_table(X)
        absent = [name for name in self.feature_names_in_ if name not in table]
        if absent:
            word = "the column" if len(absent) == 1 else "the columns"
            raise InvalidInput(f"{table.source} lacks {word} {listed(absent)}, which the model was trained with")
        dense = [
            part
            for j, name in enumerate(self.feature_names_in_)
            if not self.sparse_[j]
            for part in (self._numbers(j, table, name) if self.numeric_[j] else self._texts(j, table[name]))
        ]
        out = np.empty((len(table), len(dense)))
        for j, feature in enumerate(dense):
            out[:, j] = feature
        if not self.sparse_.any():
            return out
        return sp.hstack([sp.csr_array(out), self._sparse_features(table)], format="csr")

    def _sparse_features(self, table: Table) -> Any:
        """The columns that were sparse in training, whatever they are now."""
        rows, values, ends = [np.empty(0, np.int64)], [np.empty(0)], [0]
        for j in np.flatnonzero(self.sparse_ & (self.scales_ > 0)):
            name = str(self.feature_names_in_[j])
            if table.sparse is not None and name in table.sparse:
                at, numbers = table.sparse.entries(name)
            else:
                column = self._as_numbers(table, name)
                column = np.where(np.isnan(column), self.means_[j], column)
                at = np.flatnonzero(column)
                numbers = column[at]
            rows.append(at)
            values.append(numbers / self.scales_[j])
            ends.append(ends[-1] + len(at))
        shape = (len(table), len(ends) - 1)
        return sp.csc_array((np.concatenate(values), np.concatenate(rows), np.array(ends)), shape=shape)

    def _as_numbers(self, table: Table, name: str) -> Array:
        column = table[name]
        if column.dtype != object:
            return column
        numbers = [np.nan if value is None else as_number(value) for value in column]
        if None in numbers:
            row = numbers.index(None)
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: column {name!r} holds {column[row]!r}, "
                "but held only numbers in training"
            )
        return finite(np.array(numbers, dtype=np.float64), name, table)

    def _numbers(self, j: int, table: Table, name: str) -> Iterator[Array]:
        column = self._as_numbers(table, name)
        missing = np.isnan(column)
        if self.scales_[j] > 0:
            yield np.where(missing, 0.0, (column - self.means_[j]) / self.scales_[j])
        if self.indicators_[j]:
            yield missing.astype(np.float64)

    def _texts(self, j: int, column: Array) -> Iterator[Array]:
        column = as_texts(column)
        categories = self.categories_[j]
        if categories is None or not (len(categories) or self.indicators_[j]):
            return
        place = {value: i for i, value in enumerate(categories.tolist())}
        codes = np.array([place.get(value, -1) for value in column.tolist()], dtype=np.int64)
        for i in range(len(categories)):
            yield (codes == i).astype(np.float64)
        if self.indicators_[j]:
            yield missing_cells(column).astype(np.float64)

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
        return texts(names)

    def _width(self) -> int:
        return len(self.get_feature_names_out())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "feature_names_in_")
