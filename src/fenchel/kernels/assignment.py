"""Maximum-score linear assignment: shortest augmenting paths, and dynamic programming over subsets for few columns."""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array

__all__ = ["augment", "center_duals", "reduce_columns", "solve", "solve_dual", "solve_one"]

# Up to here 2^(n-1) n branch-free steps beat augmenting paths, whose branches no processor can predict.
_MOST_BY_SUBSETS = 6
# Items that the dynamic program carries side by side, as the lanes of vector instructions.
_LANES = 128

_LARGEST = np.int64(0x7FFFFFFFFFFFFFFF)


@inline_kernel
def _ordered(x):  # type: ignore[no-untyped-def]
    """An int64 that sorts as the float does: LLVM vectorises a minimum of integers, but not one of floats."""
    bits = np.float64(x).view(np.int64)
    return np.int64(bits ^ ((bits >> np.int64(63)) & _LARGEST))


@inline_kernel
def _from_ordered(key):  # type: ignore[no-untyped-def]
    return np.int64(key ^ ((key >> np.int64(63)) & _LARGEST)).view(np.float64)


@inline_kernel
def reduce_columns(theta, price, row_of, column_of):  # type: ignore[no-untyped-def]
    """Prices at the column maxima, each column matched to its best row where that is still free (-1 elsewhere)."""
    n = price.shape[0]
    for j in range(n):
        price[j] = theta[0, j]
        row_of[j] = 0
        column_of[j] = -1
    for i in range(1, n):
        row = theta[i]
        for j in range(n):
            better = row[j] > price[j]
            price[j] = row[j] if better else price[j]
            row_of[j] = i if better else row_of[j]
    for j in range(n):
        i = row_of[j]
        if column_of[i] < 0:
            column_of[i] = j
        else:
            row_of[j] = -1


@inline_kernel
def augment(theta, price, row_of, column_of, root, open_price, distance, previous, done, reached):  # type: ignore[no-untyped-def]
    """Match row ``root`` along a shortest augmenting path, O(n^2); False if no free column can be reached.

    The slack price[j] - theta[i, j] is least, over j, at the column of each matched row, before and after.
    """
    n = price.shape[0]
    row = theta[root]
    least = _LARGEST
    for j in range(n):
        p = price[j]
        open_price[j] = p
        d = p - row[j]
        distance[j] = d
        previous[j] = root
        least = min(least, _ordered(d))
    count = 0
    while True:
        mu = _from_ordered(least)
        if not mu < np.inf:
            return False
        # the first free column at the least distance, else the first at all
        k = 2 * n
        for j in range(n):
            k = min(k, (j if row_of[j] < 0 else j + n) if distance[j] == mu else 2 * n)
        if k < n:
            break
        k -= n
        done[count] = k
        reached[count] = mu
        count += 1
        # a finished column's price and distance become infinite: it is then never nearest and never improved
        open_price[k] = np.inf
        distance[k] = np.inf
        i = row_of[k]
        row = theta[i]
        shift = mu - (price[k] - row[k])
        least = _LARGEST
        for j in range(n):
            d = open_price[j] - row[j] + shift
            old = distance[j]
            closer = d < old
            d = d if closer else old
            distance[j] = d
            previous[j] = i if closer else previous[j]
            least = min(least, _ordered(d))
    for c in range(count):
        price[done[c]] += mu - reached[c]
    while True:
        i = previous[k]
        row_of[k] = i
        k, column_of[i] = column_of[i], k
        if i == root:
            return True


@inline_kernel
def solve_one(theta, price, row_of, column_of, open_price, distance, previous, done, reached):  # type: ignore[no-untyped-def]
    """The best permutation and its column prices; False if every permutation meets a forbidden entry."""
    n = price.shape[0]
    reduce_columns(theta, price, row_of, column_of)
    for j in range(n):
        if not price[j] > -np.inf:
            return False
    for i in range(n):
        if column_of[i] < 0 and not augment(
            theta, price, row_of, column_of, i, open_price, distance, previous, done, reached
        ):
            return False
    return True


@inline_kernel
def _row_middle(slack, back, position, i):  # type: ignore[no-untyped-def]
    low = _ordered(-np.inf)
    high = _ordered(np.inf)
    for k in range(position.shape[0]):
        high = min(high, _ordered(slack[k] + position[k]))
        low = max(low, _ordered(position[k] - back[k]))
    return _from_ordered(low), _from_ordered(high)


@inline_kernel
def center_duals(theta, row_dual, column_dual, column_of, slack, back, position, unit, sweeps):  # type: ignore[no-untyped-def]
    """Move optimal duals of the assignment away from the boundary of their optimal set, O(n^2) per sweep.

    Row i and the column matched to it move against each other by position[i]. Each in turn goes to the middle of the
    range that the others leave it, until no one moves by more than ``unit``. Augmenting paths end in a corner of the
    set, where many entries off the permutation are tight; regularised solutions are near its centre.
    """
    n = position.shape[0]
    largest = 0.0
    for i in range(n):
        position[i] = 0.0
        for k in range(n):
            j = column_of[k]
            x = max(row_dual[i] + column_dual[j] - theta[i, j], 0.0)
            slack[i, k] = x
            largest = max(largest, x) if x < np.inf else largest
    # forbidden entries get a slack too large to matter, but finite: there may be nothing else to hold a row
    for i in range(n):
        for k in range(n):
            x = min(slack[i, k], 2.0 * largest + 4.0)
            slack[i, k] = x
            back[k, i] = x
    for i in range(n):
        slack[i, i] = np.inf
        back[i, i] = np.inf
    for _ in range(sweeps if n > 1 else 0):
        moved = 0.0
        for i in range(n):
            low, high = _row_middle(slack[i], back[i], position, i)
            middle = low + 0.5 * (high - low)
            moved = max(moved, abs(middle - position[i]))
            position[i] = middle
        if moved <= unit:
            break
    for i in range(n):
        row_dual[i] -= position[i]
        column_dual[column_of[i]] += position[i]


@inline_kernel
def _begin_lane(best, rest, score, choice, j):  # type: ignore[no-untyped-def]
    for k in range(best.shape[0]):
        best[k] = rest[k] + score[k]
        choice[k] = j


@inline_kernel
def _improve_lane(best, rest, score, choice, j):  # type: ignore[no-untyped-def]
    for k in range(best.shape[0]):
        x = rest[k] + score[k]
        old = best[k]
        better = x > old
        best[k] = x if better else old
        choice[k] = j if better else choice[k]


@inline_kernel
def _solve_by_subsets(start, stop, theta, columns, status):  # type: ignore[no-untyped-def]
    """best[S] = the largest score of the last |S| rows on the columns S; of equal columns a row takes the first."""
    n = theta.shape[1]
    full = 1 << n
    width = min(_LANES, stop - start)
    best = np.empty((full, width))
    choice = np.empty((full, width), np.int64)
    score = np.zeros((n * n, width))
    best[0] = 0.0
    row = np.empty(full, np.int64)
    row[0] = n
    for subset in range(1, full):
        row[subset] = row[subset & (subset - 1)] - 1
    for b in range(start, stop, width):
        lanes = min(width, stop - b)
        for k in range(lanes):
            item = theta[b + k]
            for i in range(n):
                for j in range(n):
                    score[i * n + j, k] = item[i, j]
        for subset in range(1, full):
            begun = False
            for j in range(n):
                if subset >> j & 1:
                    rest = best[subset ^ (1 << j)]
                    line = score[row[subset] * n + j]
                    if begun:
                        _improve_lane(best[subset], rest, line, choice[subset], j)
                    else:
                        _begin_lane(best[subset], rest, line, choice[subset], j)
                        begun = True
        for k in range(lanes):
            subset = full - 1
            fits = best[subset, k] > -np.inf
            status[b + k] = 0 if fits else 1
            for i in range(n):
                j = choice[subset, k]
                columns[b + k, i] = j if fits else i
                subset ^= 1 << j


@kernel
def solve(start: int, stop: int, theta: Array, columns: Array, status: Array) -> None:
    """columns[b] = the permutation with the largest sum of theta[b, i, columns[b, i]]; -inf forbids an entry.

    status is 0, or 1 where every permutation meets a forbidden entry. Where floats hold all sums exactly, as those of
    integers, the maximum is exact; up to 6 columns, of equal permutations it is then the first in lexicographic order.
    O(n^3) per item, about n^2 on random scores. Jonker and Volgenant, "A shortest augmenting path algorithm for dense
    and sparse linear assignment problems", 1987; without their row reduction, which costs more here than it saves.
    """
    n = theta.shape[1]
    if n <= _MOST_BY_SUBSETS:
        _solve_by_subsets(start, stop, theta, columns, status)
        return
    price, open_price, distance, reached = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    row_of, previous, done = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for b in range(start, stop):
        fits = solve_one(theta[b], price, row_of, columns[b], open_price, distance, previous, done, reached)
        status[b] = 0 if fits else 1
        if not fits:
            for i in range(n):
                columns[b, i] = i


@kernel
def solve_dual(
    start: int, stop: int, theta: Array, columns: Array, row_dual: Array, column_dual: Array, status: Array
) -> None:
    """As :func:`solve`, with duals: theta[b, i, j] <= row_dual[b, i] + column_dual[b, j] up to rounding.

    Equality holds on the permutation. Always by augmenting paths; where permutations tie it may be another one.
    """
    n = theta.shape[1]
    open_price, distance, reached = np.empty(n), np.empty(n), np.empty(n)
    row_of, previous, done = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for b in range(start, stop):
        scores, price, column_of = theta[b], column_dual[b], columns[b]
        fits = solve_one(scores, price, row_of, column_of, open_price, distance, previous, done, reached)
        status[b] = 0 if fits else 1
        for i in range(n):
            if fits:
                row_dual[b, i] = scores[i, column_of[i]] - price[column_of[i]]
            else:
                row_dual[b, i] = np.nan
                column_of[i] = i
