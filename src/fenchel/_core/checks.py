"""Input checks. Each message names the argument, what was given, what was expected and, in a batch, which sample."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .errors import InvalidInput
from .ragged import Ragged
from .types import Array, ArrayLike

__all__ = [
    "as_float_array",
    "batch_rows",
    "check_choice",
    "check_count",
    "check_finite_positive",
    "check_generator",
    "check_no_nan",
    "for_kernels",
]


def as_float_array(value: ArrayLike, name: str) -> Array:
    """``value`` as a C-contiguous float32 or float64 array; other real types become float64. Never a copy of the
    caller's to write into: callers of this function must not change the result."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # a ragged list
        raise InvalidInput(f"{name} cannot be read as an array of numbers: {error}") from None
    if array.dtype != np.float64 and array.dtype != np.float32:
        if array.dtype.kind not in "fiub":
            raise InvalidInput(f"{name} has type {array.dtype}, expected real numbers")
        array = array.astype(np.float64)
    return np.ascontiguousarray(array) if array.ndim else array


def batch_rows(array: Array, shape: tuple[int, ...], name: str, owner: object) -> tuple[Array, tuple[int, ...]]:
    """``array`` of shape ``(*batch, *shape)`` as rows ``(n, *shape)``, with the batch shape to restore."""
    cut = array.ndim - len(shape)
    if cut < 0 or array.shape[cut:] != shape:
        needed = "".join(f", {n}" for n in shape)
        raise InvalidInput(f"{name} have shape {array.shape}, but {owner!r} needs (...{needed})")
    batch = array.shape[:cut]
    return array.reshape((-1, *shape) if array.size else (int(np.prod(batch)), *shape)), batch


def check_no_nan(rows: Array | Ragged, name: str, owner: object, *, forbid_parts: bool = True) -> None:
    """Refuse NaN and +inf anywhere, and -inf too unless a score of -inf can forbid a part."""
    if rows.size == 0:
        return
    top = rows.max()  # one vectorised pass; NaN propagates
    if top < np.inf and (forbid_parts or rows.min() > -np.inf):
        return
    values = rows.flat if isinstance(rows, Ragged) else rows
    bad = np.isnan(values) | (values == np.inf)
    if not forbid_parts:
        bad |= values == -np.inf
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    sample, position = rows.item_of(where[0]) if isinstance(rows, Ragged) else (where[0], where[1:])
    allowed = "finite scores or -inf (which forbids a part)" if forbid_parts else "finite values"
    raise InvalidInput(
        f"{name} hold {values[where]} at sample {sample}, position {position}; {owner!r} needs {allowed}"
    )


def check_count(value: Any, name: str, *, minimum: int = 1) -> int:
    """``value`` as an int not below ``minimum``."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        n = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} is {value!r}, expected a whole number >= {minimum}") from None
    if n < minimum:
        raise InvalidInput(f"{name} is {n}, expected a whole number >= {minimum}")
    return n


def check_finite_positive(value: Any, name: str, *, zero: bool = False) -> float:
    """``value`` as a finite float above zero (or from zero on)."""
    bound = ">= 0" if zero else "> 0"
    try:
        x = float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is {value!r}, expected a number {bound}") from None
    if not (np.isfinite(x) and (x > 0 or (zero and x == 0))):
        raise InvalidInput(f"{name} is {value!r}, expected a finite number {bound}")
    return x


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise InvalidInput(f"{name} is {value!r}, expected one of {', '.join(map(repr, choices))}")
    return str(value)


def check_generator(random_state: Any, name: str = "random_state") -> np.random.Generator:
    """A ``numpy.random.Generator`` from None, a seed, a ``Generator`` or an old ``RandomState``."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.Generator(random_state._bit_generator)
    if random_state is None:
        return np.random.default_rng()
    try:
        return np.random.default_rng(check_count(random_state, name, minimum=0))
    except InvalidInput:
        raise InvalidInput(
            f"{name} is {random_state!r}, expected None, a whole number >= 0 or a numpy.random.Generator"
        ) from None


def for_kernels(flat: Array) -> Array:
    """Numbers as kernels take them: float64, contiguous, and writable, for a read-only array has a type of its own, for
    which every kernel would be compiled again; a copy is cheaper."""
    flat = np.ascontiguousarray(flat, dtype=np.float64)
    return flat if flat.flags.writeable else flat.copy()
