"""Sequences of feature dicts as sparse matrices."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array, IntArray

__all__ = ["SequenceEncoder", "features_of"]


def features_of(item: Any) -> Iterator[tuple[str, float]]:
    """The names and values of one position's features, by the rules of CRFsuite's Python interfaces.

    Of a dict, numbers are values; True is 1 and False 0; a string makes the feature "key:string" with the value 1; a list
    or set of strings one such feature for each; a dict prefixes its own features with "key:". A list or set in place of
    the dict names features of value 1.

    >>> from fenchel.data.sequences import features_of
    >>> list(features_of({"word": "Rome", "capital": True, "length": 4, "shape": ["X", "x"], "prev": {"word": "to"}}))
    [('word:Rome', 1.0), ('capital', 1.0), ('length', 4.0), ('shape:X', 1.0), ('shape:x', 1.0), ('prev:word:to', 1.0)]
    """
    if isinstance(item, Mapping):
        for key, value in item.items():
            if isinstance(value, str):
                yield f"{key}:{value}", 1.0
            elif isinstance(value, int | float | np.number | np.bool_):
                yield str(key), float(value)
            elif isinstance(value, Mapping | list | tuple | set | frozenset):
                for name, inner in features_of(value):
                    yield f"{key}:{name}", inner
            else:
                raise InvalidInput(
                    f"the feature {key!r} is {type(value).__name__}, expected a number, a bool, a string, a list of "
                    "strings or a dict"
                )
    elif isinstance(item, list | tuple | set | frozenset):
        for name in sorted(item) if isinstance(item, set | frozenset) else item:
            if not isinstance(name, str):
                raise InvalidInput(f"a list of features holds {name!r}, expected strings")
            yield name, 1.0
    else:
        raise InvalidInput(f"it is {type(item).__name__}, expected a dict of features or a list of their names")


class SequenceEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Sequences of feature dicts (:func:`features_of`), a list of lists, as one sparse matrix with a row for each position.

    Parameters
    ----------
    hashed : int or None, default=None
        Without it every name met in training gets a column, in order of appearance, and other names are ignored later.
        With a number names are hashed to that many columns, nothing is stored, and no ``fit`` is needed to go on.
    min_count : int, default=1
        Names met fewer times in training get no column.

    Attributes
    ----------
    columns_ : the column of each name (empty if hashed)

    Examples
    --------
    >>> from fenchel.data import SequenceEncoder
    >>> encoder = SequenceEncoder().fit([[{"w": "to"}, {"w": "Rome", "upper": True}], [{"w": "to"}]])
    >>> encoder.get_feature_names_out()
    array(['w:to', 'w:Rome', 'upper'], dtype=object)
    >>> encoder.transform([[{"w": "Rome", "upper": 1}, {"w": "unknown"}]]).toarray()
    array([[0., 1., 1.],
           [0., 0., 0.]])
    """

    def __init__(self, hashed: int | None = None, min_count: int = 1) -> None:
        self.hashed = hashed
        self.min_count = min_count

    def fit(self, X: Any, y: Any = None) -> SequenceEncoder:
        """Give each feature name a column."""
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Any:
        """The same as ``fit`` and ``transform``, reading the features once."""
        rows, columns, values, n = self._learn(X)
        return self._matrix(rows, columns, values, n)

    def transform(self, X: Any) -> Any:
        """A CSR matrix with a row for each position, sequence after sequence."""
        check_is_fitted(self)
        known = self.columns_
        if self.hashed is not None:
            return self._matrix(*self._hash(X))
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        n = 0
        for n, item in enumerate(_features(X), start=1):
            for name, value in item:
                column = known.get(name)
                if column is not None:
                    rows.append(n - 1)
                    columns.append(column)
                    values.append(value)
        return self._matrix(np.array(rows, np.int64), np.array(columns, np.int64), np.array(values), n)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The name of each column."""
        check_is_fitted(self)
        if self.hashed is not None:
            return np.array([f"hash{j}" for j in range(self.hashed)], dtype=object)
        return np.array(list(self.columns_), dtype=object)

    def _learn(self, X: Any) -> tuple[IntArray, IntArray, Array, int]:
        check_count(self.min_count, "min_count")
        self.columns_: dict[str, int] = {}
        if self.hashed is not None:
            check_count(self.hashed, "hashed")
            return self._hash(X)
        rows: list[int] = []
        codes: list[int] = []
        values: list[float] = []
        met: dict[str, int] = {}
        n = 0
        for n, item in enumerate(_features(X), start=1):
            for name, value in item:
                rows.append(n - 1)
                codes.append(met.setdefault(name, len(met)))
                values.append(value)
        code = np.array(codes, np.int64)
        kept = np.bincount(code, minlength=len(met)) >= self.min_count
        column = np.cumsum(kept) - 1
        self.columns_ = {name: int(column[i]) for name, i in met.items() if kept[i]}
        used = kept[code] if len(code) else np.zeros(0, bool)
        return np.array(rows, np.int64)[used], column[code[used]], np.array(values)[used], n

    def _hash(self, X: Any) -> tuple[IntArray, IntArray, Array, int]:
        size = int(self.hashed or 1)
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        seen: dict[str, int] = {}
        n = 0
        for n, item in enumerate(_features(X), start=1):
            for name, value in item:
                column = seen.get(name)
                if column is None:
                    column = seen[name] = zlib.crc32(name.encode()) % size
                rows.append(n - 1)
                columns.append(column)
                values.append(value)
        return np.array(rows, np.int64), np.array(columns, np.int64), np.array(values), n

    def _matrix(self, rows: IntArray, columns: IntArray, values: Array, n: int) -> Any:
        from scipy import sparse

        width = len(self.columns_) if self.hashed is None else self.hashed
        values = np.asarray(values, dtype=np.float64)
        if not np.isfinite(values).all():
            raise InvalidInput(f"position {int(rows[~np.isfinite(values)][0])} has a feature that is not finite")
        matrix = sparse.csr_matrix((values, (rows, columns)), shape=(n, width))
        matrix.sum_duplicates()
        return matrix


def _features(X: Iterable[Any]) -> Iterator[list[tuple[str, float]]]:
    """The features of each position, sequence after sequence; errors say where."""
    for i, sequence in enumerate(X):
        if isinstance(sequence, str | bytes | Mapping) or not hasattr(sequence, "__iter__"):
            raise InvalidInput(
                f"sample {i} is {type(sequence).__name__}, expected a list with a dict for each position"
            )
        for t, item in enumerate(sequence):
            try:
                yield list(features_of(item))
            except InvalidInput as error:
                raise InvalidInput(f"sample {i}, position {t}: {error}") from None
