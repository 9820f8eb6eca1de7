"""Small optimal transport problems: the best table with given sums of rows and columns."""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_kernel
from .._core.types import Array

__all__ = ["best_tables"]


@exact_kernel
def best_tables(start: int, stop: int, rows: Array, columns: Array, scores: Array, moved: Array) -> None:
    """moved[i] has the sums rows[i] and columns[i] and the largest inner product with scores[i]; none where a score is -inf.

    Successive best paths (Bellman and Ford) from rows that have mass left to columns that want some; O(k^3) a path. What cannot
    be moved, because sums differ or all ways are forbidden, stays.
    """
    k, m = rows.shape[1], columns.shape[1]
    left, wanted = np.empty(k), np.empty(m)
    to_row, to_column = np.empty(k), np.empty(m)
    before_row, before_column = np.empty(k, np.int64), np.empty(m, np.int64)
    for i in range(start, stop):
        table, out = scores[i], moved[i]
        total = 0.0
        for a in range(k):
            left[a] = rows[i, a]
            total += left[a]
            for b in range(m):
                out[a, b] = 0.0
        for b in range(m):
            wanted[b] = columns[i, b]
        tiny = 1e-15 * max(total, 1e-300)
        for _ in range(20 * (k + m) * (k + m)):
            for a in range(k):
                to_row[a] = 0.0 if left[a] > tiny else -np.inf
                before_row[a] = -1
            for b in range(m):
                to_column[b], before_column[b] = -np.inf, -1
            for _round in range(k + m):
                changed = False
                for a in range(k):
                    if to_row[a] > -np.inf:
                        for b in range(m):
                            x = to_row[a] + table[a, b]
                            if x > to_column[b] + 1e-13 * (1.0 + abs(x)):
                                to_column[b], before_column[b], changed = x, a, True
                for b in range(m):
                    if to_column[b] > -np.inf:
                        for a in range(k):
                            if out[a, b] > tiny:
                                x = to_column[b] - table[a, b]
                                if x > to_row[a] + 1e-13 * (1.0 + abs(x)):
                                    to_row[a], before_row[a], changed = x, b, True
                if not changed:
                    break
            end = -1
            for b in range(m):
                if wanted[b] > tiny and to_column[b] > -np.inf and (end < 0 or to_column[b] > to_column[end]):
                    end = b
            if end < 0:
                break
            amount, b, steps = wanted[end], end, 0
            while True:
                a = before_column[b]
                b = before_row[a]
                steps += 1
                if b < 0 or steps > k + m:
                    amount = min(amount, left[a])
                    break
                amount = min(amount, out[a, b])
            if steps > k + m:  # a circle, by rounding
                break
            wanted[end] -= amount
            b = end
            while True:
                a = before_column[b]
                out[a, b] += amount
                b = before_row[a]
                if b < 0:
                    left[a] -= amount
                    break
                out[a, b] -= amount
