"""Arrays of different sizes, one after the other in a flat array; and the sums per item that rows and these share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .errors import InvalidInput
from .types import Array, IntArray

__all__ = ["Ragged", "forbid_like", "inner", "item_max", "item_sums", "offsets_of", "replaced", "scale_items"]


class Ragged(NDArrayOperatorsMixin):
    """Items of different sizes: ``flat[offsets[i]:offsets[i + 1]]`` is item i.

    Element-wise NumPy functions and operators work on it as on an array; both sides must have the same offsets, or one
    is a number. ``ragged[i]`` is a view of an item, ``ragged[idx]`` the ragged array of some items.

    >>> import numpy as np
    >>> from fenchel.structures import Ragged
    >>> theta = Ragged.of([np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])])
    >>> len(theta), theta[1], (2 * theta)[0]
    (2, array([3., 4., 5.]), array([2., 4.]))
    """

    __slots__ = ("_sizes", "flat", "offsets")
    __array_priority__ = 100

    flat: Array
    offsets: IntArray

    def __init__(self, flat: Array, offsets: IntArray) -> None:
        self.flat = flat
        self.offsets = offsets
        self._sizes: IntArray | None = None

    @classmethod
    def of(cls, items: Iterable[Any], dtype: Any = None) -> Ragged:
        """The items, flattened, one after the other; float32 stays only where all items are float32."""
        arrays = [np.asarray(item).reshape(-1) for item in items]
        sizes = np.array([len(a) for a in arrays], dtype=np.int64)
        flat = np.concatenate(arrays) if arrays else np.zeros(0)
        if dtype is None and flat.dtype not in (np.float32, np.float64):
            dtype = np.float64
        return cls(flat if dtype is None else flat.astype(dtype, copy=False), offsets_of(sizes))

    @classmethod
    def empty(cls, sizes: IntArray, dtype: Any = np.float64) -> Ragged:
        """Items of these sizes, with whatever was in memory."""
        offsets = offsets_of(sizes)
        return cls(np.empty(int(offsets[-1]), dtype), offsets)

    @classmethod
    def zeros(cls, sizes: IntArray, dtype: Any = np.float64) -> Ragged:
        offsets = offsets_of(sizes)
        return cls(np.zeros(int(offsets[-1]), dtype), offsets)

    def saved_arguments(self) -> dict[str, Any]:
        return {"flat": self.flat, "offsets": self.offsets}

    # -- as a container ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> IntArray:
        if self._sizes is None:
            self._sizes = self.offsets[1:] - self.offsets[:-1]
        return self._sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.flat.dtype

    @property
    def size(self) -> int:
        return self.flat.size

    def __iter__(self) -> Iterator[Array]:
        for i in range(len(self)):
            yield self.flat[self.offsets[i] : self.offsets[i + 1]]

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, int | np.integer):
            i = range(len(self))[int(idx)]
            return self.flat[self.offsets[i] : self.offsets[i + 1]]
        if isinstance(idx, slice):
            start, stop, step = idx.indices(len(self))
            if step == 1:  # a view, as of an array
                stop = max(start, stop)
                first, last = self.offsets[start], self.offsets[stop]
                return Ragged(self.flat[first:last], self.offsets[start : stop + 1] - first)
        items = np.arange(len(self))[idx]
        return Ragged(self.flat[self.places(items)], offsets_of(self.sizes[items]))

    def __setitem__(self, idx: Any, value: Any) -> None:
        items = np.atleast_1d(np.arange(len(self))[idx])
        if isinstance(value, Ragged):
            if not np.array_equal(value.sizes, self.sizes[items]):
                raise InvalidInput(f"{value!r} does not have the sizes of the items it should replace")
            value = value.flat
        self.flat[self.places(items)] = value

    def places(self, items: IntArray) -> IntArray:
        """Where the numbers of these items stand in the flat array, item after item."""
        sizes = self.sizes[items]
        starts = np.repeat(self.offsets[items] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        return starts + np.arange(int(sizes.sum()))

    def item_of(self, place: int) -> tuple[int, tuple[int, ...]]:
        """Which item a place of the flat array belongs to, and where in it."""
        i = int(np.searchsorted(self.offsets, place, side="right")) - 1
        return i, (int(place - self.offsets[i]),)

    def rows(self, items: IntArray, shape: tuple[int, ...]) -> Array:
        """Items of equal size as an array ``(len(items), *shape)``; a view where they follow each other."""
        size = int(np.prod(shape, dtype=np.int64))
        run = self._run(items)
        if run is not None:
            return self.flat[run].reshape(len(items), *shape)
        return self.flat[self.offsets[items][:, None] + np.arange(size)].reshape(len(items), *shape)

    def set_rows(self, items: IntArray, rows: Array) -> None:
        """The inverse of :meth:`rows`."""
        block = rows.reshape(len(items), int(np.prod(rows.shape[1:], dtype=np.int64)))
        run = self._run(items)
        if run is not None:
            self.flat[run] = block.reshape(-1)
            return
        self.flat[self.offsets[items][:, None] + np.arange(block.shape[1])] = block

    def _run(self, items: IntArray) -> slice | None:
        """The part of the flat array that holds these items, if they follow each other."""
        count = len(items)
        if count == 0 or items[-1] - items[0] != count - 1 or (items[1:] - items[:-1] != 1).any():
            return None
        return slice(int(self.offsets[items[0]]), int(self.offsets[items[-1] + 1]))

    def like(self, flat: Array) -> Ragged:
        """The same items with other numbers."""
        return Ragged(flat, self.offsets)

    def copy(self) -> Ragged:
        return Ragged(self.flat.copy(), self.offsets)

    def astype(self, dtype: Any, copy: bool = True) -> Ragged:
        return Ragged(self.flat.astype(dtype, copy=copy), self.offsets)

    def min(self) -> Any:
        return self.flat.min(initial=np.inf)

    def max(self) -> Any:
        return self.flat.max(initial=-np.inf)

    def all(self, axis: None = None, out: None = None) -> bool:
        return bool(self.flat.all())

    def any(self, axis: None = None, out: None = None) -> bool:
        return bool(self.flat.any())

    def __repr__(self) -> str:
        return f"Ragged({len(self)} items, {self.flat.size} numbers, {self.dtype})"

    # -- as an array ---------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        targets = kwargs.pop("out", ())
        if targets:
            kwargs["out"] = tuple(self._numbers(t) for t in targets)
        if "where" in kwargs:
            kwargs["where"] = self._numbers(kwargs["where"])
        result = ufunc(*[self._numbers(x) for x in inputs], **kwargs)
        if isinstance(result, tuple):
            return tuple(Ragged(part, self.offsets) for part in result)
        return targets[0] if targets else Ragged(result, self.offsets)

    def _numbers(self, value: Any) -> Any:
        if isinstance(value, Ragged):
            if value.offsets is not self.offsets and not np.array_equal(value.offsets, self.offsets):
                raise InvalidInput(f"{value!r} and {self!r} do not have items of the same sizes")
            return value.flat
        if np.ndim(value) != 0:
            raise InvalidInput(
                f"an array of shape {np.shape(value)} has no place for each number of {self!r}; "
                "scale_items multiplies each item by a number of its own"
            )
        return value

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise TypeError("items of different sizes are no array; take .flat, or list(...)")


def offsets_of(sizes: IntArray) -> IntArray:
    """Where items of these sizes start, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


# -- what rows and ragged arrays share ---------------------------------------------------------------------------------


def item_sums(values: Any) -> Array:
    """The sum over each item."""
    if not isinstance(values, Ragged):
        return np.asarray(values.reshape(len(values), int(np.prod(values.shape[1:]))).sum(axis=1))
    return _per_item(np.add, values)


def item_max(values: Any) -> Array:
    """The largest number of each item, zero where there is none above."""
    if not isinstance(values, Ragged):
        return np.asarray(values.reshape(len(values), int(np.prod(values.shape[1:]))).max(axis=1, initial=0))
    return np.maximum(_per_item(np.maximum, values), 0)


def _per_item(ufunc: np.ufunc, values: Ragged) -> Array:
    if values.flat.size == 0:
        return np.zeros(len(values), values.dtype)
    # reduceat gives an empty item the number that stands there; a last empty item would point past the end
    results = ufunc.reduceat(np.append(values.flat, values.dtype.type(0)), values.offsets[:-1])
    return np.where(values.sizes > 0, results, 0).astype(values.dtype, copy=False)


def inner(theta: Any, points: Any, dtype: Any = None) -> Array:
    """⟨θ, μ⟩ of each item, where a score of -inf costs nothing as long as its part is zero."""
    if isinstance(theta, Ragged):
        flat_theta, flat = theta.flat, theta._numbers(points)
        return item_sums(theta.like((_without_forbidden(flat_theta, flat) * flat).astype(dtype or flat_theta.dtype)))
    size = int(np.prod(theta.shape[1:]))
    scores, values = theta.reshape(len(theta), size), points.reshape(len(points), size)
    return np.einsum("ij,ij->i", _without_forbidden(scores, values), values, dtype=dtype)


def _without_forbidden(scores: Array, values: Array) -> Array:
    if scores.size and scores.min() == -np.inf:
        return np.where((values == 0) & (scores == -np.inf), 0, scores)
    return scores


def scale_items(values: Any, factors: Any) -> Any:
    """Each item times a number of its own (or all times one)."""
    if np.ndim(factors) == 0:
        return values * factors
    factors = np.asarray(factors)
    if isinstance(values, Ragged):
        return values.like(values.flat * np.repeat(factors, values.sizes).astype(values.dtype, copy=False))
    return values * factors.reshape((-1,) + (1,) * (values.ndim - 1)).astype(values.dtype, copy=False)


def replaced(values: Any, function: Callable[[Array], Array]) -> Any:
    """The items with their numbers put through ``function``, which keeps their shape."""
    return values.like(function(values.flat)) if isinstance(values, Ragged) else function(values)


def forbid_like(values: Any, scores: Any) -> Any:
    """The values, and -inf where the scores are."""
    if isinstance(values, Ragged):
        return values.like(np.where(values._numbers(scores) == -np.inf, -np.inf, values.flat))
    return np.where(scores == -np.inf, -np.inf, values)
