"""Zero-sum games given by a table, exact, one small linear program for each row of a batch."""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array

__all__ = ["matrix_game"]

_PIVOT = 1e-9  # entries of the tableau below this are zero for the ratio test
_COST = 1e-12  # reduced costs above minus this are not worth a pivot


@inline_kernel
def _pivot(T, r, c, rows, columns):  # type: ignore[no-untyped-def]
    """Exchange the basic variable of row r for the non-basic one of column c in a condensed tableau."""
    inverse = 1.0 / T[r, c]
    for j in range(columns):
        T[r, j] *= inverse
    T[r, c] = inverse
    for i in range(rows):
        factor = T[i, c]
        if i != r and factor != 0.0:
            T[i, c] = 0.0
            for j in range(columns):
                T[i, j] -= factor * T[r, j]


@inline_kernel
def _simplex_method(T, m, n, basic, free, most):  # type: ignore[no-untyped-def]
    """Maximise over a feasible tableau of m constraints and n variables. Returns the number of pivots.

    The steepest column enters; after m + n pivots without progress the smallest index does (Bland), until there is
    progress again, so that it cannot cycle.
    """
    stalled = 0
    for count in range(most):
        c = -1
        bland = stalled > m + n
        lowest = -_COST
        label = 1 << 40
        for j in range(n):
            if bland:
                if T[m, j] < -_COST and free[j] < label:
                    label = free[j]
                    c = j
            elif T[m, j] < lowest:
                lowest = T[m, j]
                c = j
        if c < 0:
            return count
        r = -1
        ratio = np.inf
        for i in range(m):
            entry = T[i, c]
            if entry > _PIVOT:
                now = max(T[i, n], 0.0) / entry
                # among equal ratios the largest pivot is the safest, the smallest label the one that cannot cycle
                better = now < ratio * (1.0 - 1e-13)
                tie = not better and now <= ratio * (1.0 + 1e-13)
                if tie:
                    better = basic[i] < basic[r] if bland else entry > T[r, c]
                if better:
                    ratio = now
                    r = i
        if r < 0:
            return count
        stalled = 0 if ratio > 1e-14 else stalled + 1
        _pivot(T, r, c, m + 1, n + 1)
        basic[r], free[c] = free[c], basic[r]
    return most


@kernel
def matrix_game(
    start: int, stop: int, f: Array, C: Array, n_answers: Array, n_truths: Array,
    value: Array, risk: Array, q: Array, p: Array, gap: Array, n_iter: Array,
) -> None:  # fmt: skip
    """Solve max over q of min over p of pᵀ C_i q + ⟨f_i, q⟩; C has a table for each row, or one for all.

    The constant Σ p = 1 lets f join the table, A[a, y] = C[a, y] + f_y. Truths that cost less than another one whatever
    is answered are left out, and the rest is shifted and scaled into [1, 2], so that a game between potentials of any
    size is as well conditioned as its costs. Then the least w with Aᵀp ≤ w is 1 / max {Σ x : Aᵀx ≤ 1, x ≥ 0}: a
    linear program that starts feasible, with q as its multipliers. The gap is measured on the original table.
    """
    g = C.shape[0]
    most_answers, most_truths = C.shape[1], C.shape[2]
    T = np.empty((most_truths + 1, most_answers + 1))
    kept = np.empty(most_truths, np.int64)
    basic = np.empty(most_truths, np.int64)
    free = np.empty(most_answers, np.int64)
    expected = np.empty(max(most_answers, most_truths))
    for i in range(start, stop):
        s = i if g > 1 else 0
        a_count = n_answers[i if n_answers.shape[0] > 1 else 0]
        t_count = n_truths[i if n_truths.shape[0] > 1 else 0]
        p[i, :] = 0.0
        q[i, :] = 0.0
        gap[i] = 0.0
        n_iter[i] = 0
        top = -np.inf
        bad = 0
        for y in range(t_count):
            top = max(top, f[i, y])
            bad += 0 if f[i, y] < np.inf else 1
        if top == -np.inf or bad > 0:
            q[i, 0] = np.nan
            continue
        best = -np.inf  # what the adversary is sure of with one truth
        leader = 0
        for y in range(t_count):
            low = np.inf
            for a in range(a_count):
                low = min(low, C[s, a, y])
            if f[i, y] - top + low > best:
                best = f[i, y] - top + low
                leader = y
        m = 0
        lowest = best
        highest = best
        for y in range(t_count):
            d = f[i, y] - top
            low = np.inf
            high = -np.inf
            for a in range(a_count):
                low = min(low, C[s, a, y])
                high = max(high, C[s, a, y])
            if y == leader or d + high > best:
                kept[m] = y
                m += 1
                lowest = min(lowest, d + low)
                highest = max(highest, d + high)
        if m == 1 or highest <= lowest:
            q[i, leader] = 1.0
        else:
            scale = 1.0 / (highest - lowest)
            for r in range(m):
                d = f[i, kept[r]] - top
                for a in range(a_count):
                    T[r, a] = 1.0 + (C[s, a, kept[r]] + d - lowest) * scale
                T[r, a_count] = 1.0
                basic[r] = a_count + r
            for a in range(a_count):
                T[m, a] = -1.0
                free[a] = a
            T[m, a_count] = 0.0
            n_iter[i] = _simplex_method(T, m, a_count, basic, free, 50 * (m + a_count) + 1000)
            total = 0.0
            for r in range(m):
                if basic[r] < a_count:
                    p[i, basic[r]] = max(T[r, a_count], 0.0)
                    total += p[i, basic[r]]
            for a in range(a_count):
                p[i, a] /= total
            total = 0.0
            for a in range(a_count):
                if free[a] >= a_count:
                    y = kept[free[a] - a_count]
                    q[i, y] = max(T[m, a], 0.0)
                    total += q[i, y]
            for y in range(t_count):
                q[i, y] /= total
        # both players' guarantees, on the original table
        linear = 0.0
        for y in range(t_count):
            if q[i, y] > 0.0:
                linear += q[i, y] * (f[i, y] - top)
        answer = 0
        lower = np.inf
        for a in range(a_count):
            cost = 0.0
            for y in range(t_count):
                cost += C[s, a, y] * q[i, y]
            if cost < lower:
                lower = cost
                answer = a
        if m == 1 or highest <= lowest:
            p[i, answer] = 1.0
        upper = -np.inf
        for y in range(t_count):
            expected[y] = f[i, y] - top
        for a in range(a_count):
            if p[i, a] > 0.0:
                for y in range(t_count):
                    expected[y] += p[i, a] * C[s, a, y]
        for y in range(t_count):
            upper = max(upper, expected[y])
        risk[i] = lower
        value[i] = top + (lower + linear)
        gap[i] = max(upper - (lower + linear), 0.0)
