"""Orders with as little as possible against them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core import parallel
from .._core.checks import as_float_array, check_choice, check_count
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ..kernels import feedback_arc_set as kernels
from ..kernels import linear_ordering as exact_kernels

__all__ = ["Ordering", "feedback_arc_set"]

_METHODS = ("auto", "exact", "local", "greedy")
_EXACT_BY_DEFAULT = 10
_MOST_EXACT = 18


@dataclass(frozen=True)
class Ordering:
    """Orders of items, first item first, and what they earn."""

    order: Array
    earned: Array
    """Σ preference[i, j] over the pairs with i before j."""


def feedback_arc_set(preference: ArrayLike, method: str = "auto", *, max_passes: int = 100) -> Ordering:
    """Order items so that what points back is as light as possible (weighted feedback arc set).

    max over orders of Σ D_ij [i before j], where D = (P − Pᵀ)/2 for a matrix P of ``preference`` of i before j, of any
    sign; one matrix or a batch. What is left over, the positive entries of D that point back, is a feedback arc set of
    least weight.

    The problem is NP-hard. "greedy" is the heuristic of Eades, Lin and Smyth, O(n²): items that lose to nobody go to the
    front, those that beat nobody to the end, else the one that wins by most goes to the front. "local" then moves
    single items while that earns more, O(n²) for each of at most ``max_passes`` passes. "exact" is a dynamic programme
    over subsets, O(2ⁿ n), for at most 18 items. "auto" is exact for at most 10 items and local above.

    Reference: Eades, Lin and Smyth, "A fast and effective heuristic for the feedback arc set problem", 1993.

    >>> from fenchel.optim import feedback_arc_set
    >>> feedback_arc_set([[0, 3, -1], [-3, 0, 2], [1, -2, 0]]).order
    array([0, 1, 2])
    """
    check_choice(method, "method", _METHODS)
    check_count(max_passes, "max_passes", minimum=0)
    array = as_float_array(preference, "preference")
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise InvalidInput(f"preference has shape {array.shape}, expected a square matrix or a batch of them")
    if array.size and not np.isfinite(array).all():
        raise InvalidInput("preference must be finite")
    n, batch = array.shape[-1], array.shape[:-2]
    if method == "auto":
        method = "exact" if n <= _EXACT_BY_DEFAULT else "local"
    if method == "exact" and n > _MOST_EXACT:
        raise InvalidInput(f"method is 'exact' for {n} items, at most {_MOST_EXACT} are possible; use 'local'")
    rows = array.reshape(-1, n, n).astype(np.float64, copy=False)
    rows = rows - np.swapaxes(rows, 1, 2)
    rows *= 0.5
    order, earned = order_antisymmetric(rows, method, max_passes)
    return Ordering(order.reshape(*batch, n), earned.reshape(batch)[()])


def order_antisymmetric(rows: Array, method: str, max_passes: int = 100) -> tuple[Array, Array]:
    """Orders for a batch of antisymmetric matrices, and what they earn."""
    count, n = rows.shape[:2]
    order, earned = np.zeros((count, n), np.int64), np.zeros(count)
    if n == 0 or count == 0:
        return order, earned
    if method != "exact":
        passes = max_passes if method == "local" else 0
        parallel.run(kernels.order, count, count * n * n * (1 + passes / 10), rows, passes, order, earned)
        return order, earned
    parallel.run(exact_kernels.argmax, count, count * n << n, rows, order)
    for b in range(count):
        ordered = rows[b][np.ix_(order[b], order[b])]
        earned[b] = np.triu(ordered, 1).sum()
    return order, earned
