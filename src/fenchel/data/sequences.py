"""Sequences of feature dicts as sparse matrices."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
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
        return self._learn(X)

    def transform(self, X: Any) -> Any:
        """A CSR matrix with a row for each position, sequence after sequence."""
        check_is_fitted(self)
        if self.hashed is not None:
            return self._learn(X)
        known = self.columns_
        return _matrix(*_collected(X, lambda name: known.get(name, -1)), len(known))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The name of each column."""
        check_is_fitted(self)
        if self.hashed is not None:
            return np.array([f"hash{j}" for j in range(self.hashed)], dtype=object)
        return np.array(list(self.columns_), dtype=object)

    def _learn(self, X: Any) -> Any:
        check_count(self.min_count, "min_count")
        self.columns_: dict[str, int] = {}
        if self.hashed is not None:
            size = check_count(self.hashed, "hashed")
            return _matrix(*_collected(X, lambda name: zlib.crc32(name.encode()) % size), size)
        met: dict[str, int] = {}
        codes, values, ends = _collected(X, lambda name: met.setdefault(name, len(met)))
        if self.min_count == 1:
            self.columns_ = met
        else:
            kept = np.bincount(codes, minlength=len(met)) >= self.min_count
            column = np.where(kept, np.cumsum(kept) - 1, -1)
            self.columns_ = {name: int(column[i]) for name, i in met.items() if kept[i]}
            codes = column[codes].astype(np.int32) if len(codes) else codes
        return _matrix(codes, values, ends, len(self.columns_))


def _collected(X: Iterable[Any], column_of: Callable[[str], int]) -> tuple[IntArray, Array, IntArray]:
    """The columns and values of all features, and where each position's end; a column of -1 is none.

    What every rule of :func:`features_of` says is done here again for the commonest kinds of values, with a table for
    each key that spares the making of names: this loop is what reading a corpus costs.
    """
    codes, ends = array("i"), array("q", [0])
    places, numbers_there = array("q"), array("d")  # of features whose value is not 1, the value of texts
    tables: dict[Any, dict[str, int]] = {}
    numbers: dict[Any, int] = {}
    add_code = codes.append

    def add_value(value: float) -> None:
        if value != 1:
            places.append(len(codes) - 1)
            numbers_there.append(value)

    for i, sequence in enumerate(X):
        if isinstance(sequence, str | bytes | Mapping) or not hasattr(sequence, "__iter__"):
            raise InvalidInput(
                f"sample {i} is {type(sequence).__name__}, expected a list with a dict for each position"
            )
        for t, item in enumerate(sequence):
            for key, value in item.items() if type(item) is dict else ((None, item),):
                kind = type(value)
                if kind is str and key is not None:
                    texts: Any = (value,)
                elif kind is list and key is not None and all(type(text) is str for text in value):
                    texts = value
                elif key is not None and (kind is float or kind is bool or kind is int):
                    code = numbers.get(key)
                    if code is None:
                        code = numbers[key] = column_of(str(key))
                    add_code(code)
                    add_value(value)
                    continue
                else:
                    try:
                        for name, number in features_of(item if key is None else {key: value}):
                            add_code(column_of(name))
                            add_value(number)
                    except InvalidInput as error:
                        raise InvalidInput(f"sample {i}, position {t}: {error}") from None
                    continue
                table = tables.get(key)
                if table is None:
                    table = tables[key] = {}
                for text in texts:
                    code = table.get(text)
                    if code is None:
                        code = table[text] = column_of(f"{key}:{text}")
                    add_code(code)
            ends.append(len(codes))
    values = np.ones(len(codes))
    values[_viewed(places)] = _viewed(numbers_there)
    return _viewed(codes), values, _viewed(ends)


def _viewed(numbers: array[Any]) -> Array:
    """A view of one of Python's arrays: a copy would take most of the memory that reading needs."""
    return np.frombuffer(numbers, numbers.typecode) if len(numbers) else np.zeros(0, numbers.typecode)


def _matrix(codes: IntArray, values: Array, ends: IntArray, width: int) -> Any:
    from scipy import sparse

    if not np.isfinite(values).all():
        position = int(np.searchsorted(ends, int(np.argmin(np.isfinite(values))), side="right")) - 1
        raise InvalidInput(f"position {position} has a feature that is not finite")
    known = codes >= 0
    if not known.all():
        ends = np.concatenate([[0], np.cumsum(known)])[ends]
        codes, values = codes[known], values[known]
    index = np.int32 if len(codes) < 2**31 else np.int64
    matrix = sparse.csr_matrix((values, codes, ends.astype(index)), shape=(len(ends) - 1, width))
    matrix.sum_duplicates()
    return matrix
